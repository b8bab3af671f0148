"""Transforms of images: NumPy arrays [H, W] or [H, W, C], or batches [N, H, W, C], of bytes or floats.

They have the names of torchvision and MindSpore. Each is a small immutable object that is called with an image; random
ones are also given a generator, ``rng``, from which alone their result depends. Of a batch, each image is changed in
its own way, in one call.
"""

from adjoint.data.transforms import Compose, OneHot, TypeCast
from adjoint.data.vision.color import ColorJitter, Grayscale
from adjoint.data.vision.crop import CenterCrop, RandomCrop, RandomResizedCrop
from adjoint.data.vision.erasing import RandomErasing
from adjoint.data.vision.flip import RandomHorizontalFlip, RandomVerticalFlip
from adjoint.data.vision.padding import Pad
from adjoint.data.vision.resize import Resize
from adjoint.data.vision.values import HWC2CHW, Normalize, Rescale, ToTensor

__all__ = [
    "HWC2CHW",
    "CenterCrop",
    "ColorJitter",
    "Compose",
    "Grayscale",
    "Normalize",
    "OneHot",
    "Pad",
    "RandomCrop",
    "RandomErasing",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomVerticalFlip",
    "Rescale",
    "Resize",
    "ToTensor",
    "TypeCast",
]
