"""Functions of functions, as ``torch.func``."""

from adjoint.compat.uncovered import uncovered
from adjoint.func.batching import vmap
from adjoint.func.derivatives import grad, jvp, vjp
from adjoint.func.jacobians import hessian, jacfwd
from adjoint.func.jacobians import jacobian as jacrev
from adjoint.func.stateless import functional_call, stack_module_state
from adjoint.missing import INSTEAD

__all__ = ["functional_call", "grad", "hessian", "jacfwd", "jacrev", "jvp", "stack_module_state", "vjp", "vmap"]

__getattr__ = uncovered(
    __name__,
    INSTEAD["adjoint.func"] | {"grad_and_value": "use adjoint.func.value_and_grad, which returns the value first"},
    "adjoint.func",
)
