"""Hooks of modules on backward passes, as in PyTorch; the numbers are those of torch 2.13 for the same program."""

import numpy as np
import pytest

import adjoint
from adjoint import jit, nn, optim
from adjoint.errors import TypeRuleError
from adjoint.tensor.explain import log


class Two(nn.Module):
    def forward(self, a, b, scale=2.0):
        return a * b * scale, a + 1, b.detach()


def network():
    """Two layers with the weights 0.1 k - 0.3, - 0.4 and so on."""
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2))
    for n, parameter in enumerate(model.parameters()):
        elements = np.arange(parameter.numel(), dtype=np.float32).reshape(parameter.shape)
        parameter.data = adjoint.tensor(elements * 0.1 - (0.3 + 0.1 * n))
    return model


def scaled(seen, name, factor):
    """A hook that notes gradients, and scales the last of its arguments, or the one before for two."""

    def hook(_module, *gradients):
        seen.append((name, gradients))
        return None if factor == 1 else tuple(None if one is None else one * factor for one in gradients[0])

    return hook


def numbers(gradients):
    return [None if one is None else np.round(one.numpy(), 4).ravel().tolist() for one in gradients]


X = [[1.0, 2.0], [3.0, -1.0]]


def with_hooks(seen):
    model = network()
    handles = [
        model[0].register_full_backward_hook(scaled(seen, "first", 1)),
        model[1].register_full_backward_hook(scaled(seen, "tanh", 2.0)),
        model[2].register_full_backward_hook(scaled(seen, "last", 1)),
        model[2].register_full_backward_pre_hook(scaled(seen, "before last", 3.0)),
        model.register_full_backward_hook(scaled(seen, "all", 1)),
    ]
    return model, handles


def test_hooks_see_and_replace_gradients():
    seen = []
    model, handles = with_hooks(seen)
    model(adjoint.tensor(X)).sum().backward()
    found = [(name, *map(numbers, gradients)) for name, gradients in seen]
    assert [name for name, *_ in found] == ["all", "before last", "last", "tanh", "first"]
    assert found[0][1:] == ([None], [[1.0, 1.0, 1.0, 1.0]])
    assert found[1][1:] == ([[1.0, 1.0, 1.0, 1.0]],)
    into, flowing = found[2][1:]
    np.testing.assert_allclose(into, [[-2.1, -1.5, -0.9, -2.1, -1.5, -0.9]], atol=1e-4)
    assert flowing == [[3.0, 3.0, 3.0, 3.0]]
    np.testing.assert_allclose(found[3][1], [[-0.7543, -1.2835, -0.8236, -0.7543, -1.0674, -0.8911]], atol=2e-4)
    assert found[4][1] == [None]
    np.testing.assert_allclose(found[4][2], [[-1.5086, -2.5669, -1.6472, -1.5086, -2.1347, -1.7821]], atol=2e-4)
    expected = [-6.0346, -1.5086, -8.9711, -2.9991, -6.9936, -1.5124]
    np.testing.assert_allclose(model[0].weight.grad.numpy().ravel(), expected, atol=2e-4)
    for handle in handles:
        handle.remove()
    seen.clear()
    model(adjoint.tensor(X)).sum().backward()
    assert seen == []


def test_hooks_may_read_gradients_and_the_backward_pass_goes_on():
    norms = []

    def reading(_module, _into, flowing):
        norms.append(flowing[0].norm().item())
        return tuple(None if one is None else one * 2.0 for one in _into)

    plain, model = network(), network()
    for module in model:
        module.register_full_backward_hook(reading)
    x = adjoint.tensor(X, requires_grad=True)
    y = model(x)
    loss = y.sum() + x.sum()
    first = loss.item()  # which runs the forward pass
    loss.backward()
    same = adjoint.tensor(X, requires_grad=True)
    other = plain(same).sum() + same.sum()
    other.backward()
    assert first == pytest.approx(other.item())
    assert norms[0] == 2.0
    assert len(norms) == 3
    # Every module doubles what flows through it; what flows past the network is not doubled.
    np.testing.assert_allclose(x.grad.numpy() - 1, 8 * (same.grad.numpy() - 1), rtol=1e-5)
    np.testing.assert_allclose(model[0].weight.grad.numpy(), 4 * plain[0].weight.grad.numpy(), rtol=1e-5)
    np.testing.assert_allclose(model[2].weight.grad.numpy(), plain[2].weight.grad.numpy(), rtol=1e-5)


def test_several_inputs_and_results_are_seen_together():
    seen, two = [], Two()
    two.register_full_backward_hook(scaled(seen, "hook", 10.0))
    a, b = (adjoint.tensor(x, requires_grad=True) for x in ([1.0, 2.0], [3.0, 4.0]))
    product, more, _ = two(a, b, 3.0)
    product.sum().backward(retain_graph=True)
    ((_, (into, flowing)),) = seen
    assert numbers(into) == [[9.0, 12.0], [3.0, 6.0], None]
    assert numbers(flowing) == [[1.0, 1.0], None, None]
    assert numbers([a.grad, b.grad]) == [[90.0, 120.0], [30.0, 60.0]]
    (more.sum() * 2).backward()
    into, flowing = seen[1][1]
    assert numbers(into) == [[2.0, 2.0], [0.0, 0.0], None]
    assert numbers(flowing) == [None, [2.0, 2.0], None]
    assert numbers([a.grad, b.grad]) == [[110.0, 140.0], [30.0, 60.0]]
    with adjoint.no_grad():
        two(a, b)
    assert len(seen) == 2


def test_a_step_with_hooks_is_compiled_once_here_and_in_jit():
    def trained(compiled):
        model = network()
        model[1].register_full_backward_hook(lambda _module, into, _flowing: (into[0].clamp(-0.1, 0.1),))
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = jit(step) if compiled else step
        losses = [run(adjoint.tensor(X)).item() for _ in range(2)]
        before = log.count
        losses.append(run(adjoint.tensor(X)).item())
        assert log.count == before
        return losses

    eager = trained(False)
    assert eager[2] < eager[0]
    np.testing.assert_allclose(trained(True), eager, rtol=1e-5)


def test_refusals():
    def called(found):
        two = Two()
        two.register_full_backward_hook(lambda *_: found)
        a, b = adjoint.ones(2, requires_grad=True), adjoint.ones(2)
        two(a, b)[0].sum().backward()

    def none_required():
        layer = nn.Linear(2, 1)
        layer.register_full_backward_hook(lambda _module, into, _flowing: (adjoint.ones(1, 2), *into[1:]))
        layer(adjoint.ones(1, 2)).sum().backward()

    x = adjoint.ones(2)
    for call, message in [
        (
            lambda: called((x,)),
            "a backward hook must return as many gradients as grad_input has, 2, got 1 gradient for Two; return a "
            "tuple",
        ),
        (
            lambda: called((x, x)),
            "a backward hook must return None where grad_input is None, got an object of type Tensor for Two; keep the "
            "None",
        ),
        (
            lambda: called((adjoint.ones(3), None)),
            "a hook must return a gradient of the same type, got f32[3] for f32[2]; keep shape and dtype",
        ),
        (
            lambda: called((1.0, None)),
            "a hook must return a tensor or None, got a float; return the new gradient",
        ),
        (
            none_required,
            "a backward hook can replace gradients only of inputs that require one, got a result for Linear, which has "
            "no such input; return None",
        ),
    ]:
        with pytest.raises(TypeRuleError) as error:
            call()
        assert error.value.message == message
