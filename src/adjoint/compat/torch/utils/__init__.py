"""``torch.utils``."""

from adjoint.compat.torch.utils import checkpoint, data, tensorboard
from adjoint.compat.uncovered import uncovered

__all__ = ["checkpoint", "data", "tensorboard"]

__getattr__ = uncovered(
    __name__,
    {
        "benchmark": "use `adjoint profile`, or timeit",
        "cpp_extension": "write an operator; docs/extending.md describes how",
        "mobile_optimizer": "leave it out",
        "dlpack": "use torch.from_dlpack",
    },
    "adjoint.utils",
)
