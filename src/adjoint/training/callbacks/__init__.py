"""Callbacks of training, one per file: what happens around the steps of a run.

`base` has the class that all of them extend, and the interface of the run that they are given.
"""

from adjoint.training.callbacks.base import Callback, Run

__all__ = ["Callback", "Run"]
