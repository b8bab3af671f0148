"""Fused linear cross-entropy: softmaxes over the columns of products, computed in blocks of columns.

A language model ends in a product of tokens and a vocabulary, and a cross-entropy of its rows. The logits are larger
than anything else in the step, and so is their gradient. Two loops over blocks of columns take their place: the first
computes the maximum of each row and the sum of the exponentials relative to it (Milakov and Gimelshein, "Online
normalizer calculation for softmax", 2018), and the target's logit; the second the gradient of a block of logits, while
it is in the cache, and what follows from it: a part of the gradient of the tokens, and the gradient of the block's
weights (Hsu et al., "Liger Kernel", 2024; Wijmans et al., "Cut Your Losses in Large-Vocabulary Language Models", 2024).
The second loop reads the product again if it is small enough to be kept, and computes it again otherwise.

Before::

    func @main(%x: f32[1024,4], %w: f32[2048,4]) -> f32[1024] {
      %0: f32[1024,2048] = matmul(%x, %w) {transpose_a = False, transpose_b = True}
      %1: f32[1024,1] = max(%0) {axes = (1,), keepdims = True}
      %2: f32[1024,2048] = broadcast_to(%1) {shape = (1024, 2048)}
      %3: f32[1024,2048] = subtract(%0, %2)
      %4: f32[1024,2048] = exp(%3)
      %5: f32[1024] = sum(%4) {axes = (1,), keepdims = False}
      return %5
    }

After::

    func @body_at_962cf134(%const0: f32[1024,4], %carry0: f32[1024], %carry1: f32[1024], %x0: f32[256,4], %x1: i64[]) -> (f32[1024], f32[1024]) {
      %0: f32[1024,256] = matmul(%const0, %x0) {transpose_a = False, transpose_b = True}
      %1: f32[1024] = max(%0) {axes = (1,), keepdims = False}
      %2: f32[1024] = maximum(%carry0, %1)
      %3: f32[1024] = full() {value = -3.4028234663852886e+38, shape = (1024,), dtype = f32}
      %4: f32[1024] = maximum(%carry0, %3)
      %5: f32[1024] = full() {value = -3.4028234663852886e+38, shape = (1024,), dtype = f32}
      %6: f32[1024] = maximum(%2, %5)
      %7: f32[1024] = subtract(%4, %6)
      %8: f32[1024] = exp(%7)
      %9: f32[1024] = multiply(%carry1, %8)
      %10: f32[1024,1] = reshape(%6) {shape = (1024, 1)}
      %11: f32[1024,256] = broadcast_to(%10) {shape = (1024, 256)}
      %12: f32[1024,256] = subtract(%0, %11)
      %13: f32[1024,256] = exp(%12)
      %14: f32[1024] = sum(%13) {axes = (1,), keepdims = False}
      %15: f32[1024] = add(%9, %14)
      return %2, %15
    }

    func @main(%x: f32[1024,4], %w: f32[2048,4]) -> f32[1024] {
      %0: f32[1024] = full() {value = -inf, shape = (1024,), dtype = f32}
      %1: f32[1024] = full() {value = 0.0, shape = (1024,), dtype = f32}
      %2: f32[8,256,4] = reshape(%w) {shape = (8, 256, 4)}
      %3: i64[2048] = iota() {shape = (2048,), axis = 0, dtype = i64}
      %4: i64[8,256] = reshape(%3) {shape = (8, 256)}
      %5: i64[8,1] = slice(%4) {start = (0, 0), stop = (8, 1), step = (1, 1)}
      %6: i64[8] = reshape(%5) {shape = (8,)}
      %7: (f32[1024], f32[1024]) = scan(%x, %0, %1, %2, %6) {body = @body_at_962cf134, length = 8, consts = 1, carries = 2, reverse = False}
      %8: f32[1024] = tuple_get(%7) {index = 1}
      return %8
    }

Legal if nothing needs the product as a whole (`adjoint.transforms.softmax_of_product`). Sums over columns are added
block by block, so results differ in their last bits from those without this pass; blocks follow from shapes alone. It
pays off where the product does not fit the caches (`costs.column_block`). docs/design/cross-entropy.md has
measurements.
"""  # noqa: E501 - a line of graph text

from collections.abc import Callable, Sequence

import numpy as np

