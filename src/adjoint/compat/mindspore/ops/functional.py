"""`mindspore.ops.functional`: the functions under the path that older programs use."""

from adjoint.compat.mindspore.ops.composite import *  # noqa: F403
from adjoint.compat.mindspore.ops.composite import __all__ as _composites
from adjoint.compat.mindspore.ops.function import *  # noqa: F403
from adjoint.compat.mindspore.ops.function import __all__ as _functions
from adjoint.compat.uncovered import uncovered

__all__ = [*_composites, *_functions]
__getattr__ = uncovered(__name__, {}, "adjoint.nn.functional")
