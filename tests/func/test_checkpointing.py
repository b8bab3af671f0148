"""checkpoint: the same derivatives, computed from recomputed values."""

import numpy as np
import pytest

import adjoint
from adjoint import CompileOptions, checkpoint, grad, hessian, jit, nn, ops, optim, value_and_grad, vmap
from adjoint.compiler import compiled_graph, host
from adjoint.errors import TypeRuleError
from adjoint.tensor.record import operation
from adjoint.tensor.tensor import from_array

total, tanh = operation(ops.sum), operation(ops.tanh)


def f32(values, requires_grad=False):
    return from_array(np.array(values, np.float32), requires_grad=requires_grad)


def test_values_are_computed_twice_and_derivatives_are_the_same():
    rng = np.random.default_rng(0)
    x, w = f32(rng.standard_normal((2, 3))), f32(rng.standard_normal((3, 3)), requires_grad=True)

    def block(x):
        return tanh(tanh(x @ w) @ w)

    counts, gradients = [], []
    for inner in (block, checkpoint(block)):
        step = jit(lambda x, inner=inner: value_and_grad(lambda x: total(inner(x)), 0, w)(x))
        gradients.append([one.numpy(force=True) for one in step(x)[1]])
        values = compiled_graph(step.lower(x), host(), CompileOptions()).values()
        counts.append(sum(value.op.name == "tanh" for value in values))
    assert counts == [2, 4]
    for plain, again in zip(*gradients, strict=True):
        np.testing.assert_allclose(again, plain, rtol=1e-6, atol=1e-7)


def test_it_nests_with_other_transformations():
    cube = checkpoint(lambda x: x * x * x)
    twice = checkpoint(lambda x: (cube(x), [x]))
    x = f32([1, 2])
    assert hessian(lambda x: total(cube(x)))(x).numpy().tolist() == [[6, 0], [0, 12]]
    assert vmap(grad(cube))(x).numpy().tolist() == [3, 12]
    assert grad(lambda x: total(twice(x)[0]) + total(twice(x)[1][0]))(x).numpy().tolist() == [4, 13]


def test_a_module_changes_its_state_once():
    """Dropout draws the same numbers again, and batch norm updates its statistics in the first computation only."""
    x = f32(np.random.default_rng(0).standard_normal((4, 3)))

    def train(wrap, compiled):
        adjoint.manual_seed(3)
        model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))
        inner, optimizer = wrap(model), optim.SGD(model.parameters(), lr=0.01)

        def step(x):
            optimizer.zero_grad()
            loss = total(inner(x) ** 2)
            loss.backward()
            optimizer.step()
            return loss

        run = jit(step) if compiled else step
        return [run(x).item() for _ in range(3)], model.state_dict()

    losses, state = train(lambda model: model, False)
    assert state["1.num_batches_tracked"].item() == 3
    for compiled in (False, True):
        again, other = train(checkpoint, compiled)
        np.testing.assert_allclose(again, losses, rtol=1e-5)
        for name, value in state.items():
            np.testing.assert_allclose(other[name].numpy(force=True), value.numpy(force=True), rtol=1e-5, atol=1e-6)


def test_refusals():
    with pytest.raises(TypeRuleError) as error:
        checkpoint(lambda x: x.add_(1.0))(f32([1, 2]))
    assert error.value.message == (
        "checkpoint: the function must not change its arguments in place, got a change of one of type f32[2]; return "
        "the new value"
    )
    with pytest.raises(TypeRuleError) as error:
        checkpoint(None)
    assert error.value.message == "checkpoint takes a function, got None; pass the function, not its call"
    with pytest.raises(TypeRuleError) as error:
        checkpoint(lambda _: 3)(f32(1))
    assert error.value.message == "checkpoint: the function must return tensors, got the int 3; return tensors"