from adjoint import costs
from adjoint.errors import located
from adjoint.ir import Function, Value, apply, is_float, rebuild
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.arithmetic import add
from adjoint.ops.contract import MatMul
from adjoint.ops.convert import cast
from adjoint.ops.create import full, iota
from adjoint.ops.index import take_along_last
from adjoint.ops.logic import where
from adjoint.ops.piecewise import maximum, minimum
from adjoint.ops.reduce import max, widened
from adjoint.ops.shape import ReduceSum, expand_dims, reshape, sum
from adjoint.ops.transcendental import exp
from adjoint.transforms.column_blocks import Block, Picked, Split, Values, evaluated, joined, loop, split, vectors_of
from adjoint.transforms.softmax_of_product import SoftmaxOfProduct, matches

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
    depth = match.product.inputs[0].type.size // rows
    width = costs.column_block(rows, columns, depth, match.product.dtype.itemsize)
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
        match = self.match
        keeps = bool(match.sums) and costs.keeps_product(match.product.type.nbytes)
        known, product = self._first(keeps)
        return known | self._second(known, product) if match.sums else known

    def _first(self, keeps: bool) -> tuple[dict[Value, Value], tuple[Split, ...]]:
        """The loop over sums of exponentials and picks: what takes their place, and the product in blocks, if kept."""
        match = self.match
        rows, columns = match.product.shape
        wide = widened(match.logits).dtype
        places = {pick: _within(pick.inputs[1], rows, columns) for pick in match.picks}
        vectors = vectors_of([match.logits], match.columns)

        def body(carry: Values, weights: Value, start: Value, *parts: Value) -> tuple[Values, Values]:
            top, total, *taken = carry
            product = apply(match.product.op, match.product.inputs[0], weights)
            block = Block(product, start, dict(zip(vectors, parts, strict=True)))
            logits = widened(evaluated([match.logits], match.columns, {match.product: product}, _itself, block)[0])
            picked = [_picked(product, block, ids, old) for ids, old in zip(places.values(), taken, strict=True)]
            return (*_added_up(top, total, logits), *picked), ((product,) if keeps else ())

        nothing = (full(0.0, (rows,), match.product.dtype) for _ in places)
        init = (full(float("-inf"), (rows,), wide), full(0.0, (rows,), wide), *nothing)
        (top, total, *taken), kept = loop(body, init, self._walked(vectors, _itself))
        known = {old: cast(reshape(new, old.shape), old.dtype) for old, new in ((match.top, top), (match.total, total))}
        outside = _Rebuilt(known)
        for (pick, ids), made in zip(places.items(), taken, strict=True):
            [found] = evaluated([pick.inputs[0]], match.columns, {match.product: made}, outside, Picked(ids))
            known[pick] = reshape(found, pick.shape)
        return known, kept

    def _second(self, known: dict[Value, Value], kept: tuple[Split, ...]) -> dict[Value, Value]:
        """The loop over the sums of column values that depend on the softmax: what takes their place."""
        match, outside = self.match, _Rebuilt(known)
        sums = sorted((_Sum.of(value, match.columns) for value in match.sums), key=lambda s: not s.adds)
        adding = [s for s in sums if s.adds]
        wanted = [s.operand for s in sums]
        vectors = vectors_of(wanted, match.columns)
        others = [split(outside(s.other), s.axis, self.width) for s in adding if s.other is not None]

        def body(carry: Values, weights: Value, start: Value, *parts: Value) -> tuple[Values, Values]:
            left = iter(parts)
            product = next(left) if kept else apply(match.product.op, match.product.inputs[0], weights)
            block = Block(product, start, {x: next(left) for x in vectors})
            found = evaluated(wanted, match.columns, {match.product: product}, outside, block)
            made = []
            for one, value in zip(sums, found, strict=True):
                matrix = None if one.other is None else next(left) if one.adds else outside(one.other)
                made.append(one.part(value, matrix))
            return tuple(map(add, carry, made[: len(adding)])), tuple(made[len(adding) :])

        init = tuple(full(0.0, s.shape, s.dtype) for s in adding)
        weights, starts, *whole = self._walked(vectors, outside)
        added, blocks = loop(body, init, (weights, starts, *kept, *whole, *others))
        joining = (joined(x, s.axis) for s, x in zip(sums[len(adding) :], blocks, strict=True))
        return {s.value: s.finished(x) for s, x in zip(sums, (*added, *joining), strict=True)}

    def _walked(self, vectors: Sequence[Value], outside: Callable[[Value], Value]) -> tuple[Split, ...]:
        """What a loop walks over: the weights and the first columns of blocks, and vectors with an element for each."""
        product, width = self.match.product, self.width
        columns = product.shape[1]
        assert isinstance(product.op, MatMul)
        weights = split(product.inputs[1], 0 if product.op.transpose_b else 1, width)
        starts = split(iota((columns,), 0, "i64"), 0, width).first()
        return weights, starts, *(split(reshape(outside(x), (columns,)), 0, width) for x in vectors)


def _added_up(top: Value, total: Value, logits: Value) -> tuple[Value, Value]:
    """The maximum of each row and the sum of the exponentials relative to it, with more columns."""
    now = maximum(top, max(logits, -1))
    # Not minus infinity: minus infinity less itself is NaN.
    lowest = float(np.finfo(logits.dtype).min)
    before, after = maximum(top, lowest), maximum(now, lowest)
    return now, total * exp(before - after) + sum(exp(logits - expand_dims(after, -1)), -1)


def _picked(product: Value, block: Block, ids: Value, old: Value) -> Value:
    """The elements of the product at ids in the block; those before of other rows."""
    position = block.position(ids)
    inside = block.holds(position)
    return where(inside, take_along_last(product, where(inside, position, 0)), old)


def _itself(value: Value) -> Value:
    """A value that does not depend on the product."""
    return value


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
        """The sum, given that of the parts or all of them."""
        return cast(reshape(made, self.value.shape), self.value.dtype).in_place_of(self.value)
