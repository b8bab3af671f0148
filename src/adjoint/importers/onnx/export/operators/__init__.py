"""How the operators of CATALOGUE are written in ONNX, one file per family, by their names in graph text."""

from adjoint.importers.onnx.export.emitter import Rule
from adjoint.importers.onnx.export.operators.arranging import ARRANGING, LAZY
from adjoint.importers.onnx.export.operators.elementwise import ELEMENTWISE
from adjoint.importers.onnx.export.operators.indexing import INDEXING
from adjoint.importers.onnx.export.operators.products import PRODUCTS
from adjoint.importers.onnx.export.operators.reductions import REDUCTIONS

__all__ = ["LAZY", "WRITTEN"]

#: The rule of each operator; those of LAZY make results that have yet to be broadcast.
WRITTEN: dict[str, Rule] = {**ARRANGING, **ELEMENTWISE, **INDEXING, **LAZY, **PRODUCTS, **REDUCTIONS}
