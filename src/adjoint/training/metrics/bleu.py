"""How many n-grams of translations are in reference translations."""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import ClassVar

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.tensor.assign import assign
from adjoint.tensor.tensor import Tensor
from adjoint.training.metrics.base import Metric

__all__ = ["BLEU"]


class BLEU(Metric):
    """BLEU of a corpus (Papineni et al., 2002).

    The geometric mean of the precisions of n-grams of 1 to `n_gram` tokens, times ``exp(1 - r/c)`` if the length c of
    the candidates is less than that of the references of the nearest lengths, r.

    Parameters
    ----------
    n_gram : int, default 4
        The longest n-grams.
    smooth : bool, default False
        Whether 1 is added to the counts of n-grams of 2 and more tokens (Lin and Och, 2004).
    name : str, default "bleu"
        The key in results.
    """

    name = "bleu"
    compiled: ClassVar[bool] = False
    higher_is_better = True
    matches: Tensor
    candidates: Tensor
    lengths: Tensor

    def __init__(self, n_gram: int = 4, smooth: bool = False, *, name: str | None = None) -> None:
        super().__init__(name)
        if isinstance(n_gram, bool) or not isinstance(n_gram, int) or n_gram < 1:
            raise InvalidValueError(f"BLEU: n_gram must be an int of at least 1, got {n_gram!r}; pass 4")
        self.n_gram, self.smooth = n_gram, smooth
        self.add_count("matches", (n_gram,))
        self.add_count("candidates", (n_gram,))
        self.add_count("lengths", (2,))

    def update(
        self,
        candidates: Sequence[Sequence[Hashable]],
        references: Sequence[Sequence[Sequence[Hashable]]],
    ) -> None:
        """Count the n-grams of translations.

        Parameters
        ----------
        candidates : sequence
            Translations, each a sequence of tokens.
        references : sequence
            For each of them, one or more reference translations.

        Raises
        ------
        TypeRuleError
            If there are not as many references as candidates, or tokens are not in sequences.
        """
        if len(candidates) != len(references) or not all(references):
            raise TypeRuleError(
                f"BLEU: each candidate needs a list of references, got {len(candidates)} candidates and "
                f"{len(references)} lists; pass [[reference, ...], ...]"
            )
        if any(isinstance(words, str) for words in (*candidates, *(one for several in references for one in several))):
            raise TypeRuleError("BLEU: texts must be sequences of tokens, got a string; split it, as in text.split()")
        found = [np.zeros(self.n_gram, np.int64), np.zeros(self.n_gram, np.int64), np.zeros(2, np.int64)]
        matches, counts, lengths = found
        for candidate, several in zip(candidates, references, strict=True):
            nearest = min((abs(len(one) - len(candidate)), len(one)) for one in several)[1]
            lengths += (len(candidate), nearest)
            for n in range(1, self.n_gram + 1):
                grams = _n_grams(candidate, n)
                most: Counter[tuple[Hashable, ...]] = Counter()
                for one in several:
                    most |= _n_grams(one, n)
                matches[n - 1] += (grams & most).total()
                counts[n - 1] += grams.total()
        for name, amount in zip(("matches", "candidates", "lengths"), found, strict=True):
            assign(getattr(self, name), self.total(name) + amount)

    def result(self) -> float:
        """The score, between 0 and 1."""
        matches, counts = self.total("matches").astype(np.float64), self.total("candidates").astype(np.float64)
        if self.smooth:
            matches, counts = matches + _smoothing(self.n_gram), counts + _smoothing(self.n_gram)
        if not matches.all():
            return 0.0
        candidate, reference = self.total("lengths")
        brevity = min(0.0, 1 - reference / candidate)
        return float(np.exp(np.log(matches / counts).mean() + brevity))


def _smoothing(n_gram: int) -> np.ndarray:
    return np.append(0.0, np.ones(n_gram - 1))


def _n_grams(tokens: Sequence[Hashable], n: int) -> "Counter[tuple[Hashable, ...]]":
    return Counter(tuple(tokens[start : start + n]) for start in range(len(tokens) - n + 1))
