"""What a scalar or array beside a graph value becomes: one table for all operators, and the function that applies it.

A Python scalar, a NumPy scalar (of any dtype, as the Python scalar that it converts to) and each element of a NumPy
array are treated alike. Beside a graph value they become

=============  ========================  ========================  ========================
graph value    bool                      int                       float
=============  ========================  ========================  ========================
float          refused                   the value's dtype         the value's dtype
integer        refused                   the value's dtype         f32, and the value is cast to f32
bool           bool                      refused                   refused
=============  ========================  ========================  ========================

A number that the dtype cannot hold is refused: 300 in u8, -1 in u32, 1e6 in f16. Digits that it cannot hold are
rounded, so ``x + 0.1`` is f32 if ``x`` is, although Python's ``0.1`` and NumPy's arrays are float64. Two graph values
of different dtypes are never converted: one of them has to be cast.
"""

from typing import Any

import numpy as np

from adjoint.errors import TypeRuleError
from adjoint.ir.types import DTYPES, dtype_name, is_float, is_integer
from adjoint.ops.create import plain_scalar, scalar_misfit

__all__ = ["promote"]

_F32, _BOOL = DTYPES["f32"], DTYPES["bool"]
_NUMBERS = (int, float)


def promote(name: str, given: Any, dtype: np.dtype) -> tuple[Any, np.dtype]:
    """Apply the table above.

    Parameters
    ----------
    name : str
        The operator, for error messages.
    given : bool, int, float, NumPy scalar or numpy.ndarray
        The operand beside a graph value.
    dtype : dtype
        Dtype of the graph value.

    Returns
    -------
    scalar or array, dtype
        A Python scalar or an array of the dtype, and the dtype of both operands.

    Raises
    ------
    TypeRuleError
        If the table refuses the combination, or the dtype cannot hold a number.
    """
    if isinstance(given, np.ndarray) and given.ndim:
        return _promoted_array(name, given, dtype)
    scalar = given.item() if isinstance(given, np.generic | np.ndarray) else given
    common = _common(name, scalar, repr(scalar), dtype)
    scalar = plain_scalar(scalar, common)
    misfit = scalar_misfit(scalar, common)
    if misfit:
        raise TypeRuleError(f"{name}: the scalar must fit the other operand's dtype: {misfit}")
    return scalar, common


def _common(name: str, example: Any, text: str, dtype: np.dtype) -> np.dtype:
    """The entry of the table for a scalar like `example`, described by `text`."""
    if isinstance(example, bool) and dtype != _BOOL:
        raise TypeRuleError(
            f"{name}: a bool cannot be an operand beside numbers of dtype {dtype_name(dtype)}, got {text}; "
            "use a number such as 1 or 0"
        )
    if isinstance(example, _NUMBERS) and not isinstance(example, bool) and dtype == _BOOL:
        raise TypeRuleError(
            f"{name}: a number cannot be an operand beside a bool value, got {text}; cast the value to f32 or i32 first"
        )
    return _F32 if isinstance(example, float) and is_integer(dtype) else dtype


def _promoted_array(name: str, array: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.dtype]:
    if array.dtype not in DTYPES.values():
        raise TypeRuleError(
            f"{name}: an array operand must have one of the dtypes {', '.join(DTYPES)}, got {array.dtype}; convert it"
        )
    text = f"an array of {dtype_name(array.dtype)}"
    common = _common(name, np.zeros((), array.dtype).item(), text, dtype)
    finite = array[np.isfinite(array)] if is_float(array.dtype) else array
    for extreme in (finite.min(), finite.max()) if finite.size else ():
        misfit = scalar_misfit(plain_scalar(extreme, common), common)
        if misfit:
            raise TypeRuleError(f"{name}: the array's elements must fit the other operand's dtype: {misfit}")
    return array.astype(common), common
