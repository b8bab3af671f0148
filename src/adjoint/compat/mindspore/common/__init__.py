"""`mindspore.common`: tensors, parameters, types and initial values."""

from adjoint.compat.mindspore import dtype
from adjoint.compat.mindspore.common import initializer as initializer
from adjoint.compat.mindspore.common.api import jit, ms_function, set_seed
from adjoint.compat.mindspore.common.parameter import Parameter, ParameterTuple
from adjoint.compat.mindspore.common.tensor import Tensor
from adjoint.compat.uncovered import uncovered

__all__ = ["Parameter", "ParameterTuple", "Tensor", "dtype", "jit", "ms_function", "set_seed"]

__getattr__ = uncovered(__name__, {}, "adjoint")
