"""The table of dtypes, against rows written in PyTorch's documentation of type promotion."""

import numpy as np
import pytest

from adjoint import param
from adjoint.ir import DTYPES
from adjoint.tensor.promotion import common_dtype, result_dtype


@pytest.mark.parametrize(
    ("row", "results"),
    {
        "bool": "bool u8 i64 f16 f32",
        "u8": "u8 u8 i64 f16 f32",
        "i8": "i8 i16 i64 f16 f32",
        "i64": "i64 i64 i64 f16 f32",
        "f16": "f16 f16 f16 f16 f32",
        "bf16": "bf16 bf16 bf16 f32 f32",
        "f64": "f64 f64 f64 f64 f64",
    }.items(),
)
def test_tensors_with_axes(row, results):
    columns = ("bool", "u8", "i64", "f16", "f32")
    for column, result in zip(columns, results.split(), strict=True):
        assert common_dtype(DTYPES[row], DTYPES[column]) == DTYPES[result], column
        assert common_dtype(DTYPES[column], DTYPES[row]) == DTYPES[result], column


def test_scalar_tensors_and_numbers_decide_only_if_their_kind_is_higher():
    ints, floats, double = param("i", (3,), "i32"), param("f", (3,), "f32"), param("d", (), "f64")
    assert result_dtype((floats, double)) == np.float32
    assert result_dtype((ints, double)) == np.float64
    assert result_dtype((ints, 1.5)) == np.float32
    assert result_dtype((ints, 2)) == np.int32
    assert result_dtype((param("b", (3,), "bool"), 2)) == np.int64
    assert result_dtype((double, 2.5)) == np.float64
