"""Parameters as the results of functions, as ``torch.nn.utils.parametrize``."""

from adjoint.compat.uncovered import uncovered
from adjoint.nn.utils.parametrize import (
    ParametrizationList,
    is_parametrized,
    register_parametrization,
    remove_parametrizations,
)

__all__ = ["ParametrizationList", "is_parametrized", "register_parametrization", "remove_parametrizations"]

__getattr__ = uncovered(__name__, {}, "adjoint.nn.utils.parametrize")
