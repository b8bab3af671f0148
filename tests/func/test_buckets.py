"""Sizes in buckets: few programs, and the results of the larger arguments."""

import logging

import numpy as np
import pytest

import adjoint
from adjoint import jit, pad_to_bucket
from adjoint.errors import AdjointError, IndexRangeError, InvalidValueError, NameLookupError, TypeRuleError
from adjoint.tensor.explain import log

TOKENS, LABELS = np.arange(1, 15).reshape(2, 7), np.arange(14).reshape(2, 7)


def test_arguments_are_filled_up_and_few_programs_compiled(caplog):
    @jit(buckets={"tokens": {1: "n"}, "labels": {1: "n"}}, sizes={"n": (8, 3)}, fill={"labels": -100})
    def masked(tokens, labels):
        return tokens * (labels >= 0), labels

    before = log.count
    with caplog.at_level(logging.INFO, logger="adjoint"):
        for size in (2, 3, 1, 7, 5, 0):
            product, labels = masked(TOKENS[:, :size], labels=adjoint.tensor(LABELS[:, :size]))
            bucket = 3 if size <= 3 else 8
            expected = np.full((2, bucket), -100)
            expected[:, :size] = LABELS[:, :size]
            assert (labels.numpy() == expected).all()
            assert product.sum().item() == TOKENS[:, :size].sum()
            assert product.shape == (2, bucket)
    own = [record.getMessage() for record in caplog.records if "compiled masked" in record.getMessage()]
    assert len(own) == 2
    assert "because it is the first program of its kind [at " in own[0]
    assert "because tensor tokens is i64[2,8] and was i64[2,3] [at " in own[1]
    assert own[1].split(" in ")[0] == "compiled masked"
    assert log.count > before


def test_a_shared_size_is_that_of_the_longest_axis_and_powers_of_2_by_default():
    joined = jit(lambda source, target: (source, target), buckets={"source": {1: "n"}, "target": {-1: "n"}})
    shapes = [tuple(x.shape) for x in joined(adjoint.ones(1, 3), adjoint.ones(1, 5))]
    assert shapes == [(1, 8), (1, 8)]
    sizes = {"source": {1: (4, 6)}, "target": {0: (2,), 1: (6,)}}
    apart = jit(lambda source, target: (source, target), buckets=sizes)
    shapes = [tuple(x.shape) for x in apart(adjoint.ones(1, 3), adjoint.ones(1, 5))]
    assert shapes == [(1, 4), (2, 6)]
    added = jit(lambda source, target: source + target, buckets={"source": {1: "n"}, "target": {1: "n"}})
    assert [p.shape for p in added.lower(adjoint.ones(1, 3), adjoint.ones(1, 5)).params] == [(1, 8), (1, 8)]


def test_inside_another_function_that_is_traced():
    inner = jit(lambda x: x * 2, buckets={"x": {0: (4,)}}, fill={"x": 1.5})
    outer = jit(lambda x: inner(x + 1))
    assert outer(adjoint.zeros(3)).tolist() == [2.0, 2.0, 2.0, 3.0]


def test_pad_to_bucket():
    x = adjoint.tensor([[1, 2, 3]])
    padded = pad_to_bucket(x, 1, (8, 4), -1)
    assert padded.tolist() == [[1, 2, 3, -1]]
    assert padded.dtype == x.dtype
    assert pad_to_bucket(x, -1, (3,)) is x
    array = pad_to_bucket(np.ones((3, 1), np.float32), 0)
    assert isinstance(array, np.ndarray)
    assert (array == [[1], [1], [1], [0]]).all()
    assert [pad_to_bucket(np.zeros(n), 0).size for n in (0, 1, 2, 3, 5, 8, 9)] == [1, 1, 2, 4, 8, 8, 16]
    frozen = adjoint.ones(3, requires_grad=True)
    with adjoint.no_grad():
        assert pad_to_bucket(frozen, 0, value=float("inf")).tolist() == [1.0, 1.0, 1.0, float("inf")]


def one(**options):
    return jit(lambda x: x * 2, **options)


REFUSED = [
    (
        lambda: one(buckets={"x": {0: (2, 4)}})(adjoint.ones(5)),
        InvalidValueError,
        "jit: an axis must fit in the largest bucket, 4, got 5 for axis 0 of x; add a larger bucket, or cut it off",
    ),
    (
        lambda: pad_to_bucket(np.zeros((1, 5)), 1, (2, 4)),
        InvalidValueError,
        "pad_to_bucket: an axis must fit in the largest bucket, 4, got 5 for axis 1; add a larger bucket, or cut it "
        "off",
    ),
    (
        lambda: pad_to_bucket([1, 2], 0),
        TypeRuleError,
        "pad_to_bucket: x must be a tensor or an array to be filled up, got a list; convert it",
    ),
    (
        lambda: one(buckets={"x": {0: (2, 4)}})(3),
        TypeRuleError,
        "jit: x must be a tensor or an array to be filled up, got an int; convert it",
    ),
    (
        lambda: pad_to_bucket(np.zeros(3), 1),
        IndexRangeError,
        "pad_to_bucket: axis 1 is out of range for rank 1; use -1 to 0",
    ),
    (
        lambda: one(buckets={"x": {1: (2, 4)}})(adjoint.ones(3)),
        IndexRangeError,
        "jit: x: axis 1 is out of range for rank 1; use -1 to 0",
    ),
    (
        lambda: pad_to_bucket(np.zeros(3, np.int64), 0, value=0.5),
        InvalidValueError,
        "pad_to_bucket: the value to fill up with must be one of int64, got 0.5; change it",
    ),
    (
        lambda: pad_to_bucket(adjoint.ones(3, requires_grad=True), 0),
        TypeRuleError,
        "pad_to_bucket: what is filled up to a bucket must not require a gradient, got f32[3]; pass its detach(), or "
        "fill it up with torch.nn.functional.pad",
    ),
    (
        lambda: pad_to_bucket(np.zeros(3), 0, (4, 0)),
        InvalidValueError,
        "pad_to_bucket: the sizes of buckets must be positive integers or 'powers of 2', got (4, 0); pass a tuple",
    ),
    (
        lambda: one(buckets={"y": {1: (2,)}}),
        NameLookupError,
        "jit: buckets and fill name parameters of the function, got 'y'; known parameters: x",
    ),
    (
        lambda: one(buckets={"x": (2, 4)}),
        InvalidValueError,
        "jit: buckets must give sizes by argument and axis, as in {'x': {1: (64, 128)}}, got (2, 4) for x; write a "
        "dict",
    ),
    (
        lambda: one(buckets={"x": {1: "n"}}, sizes={"m": (2,)}),
        NameLookupError,
        "jit: sizes are those that buckets name, got 'm'; known names: n",
    ),
    (
        lambda: jit(lambda x, y: x + y, buckets={"x": {1: "n"}}, fill={"y": 1}),
        NameLookupError,
        "jit: fill is for arguments with buckets, got 'y'; those with buckets: x",
    ),
    (
        lambda: one(fill={"x": 1}),
        InvalidValueError,
        "jit: sizes and fill are for arguments with buckets, got no buckets; pass buckets={...}",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_refusals(call, error, message):
    with pytest.raises(error) as found:
        call()
    assert isinstance(found.value, AdjointError)
    assert found.value.message == message
