"""Whole networks: small ones that ``adjoint train`` trains, and those whose weights are released."""

from adjoint.nn.networks.bert import BERT
from adjoint.nn.networks.distilbert import DistilBERT
from adjoint.nn.networks.gpt import GPT
from adjoint.nn.networks.gpt2 import GPT2
from adjoint.nn.networks.lenet import LeNet
from adjoint.nn.networks.llama import Llama
from adjoint.nn.networks.mlp import MLP
from adjoint.nn.networks.resnet import ResNet
from adjoint.nn.networks.vit import ViT

__all__ = ["BERT", "GPT", "GPT2", "MLP", "DistilBERT", "LeNet", "Llama", "ResNet", "ViT"]
