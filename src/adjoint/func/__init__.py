"""The functional door: transformations of Python functions of tensors, as in JAX, `torch.func` and MindSpore 2.

The names of `torch.func` are those of this package; most are names of `adjoint` too.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from adjoint.missing import missing_name

if TYPE_CHECKING:
    from adjoint.func.batching import vmap
    from adjoint.func.derivatives import grad, jvp, value_and_grad, vjp
    from adjoint.func.jacobians import hessian, jacfwd, jacobian
    from adjoint.func.stateless import functional_call, stack_module_state

#: The module of each name; the packages below import each other's modules, so nothing is loaded before it is used.
_HOME_OF = {
    "functional_call": "stateless",
    "grad": "derivatives",
    "hessian": "jacobians",
    "jacfwd": "jacobians",
    "jacobian": "jacobians",
    "jvp": "derivatives",
    "stack_module_state": "stateless",
    "value_and_grad": "derivatives",
    "vjp": "derivatives",
    "vmap": "batching",
}

__all__ = [
    "functional_call",
    "grad",
    "hessian",
    "jacfwd",
    "jacobian",
    "jvp",
    "stack_module_state",
    "value_and_grad",
    "vjp",
    "vmap",
]


def __getattr__(name: str) -> Any:
    """Load a name on first access."""
    home = _HOME_OF.get(name)
    if home is None:
        raise missing_name("adjoint.func", name, __all__)
    return getattr(import_module(f"adjoint.func.{home}"), name)
