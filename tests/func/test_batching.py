"""vmap: examples along any axis, shared arguments, trees; nested and with gradients."""

import numpy as np
import pytest

from adjoint import grad, ops, vmap
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.func import batching
from adjoint.tensor.record import operation, record_in_place
from adjoint.tensor.tensor import from_array

total = operation(ops.sum)
add_in_place = operation(ops.add).entry


def f32(values, requires_grad=False):
    return from_array(np.array(values, np.float32), requires_grad=requires_grad)


def test_examples_lie_along_any_axis():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((3, 2)).astype(np.float32), rng.standard_normal((2, 2)).astype(np.float32)
    weight = f32(w)
    rows = vmap(lambda x: x @ weight)(x)
    columns = vmap(lambda x: x @ weight, in_axes=1, out_axes=-1)(x.T.copy())
    tree = vmap(lambda d, s: (d["x"] * s, d["y"]), in_axes=({"x": 0, "y": None}, None), out_axes=(0, None))
    scaled, shared = tree({"x": x, "y": f32(5)}, f32(2))
    outer = vmap(vmap(lambda a, b: a * b, in_axes=(None, 0)), in_axes=(0, None))(f32([1, 2, 3]), f32([4, 5]))
    constant = vmap(lambda _: weight)(x)
    named = vmap(lambda x, *, y: x + y)(x, y=f32([1, 2, 3]))
    np.testing.assert_allclose(rows.numpy(), x @ w, rtol=1e-6)
    np.testing.assert_allclose(columns.numpy(), (x @ w).T, rtol=1e-6)
    assert scaled.numpy().tolist() == (2 * x).tolist()
    assert shared.item() == 5
    assert outer.numpy().tolist() == [[4, 5], [8, 10], [12, 15]]
    assert constant.shape == (3, 2, 2)
    assert named.numpy().tolist() == (x + np.array([[1], [2], [3]], np.float32)).tolist()


def test_gradients_of_single_examples_add_up_to_the_gradient_of_all():
    rng = np.random.default_rng(1)
    x, w = f32(rng.standard_normal((4, 3))), f32(rng.standard_normal((3, 2)))

    def loss(w, x):
        return total((x @ w) ** 2)

    each = vmap(grad(loss), in_axes=(None, 0))(w, x)
    of_sum = grad(lambda w: total(vmap(loss, in_axes=(None, 0))(w, x)))(w)
    x64 = x.numpy().astype(np.float64)
    expected = 2 * np.einsum("bi,bj->bij", x64, x64 @ w.numpy())
    np.testing.assert_allclose(each.numpy(), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(of_sum.numpy(), expected.sum(0), rtol=1e-5, atol=1e-6)


def test_a_known_structure_is_not_vectorized_again(monkeypatch):
    def function(x):
        return x * x + 3.0

    assert vmap(function)(f32([1, 2])).numpy().tolist() == [4, 7]
    monkeypatch.setattr(batching, "vectorize", None)
    assert vmap(function)(f32([2, 3])).numpy().tolist() == [7, 12]


def changes(x):
    record_in_place(add_in_place, STATE, x)
    return x


def accumulates(x):
    total(LEAF * x).backward()
    return x


STATE, LEAF = f32(0), f32(1, requires_grad=True)

REFUSED = [
    (lambda: vmap(3), TypeRuleError, "vmap takes a function, got an int; pass the function, not its call"),
    (
        lambda: vmap(lambda x: x, None)(f32([1])),
        InvalidValueError,
        "vmap: the mapped axes of all arguments must have the same size, got no mapped axis; choose one",
    ),
    (
        lambda: vmap(lambda x, _: x)(f32([1]), f32([1, 2])),
        InvalidValueError,
        "vmap: the mapped axes of all arguments must have the same size, got 1, 2; correct in_axes",
    ),
    (
        lambda: vmap(lambda x: x, 1)(f32([1])),
        TypeRuleError,
        "vmap: in_axes must be axes of the arguments, got 1 for f32[1]; correct it, or pass None",
    ),
    (
        lambda: vmap(lambda _: 1.0)(f32([1])),
        TypeRuleError,
        "vmap: the function must return tensors, got the float 1.0; return tensors",
    ),
    (
        lambda: vmap(changes)(f32([1])),
        TypeRuleError,
        "vmap: the function must not change tensors in place, got a change of one of type f32[]; return the new value",
    ),
    (
        lambda: vmap(accumulates)(f32([1])),
        TypeRuleError,
        "vmap: the function must not call backward(), got a new grad of a tensor of type f32[]; use adjoint.grad "
        "inside it",
    ),
    (
        lambda: vmap(lambda x: x if x.item() else -x)(f32([1])),
        TypeRuleError,
        "a tensor has no elements while a function is traced, got f32[]; return it from the function and read it there",
    ),
]


@pytest.mark.parametrize(("call", "kind", "message"), REFUSED)
def test_refusals_leave_everything_as_it_was(call, kind, message):
    with pytest.raises(kind) as error:
        call()
    assert error.value.message == message
    assert (STATE.item(), LEAF.grad) == (0, None)
