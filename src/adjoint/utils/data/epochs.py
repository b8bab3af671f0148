"""The epochs of a data loader: their orders, and the position in the one that is in progress."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError
from adjoint.lazy_dataclass import dataclass
from adjoint.tensor.generator import Generator, as_generator
from adjoint.utils.data.samplers import OrderedSampler

__all__ = ["Epoch", "Epochs"]


@dataclass
class Epoch:
    """An epoch that has begun.

    Attributes
    ----------
    number : int
        How many began before.
    key : tuple of int
        The state of the generator at the beginning: its seed, and the number of draws.
    order : numpy.ndarray or None
        The indices of all items, int64; None if they are known one by one only.
    batches : int
        How many batches have been yielded, or were left out at the beginning.
    """

    number: int
    key: tuple[int, int]
    order: np.ndarray | None
    batches: int = 0


class Epochs:
    """Where a loader is, and what makes its next epochs the same after a restart.

    Parameters
    ----------
    sampler : OrderedSampler or None
        What decides the order; None if that is not known at the beginning of an epoch.
    generator : Generator or None
        Of the loader; None for the default one.
    """

    def __init__(self, sampler: OrderedSampler | None, generator: Generator | None) -> None:
        self._sampler, self._generator = sampler, generator
        self._begun = 0
        self._current: Epoch | None = None
        self._loaded: dict[str, Any] | None = None
        #: The state of the generator from which `order` counts epochs, and the number of draws of an epoch.
        self._first: tuple[int, int] | None = None
        self._draws: int | None = None

    @property
    def known(self) -> bool:
        """Whether the order of an epoch is known at its beginning."""
        return self._sampler is not None

    def _is_random(self) -> bool:
        return hasattr(self._sampler, "generator")

    def _source(self) -> Generator:
        return as_generator(getattr(self._sampler, "generator", self._generator), "DataLoader")

    def begin(self) -> Epoch:
        """The next epoch, whose order is drawn from the generator; or the one that was loaded."""
        start = 0
        if self._loaded is not None:
            state, self._loaded = self._loaded, None
            self._begun, start = state["epoch"], state["batches"]
            if state["generator"] is not None and self._is_random():
                self._source().continue_at(*state["generator"])
        key = self._source().host_state()
        order = None if self._sampler is None else self._sampler.order()
        self._current = Epoch(self._begun, key, order, start)
        self._begun += 1
        return self._current

    def counted(self, epoch: Epoch, batches: Iterator[Any]) -> Iterator[Any]:
        """The batches of an epoch; it knows how many have been yielded."""
        for batch in batches:
            epoch.batches += 1
            yield batch
        if self._current is epoch:
            self._current = None

    def numbered(self, number: int, start: int) -> Epoch:
        """The epoch that would come after `number` others, without drawing from the generator.

        Epochs are counted from the state of the generator at the first call.
        """
        if self._first is None:
            self._first = self._source().host_state()
        seed, draws = self._first
        if self._sampler is None or not self._is_random():
            order = None if self._sampler is None else self._sampler.order()
            return Epoch(number, self._first, order, start)
        if self._draws is None:
            once = Generator().continue_at(seed, draws)
            self._sampler.drawn(once)
            self._draws = once.host_draws - draws
        key = seed, draws + number * self._draws
        return Epoch(number, key, self._sampler.drawn(Generator().continue_at(*key)), start)

    def state(self) -> dict[str, Any]:
        """The position, for `load`."""
        if self._loaded is not None:
            return dict(self._loaded)
        first = None if self._first is None else list(self._first)
        current = self._current or Epoch(self._begun, self._source().host_state(), None)
        generator = list(current.key) if self._is_random() else None
        return {"epoch": current.number, "batches": current.batches, "generator": generator, "first": first}

    def load(self, state: object) -> None:
        """Begin the next epoch at a position that `state` returned."""
        if not isinstance(state, Mapping) or not _is_state(state):
            raise InvalidValueError(
                f"DataLoader: a state must be what state_dict() returned, got {state!r}; pass that of a loader"
            )
        self._loaded = dict(state)
        self._first = None if state["first"] is None else (state["first"][0], state["first"][1])
        self._draws = None


def _is_state(given: Mapping[str, Any]) -> bool:
    counts = (given.get("epoch"), given.get("batches"))
    keys = (given.get("generator", ()), given.get("first", ()))
    return all(map(_is_count, counts)) and all(map(_is_key, keys))


def _is_count(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and given >= 0


def _is_key(given: object) -> bool:
    """Whether it is the state of a generator, or None."""
    return given is None or (isinstance(given, list | tuple) and len(given) == 2 and all(map(_is_count, given)))
