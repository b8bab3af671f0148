"""checkpoint: the same derivatives, computed from recomputed values."""

import numpy as np
import pytest

from adjoint import CompileOptions, checkpoint, grad, hessian, jit, ops, value_and_grad, vmap
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


def test_refusals():
    with pytest.raises(TypeRuleError) as error:
        checkpoint(None)
    assert error.value.message == "checkpoint takes a function, got None; pass the function, not its call"
    with pytest.raises(TypeRuleError) as error:
        checkpoint(lambda _: 3)(f32(1))
    assert error.value.message == "checkpoint: the function must return tensors, got the int 3; return tensors"
