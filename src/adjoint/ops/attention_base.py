"""What attention and its gradients have in common: shapes, weights, and the computation of their elements.

::

    scores[t, s]  = scale * sum over d of q[t, d] * k[s, d]        if causal, for s <= t only
    logsum[t]     = log(sum over s of exp(scores[t, s]))
    weights[t, s] = exp(scores[t, s] - logsum[t])

With a mask, a float one is added to the scores, and where a bool one is False the score is minus infinity; the weights
of a query that attends to no key are all 0.

With dropout, values are multiplied by ``weights * factors``, where a factor is 0 or ``1 / (1 - rate)``: a function of a
key and of the position of the weight (`adjoint.ops.attention_dropout`).

No operator stores an array of T times S elements: each recomputes the weights that it needs from queries, keys and
`logsum`, block by block (Dao et al., "FlashAttention", 2022). The gradients are operators with independent operands:
`logsum` may have any value.
"""

from collections.abc import Callable
from math import prod
from typing import Any, ClassVar

import numpy as np

from adjoint.errors import TypeRuleError
from adjoint.ir.types import DTYPES, TensorType
from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.arithmetic import add, multiply, subtract
from adjoint.ops.attention_dropout import check_positions
from adjoint.ops.base import Builder, Coordinate, Dot, Index, Operand, Operator, Sample, Scalar
from adjoint.ops.contract import matmul
from adjoint.ops.create import iota
from adjoint.ops.logic import equal, greater_equal, where
from adjoint.ops.rules import operands, refused, require
from adjoint.ops.sampling import spread
from adjoint.ops.shape import expand_dims
from adjoint.ops.threefry import require_key
from adjoint.ops.transcendental import exp
from adjoint.ops.vectorizing import all_mapped

__all__ = [
    "AttentionOperator",
    "causal_span",
    "causally_masked",
    "exponential",
    "masked",
    "masked_score",
    "product",
    "scores",
    "weights",
    "weights_of",
]


