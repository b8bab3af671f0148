"""Models of ONNX: in for training, and graphs of inference out.

`file` parses and inlines, `graph` checks and converts to plain objects, `roles` says what is trained, `plan` does the
computations of shapes, `operators` has a function for each operator, and `module` is what users get. `export` writes
files.
"""

from adjoint.importers.onnx.export import to_onnx
from adjoint.importers.onnx.module import OnnxModule, from_onnx

__all__ = ["OnnxModule", "from_onnx", "to_onnx"]
