"""A stable sort of rows, which gives positions: blocks are sorted by counting, and merged bottom-up.

Elements become integers in the same order first: the bits of a float, with those of negative numbers reversed, and NaN
as the greatest. Keys of up to 32 bits share a 64-bit word with the position, so that one comparison decides and one
move suffices; equal elements then are in the order of their positions without further ado. Wider keys and their
positions are two arrays, of which a merge takes the left one first if keys are equal.

In a block, the place of an element is the number of elements before it, which lanes count side by side. A pass of
merges computes one element per step, wherever it is: the cursors of two runs are reset at the start of each pair.
D. Knuth, "The Art of Computer Programming", volume 3, sections 5.2 (comparison counting) and 5.2.4 (merging).
"""

import numpy as np

from adjoint import costs
from adjoint.ir import DTYPES
from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Apply, Buffer, Expr, For, Stmt, Store
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.rows.workspace import I64, Workspace

__all__ = ["argsort"]

I32 = DTYPES["i32"]


def argsort(work: Workspace) -> tuple[Stmt, ...]:
    """Operand: the row; the option ``descending`` reverses the order."""
    ((size,),) = work.description.shapes
    return _Sort(work, size, "descending" in work.description.options).statements()


def _key(work: Workspace, x: Expr) -> Expr:
    """An integer of 32 or 64 bits in the order of elements."""
    if x.dtype.kind == "f":
        ints = I32 if x.dtype.itemsize == I32.itemsize else I64
        most = int(np.iinfo(ints).max)
        # The sum is +0 for -0, which is equal to it.
        bits = Apply("bitcast", (work.call("add", x, work.number(0, x.dtype)),), ints)
        negative = work.call("lt", bits, work.number(0, ints))
        ordered = work.select(negative, work.call("xor", bits, work.number(most, ints)), bits)
        return work.select(work.call("ne", x, x), work.number(most, ints), ordered)
    if x.dtype == DTYPES["u64"]:
        return Apply("bitcast", (work.call("xor", x, work.number(1 << 63, x.dtype)),), I64)
    narrow = x.dtype.kind == "b" or x.dtype.itemsize < I32.itemsize or x.dtype == I32
    return work.inliner.cast(x, I32 if narrow else I64)