@dataclass(frozen=True, slots=True)
class AttentionOperator(Operator):
    """Base class of the attention operators.

    Operands have equal leading (batch) axes and the same float dtype. Letters denote their last axes: T queries, S keys
    and values, D elements per query or key, E elements per value. 16-bit floats are computed in f32 and rounded once.

    Parameters
    ----------
    scale : float
        Scale factor of the products of queries and keys.
    causal : bool, default False
        Query t attends to keys 0 to t only.
    masked : bool, default False
        Whether there is one more operand, ``mask[.., T, S]``: bool, True where a query attends to a key, or of the
        dtype of the others.
    dropout : float, default 0.0
        The probability that a weight is dropped. Unless it is 0, there is one more operand, the last one, the key of
        the random bits: ``u32[2]``, or with some of the leading batch axes, whose elements then have keys of their own.
    """

    scale: float
    causal: bool = False
    masked: bool = False
    dropout: float = 0.0

    #: Names of the operands with the letters of their last axes.
    takes: ClassVar[tuple[tuple[str, str], ...]]
    gives: ClassVar[str]
    #: Whether dropout concerns it.
    drops: ClassVar[bool] = True

    def infer(self, *inputs: TensorType) -> TensorType:
        """Check that each letter stands for one size of at least 1 and that batch axes are equal."""
        takes = self._takes()
        operands(self, inputs, len(takes) + bool(self.dropout))
        keys = inputs[-1] if self.dropout else None
        require(self, inputs[: len(self.takes)], "float", "cast to a float such as f32 first")
        sizes: dict[str, int] = {}
        batch = inputs[0].shape[: -len(self.takes[0][1])]
        for (name, letters), x in zip(takes, inputs, strict=False):
            cut = x.rank - len(letters)
            fits = cut >= 0 and x.shape[:cut] == batch
            fits = fits and (x.dtype == inputs[0].dtype or (name == "mask" and x.dtype == DTYPES["bool"]))
            last = x.shape[cut:] if fits else ()
            fits = fits and all(n and sizes.setdefault(c, n) == n for c, n in zip(letters, last, strict=True))
            if not fits:
                raise TypeRuleError(
                    f"{self.name}: operands must be {self._rule()} of the same dtype with equal batch axes and "
                    f"nonzero sizes, got {', '.join(map(str, inputs))}; reshape or cast some of them"
                )
        if keys is not None:
            self._require_keys(keys, (*batch, sizes["T"], sizes["S"]))
        return inputs[0].with_shape((*batch, *(sizes[letter] for letter in self.gives)))

    def _require_keys(self, keys: TensorType, shape: tuple[int, ...]) -> None:
        """Raise unless the last operand has keys for weights of a shape."""
        require_key(self.name, keys)
        lead = keys.rank - 1
        if lead > len(shape) - 2 or keys.shape[:lead] != shape[:lead]:
            raise TypeRuleError(
                f"{self.name}: the axes of the keys must be the first batch axes {list(shape[:-2])}, got {keys}; pass "
                "u32[2]"
            )
        check_positions(keys, shape)

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:
        """The mapped axis is another batch axis."""
        return apply(self, *all_mapped(mapped, inputs))

    def _takes(self) -> tuple[tuple[str, str], ...]:
        return (*self.takes, ("mask", "TS")) if self.masked else self.takes

    def _rule(self) -> str:
        return ", ".join(f"{name}[.., {', '.join(letters)}]" for name, letters in self._takes())

    def parts(self, inputs: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any, Any]:
        """The operands without the mask and the key, and these, or None."""
        own, keys = (inputs[:-1], inputs[-1]) if self.dropout else (inputs, None)
        return (own[:-1], own[-1], keys) if self.masked else (own, None, keys)

    def settings(self) -> tuple[float, bool, bool, float]:
        """The attributes, which are those of the operators of the gradient too."""
        return self.scale, self.causal, self.masked, self.dropout

    def without_dropout(self) -> tuple[float, bool, bool]:
        """The attributes of an operator of the scores alone."""
        return self.scale, self.causal, self.masked

    @classmethod
    def bad(cls) -> list[Sample]:
        """Samples that must be rejected: an integer, and a last operand of another dtype, batch or size."""
        sizes = {"T": 3, "S": 4, "D": 2, "E": 5}
        good = [((2, *(sizes[letter] for letter in letters)), "f32") for _, letters in cls.takes]
        shape = good[-1][0]
        error = "of the same dtype with equal batch axes and nonzero sizes, got"
        return [
            refused(cls(1.0), *good[:-1], (shape, "i32"), error="cast to a float such as f32 first"),
            refused(cls(1.0), *good[:-1], (shape, "f64"), error=error),
            refused(cls(1.0), *good[:-1], ((3, *shape[1:]), "f32"), error=error),
            refused(cls(1.0), *good[:-1], ((*shape[:-1], 7), "f32"), ((1, 1), "f32"), error="operands, got"),
            refused(cls(1.0), *good[:-1], ((*shape[:-1], 0), "f32"), error=error),
            refused(cls(1.0, dropout=0.1), *good, ((3, 2), "u32"), error="the first batch axes [2], got u32[3,2]"),
        ]

    @classmethod
    def arrays(
        cls,
        batch: tuple[int, ...],
        t: int,
        s: int,
        d: int,
        e: int,
        dtype: str = "f32",
        causal: bool = False,
        mask: np.ndarray | None = None,
    ) -> tuple[np.ndarray, ...]:
        """Test operands of these sizes; `logsum` is computed from the queries and keys with a scale of 0.5."""
        sizes = {"T": t, "S": s, "D": d, "E": e}
        made: dict[str, np.ndarray] = {}
        for number, (name, letters) in enumerate(cls.takes):
            shape = (*batch, *(sizes[letter] for letter in letters))
            made[name] = spread(*shape, dtype=dtype, low=-1.9 + 0.1 * number, high=1.7 + 0.2 * number)
        if "logsum" in made:
            wide = scores(made["q"].astype(np.float64), made["k"].astype(np.float64), 0.5, causal, mask)
            made["logsum"] = np.log(np.exp(wide).sum(-1)).astype(made["q"].dtype)
        return tuple(made.values()) if mask is None else (*made.values(), mask)

    @classmethod
    def cases(cls) -> list[Sample]:
        """Valid samples: one row, partly filled vectors, several batch axes, causal with fewer and with more keys."""

        def sample(
            batch: tuple[int, ...], *sizes: int, causal: bool = False, dtype: str = "f32", gradient: bool = False
        ) -> Sample:
            t, s, d, e = sizes
            arrays = cls.arrays(batch, t, s, d, e, dtype, causal)
            return Sample(cls(0.5, causal), arrays, gradient=gradient)

        def with_mask(batch: tuple[int, ...], *sizes: int, kind: str, dtype: str = "f32") -> Sample:
            t, s, d, e = sizes
            added = spread(*batch, t, s, dtype=dtype, low=-1.3, high=0.9)
            mask = added > -0.4
            mask[..., 0] = True  # every query attends to a key
            arrays = cls.arrays(batch, t, s, d, e, dtype, mask=added if kind == "float" else mask)
            return Sample(cls(0.5, masked=True), arrays, gradient=dtype == "f64")

        def dropped(batch: tuple[int, ...], keys: tuple[int, ...], *sizes: int, dtype: str = "f32") -> Sample:
            t, s, d, e = sizes
            arrays = cls.arrays(batch, t, s, d, e, dtype, mask=spread(*batch, t, s, dtype=dtype))
            words = np.arange(1, 1 + 2 * prod(keys), dtype=np.uint32).reshape(*keys, 2)
            return Sample(cls(0.5, False, True, 0.4), (*arrays, words), gradient=dtype == "f64")

        with_dropout = [
            dropped((2,), (), 3, 4, 2, 1, dtype="f64"),
            dropped((2, 3), (2,), 5, 37, 3, 9),
        ]
        return [
            *(with_dropout if cls.drops else []),
            sample((), 3, 4, 2, 3, dtype="f64", gradient=True),
            sample((2,), 3, 2, 2, 1, dtype="f64", gradient=True, causal=True),
            sample((1, 2), 2, 3, 1, 2, dtype="f64", gradient=True, causal=True),
            sample((), 1, 1, 1, 1),
            sample((2, 3), 5, 7, 3, 9),
            sample((2,), 37, 70, 19, 17),
            sample((2,), 37, 70, 19, 17, dtype="f64", causal=True),
            sample((2,), 70, 33, 16, 33, causal=True),
            sample((0,), 3, 4, 2, 3),
            sample((2,), 3, 5, 4, 2, dtype="bf16"),
            with_mask((2,), 2, 3, 2, 1, kind="float", dtype="f64"),
            with_mask((), 3, 4, 1, 2, kind="bool", dtype="f64"),
            with_mask((2,), 37, 70, 5, 17, kind="bool"),
            with_mask((), 35, 34, 3, 2, kind="float"),
        ]


