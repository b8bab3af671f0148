"""`LeNet`: a small convolutional network."""

from typing import Any

from adjoint.modules import Module
from adjoint.nn import functional
from adjoint.nn.convolution import Conv2d
from adjoint.nn.linear import Linear
from adjoint.nn.networks.checking import require_sizes
from adjoint.tensor.shapes import flatten

__all__ = ["LeNet"]


class LeNet(Module):
    """LeNet-5 with relu and max pooling: two convolutions and three linear layers.

    LeCun et al., "Gradient-Based Learning Applied to Document Recognition", 1998. Takes images [N, channels, size,
    size], and returns logits [N, classes].

    Parameters
    ----------
    channels : int, default 1
        Number of channels of an image.
    classes : int, default 10
        Number of classes.
    size : int, default 28
        Height and width of an image, at least 12.

    Raises
    ------
    InvalidValueError
        If a size is out of range.
    """

    def __init__(self, channels: int = 1, classes: int = 10, size: int = 28) -> None:
        super().__init__()
        require_sizes("LeNet", channels=channels, classes=classes)
        require_sizes("LeNet", 12, size=size)
        # Images of 28 are padded, as those of the paper are, which have 32.
        padding = 2 if size < 32 else 0
        self.conv1 = Conv2d(channels, 6, 5, padding=padding)
        self.conv2 = Conv2d(6, 16, 5)
        left = ((size + 2 * padding - 4) // 2 - 4) // 2
        self.fc1 = Linear(16 * left * left, 120)
        self.fc2 = Linear(120, 84)
        self.fc3 = Linear(84, classes)

    def forward(self, x: Any) -> Any:
        """Logits of images."""
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        x = functional.relu(self.fc1(flatten(x, 1)))
        return self.fc3(functional.relu(self.fc2(x)))
