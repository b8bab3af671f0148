"""`mindspore.dataset.vision`: operations on images."""

from adjoint.compat.uncovered import uncovered
from adjoint.data.vision import (
    HWC2CHW,
    CenterCrop,
    Grayscale,
    Normalize,
    Pad,
    RandomCrop,
    RandomErasing,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomVerticalFlip,
    Rescale,
    Resize,
    ToTensor,
)
from adjoint.data.vision import ColorJitter as RandomColorAdjust

__all__ = [
    "HWC2CHW",
    "CenterCrop",
    "Grayscale",
    "Inter",
    "Normalize",
    "Pad",
    "RandomColorAdjust",
    "RandomCrop",
    "RandomErasing",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomVerticalFlip",
    "Rescale",
    "Resize",
    "ToTensor",
]


class Inter:
    """How images are resized."""

    LINEAR = BILINEAR = "bilinear"
    NEAREST = "nearest"
    BICUBIC = "bicubic"


__getattr__ = uncovered(
    __name__, {"Decode": "omit it: images of ImageFolderDataset are decoded"}, "adjoint.data.vision"
)
