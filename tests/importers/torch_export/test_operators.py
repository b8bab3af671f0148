"""What ATen's operators compute, where their arguments differ from those of adjoint's functions.

Numbers are from NumPy, or from PyTorch 2.13 with the call next to them.
"""

import numpy as np
import pytest

import adjoint as torch
from adjoint.errors import InvalidValueError
from adjoint.importers.torch_export.operators import operator_of, same_words
from adjoint.ops.aten import aten_operators

X = np.array([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]], np.float32)


def call(op, *args, **keywords):
    """An operator of arrays."""
    given = [torch.tensor(one) if isinstance(one, np.ndarray) else one for one in args]
    return operator_of(op)(*given, **keywords)


def close(found, expected):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6, atol=1e-7)


def test_all_functions_of_the_table_exist():
    assert len(same_words()) > 400
    assert all(callable(operator_of(name)) for name in same_words())


def test_operators_that_adjoint_does_not_have_have_no_function():
    assert operator_of("fft_fft.default") is None
    assert operator_of("fft_fft_.default") is None
    assert operator_of("nonzero.default") is None


def test_the_core_aten_set_is_computed_but_for_gradients_and_what_depends_on_elements_or_memory():
    wanted = [f"{one.name}.{overload}" for one in aten_operators() if one.covered for overload in one.overloads]
    assert {name for name in wanted if operator_of(name) is None and "_backward." not in name} == {
        "_local_scalar_dense.default",
        "atan2.out",
        "nonzero.default",
        "sym_is_contiguous.default",
        "sym_stride.int",
    }


@pytest.mark.parametrize(
    ("op", "args", "expected"),
    [
        ("add.Scalar", (X, 2, 3), X + 6),
        ("sub.Scalar", (X, 2, 3), X - 6),
        ("rsub.Scalar", (X, 2, 3), 2 - 3 * X),
        ("slice.Tensor", (X, 1, 1, 9223372036854775807, 2), X[:, 1::2]),
        ("slice.Tensor", (X, -1, -2), X[:, -2:]),
        ("index.Tensor", (X, [None, np.array([2, 0])]), X[:, [2, 0]]),
        ("min.other", (X, -X), np.minimum(X, -X)),
        ("var.correction", (X, [1]), X.var(1, ddof=1)),
        ("std.default", (X, False), X.std()),
        ("linalg_vector_norm.default", (X, 2, [1]), np.sqrt((X**2).sum(1))),
        ("elu.default", (X, 2.0, 3.0), np.where(X > 0, 3 * X, 6 * np.expm1(X))),
        ("full.default", ([2, 1], 0.5), np.full((2, 1), 0.5)),
        ("new_ones.default", (X, [2]), np.ones(2)),
        ("expand.default", (X[:, :1], [-1, 2]), np.tile(X[:, :1], 2)),
        ("repeat.default", (X, [2, 1]), np.tile(X, (2, 1))),
        ("_softmax.default", (X, 1, False), np.exp(X) / np.exp(X).sum(1, keepdims=True)),
        ("einsum.default", ("ij,kj->ik", [X, X]), X @ X.T),
        ("scatter.value", (X, 1, np.array([[0], [2]]), 9.0), [[9, -2, 3], [4, 5, 9]]),
        ("fill_.Scalar", (X, 3), np.full((2, 3), 3)),
        ("to.dtype", (X, np.dtype(np.int64)), X),
        ("sum_to_size.default", (X, [1, 3]), X.sum(0, keepdims=True)),
        ("upsample_nearest1d.vec", (X[None], None, [2.0]), X[None].repeat(2, 2)),
        ("sigmoid_.default", (X,), 1 / (1 + np.exp(-X))),
        (
            "embedding_bag.default",
            (X.T, np.array([0, 2, 1]), np.array([0, 2]), False, 1),
            [X.T[[0, 2]].mean(0), X.T[1]],
        ),
        # Losses have numbers for reductions.
        ("mse_loss.default", (X, -X, 2), (4 * X**2).sum()),
        ("huber_loss.default", (X, 0 * X, 1, 2.0), np.where(abs(X) < 2, X**2 / 2, 2 * abs(X) - 2).mean()),
        # torch.ops.aten.cross_entropy_loss(x, torch.tensor([2, 1]), None, 1, -100, 0.1)
        ("cross_entropy_loss.default", (X, np.array([2, 1]), None, 1, -100, 0.1), 0.53972626),
        # torch.ops.aten.binary_cross_entropy_with_logits(x, (x > 0).float(), None, None, 1)
        ("binary_cross_entropy_with_logits.default", (X, (X > 0) * np.float32(1), None, None, 1), 0.0860197),
    ],
)
def test_results(op, args, expected):
    given = [
        [torch.tensor(one) if isinstance(one, np.ndarray) else one for one in arg] if isinstance(arg, list) else arg
        for arg in args
    ]
    found = call(op, *given)
    close(found[0] if isinstance(found, tuple) else found, expected)


def test_index_put_accumulates_and_takes_whole_axes():
    ids = torch.tensor([0, 0, 2])
    close(call("index_put.default", np.zeros(3, np.float32), [ids], torch.ones(3), True), [2, 0, 1])
    rows = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    close(
        call("index_put.default", np.zeros((2, 3), np.float32), [None, ids], rows, True), [[3, 0, 3], [9, 0, 6]]
    )  # torch.zeros(2, 3).index_put((None, ids), rows, accumulate=True)
    close(call("index_put.default", X, [None, torch.tensor([1])], torch.zeros(2, 1)), X * [1, 0, 1])


def test_an_empty_stride_is_that_of_the_window():
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    close(call("max_pool2d.default", x, [2, 2], []), [[[[5, 7], [13, 15]]]])
    close(call("avg_pool2d.default", x, [2, 2]), [[[[2.5, 4.5], [10.5, 12.5]]]])


def test_recurrent_layers_have_lists_of_states_and_weights():
    # One layer of a GRU, all weights 0.5 and all biases 0.1, of a sequence of two ones, by its formulas.
    weights = [torch.full(shape, 0.5) for shape in ((6, 2), (6, 2))] + [torch.full((6,), 0.1) for _ in range(2)]
    states = torch.zeros(1, 1, 2)
    out, last = operator_of("gru.input")(torch.ones(1, 2, 2), states, weights, True, 1, 0.0, False, False, True)
    gate, new = 1 / (1 + np.exp(-1.2)), np.tanh(1.1 + 0.1 / (1 + np.exp(-1.2)))
    first = (1 - gate) * new
    second_gate = 1 / (1 + np.exp(-(1.2 + first)))
    second = (1 - second_gate) * np.tanh(1.1 + second_gate * (0.1 + first)) + second_gate * first
    close(out, [[[first] * 2, [second] * 2]])
    close(last, [[[second] * 2]])


def test_dropout_follows_its_mode():
    assert operator_of("dropout.default")(X, 0.5, False) is X
    torch.manual_seed(0)
    kept = np.asarray(call("dropout.default", np.ones(1000, np.float32), 0.5, True))
    assert set(np.unique(kept)) == {0, 2}
    assert abs(kept.mean() - 1) < 0.2


def test_gradients_by_the_number_of_uses_are_refused():
    with pytest.raises(InvalidValueError, match=r"^embedding: gradients are those of the sum over all uses of a row, "):
        call("embedding.default", X, np.array([0]), -1, True)
