"""The base class of modules, from which layers (`adjoint.nn`) and losses (`adjoint.losses`) derive."""

from adjoint.modules.hooks import RemovableHandle
from adjoint.modules.module import Module
from adjoint.modules.state import IncompatibleKeys

__all__ = ["IncompatibleKeys", "Module", "RemovableHandle"]