@dataclass
class _Sort:
    work: Workspace
    size: int
    descending: bool

    def statements(self) -> tuple[Stmt, ...]:
        work, size = self.work, self.size
        i = as_index(Var("i", size))
        packed = self._words(i)[0].dtype == I64 and len(self._words(i)) == 1
        #: Two halves, between which a pass moves the elements.
        self.arrays = tuple(
            work.scratch(name, 2 * size, word.dtype)
            for name, word in zip(("words",) if packed else ("keys", "places"), self._words(i), strict=True)
        )
        lanes = work.target.lanes(I64)
        passes = 0
        while costs.SORT_BLOCK << passes < size:
            passes += 1
        fill = work.each(size, lambda i: self._store(i + size, self._words(i)), lanes)
        last = passes % 2 * size

        def place(i: Index) -> Stmt:
            word = work.load(self.arrays[-1], i + last)
            if packed:
                word = work.call("and", word, work.number((1 << 32) - 1, I64))
            return work.give(work.inliner.cast(word, I64), i)

        return (*fill, *self._blocks(lanes), *self._merges(passes), *work.each(size, place, lanes))

    def _words(self, i: Index) -> tuple[Expr, ...]:
        """What is sorted in place of an element: a key with its position, or both."""
        work = self.work
        key = _key(work, work.operand(0, i))
        if self.descending:
            key = work.call("xor", key, work.number(-1, key.dtype))
        if key.dtype == I64:
            return key, work.coordinate(i)
        high = work.call("shl", work.inliner.cast(key, I64), work.number(32, I64))
        return (work.call("or", high, work.coordinate(i)),)

    def _load(self, index: Index) -> tuple[Expr, ...]:
        return tuple(self.work.load(array, index) for array in self.arrays)

    def _store(self, index: Index, words: tuple[Expr, ...], *others: tuple[Buffer, Index, Expr]) -> Store:
        own = tuple((array, index, word) for array, word in zip(self.arrays, words, strict=True))
        return Store((*own, *others))

    def _blocks(self, lanes: int) -> tuple[Stmt, ...]:
        """Sort blocks by counting, from the second half into the first."""
        many, rest = divmod(self.size, costs.SORT_BLOCK)
        block = Var("b", many)
        out: tuple[Stmt, ...] = ()
        if many:
            out = (For(block, self._block(as_index(block) * costs.SORT_BLOCK, costs.SORT_BLOCK, lanes)),)
        return (*out, *self._block(as_index(many * costs.SORT_BLOCK), rest, lanes)) if rest else out

    def _block(self, base: Index, count: int, lanes: int) -> tuple[Stmt, ...]:
        work = self.work
        ranks = work.scratch("ranks", count, I64)
        one, moved = Var("j", count), Var("t", count)

        def before(own: Index, other: Index) -> Expr:
            """Whether an element of the block comes before another one."""
            mine, its = (work.load(self.arrays[0], base + self.size + at) for at in (own, other))
            less = work.call("lt", its, mine)
            if len(self.arrays) == 1:
                return less
            earlier = work.call("lt", work.coordinate(other), work.coordinate(own))
            return work.call("or", less, work.call("and", work.call("eq", its, mine), earlier))

        def count_one(own: Index) -> Stmt:
            counted = work.inliner.cast(before(own, as_index(one)), I64)
            return work.store(ranks, own, work.call("add", work.load(ranks, own), counted))

        to = base + work.place(work.load(ranks, as_index(moved)), count)
        return (
            *work.each(count, lambda own: work.store(ranks, own, work.number(0, I64)), lanes),
            For(one, work.each(count, count_one, lanes)),
            For(moved, (self._store(to, self._load(base + self.size + as_index(moved))),)),
        )

    def _merges(self, passes: int) -> tuple[Stmt, ...]:
        """Merge neighbouring runs, which double in each pass, from one half into the other."""
        if not passes:
            return ()
        work, size = self.work, self.size
        number, k = Var("p", passes), Var("k", size)
        source = as_index(number) % 2 * size
        target = (as_index(number) + 1) % 2 * size
        cursors = work.register("left", I64), work.register("right", I64)
        at, end = work.coordinate(k), work.number(size, I64)
        run = work.call("shl", work.number(costs.SORT_BLOCK, I64), work.coordinate(number))
        pair = work.call("add", run, run)
        start = work.call("and", at, work.call("sub", work.number(0, I64), pair))
        middle = work.call("min", work.call("add", start, run), end)
        stop = work.call("min", work.call("add", start, pair), end)
        fresh = work.call("eq", at, start)
        left = work.select(fresh, start, work.load(cursors[0]))
        right = work.select(fresh, middle, work.load(cursors[1]))
        # A cursor at the end of its run may be at the end of the row; what it reads there is not used.
        mine, others = (
            self._load(source + work.place(work.call("min", cursor, work.number(size - 1, I64)), size))
            for cursor in (left, right)
        )
        exhausted = work.call("ge", left, middle)
        take_right = work.call(
            "and", work.call("lt", right, stop), work.call("or", exhausted, work.call("lt", others[0], mine[0]))
        )
        chosen = tuple(work.select(take_right, b, a) for a, b in zip(mine, others, strict=True))
        step = work.inliner.cast(take_right, I64)
        forward = work.call("sub", work.number(1, I64), step)
        merge = self._store(
            target + as_index(k),
            chosen,
            (cursors[0], as_index(0), work.call("add", left, forward)),
            (cursors[1], as_index(0), work.call("add", right, step)),
        )
        return (For(number, (For(k, (merge,)),)),)
