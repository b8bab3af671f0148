"""Fused linear cross-entropy: softmaxes over the columns of products, computed in blocks of columns.

A language model ends in a product of tokens and a vocabulary, and a cross-entropy of its rows. The logits are larger
than anything else in the step, and so is their gradient. Two loops over blocks of columns take their place: the first
computes the maximum of each row and the sum of the exponentials relative to it (Milakov and Gimelshein, "Online
normalizer calculation for softmax", 2018), and the target's logit; the second the gradient of a block of logits, while
it is in the cache, and what follows from it: a part of the gradient of the tokens, and the gradient of the block's
weights (Hsu et al., "Liger Kernel", 2024; Wijmans et al., "Cut Your Losses in Large-Vocabulary Language Models", 2024).
The second loop reads the product again if it is small enough to be kept, and computes it again otherwise.

Before::

PICTURE

Legal if nothing needs the product as a whole (`adjoint.transforms.softmax_of_product`). Sums over columns are added
block by block, so results differ in their last bits from those without this pass; blocks follow from shapes alone. It
pays off where the product does not fit the caches (`costs.column_block`). docs/design/cross-entropy.md has
measurements.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from adjoint import costs
from adjoint.errors import located
from adjoint.ir import Function, Value, apply, is_float, rebuild
from adjoint.ops.contract import MatMul
from adjoint.ops.control_flow import scan
from adjoint.ops.convert import cast
from adjoint.ops.create import full, iota
from adjoint.ops.index import take_along_last
from adjoint.ops.logic import where
from adjoint.ops.piecewise import maximum, minimum
from adjoint.ops.reduce import max, widened
from adjoint.ops.shape import BroadcastTo, ReduceSum, expand_dims, reshape, sum
from adjoint.ops.transcendental import exp
from adjoint.transforms.column_blocks import Block, Picked, evaluated, joined, stacked
from adjoint.transforms.softmax_of_product import SoftmaxOfProduct, matches, repeats_columns

__all__ = ["fuse_cross_entropy"]


def fuse_cross_entropy(function: Function) -> Function:
    """Compute softmaxes over the columns of large products, and what follows from them, in blocks of columns.

    Parameters
    ----------
    function : Function
        A graph without calls, after `simplify` and `cse`.

    Returns
    -------
    Function
        Same name, parameters, attributes and meaning.
    """
    while True:
        found = next((made for match in matches(function) if (made := _fused(function, match)) is not None), None)
        if found is None:
            return function
        function = found


def _fused(function: Function, match: SoftmaxOfProduct) -> Function | None:
    """The function with the loops in place of a softmax; None where they do not pay off."""
    rows, columns = match.product.shape
    width = costs.column_block(rows, columns, match.product.dtype.itemsize)
    if not width or not is_float(match.product.dtype):
        return None
    with located(match.total.line):
        known = _Loops(match, width).known()
    return Function(function.name, function.params, rebuild(function.results, _same, known), function.attrs)


def _same(_value: Value, _inputs: tuple[Value, ...]) -> None:
    """Keep the operator."""


@dataclass(frozen=True, slots=True, eq=False)
class _Loops:
    """The loops for a softmax, over blocks of so many columns."""

    match: SoftmaxOfProduct
    width: int

    def known(self) -> dict[Value, Value]:
        """What takes the place of the values that the rest of the graph reads."""
        match, walked = self.match, self._walked()
        keeps = bool(match.sums) and costs.keeps_product(match.product.type.nbytes)
        known, product = self._first(walked, keeps)
        return known | self._second(walked, known, product) if match.sums else known

    def _vectors(self) -> tuple[Value, ...]:
        """Values with one element for each column."""
        sources = (v.inputs[0] for v in self.match.columns if isinstance(v.op, BroadcastTo))
        columns = self.match.product.shape[1]
        return tuple(dict.fromkeys(x for x in sources if repeats_columns(x, columns)))

    def _walked(self) -> tuple[Value, ...]:
        """What both loops walk over: the weights and the first columns of blocks, then the vectors of columns."""
        product = self.match.product
        columns = product.shape[1]
        assert isinstance(product.op, MatMul)
        weights = stacked(product.inputs[1], 0 if product.op.transpose_b else 1, self.width)
        starts = iota((columns // self.width,), 0, "i64") * self.width
        return weights, starts, *(stacked(reshape(x, (columns,)), 0, self.width) for x in self._vectors())

    def _block(self, start: Value, parts: Sequence[Value]) -> Block:
        vectors = dict(zip(self._vectors(), parts, strict=True))
        return Block(self.match.product.shape[0], self.width, start, vectors)

    def _first(self, walked: tuple[Value, ...], keeps: bool) -> tuple[dict[Value, Value], Value | None]:
        """The loop over sums of exponentials and picks: what takes their place, and the product in blocks, if kept."""
        match = self.match
        rows, columns = match.product.shape
        wide = widened(match.logits).dtype
        places = {pick: _within(pick.inputs[1], rows, columns) for pick in match.picks}
        lowest = float(np.finfo(wide).min)

        def body(carry: tuple[Value, ...], row: tuple[Value, ...]) -> tuple[tuple[Value, ...], Value | None]:
            (top, total, *taken), (weights, start, *parts) = carry, row
            block = self._block(start, parts)
            product = apply(match.product.op, match.product.inputs[0], weights)
            logits = widened(evaluated([match.logits], match.columns, {match.product: product}, _itself, block)[0])
            now = maximum(top, max(logits, -1))
            # Not minus infinity: minus infinity less itself is NaN.
            before, after = maximum(top, lowest), maximum(now, lowest)
            total = total * exp(before - after) + sum(exp(logits - expand_dims(after, -1)), -1)
            picked = []
            for ids, old in zip(places.values(), taken, strict=True):
                position = block.position(ids)
                inside = block.holds(position)
                picked.append(where(inside, take_along_last(product, where(inside, position, 0)), old))
            return (now, total, *picked), product if keeps else None

        nothing = (full(0.0, (rows,), match.product.dtype) for _ in places)
        init = (full(float("-inf"), (rows,), wide), full(0.0, (rows,), wide), *nothing)
        (top, total, *taken), product = scan(body, init, walked)
        known = {
            old: cast(reshape(new, old.shape), old.dtype) for old, new in ((match.top, top), (match.total, total))
        }
        for (pick, ids), made in zip(places.items(), taken, strict=True):
            outside = _rebuilt(known)
            [found] = evaluated([pick.inputs[0]], match.columns, {match.product: made}, outside, Picked(ids))
            known[pick] = reshape(found, pick.shape)
        return known, product

    def _second(self, walked: tuple[Value, ...], known: dict[Value, Value], product: Value | None) -> dict[Value, Value]:
        """The loop over the sums of column values that depend on the softmax: what takes their place."""
        match = self.match
        sums = [_Sum.of(value, match.columns) for value in match.sums]
        adding, joining = [s for s in sums if s.adds], [s for s in sums if not s.adds]
        others = [stacked(s.other, s.axis, self.width) for s in adding if s.other is not None]
        outside = _rebuilt(known)

        def body(carry: tuple[Value, ...], row: tuple[tuple[Value, ...], ...]) -> tuple[tuple[Value, ...], ...]:
            (weights, start, *parts), blocks, kept = row
            block = self._block(start, parts)
            logits = kept[0] if kept else apply(match.product.op, match.product.inputs[0], weights)
            wanted = [s.operand for s in (*adding, *joining)]
            found = evaluated(wanted, match.columns, {match.product: logits}, outside, block)
            left = iter(blocks)
            added = tuple(
                old + s.part(x, None if s.other is None else next(left))
                for s, x, old in zip(adding, found, carry, strict=False)
            )
            return added, tuple(
                s.part(x, None if s.other is None else outside(s.other))
                for s, x in zip(joining, found[len(adding) :], strict=True)
            )

        init = tuple(full(0.0, s.shape, s.dtype) for s in adding)
        added, blocks = scan(body, init, (walked, tuple(others), () if product is None else (product,)))
        made = dict(zip([*adding, *joining], [*added, *(blocks or ())], strict=True))
        return {s.value: s.finished(x) for s, x in made.items()}


def _itself(value: Value) -> Value:
    """A value that does not depend on the product."""
    return value


def _rebuilt(known: Mapping[Value, Value]) -> "_Rebuilt":
    return _Rebuilt(dict(known))


@dataclass(frozen=True, slots=True)
class _Rebuilt:
    """What takes the place of values that depend on the results of the first loop."""

    known: dict[Value, Value]

    def __call__(self, value: Value) -> Value:
        if value not in self.known:
            self.known[value] = rebuild((value,), _same, self.known)[0]
        return self.known[value]


def _within(ids: Value, rows: int, columns: int) -> Value:
    """The ids of a pick as i64, where they are outside the columns the nearest ones."""
    return maximum(minimum(cast(reshape(ids, (rows,)), "i64"), columns - 1), 0)


@dataclass(frozen=True, slots=True, eq=False)
class _Sum:
    """A sum over rows or columns of a column value, or a product of it with a matrix.

    Parameters
    ----------
    value, operand : Value
        The sum, and the column value.
    other : Value or None
        The matrix.
    adds : bool
        Whether the parts of blocks are added; otherwise they are stacked.
    axis : int
        The axis of `other`, or else of the result, that the columns are.
    """

    value: Value
    operand: Value
    other: Value | None
    adds: bool
    axis: int

    @classmethod
    def of(cls, value: Value, columns: Sequence[Value]) -> "_Sum":
        """What a sum is."""
        op = value.op
        if isinstance(op, ReduceSum):
            operand = value.inputs[0]
            return cls(value, operand, None, op.axes == (len(operand.shape) - 1,), 0)
        assert isinstance(op, MatMul)
        place = 0 if value.inputs[0] in columns else 1
        flags = (op.transpose_a, op.transpose_b)
        # The columns are the inner axis of a first operand as it is, and of a second one that is transposed.
        adds = flags[place] == bool(place)
        axis = int(flags[1]) if place == 0 else int(not flags[0])
        return cls(value, value.inputs[place], value.inputs[1 - place], adds, axis if adds else place)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a sum of parts."""
        return self.value.shape if self.other is not None else (self.value.type.size,)

    @property
    def dtype(self) -> np.dtype:
        """The dtype in which parts are added."""
        return widened(self.value).dtype if self.adds else self.value.dtype

    def part(self, block: Value, other: Value | None) -> Value:
        """The part of a block of the column value, given the matrix or its block."""
        if other is None:
            return sum(cast(block, self.dtype), -1 if self.adds else 0)
        pair = (block, other) if self.value.inputs[0] is self.operand else (other, block)
        return apply(self.value.op, *(cast(x, self.dtype) for x in pair))

    def finished(self, made: Value) -> Value:
        """The sum, given that of the parts or the stack of them."""
        whole = made if self.adds else joined(made, self.axis)
        return cast(reshape(whole, self.value.shape), self.value.dtype).in_place_of(self.value)
