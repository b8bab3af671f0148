"""Graphs of inference as files of ONNX."""

from adjoint.importers.onnx.export.export import to_onnx

__all__ = ["to_onnx"]
