"""Graph IR: types, values, functions, modules, text. It knows no operator."""

from adjoint.ir.function import Attribute, Function, IRModule, is_param, rebuild
from adjoint.ir.types import DTYPES, TensorType, TupleType, as_dtype, dtype_name, is_float, is_integer
from adjoint.ir.value import Op, Param, Value, apply, param, toposort

__all__ = [
    "DTYPES",
    "Attribute",
    "Function",
    "IRModule",
    "Op",
    "Param",
    "TensorType",
    "TupleType",
    "Value",
    "apply",
    "as_dtype",
    "dtype_name",
    "is_float",
    "is_integer",
    "is_param",
    "param",
    "rebuild",
    "toposort",
]
