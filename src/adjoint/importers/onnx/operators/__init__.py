"""The operators of ONNX as functions of adjoint, one file per family; `OPERATORS` is the whole table."""

from adjoint.importers.onnx.operators.activations import ACTIVATIONS
from adjoint.importers.onnx.operators.attention import ATTENTION
from adjoint.importers.onnx.operators.base import Rule, as_tensor
from adjoint.importers.onnx.operators.elementwise import ELEMENTWISE
from adjoint.importers.onnx.operators.indexing import INDEXING
from adjoint.importers.onnx.operators.normalization import NORMALIZATION
from adjoint.importers.onnx.operators.products import PRODUCTS
from adjoint.importers.onnx.operators.recurrent import RECURRENT
from adjoint.importers.onnx.operators.reductions import REDUCTIONS
from adjoint.importers.onnx.operators.resizing import RESIZING
from adjoint.importers.onnx.operators.shapes import SHAPES
from adjoint.importers.onnx.operators.windows import WINDOWS

__all__ = ["FAMILIES", "OPERATORS", "Rule", "as_tensor"]

#: The tables by what the documentation calls them.
FAMILIES = {
    "activations": ACTIVATIONS,
    "attention": ATTENTION,
    "elementwise": ELEMENTWISE,
    "indexing": INDEXING,
    "normalization": NORMALIZATION,
    "products": PRODUCTS,
    "recurrent": RECURRENT,
    "reductions": REDUCTIONS,
    "resizing": RESIZING,
    "shapes": SHAPES,
    "windows": WINDOWS,
}

#: All operators by their names.
OPERATORS: dict[str, Rule] = {op: rule for table in FAMILIES.values() for op, rule in table.items()}
