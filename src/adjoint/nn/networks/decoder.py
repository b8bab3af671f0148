"""`Decoder`: networks that say which token follows, and what they write."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError
from adjoint.func.jit import jit
from adjoint.modules import Module
from adjoint.nn.networks.checking import require_sizes
from adjoint.tensor.autograd import no_grad
from adjoint.tensor.making import from_array

__all__ = ["Decoder"]


class Decoder(Module):
    """The base class of networks that write. A subclass sets `most_tokens`, and defines `next_logits`.

    Attributes
    ----------
    most_tokens : int
        Most tokens of a sequence.
    fewest_tokens : int, default 16
        Fewest tokens that logits are computed of: sequences are padded to this number, to twice as many, and so on, so
        that few lengths are compiled.
    """

    most_tokens: int
    fewest_tokens: int = 16

    def next_logits(self, ids: Any) -> Any:
        """Logits ``[N, T, vocabulary]`` of the tokens that follow each token; a subclass defines it."""
        raise NotImplementedError

    def generate(
        self, prompt: Sequence[int], count: int, *, temperature: float = 1.0, top_k: int | None = None, seed: int = 0
    ) -> Iterator[int]:
        """Draw the tokens that follow, one by one.

        Parameters
        ----------
        prompt : sequence of int
            The tokens before, at least one.
        count : int
            How many to draw.
        temperature : float, default 1.0
            Divides the logits; 0 takes the most probable token each time.
        top_k : int, optional
            Draws among so many most probable tokens.
        seed : int, default 0
            Seed of the draws.

        Yields
        ------
        int
            A token.

        Raises
        ------
        InvalidValueError
            If the prompt is empty, a number is out of range, or the network has another head.
        """
        name = type(self).__name__
        if not len(prompt):
            raise InvalidValueError(f"{name}.generate: the prompt must have at least one token, got none")
        if temperature < 0:
            raise InvalidValueError(f"{name}.generate: temperature must be at least 0, got {temperature}")
        if top_k is not None:
            require_sizes(f"{name}.generate", top_k=top_k)
        head = getattr(self, "head", "lm")
        if head != "lm":
            raise InvalidValueError(f"{name}.generate: the head must be 'lm', got {head!r}; make the network with it")
        return self._drawn(list(prompt), count, temperature, top_k, np.random.Generator(np.random.Philox(seed)))

    def _drawn(
        self, ids: list[int], count: int, temperature: float, top_k: int | None, rng: np.random.Generator
    ) -> Iterator[int]:
        was_training = self.training
        self.eval()
        following = jit(self.next_logits)
        try:
            for _ in range(count):
                known = ids[-self.most_tokens :]
                length = self.fewest_tokens
                while length < len(known):
                    length *= 2
                # What comes after the last known token does not change its logits.
                window = np.zeros((1, min(length, self.most_tokens)), np.int64)
                window[0, : len(known)] = known
                with no_grad():
                    logits = following(from_array(window)).numpy()[0, len(known) - 1]
                ids.append(_draw(logits.astype(np.float64), temperature, top_k, rng))
                yield ids[-1]
        finally:
            self.train(was_training)


def _draw(logits: np.ndarray, temperature: float, top_k: int | None, rng: np.random.Generator) -> int:
    if temperature == 0:
        return int(logits.argmax())
    logits = (logits - logits.max()) / temperature
    if top_k is not None and top_k < len(logits):
        logits[logits < np.partition(logits, -top_k)[-top_k]] = -np.inf
    sums = np.cumsum(np.exp(logits))
    return int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))
