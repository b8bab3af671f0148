"""Random numbers drawn on the host: the generators behind shuffling, and the numbers that they give."""

import os
import threading
from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError, kind_of
from adjoint.ops.random import key_array
from adjoint.philox import philox_words, sorted_permutation, uniform_numbers
from adjoint.tensor.making import from_array
from adjoint.tensor.storage import storage_of

__all__ = [
    "Generator",
    "as_generator",
    "default_generator",
    "get_rng_state",
    "host_permutation",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
]

#: Seeds are words of 64 bits; negative ones count from the end, as in PyTorch.
_SEEDS = 2**64

#: The second word of the key, so that streams differ from those of ``numpy.random.Philox(key=seed)``: "adjoint".
_DOMAIN = 0x61646A6F696E74

#: Held while a draw is counted.
_lock = threading.Lock()


class Generator:
    """A source of random numbers with a state of its own, as ``torch.Generator``.

    Its state is a seed and two numbers of draws so far: on the host, and in recorded programs. What is drawn on the
    host are the numbers of Philox-4x64-10 (J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011)
    with the seed in the key and the draw in the counter. Programs draw from `adjoint.ops.random` (`recorded`). Both are
    the same on every machine.

    Parameters
    ----------
    device : object, default "cpu"
        Only the CPU.

    Examples
    --------
    >>> generator = Generator().manual_seed(3)
    """

    def __init__(self, device: object = "cpu") -> None:
        if str(device).partition(":")[0] != "cpu":
            raise InvalidValueError(f"Generator: the device must be 'cpu', got {device!r}; leave it out")
        self._seed = 0
        self._draws = 0
        self._recorded: tuple[Any, Any] | None = None

    def manual_seed(self, seed: int) -> "Generator":
        """Begin anew with this seed, and return the generator.

        Parameters
        ----------
        seed : int
            From ``-2**63`` to ``2**64 - 1``.

        Raises
        ------
        InvalidValueError
            If it is no such integer.
        """
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not -_SEEDS // 2 <= seed < _SEEDS:
            raise InvalidValueError(
                f"manual_seed: the seed must be an integer of 64 bits, got {seed!r}; pass one such as 0"
            )
        with _lock:
            self._seed, self._draws = int(seed) % _SEEDS, 0
            self._set_recorded(0)
        return self

    def recorded(self) -> tuple[Any, Any]:
        """What recorded programs draw from: the key, u32[2], and the number of draws so far, i64[].

        They are the same tensors as long as the generator exists, so that traced functions find them.
        """
        if self._recorded is None:
            self._recorded = from_array(key_array(self._seed)), from_array(np.array(0, np.int64))
        return self._recorded

    def _set_recorded(self, draws: int) -> None:
        if self._recorded is not None or draws:
            for tensor, array in zip(self.recorded(), (key_array(self._seed), np.array(draws, np.int64)), strict=True):
                tensor._storage = storage_of(array, copy=True)
                tensor._trace = None

    def seed(self) -> int:
        """Begin anew with a seed that the operating system draws, and return it."""
        return self.manual_seed(int.from_bytes(os.urandom(8), "little")).initial_seed()

    def initial_seed(self) -> int:
        """The seed of the last `manual_seed` or `seed`; 0 for a new generator."""
        return self._seed

    def get_state(self) -> Any:
        """The state, u8[24], for `set_state`."""
        recorded = self.recorded()[1].item()
        with _lock:
            words = np.array([self._seed, self._draws, recorded], "<u8")
        return from_array(words.view(np.uint8))

    def set_state(self, new_state: Any) -> None:
        """Continue from a state that `get_state` returned.

        Raises
        ------
        TypeRuleError
            If it is no such tensor.
        """
        array = np.asarray(new_state)
        if array.shape != (24,) or array.dtype != np.uint8:
            raise TypeRuleError(
                f"set_state: a state must be u8[24], got {array.dtype}{list(array.shape)}; pass what get_state() "
                "returned"
            )
        seed, draws, recorded = array.copy().view("<u8").tolist()
        with _lock:
            self._seed, self._draws = seed, draws
            self._set_recorded(recorded)

    @property
    def host_draws(self) -> int:
        """The number of draws on the host since it was seeded."""
        return self._draws

    def host_state(self) -> tuple[int, int]:
        """The seed, and the number of draws on the host since."""
        with _lock:
            return self._seed, self._draws

    def continue_at(self, seed: int, draws: int) -> "Generator":
        """Continue on the host from what `host_state` returned; with the same seed, programs draw as before."""
        if seed != self._seed:
            self.manual_seed(seed)
        with _lock:
            self._draws = draws
        return self

    def words(self, count: int) -> np.ndarray:
        """The next draw: random words, uint64 [count]."""
        with _lock:
            seed, draw = self._seed, self._draws
            self._draws += 1
        return philox_words((seed, _DOMAIN), (0, draw, 0), count)

    def uniforms(self, count: int) -> np.ndarray:
        """The next draw: numbers from [0, 1) with 53 bits, float64 [count]."""
        return uniform_numbers(self.words(count))


#: What is used where no generator is given. As in PyTorch, it begins with a seed drawn by the operating system.
default_generator = Generator()
default_generator.seed()


def manual_seed(seed: int) -> Generator:
    """Seed the default generator (`Generator.manual_seed`), and return it."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Seed the default generator from the operating system, and return the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> Any:
    """The state of the default generator, u8[24]."""
    return default_generator.get_state()


def set_rng_state(new_state: Any) -> None:
    """Continue the default generator from a state that `get_rng_state` returned."""
    default_generator.set_state(new_state)


def as_generator(generator: object, name: str) -> Generator:
    """The generator that was given, or the default one; `name` is the function, for the error."""
    if generator is None:
        return default_generator
    if not isinstance(generator, Generator):
        raise TypeRuleError(
            f"{name}: generator must be an adjoint.Generator, got {kind_of(generator)}; pass "
            "adjoint.Generator().manual_seed(seed)"
        )
    return generator


def host_permutation(n: int, generator: Generator) -> np.ndarray:
    """The next draw: the numbers below `n` in random order, int64."""
    return sorted_permutation(generator.words(n))
