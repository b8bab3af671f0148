"""Optimizers: frozen dataclasses of settings that build the graph of an update.

`base` defines what an optimizer returns, its states and hyperparameters; every other module is one family.
"""

from adjoint.optim.adam import Adam, AdamW
from adjoint.optim.base import Optimizer, StateSpec
from adjoint.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "StateSpec"]
