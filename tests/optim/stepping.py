"""Runs an optimizer's function as a trainer would: with the interpreter, or what `run` makes of it."""

import numpy as np

from adjoint.ir import TensorType
from adjoint.testing.interpreter import interpret


class Stepper:
    """Parameters, state and hyperparameters of one optimizer, as arrays by name."""

    def __init__(self, optimizer, params, run=None):
        types = {name: TensorType(a.shape, a.dtype) for name, a in params.items()}
        self.function = optimizer.function(types)
        self.run = run(self.function) if run else lambda *arrays: interpret(self.function, *arrays)
        self.params = dict(params)
        self.state = {spec.name: spec.array() for spec in optimizer.init(types)}
        self.hyper = {spec.name: spec.array() for spec in optimizer.hyper(types)}

    def step(self, grads):
        """One update; the gradients by the parameters' names."""
        known = {**self.params, **{f"{n}_adjoint": g for n, g in grads.items()}, **self.state, **self.hyper}
        results = self.run(*(known[p.label] for p in self.function.params))
        results = results if isinstance(results, tuple) else (results,)
        names = [*self.params, *self.state]
        new = dict(zip(names, (np.asarray(r) for r in results), strict=True))
        self.params = {n: new[n] for n in self.params}
        self.state = {n: new[n] for n in self.state}
        return self.params
