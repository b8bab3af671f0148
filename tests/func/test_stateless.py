"""Modules as functions of their parameters: other tensors in their places, ensembles, and stacks as loops."""

import numpy as np
import pytest

import adjoint
from adjoint import func, grad, jit, nn, scan, tensor, vmap
from adjoint.compiler import host
from adjoint.errors import AdjointError, MissingAttributeError
from adjoint.func import functional_call, stack_module_state
from adjoint.pipeline import lower_function

X = tensor(np.random.default_rng(0).standard_normal((3, 4)).astype("f"))


def blocks(count):
    adjoint.manual_seed(0)
    return [nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.LayerNorm(4)) for _ in range(count)]


def test_other_tensors_take_the_place_of_parameters_during_the_call():
    module = nn.Linear(4, 2)
    kept = module.weight
    weight, bias = adjoint.ones(2, 4), tensor([1.0, 2.0])
    want = X.numpy().sum(1, keepdims=True) + bias.numpy()
    calls = [
        functional_call(module, {"weight": weight, "bias": bias}, X),
        functional_call(module, ({"weight": weight}, {"bias": bias}), (X,)),
        functional_call(module, {"weight": weight, "bias": bias}, kwargs={"input": X}, strict=True),
        functional_call(module, {"weight": weight}, X) - module.bias + bias,
    ]
    for got in calls:
        np.testing.assert_allclose(got.numpy(force=True), want, rtol=1e-5, atol=1e-6)
    assert module.weight is kept
    assert dict(module.named_parameters())["weight"] is kept
    slope = grad(lambda w: functional_call(module, {"weight": w}, X).sum())(weight)
    np.testing.assert_allclose(slope.numpy(force=True), np.tile(X.numpy().sum(0), (2, 1)), rtol=1e-5)
    with pytest.raises(AdjointError):
        functional_call(module, {"weight": weight}, adjoint.ones(3, 5))
    assert module.weight is kept, "after an error, too"


def test_buffers_change_where_they_are_given_and_tied_tensors_are_replaced_together():
    norm = nn.BatchNorm1d(4)
    own = dict(norm.named_buffers())
    given = {name: buffer.clone() for name, buffer in own.items()}
    functional_call(norm, given, X)
    assert [given["num_batches_tracked"].item(), norm.num_batches_tracked.item()] == [1, 0]
    assert norm.running_mean is own["running_mean"]
    np.testing.assert_allclose(given["running_mean"].numpy(), 0.1 * X.numpy().mean(0), rtol=1e-5, atol=1e-7)
    tied = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    tied[1].weight = tied[0].weight
    for tie, scale in ((True, 4.0), (False, 2.0)):
        other = tied[0].weight.detach() * 2.0
        found = functional_call(tied, {"0.weight": other}, X, tie_weights=tie)
        np.testing.assert_allclose(found.numpy(force=True), scale * tied(X).numpy(force=True), rtol=1e-4)


def test_a_stack_is_a_loop_or_an_ensemble_with_the_gradients_of_the_layers():
    layers = blocks(3)
    params, buffers = stack_module_state(layers)
    assert not buffers
    assert params["0.weight"].shape == (3, 4, 4)
    assert all(p.requires_grad and p.is_leaf for p in params.values())
    x = X
    for layer in layers:
        x = layer(x)
    (x**2 + x).sum().backward()
    last, _ = scan(lambda x, p: (functional_call(layers[0], p, (x,)), None), X, params)
    (last**2 + last).sum().backward()
    np.testing.assert_allclose(last.numpy(force=True), x.numpy(force=True), rtol=1e-5, atol=1e-6)
    for name, p in params.items():
        want = [dict(layer.named_parameters())[name].grad.numpy() for layer in layers]
        np.testing.assert_allclose(p.grad.numpy(), want, rtol=1e-4, atol=1e-5)
    fixed = {name: p.detach() for name, p in params.items()}
    each = vmap(lambda p, x: functional_call(layers[0], p, (x,)), in_axes=(0, None))(fixed, X)
    np.testing.assert_allclose(
        each.numpy(), np.stack([layer(X).numpy(force=True) for layer in layers]), rtol=1e-5, atol=1e-6
    )


