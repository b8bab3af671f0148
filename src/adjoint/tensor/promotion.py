"""The dtype of an operation on tensors of different dtypes: PyTorch's rules, as one table.

Dtypes are ordered by kind: bool, then integers, then floats. Operands fall into three classes: tensors with axes,
scalar tensors (without axes), and Python numbers. The result has the highest kind among all operands. Its dtype is the
common dtype of the first class, in this order, that has an operand of this kind; a Python number of a higher kind than
all tensors gives ``i64`` or ``f32``.

================  =====  =====  =====  =====  =====
both with axes    bool   u8     i64    f16    f32
================  =====  =====  =====  =====  =====
bool              bool   u8     i64    f16    f32
u8                u8     u8     i64    f16    f32
i8                i8     i16    i64    f16    f32
i64               i64    i64    i64    f16    f32
f16               f16    f16    f16    f16    f32
bf16              bf16   bf16   bf16   f32    f32
f64               f64    f64    f64    f64    f64
================  =====  =====  =====  =====  =====

Source: "Type promotion" in PyTorch's documentation of tensor attributes.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from adjoint import ops
from adjoint.errors import TypeRuleError, kind_of
from adjoint.ir import DTYPES, Value, is_float
from adjoint.tensor.structure import Spec
from adjoint.tensor.trace import Recorded

__all__ = ["common_dtype", "kind", "promoted", "result_dtype"]

_BOOL, _I64, _F32 = DTYPES["bool"], DTYPES["i64"], DTYPES["f32"]


def kind(dtype: np.dtype) -> int:
    """0 for bool, 1 for integers, 2 for floats."""
    if is_float(dtype):
        return 2
    return 0 if dtype == _BOOL else 1


@cache
def common_dtype(first: np.dtype, second: np.dtype) -> np.dtype:
    """The dtype of an operation on two tensors of the same class."""
    if first == second:
        return first
    low, high = sorted((first, second), key=kind)
    if kind(low) < kind(high):
        return high
    if kind(high) == 2:
        if low.itemsize == high.itemsize:
            return _F32  # f16 and bf16
        return max(low, high, key=lambda dtype: dtype.itemsize)
    return np.promote_types(first, second) if {first, second} != {DTYPES["u64"], DTYPES["i64"]} else _F32


def _number_dtype(number: Any) -> np.dtype:
    """The dtype that a number, of Python or NumPy, has among tensors; raises for anything else."""
    if isinstance(number, bool | np.bool_):
        return _BOOL
    if isinstance(number, int | np.integer):
        return _I64
    if isinstance(number, float | np.floating):
        return _F32
    raise TypeRuleError(
        f"an operand must be a tensor or a number, got {kind_of(number)}; convert it with tensor() or from_numpy()"
    )


def result_dtype(operands: Sequence[Any]) -> np.dtype:
    """The dtype of an operation on graph values and Python numbers."""
    classes: list[np.dtype | None] = [None, None, None]
    for operand in operands:
        if isinstance(operand, Recorded):
            operand = operand._spec
        if isinstance(operand, Value | Spec):
            place, dtype = (0 if operand.type.shape else 1), operand.type.dtype
        else:
            place, dtype = 2, _number_dtype(operand)
        known = classes[place]
        classes[place] = dtype if known is None else common_dtype(known, dtype)
    found = [dtype for dtype in classes if dtype is not None]
    highest = max(map(kind, found))
    return next(dtype for dtype in found if kind(dtype) == highest)


def promoted(*operands: Any, dtype: np.dtype | None = None) -> list[Any]:
    """Operands in their common dtype: graph values cast, Python numbers converted to its kind.

    At least one operand is a graph value.
    """
    common = result_dtype(operands) if dtype is None else dtype
    number = (bool, int, float)[kind(common)]
    return [ops.cast(one, common) if isinstance(one, Value) else number(one) for one in operands]
