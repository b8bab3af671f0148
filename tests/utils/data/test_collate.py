"""Collation: what becomes of tensors, arrays, numbers and containers, and what is refused."""

import re
from collections import OrderedDict, namedtuple
from types import MappingProxyType

import numpy as np
import pytest

from adjoint.errors import DataError, InvalidValueError, TypeRuleError
from adjoint.tensor.tensor import Tensor, from_array
from adjoint.utils.data import default_collate, default_convert

Point = namedtuple("Point", "x y")


def f32(*numbers):
    return np.array(numbers, np.float32)


@pytest.mark.parametrize(
    ("batch", "dtype", "elements"),
    [
        ([from_array(f32(1, 2)), from_array(f32(3, 4))], "float32", [[1, 2], [3, 4]]),
        ([f32(1, 2), f32(3, 4)], "float32", [[1, 2], [3, 4]]),
        ([np.array(3, np.uint8), np.array(4, np.uint8)], "uint8", [3, 4]),
        ([np.float16(1), np.float16(2)], "float16", [1, 2]),
        ([1, 2], "int64", [1, 2]),
        ([True, False], "bool", [True, False]),
        ([True, 2], "int64", [1, 2]),
        ([1.5, 2], "float64", [1.5, 2]),
        ([1, 2.5], "float64", [1, 2.5]),
        ([np.float64(1), np.float64(2)], "float64", [1, 2]),
    ],
)
def test_numbers_become_one_tensor(batch, dtype, elements):
    made = default_collate(batch)
    assert isinstance(made, Tensor)
    assert (made.dtype.name, made.tolist()) == (dtype, elements)
    assert made.elements().address % 64 == 0


def test_containers_are_collated_by_place():
    batch = [({"image": f32(n), "name": f"{n}"}, [n, b"x"], Point(n, (n, 0.5))) for n in range(2)]
    made = default_collate(batch)
    images, numbers, point = made
    assert type(made) is list
    assert (images["image"].tolist(), images["name"]) == ([[0], [1]], ["0", "1"])
    assert (numbers[0].tolist(), numbers[1]) == ([0, 1], (b"x", b"x"))
    assert type(point) is Point
    assert (point.x.tolist(), [part.tolist() for part in point.y]) == ([0, 1], [[0, 1], [0.5, 0.5]])


def test_kinds_of_mappings_are_kept_where_they_can_be_made():
    made = default_collate([OrderedDict(b=1, a=2)])
    assert type(made) is OrderedDict
    assert (list(made), made["b"].tolist()) == (["b", "a"], [1])
    assert type(default_collate([MappingProxyType({"a": 1})])) is dict


def test_an_item_alone_is_converted():
    made = default_convert({"x": f32(1), "more": [np.int64(2), 3], "pair": (1, f32(4)), "point": Point(1, "a")})
    assert made["x"].tolist() == [1]
    assert (made["more"][0].item(), made["more"][1], made["pair"][0]) == (2, 3, 1)
    assert made["pair"][1].tolist() == [4]
    assert made["point"] == Point(1, "a")
    names = np.array(["a"])
    assert default_convert(names) is names


@pytest.mark.parametrize(
    ("batch", "error", "message"),
    [
        ([], DataError, "default_collate takes at least one item, got an empty list; leave the batch out"),
        (
            [None],
            TypeRuleError,
            "default_collate takes tensors, arrays, numbers, strings, dicts, tuples and lists, got None; convert it in "
            "the dataset, or pass collate_fn",
        ),
        (
            [1, "a"],
            TypeRuleError,
            "default_collate takes items of one kind, got an int and a str; convert them",
        ),
        (
            [np.array(["a"])],
            TypeRuleError,
            "default_collate takes arrays of f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, bool, got <U1; "
            "convert them in the dataset",
        ),
        (
            [f32(1, 2), f32(1, 2), f32(1)],
            DataError,
            "default_collate takes arrays of one shape and dtype, got float32[2] at 0 and float32[1] at 2; pad or "
            "convert them in the dataset, or pass collate_fn",
        ),
        (
            [f32(1), np.array([1])],
            DataError,
            "default_collate takes arrays of one shape and dtype, got float32[1] at 0 and int64[1] at 1; pad or "
            "convert them in the dataset, or pass collate_fn",
        ),
        (
            [from_array(f32(1), requires_grad=True)],
            TypeRuleError,
            "default_collate takes tensors without gradients, got one that requires a gradient; pass tensor.detach()",
        ),
        (
            [1, -(2**70)],
            InvalidValueError,
            "default_collate: ints must fit into 64 bits, got -1180591620717411303424; make it a float in the dataset",
        ),
        (
            [{"a": 1}, {"b": 1}],
            DataError,
            "default_collate takes dicts with the same keys, got a and b; give all items the same ones",
        ),
        (
            [(1, 2), (1,)],
            DataError,
            "default_collate takes tuples or lists of the same length, got lengths 1, 2; pad them in the dataset, or "
            "pass collate_fn",
        ),
    ],
)
def test_refusals(batch, error, message):
    with pytest.raises(error, match=re.escape(message)):
        default_collate(batch)
