"""`ResNet`: residual networks for small images."""

from typing import Any

from adjoint.modules import Module
from adjoint.nn import functional
from adjoint.nn.containers import Sequential
from adjoint.nn.convolution import Conv2d
from adjoint.nn.linear import Linear
from adjoint.nn.networks.checking import require_sizes
from adjoint.nn.normalization import BatchNorm2d
from adjoint.tensor.shapes import flatten

__all__ = ["ResNet"]


class _Block(Module):
    """Two convolutions, added to the input, which a 1x1 convolution brings to their shape."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.bn1 = BatchNorm2d(outputs)
        self.conv2 = Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = BatchNorm2d(outputs)
        self.shortcut = Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = Sequential(Conv2d(inputs, outputs, 1, stride=stride, bias=False), BatchNorm2d(outputs))

    def forward(self, x: Any) -> Any:
        y = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResNet(Module):
    """A ResNet for small images: three stages of blocks, ResNet-20 by default.

    He et al., "Deep Residual Learning for Image Recognition", 2015, section 4.2. Takes images [N, channels, H, W], and
    returns logits [N, classes].

    Parameters
    ----------
    channels : int, default 3
        Number of channels of an image.
    classes : int, default 10
        Number of classes.
    blocks : int, default 3
        Number of blocks of a stage: there are ``6 * blocks + 2`` layers.
    width : int, default 16
        Number of channels of the first stage; each later one has twice as many.

    Raises
    ------
    InvalidValueError
        If a size is below 1.
    """

    def __init__(self, channels: int = 3, classes: int = 10, blocks: int = 3, width: int = 16) -> None:
        super().__init__()
        require_sizes("ResNet", channels=channels, classes=classes, blocks=blocks, width=width)
        self.conv = Conv2d(channels, width, 3, padding=1, bias=False)
        self.bn = BatchNorm2d(width)
        layers, before = [], width
        for stage in range(3):
            after = width << stage
            for n in range(blocks):
                layers.append(_Block(before, after, 2 if stage and n == 0 else 1))
                before = after
        self.layers = Sequential(*layers)
        self.linear = Linear(before, classes)

    def forward(self, x: Any) -> Any:
        """Logits of images."""
        x = self.layers(functional.relu(self.bn(self.conv(x))))
        return self.linear(flatten(functional.adaptive_avg_pool2d(x, 1), 1))