def scores(q: np.ndarray, k: np.ndarray, scale: float, causal: bool, mask: np.ndarray | None = None) -> np.ndarray:
    """``q @ k.T * scale`` in NumPy, masked, with minus infinity where a query does not attend to a key."""
    made: np.ndarray = np.matmul(q, np.swapaxes(k, -1, -2)) * q.dtype.type(scale)
    if mask is not None:
        made = np.where(mask, made, q.dtype.type(-np.inf)) if mask.dtype == bool else made + mask
    if causal:
        made = np.where(np.tril(np.ones(made.shape[-2:])) > 0, made, q.dtype.type(-np.inf))
    return made


def weights(scored: np.ndarray, logsum: np.ndarray) -> np.ndarray:
    """``exp(scored - logsum)`` in NumPy; 0 where a query attends to no key."""
    some: np.ndarray = np.where(np.isneginf(logsum), np.zeros((), logsum.dtype), logsum)
    made: np.ndarray = np.exp(scored - some[..., None])
    return made


def causally_masked(scored: Value) -> Value:
    """Causally masked scores: minus infinity where a query does not attend to a key."""
    square = scored.shape[-2:]
    # Rows are queries. Each attends at least to its own key, so no row is completely masked.
    seen = greater_equal(iota(square, 0, "i32"), iota(square, 1, "i32"))
    return where(seen, scored, float("-inf"))


def masked(scored: Value, mask: Value | None, causal: bool) -> Value:
    """Masked scores as a value: minus infinity where a query does not attend to a key."""
    if mask is not None and mask.dtype == DTYPES["bool"]:
        scored = where(mask, scored, float("-inf"))
    elif mask is not None:
        # The first choice is what the sum is too, unless infinities cancel each other.
        scored = where(equal(mask, float("-inf")), float("-inf"), add(scored, mask))
    return causally_masked(scored) if causal else scored


def weights_of(op: AttentionOperator, q: Value, k: Value, logsum: Value, mask: Value | None) -> Value:
    """The weights as a value of T times S elements, for higher-order derivatives."""
    lowered = subtract(multiply(matmul(q, k, transpose_b=True), op.scale), expand_dims(logsum, -1))
    return exp(masked(lowered, mask, op.causal))


def masked_score(k: Builder, op: AttentionOperator, dot: Scalar, mask: Callable[[], Scalar]) -> Scalar:
    """The score, given the dot product of query and key, and the element of the mask if there is one."""
    dtype = k.dtype(dot)
    score = k.call("mul", dot, k.const(op.scale, dtype))
    if not op.masked:
        return score
    element = mask()
    if k.dtype(element) == DTYPES["bool"]:
        return k.select(element, score, k.const(float("-inf"), dtype))
    return k.call("add", score, element)


def causal_span(op: AttentionOperator, row: Coordinate, count: int, rows: str) -> tuple[Coordinate, Coordinate] | None:
    """The range of steps of a row: keys up to the query if rows are queries, otherwise queries from the key on."""
    if not op.causal:
        return None
    return (0, row + 1) if rows == "T" else (row, count)


def product(index: Index, a: Operand, b: Operand) -> Dot:
    """The dot products of row `index` of `a` with rows of `b`."""
    *batch, row = index
    return Dot(a.type.shape[-1], lambda d: a((*batch, row, d)), lambda n, d: b((*batch, n, d)))


def exponential(k: Builder, op: AttentionOperator, dot: Scalar, logsum: Scalar, mask: Callable[[], Scalar]) -> Scalar:
    """The weight, given the dot product of query and key."""
    dtype = k.dtype(dot)
    score = k.call("mul", dot, k.const(op.scale, dtype))
    if not op.masked:
        return k.call("exp", k.call("sub", score, logsum))
    element = mask()
    if k.dtype(element) == DTYPES["bool"]:
        return k.select(element, k.call("exp", k.call("sub", score, logsum)), k.const(0.0, dtype))
    weight = k.call("exp", k.call("sub", k.call("add", score, element), logsum))
    return k.select(k.call("eq", element, k.const(float("-inf"), dtype)), k.const(0.0, dtype), weight)
