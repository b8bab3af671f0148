"""Graph IR: types, values, functions, modules and the text format; independent of operators.

`value` and `function` are the data structures, `printer` and `parser` the text format; `numbering` makes printed names
permanent, `verifier` has the rules, and `pickling` makes all of it pickle.
"""

from adjoint.ir import pickling as _pickling  # noqa: F401  # registers with copyreg
from adjoint.ir.function import Attribute, Function, IRModule, callees, closure, is_param, rebuild
from adjoint.ir.numbering import free_number, numbered, numbered_from, unnumbered
from adjoint.ir.parser import parse, parse_function
from adjoint.ir.printer import value_names
from adjoint.ir.types import DTYPES, TensorType, TupleType, as_dtype, dtype_name, is_float, is_integer
from adjoint.ir.value import Op, Param, Value, apply, infer_type, param, toposort
from adjoint.ir.verifier import verify

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
    "callees",
    "closure",
    "dtype_name",
    "free_number",
    "infer_type",
    "is_float",
    "is_integer",
    "is_param",
    "numbered",
    "numbered_from",
    "param",
    "parse",
    "parse_function",
    "rebuild",
    "toposort",
    "unnumbered",
    "value_names",
    "verify",
]
