"""What scripts ask about accelerators: there are none, the only device is the CPU."""

from typing import Any

from adjoint.tensor.environment import device

__all__ = ["accelerator", "backends", "cuda", "mps"]


class _Accelerator:
    """A kind of device that is not there: what asks about it is answered, what tells it to do something does nothing.

    It stands for PyTorch's modules ``torch.cuda``, ``torch.mps``, ``torch.accelerator``, and their kin.
    """

    def is_available(self) -> bool:
        """False."""
        return False

    is_built = is_initialized = is_bf16_supported = is_available

    def device_count(self) -> int:
        """0."""
        return 0

    def current_accelerator(self) -> None:
        """None."""
        return

    def current_device(self) -> device:
        """The CPU."""
        return device("cpu")

    def manual_seed(self, seed: int) -> None:
        """Nothing: there is no generator of another device."""

    manual_seed_all = manual_seed

    def empty_cache(self) -> None:
        """Nothing."""

    def synchronize(self, device: Any = None) -> None:
        """Nothing."""


class _Backends:
    """``torch.backends``: settings of libraries that are not used here. They can be set, and have no effect."""

    def __init__(self) -> None:
        self.cuda = _Accelerator()
        self.mps = _Accelerator()
        self.cudnn = _Accelerator()
        self.mkldnn = _Accelerator()
        self.cuda.matmul = _Accelerator()  # type: ignore[attr-defined]


accelerator, cuda, mps = _Accelerator(), _Accelerator(), _Accelerator()
backends = _Backends()
