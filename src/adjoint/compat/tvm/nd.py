"""``tvm.nd``: arrays under the names of older releases."""

from adjoint.compat.tvm.runtime import Tensor as NDArray
from adjoint.compat.tvm.runtime import empty
from adjoint.compat.tvm.runtime import tensor as array
from adjoint.compat.uncovered import uncovered

__all__ = ["NDArray", "array", "empty"]
__getattr__ = uncovered(__name__, {}, "numpy")
