"""Initial values of parameters."""

from math import prod, sqrt

import numpy as np

from adjoint.errors import InvalidValueError
from adjoint.ir import TensorType

__all__ = ["KINDS", "initial_values"]

#: What `kind` may be.
KINDS = ("xavier_uniform", "zeros")


def initial_values(kind: str, types: dict[str, TensorType], seed: int) -> dict[str, np.ndarray]:
    """One array a parameter.

    Parameters
    ----------
    kind : {"xavier_uniform", "zeros"}
        "xavier_uniform": uniform within ``sqrt(6 / (fan_in + fan_out))`` for ranks from 2 (Glorot and Bengio 2010,
        "Understanding the difficulty of training deep feedforward neural networks", formula 16), zeros below. At
        ranks above 2 the first two axes are the channels and the others the window, as in a convolution's weight.
    types : dict of str to TensorType
        Names and types.
    seed : int
        The same seed gives the same values: each parameter draws its own stream from it, so they do not depend on
        the parameters before.

    Raises
    ------
    InvalidValueError
        For an unknown kind.
    """
    if kind not in KINDS:
        raise InvalidValueError(f"init_parameters: kind is one of {', '.join(KINDS)}, got {kind!r}")
    streams = np.random.SeedSequence(seed).spawn(len(types))
    arrays = {}
    for (name, type_), stream in zip(types.items(), streams, strict=True):
        if kind == "zeros" or type_.rank < 2:
            arrays[name] = np.zeros(type_.shape, type_.dtype)
            continue
        first, second, *window = type_.shape
        bound = sqrt(6.0 / max((first + second) * prod(window), 1))
        arrays[name] = np.random.default_rng(stream).uniform(-bound, bound, type_.shape).astype(type_.dtype)
    return arrays
