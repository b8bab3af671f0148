"""Whole networks, which ``adjoint train`` trains: for images, and for text."""

from adjoint.nn.networks.gpt import GPT
from adjoint.nn.networks.lenet import LeNet
from adjoint.nn.networks.mlp import MLP
from adjoint.nn.networks.resnet import ResNet

__all__ = ["GPT", "MLP", "LeNet", "ResNet"]
