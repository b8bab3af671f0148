"""`mindspore.ops`: functions of tensors, operators as objects, and gradients."""

from adjoint.compat.mindspore.ops import composite as composite
from adjoint.compat.mindspore.ops import function as function
from adjoint.compat.mindspore.ops.composite import *  # noqa: F403
from adjoint.compat.mindspore.ops.composite import __all__ as _composites
from adjoint.compat.mindspore.ops.function import *  # noqa: F403
from adjoint.compat.mindspore.ops.function import __all__ as _functions
from adjoint.compat.mindspore.ops.operations import *  # noqa: F403
from adjoint.compat.mindspore.ops.operations import __all__ as _operators
from adjoint.compat.uncovered import uncovered

__all__ = [*_composites, *_functions, *_operators]
__getattr__ = uncovered(__name__, {}, "adjoint, adjoint.nn.functional and adjoint.ops")
