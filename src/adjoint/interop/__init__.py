"""Files of other programs: weights and nested state that PyTorch has saved, without PyTorch and without pickle.

`torch_files` has the functions to call. `opcodes` interprets a pickle as data, `torch_objects` lists the objects that
it may contain, `torch_reader` finds the parts of a file, and `torch_writer` writes one.
"""

from adjoint.interop.torch_files import read_torch, write_torch
from adjoint.interop.torch_objects import TorchTensor

__all__ = ["TorchTensor", "read_torch", "write_torch"]
