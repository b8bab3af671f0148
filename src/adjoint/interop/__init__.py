"""Files of other programs: weights and nested state of PyTorch, without pickle, and weights of MindSpore and Keras.

`torch_files` has the functions to call. `opcodes` interprets a pickle as data, `torch_objects` lists the objects that
it may contain, `torch_reader` finds the parts of a file, and `torch_writer` writes one. `mindspore_files` and
`keras_files` read weights of these programs, and `mapping` finds out where in a network they belong.
"""

from adjoint.interop.keras_files import read_keras
from adjoint.interop.mapping import NameMapping, map_names
from adjoint.interop.mindspore_files import read_mindspore
from adjoint.interop.torch_files import read_torch, write_torch
from adjoint.interop.torch_objects import TorchTensor

__all__ = [
    "NameMapping",
    "TorchTensor",
    "map_names",
    "read_keras",
    "read_mindspore",
    "read_torch",
    "write_torch",
]
