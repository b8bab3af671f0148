"""Initializers, by name and as objects."""

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np

from adjoint.compat.uncovered import uncovered
from adjoint.errors import NameLookupError
from adjoint.tensor.generator import default_generator

__all__ = [
    "Constant", "GlorotNormal", "GlorotUniform", "HeNormal", "HeUniform", "Initializer", "LecunNormal", "LecunUniform",
    "Ones", "Orthogonal", "RandomNormal", "RandomUniform", "TruncatedNormal", "VarianceScaling", "Zeros", "get",
]  # fmt: skip
__getattr__ = uncovered(__name__, {}, "adjoint.nn.init")

#: The standard deviation of a normal distribution that is cut at two standard deviations.
_CUT = 0.87962566103423978


def _rng() -> np.random.Generator:
    """The next stream of random numbers of adjoint's generator, which `set_random_seed` begins again."""
    return np.random.default_rng(default_generator.words(4))


class Initializer:
    """Makes the first values of a weight: ``initializer(shape)``."""

    def __call__(self, shape: Any, dtype: Any = None) -> np.ndarray:
        """Values of a shape."""
        raise NotImplementedError


class Zeros(Initializer):
    """Zeros."""

    def __call__(self, shape: Any, dtype: Any = None) -> np.ndarray:  # noqa: ARG002
        """Values of a shape."""
        return np.zeros(tuple(shape), np.float32)


class Ones(Initializer):
    """Ones."""

    def __call__(self, shape: Any, dtype: Any = None) -> np.ndarray:  # noqa: ARG002
        """Values of a shape."""
        return np.ones(tuple(shape), np.float32)


class Constant(Initializer):
    """One number."""

    def __init__(self, value: float = 0.0) -> None:
        self.value = value

    def __call__(self, shape: Any, dtype: Any = None) -> np.ndarray:  # noqa: ARG002
        """Values of a shape."""
        return np.full(tuple(shape), self.value, np.float32)


class RandomNormal(Initializer):
    """Normally distributed numbers."""

    def __init__(self, mean: float = 0.0, stddev: float = 0.05, seed: Any = None) -> None:
        del seed
        self.mean, self.stddev = mean, stddev

    def __call__(self, shape: Any, dtype: Any = None) -> np.ndarray:  # noqa: ARG002
        """Values of a shape."""
        return (_rng().standard_normal(tuple(shape)) * self.stddev + self.mean).astype(np.float32)


class TruncatedNormal(RandomNormal):
    """Normally distributed numbers within two standard deviations."""

    def __call__(self, shape: Any, dtype: Any = None) -> np.ndarray:  # noqa: ARG002
        """Values of a shape."""
        rng = _rng()
        made = rng.standard_normal(tuple(shape))
        while (beyond := np.abs(made) > 2).any():
            made[beyond] = rng.standard_normal(int(beyond.sum()))
        return (made * self.stddev + self.mean).astype(np.float32)


class RandomUniform(Initializer):
    """Uniformly distributed numbers."""

    def __init__(self, minval: float = -0.05, maxval: float = 0.05, seed: Any = None) -> None:
        del seed
        self.minval, self.maxval = minval, maxval

    def __call__(self, shape: Any, dtype: Any = None) -> np.ndarray:  # noqa: ARG002
        """Values of a shape."""
        return _rng().uniform(self.minval, self.maxval, tuple(shape)).astype(np.float32)


class Orthogonal(Initializer):
    """An orthogonal matrix."""

    def __init__(self, gain: float = 1.0, seed: Any = None) -> None:
        del seed
        self.gain = gain

    def __call__(self, shape: Any, dtype: Any = None) -> np.ndarray:  # noqa: ARG002
        """Values of a shape."""
        rows, columns = int(np.prod(shape[:-1])), shape[-1]
        q, r = np.linalg.qr(_rng().standard_normal((max(rows, columns), min(rows, columns))))
        q = q * np.sign(np.diag(r))
        return (self.gain * (q if rows >= columns else q.T).reshape(shape)).astype(np.float32)


class VarianceScaling(Initializer):
    """Numbers whose variance is ``scale / n``, n by the mode: inputs, outputs or their mean."""

    def __init__(
        self, scale: float = 1.0, mode: str = "fan_in", distribution: str = "truncated_normal", seed: Any = None
    ) -> None:
        del seed
        self.scale, self.mode, self.distribution = scale, mode, distribution

    def __call__(self, shape: Any, dtype: Any = None) -> np.ndarray:  # noqa: ARG002
        """Values of a shape."""
        inputs, outputs = _fans(tuple(shape))
        count = {"fan_in": inputs, "fan_out": outputs, "fan_avg": (inputs + outputs) / 2}[self.mode]
        variance = self.scale / max(count, 1.0)
        if self.distribution == "uniform":
            limit = sqrt(3 * variance)
            return RandomUniform(-limit, limit)(shape)
        if self.distribution == "untruncated_normal":
            return RandomNormal(0.0, sqrt(variance))(shape)
        return TruncatedNormal(0.0, sqrt(variance) / _CUT)(shape)


def _fans(shape: tuple[int, ...]) -> tuple[float, float]:
    """Inputs and outputs of a unit: of windows, the last two axes are channels."""
    if len(shape) < 2:
        return (float(shape[0]), float(shape[0])) if shape else (1.0, 1.0)
    window = 1
    for extent in shape[:-2]:
        window *= extent
    return float(shape[-2] * window), float(shape[-1] * window)


def _scaled(name: str, scale: float, mode: str, distribution: str) -> type[VarianceScaling]:
    def make(self: VarianceScaling, seed: Any = None) -> None:
        VarianceScaling.__init__(self, scale, mode, distribution, seed)

    return type(
        name, (VarianceScaling,), {"__init__": make, "__doc__": f"{distribution}, {mode}.", "__module__": __name__}
    )


GlorotUniform = _scaled("GlorotUniform", 1.0, "fan_avg", "uniform")
GlorotNormal = _scaled("GlorotNormal", 1.0, "fan_avg", "truncated_normal")
HeUniform = _scaled("HeUniform", 2.0, "fan_in", "uniform")
HeNormal = _scaled("HeNormal", 2.0, "fan_in", "truncated_normal")
LecunUniform = _scaled("LecunUniform", 1.0, "fan_in", "uniform")
LecunNormal = _scaled("LecunNormal", 1.0, "fan_in", "truncated_normal")

_BY_NAME: dict[str, Callable[[], Initializer]] = {
    "zeros": Zeros, "ones": Ones, "glorot_uniform": GlorotUniform, "glorot_normal": GlorotNormal,
    "he_uniform": HeUniform, "he_normal": HeNormal, "lecun_uniform": LecunUniform, "lecun_normal": LecunNormal,
    "uniform": RandomUniform, "random_uniform": RandomUniform, "normal": RandomNormal, "random_normal": RandomNormal,
    "truncated_normal": TruncatedNormal, "orthogonal": Orthogonal,
}  # fmt: skip


def get(identifier: Any) -> Any:
    """The initializer of a name; objects and functions are returned as they are."""
    if callable(identifier) and not isinstance(identifier, type):
        return identifier
    if isinstance(identifier, type):
        return identifier()
    if identifier not in _BY_NAME:
        raise NameLookupError(f"there is no initializer {identifier!r}; known ones: {', '.join(_BY_NAME)}")
    return _BY_NAME[identifier]()