def test_a_transformer_of_48_layers_is_as_large_a_program_as_one_of_4():
    sizes = []
    for depth in (4, 48):
        layers = [nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True) for _ in range(depth)]
        params, _ = stack_module_state(layers)

        def loss(params, x, base=layers[0]):
            out, _ = scan(lambda x, p: (functional_call(base, p, (x,)), None), x, params)
            return (out**2).sum()

        program = lower_function(jit(grad(loss)).lower(params, adjoint.ones(2, 4, 8)), host())
        sizes.append(len(program.kernels))
    assert sizes[1] <= 1.5 * sizes[0]


LINEAR = nn.Linear(4, 2)
REFUSED = {
    "functional_call takes a module, got a float; pass the module first": lambda: functional_call(1.0, {}),
    "functional_call: tensors must be in a dict by their names, got a str; pass dict(module.named_parameters()) or "
    "several such dicts": lambda: functional_call(LINEAR, ("weight",), X),
    "functional_call: parameters and buffers must be tensors, got a list for 'weight'; convert it with "
    "adjoint.tensor": (lambda: functional_call(LINEAR, {"weight": [1.0]}, X)),
    "functional_call: each name must be given once, got 'bias' twice; leave one out": lambda: functional_call(
        LINEAR, ({"bias": X}, {"bias": X}), X
    ),
    "functional_call: the names must be those of parameters and buffers of Linear, got the unexpected wieght; "
    "named_parameters() and named_buffers() list them": lambda: functional_call(LINEAR, {"wieght": X}, X),
    "functional_call: the names must be those of parameters and buffers of Linear, got no bias; named_parameters() and "
    "named_buffers() list them": lambda: functional_call(LINEAR, {"weight": X}, X, strict=True),
    "stack_module_state needs at least one module, got none; pass a list of modules": lambda: stack_module_state([]),
    "stack_module_state takes modules, got a Tensor; pass a list of modules": lambda: stack_module_state([X]),
    "stack_module_state: the modules must be of one class, got Linear and Tanh; stack those of each class": (
        lambda: stack_module_state([LINEAR, nn.Tanh()])
    ),
    "stack_module_state: all modules must be in the same mode, got some in training and some not; call train() or "
    "eval() of all": lambda: stack_module_state([LINEAR, nn.Linear(4, 2).eval()]),
    "stack_module_state: the modules must have the same names, got bias in only one of modules 0 and 1; use equal "
    "modules": lambda: stack_module_state([LINEAR, nn.Linear(4, 2, bias=False)]),
    "stack_module_state: the tensors of each name must have one type, got f32[2,4] and f32[2,3] for 'weight'; use "
    "equal modules": lambda: stack_module_state([LINEAR, nn.Linear(3, 2)]),
    "stack_module_state: all parameters of a name must require gradients, or none, got both for 'weight'; use "
    "requires_grad_": lambda: stack_module_state([LINEAR, nn.Linear(4, 2).requires_grad_(False)]),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_refusals(sentence):
    with pytest.raises(AdjointError) as error:
        REFUSED[sentence]()
    assert error.value.message == sentence


def test_tied_tensors_must_be_replaced_by_one():
    tied = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    tied[1].weight = tied[0].weight
    with pytest.raises(AdjointError) as error:
        functional_call(tied, {"0.weight": adjoint.ones(4, 4), "1.weight": adjoint.ones(4, 4)}, X)
    assert error.value.message == (
        "functional_call: a tensor with several names must be replaced by one tensor, got another for '1.weight'; pass "
        "the same tensor, or tie_weights=False"
    )


def test_the_names_of_torch_func():
    assert func.grad is grad
    assert func.vmap is vmap
    with pytest.raises(MissingAttributeError) as error:
        _ = func.jacrev
    assert error.value.message == "adjoint.func has no jacrev; use jacobian"
