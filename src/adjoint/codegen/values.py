"""Values in a kernel's function: loads, expressions and indices, scalar or vector.

An expression that is uniform across lanes stays scalar, and is broadcast where it is combined with one that is not. A
load is a vector load if the lanes are contiguous, a few loads and shuffles if they are strided but close, and a gather
otherwise. Lanes beyond a loop's extent are masked.
"""

from collections.abc import Sequence
from dataclasses import field
from operator import itemgetter

import numpy as np

from adjoint.codegen.partial_loads import active_prefix, load_prefix
from adjoint.codegen.scalars import INSTRUCTIONS, cast, vscalef
from adjoint.codegen.strength_reduction import Nest
from adjoint.codegen.strided_loads import StridedLoad, every_second, guarded_lanes, lane_offsets, without_lane
from adjoint.codegen.types import constant, mangled, memory_type, splat, value_type, vector
from adjoint.codegen.writer import Writer
from adjoint.errors import VerifyError
from adjoint.kernel.index import Atom, Dynamic, Index, Quotient, Remainder, Var, as_index
from adjoint.kernel.ir import Across, Apply, Buffer, Const, Coordinate, Expr, Kernel, Load
from adjoint.lazy_dataclass import dataclass

__all__ = ["Lanes", "Result", "ValueEmitter"]

I64 = np.dtype(np.int64)


@dataclass(frozen=True, slots=True)
class Lanes:
    """The vector loop around a store: its variable, the number of active lanes, and that of the vector type."""

    var: Var
    active: int
    width: int


@dataclass(slots=True)
class Result:
    """The text of a value, and its number of lanes: 1 if it is uniform."""

    text: str
    lanes: int


@dataclass
class ValueEmitter:
    """Emits the values that statements compute; a kernel's emitter adds the statements.

    Attributes
    ----------
    kernel : Kernel
        Named in errors.
    w : Writer
        Receives the instructions.
    masks : bool
        Whether the CPU supports masked loads.
    scales : bool
        Whether ``scaleb`` of vectors of 64 bytes is an instruction.
    cached : int
        Bytes up to which a buffer stays in the caches; larger ones come from memory.
    env : dict
        Text of each loop variable in scope: a name, or a number if the loop is unrolled.
    pointers : dict
        Name of the pointer to each buffer.
    lanes : Lanes or None
        The enclosing vector loop, if any.
    values : dict
        Values computed so far for the current statement, by identity of the expression.
    nest : Nest
        The place in the enclosing nest of loops that store to registers alone, if any.
    """

    kernel: Kernel
    w: Writer
    masks: bool
    scales: bool
    cached: int
    env: dict[Var, str] = field(default_factory=dict)
    pointers: dict[Buffer, str] = field(default_factory=dict)
    lanes: Lanes | None = None
    values: dict[int, Result] = field(default_factory=dict)
    nest: Nest = field(default_factory=Nest)

    # Memory

    def pointer(self, buffer: Buffer) -> str:
        """The name of a buffer's pointer; registers are allocated on the stack here, which LLVM then promotes."""
        found = self.pointers.get(buffer)
        if found is None:
            if buffer.space != "register":
                raise VerifyError(f"kernel {self.kernel.name} uses {buffer.name} without having it as a parameter")
            found = self.w.alloca(f"[{buffer.size} x {memory_type(buffer.dtype)}], align 64")
            self.pointers[buffer] = found
        return found

    def address(self, buffer: Buffer, index: Index) -> str:
        """The address of an element: a pointer, what changes in loops around the innermost and in it, a constant."""
        type_, where, step = memory_type(buffer.dtype), self.pointer(buffer), "getelementptr"
        fixed = self.nest.fixed(index) if self.nest.pointers else frozenset()
        if advanced := self.nest.pointers.get((buffer, fixed)):
            where, index = advanced, Index(index.constant, index.terms - fixed)
        elif index.constant >= 0 and all(c > 0 and atom.low >= 0 for atom, c in index.terms):
            # Then every partial sum is the place of an element, too.
            step = "getelementptr inbounds"
        terms, distance = self.terms(index)
        if terms:
            innermost = terms[-1][0]
            around = sum(depth < innermost for depth, _ in terms)
            for part in (terms[:around], terms[around:]):
                if part:
                    offset = self.total(part)
                    where = self.w.hoisted(f"{step} {type_}, ptr {where}, i64 {offset}", where, offset)
        # Not hoisted, since it is part of the instruction that reads or writes.
        return self.w.pure(f"{step} {type_}, ptr {where}, i64 {distance}") if distance else where

    def read(self, load: Load) -> Result:
        """A load of one element, or of one per lane."""
        buffer, lanes = load.buffer, self.lanes
        guard = self.values[id(load.guard)] if load.guard is not None else None
        if lanes is None or (not _depends(load.index, lanes.var) and (guard is None or guard.lanes == 1)):
            return self.read_one(load, guard)
        align = buffer.dtype.itemsize
        wide = vector(memory_type(buffer.dtype), lanes.width)
        pointer = self.pointer(buffer)
        whole = lanes.active == lanes.width and guard is None
        if lanes.width == 1:
            return self.read_one(load, guard)
        mask = self.mask(guard)

        def piece(type_: str, first: int) -> str:
            at = self.address(buffer, load.index.without(lanes.var) + first)
            return self.w.load(pointer, f"load {type_}, ptr {at}, align {align}")

        if load.index.coefficient(lanes.var) == 1:
            where = self.address(buffer, load.index.without(lanes.var))
            if whole or buffer.space == "register":
                text = self.w.load(pointer, f"load {wide}, ptr {where}, align {align}")
            elif not self.masks and (count := active_prefix(load.guard, lanes.var, lanes.active, self.index)):
                text = load_prefix(self.w, count, lanes.width, memory_type(buffer.dtype), piece)
            else:
                text = self.masked_load(buffer, wide, "ptr", where, mask, f"llvm.masked.load.{mangled(wide)}.p0")
        elif near := self.load_strided(load):
            text = near
        else:
            where = self.addresses(buffer, load.index)
            pointers = f"<{lanes.width} x ptr>"
            name = f"llvm.masked.gather.{mangled(wide)}.v{lanes.width}p0"
            text = self.masked_load(buffer, wide, pointers, where, mask, name)
        return self.from_memory(buffer, Result(text, lanes.width))

    def load_strided(self, load: Load) -> str:
        """A strided load by vector loads and shuffles, if the lanes are close together; empty if a gather is needed."""
        assert self.lanes is not None
        buffer, lanes = load.buffer, self.lanes
        every = lane_offsets(load.index, lanes.var, lanes.active)
        read = guarded_lanes(load.guard, lanes.var, lanes.active, self.unrolled) if every else None
        if not read:
            return "" if read is None else "zeroinitializer"
        offsets = tuple(every[lane] for lane in read)
        fixed = without_lane(load.index, lanes.var)
        return StridedLoad(
            w=self.w,
            buffer=self.pointer(buffer),
            address=lambda offset: self.address(buffer, fixed + offset),
            type_=memory_type(buffer.dtype),
            itemsize=buffer.dtype.itemsize,
            extent=buffer.size,
            place=self.unrolled(fixed) if every_second(offsets) else fixed,
            offsets=offsets,
            read=read,
            width=lanes.width,
            guarded=len(read) < lanes.active,
        ).emit()

    def read_one(self, load: Load, guard: Result | None) -> Result:
        """A load that is uniform across lanes; if its guard does not hold, it reads the first element."""
        buffer = load.buffer
        type_ = memory_type(buffer.dtype)
        where = self.address(buffer, load.index)
        if guard is not None:
            where = self.w.pure(f"select i1 {guard.text}, ptr {where}, ptr {self.pointer(buffer)}")
        text = self.w.load(self.pointer(buffer), f"load {type_}, ptr {where}")
        if guard is not None:
            zero = constant(0, buffer.dtype) if buffer.dtype.kind != "b" else "0"
            text = self.w.pure(f"select i1 {guard.text}, {type_} {text}, {type_} {zero}")
        return self.from_memory(buffer, Result(text, 1))

    def masked_load(self, buffer: Buffer, wide: str, pointers: str, where: str, mask: str, name: str) -> str:
        """A load of the lanes in a mask."""
        assert self.lanes is not None
        types = [pointers, "i32", f"<{self.lanes.width} x i1>", wide]
        args = [where, str(buffer.dtype.itemsize), mask, "zeroinitializer"]
        return self.w.load(self.pointer(buffer), self.w.call_text(name, wide, types, args))

    def addresses(self, buffer: Buffer, index: Index) -> str:
        """One address per lane."""
        assert self.lanes is not None
        type_, width = memory_type(buffer.dtype), self.lanes.width
        if offsets := lane_offsets(index, self.lanes.var, width):
            first = self.address(buffer, without_lane(index, self.lanes.var))
            apart = ", ".join(f"i64 {offset}" for offset in offsets)
            return self.w.pure(f"getelementptr {type_}, ptr {first}, <{width} x i64> <{apart}>")
        at = self.widen(self.vector_index(index), "i64").text
        return self.w.pure(f"getelementptr inbounds {type_}, ptr {self.pointer(buffer)}, <{width} x i64> {at}")

    def mask(self, guard: Result | None = None) -> str:
        """The mask of active lanes."""
        assert self.lanes is not None
        active, width = self.lanes.active, self.lanes.width
        fixed = f"<{', '.join(['i1 true'] * active + ['i1 false'] * (width - active))}>" if width > 1 else "true"
        if guard is None:
            return fixed
        text = self.widen(guard, "i1").text
        return text if active == width else self.w.pure(f"and <{width} x i1> {text}, {fixed}")

    def from_memory(self, buffer: Buffer, value: Result) -> Result:
        """A value converted to its form in registers: a bool is a byte in memory and a bit in a register."""
        if buffer.dtype.kind != "b":
            return value
        wide = vector("i8", value.lanes)
        return Result(self.w.pure(f"icmp ne {wide} {value.text}, {splat('0', 'i8', value.lanes)}"), value.lanes)

    # Expressions

    def expr(self, root: Expr) -> Result:
        """The value of an expression; subexpressions shared within the statement are computed once."""
        known, stack = self.values, [root]
        while stack:
            expr = stack[-1]
            if id(expr) in known:
                stack.pop()
            elif missing := [arg for arg in expr.args if id(arg) not in known]:
                stack.extend(reversed(missing))
            else:
                known[id(expr)] = self.node(expr)
                stack.pop()
        return known[id(root)]

    def node(self, expr: Expr) -> Result:
        """The value of an expression whose operands have been computed."""
        if isinstance(expr, Const):
            return Result(constant(expr.value, expr.dtype), 1)
        if isinstance(expr, Load):
            return self.read(expr)
        if isinstance(expr, Coordinate):
            return self.coordinate(expr)
        if isinstance(expr, Across):
            return self.across(expr)
        assert isinstance(expr, Apply)
        return self.apply(expr)

    def coordinate(self, expr: Coordinate) -> Result:
        """An index as a number of its dtype; if lanes have a constant stride, they are computed in that dtype."""
        type_ = value_type(expr.dtype)
        lanes = self.lanes
        step = expr.index.coefficient(lanes.var) if lanes is not None else 0
        if lanes is None or not step:
            value = self.vector_index(expr.index)
            return (
                value if type_ == "i64" else Result(cast(self.w, value.text, I64, expr.dtype, value.lanes), value.lanes)
            )
        base = self.index(expr.index.without(lanes.var))
        if type_ != "i64" and base.startswith("%"):
            base = self.w.pure(f"trunc i64 {base} to {type_}")
        start = self.widen(Result(base, 1), type_)
        counts = ", ".join(f"{type_} {i * step}" for i in range(lanes.width))
        text = f"<{counts}>" if lanes.width > 1 else "0"
        return Result(self.w.pure(f"add {vector(type_, lanes.width)} {start.text}, {text}"), lanes.width)

    def apply(self, expr: Apply) -> Result:
        """A scalar function of computed operands."""
        args = [self.values[id(a)] for a in expr.operands]
        lanes = max(a.lanes for a in args)
        texts = [self.widen(a, value_type(e.dtype), lanes).text for a, e in zip(args, expr.operands, strict=True)]
        first = expr.operands[0].dtype
        if expr.function == "cast":
            return Result(cast(self.w, texts[0], first, expr.dtype, lanes), lanes)
        if expr.function == "bitcast":
            have, want = vector(value_type(first), lanes), vector(value_type(expr.dtype), lanes)
            return Result(self.w.pure(f"bitcast {have} {texts[0]} to {want}"), lanes)
        if expr.function == "select":
            type_ = vector(value_type(expr.dtype), lanes)
            mask = vector("i1", lanes)
            return Result(self.w.pure(f"select {mask} {texts[0]}, {type_} {texts[1]}, {type_} {texts[2]}"), lanes)
        if expr.function == "scaleb" and self.scales and lanes * first.itemsize == 64:
            return Result(vscalef(self.w, texts, first, lanes), lanes)
        return Result(INSTRUCTIONS[expr.function](self.w, texts, first, lanes), lanes)

    def across(self, expr: Across) -> Result:
        """Combine halves until one element is left."""
        type_ = value_type(expr.dtype)
        width = expr.width
        text = self.w.load(
            self.pointer(expr.buffer),
            f"load {vector(type_, width)}, ptr {self.pointer(expr.buffer)}, align {expr.dtype.itemsize}",
        )
        combine = INSTRUCTIONS[expr.function]
        while width > 1:
            half = width // 2
            wide = vector(type_, width)
            if half == 1:
                low = self.w.pure(f"extractelement {wide} {text}, i64 0")
                high = self.w.pure(f"extractelement {wide} {text}, i64 1")
            else:
                low, high = (
                    self.w.pure(
                        f"shufflevector {wide} {text}, {wide} poison, "
                        f"<{half} x i32> <{', '.join(f'i32 {i + start}' for i in range(half))}>"
                    )
                    for start in (0, half)
                )
            text, width = combine(self.w, [low, high], expr.dtype, half), half
        return Result(text, 1)

    def widen(self, value: Result, type_: str, lanes: int | None = None) -> Result:
        """Broadcast a uniform value to all lanes."""
        width = lanes if lanes is not None else self.lanes.width if self.lanes is not None else 1
        if value.lanes == width:
            return value
        if not value.text.startswith("%"):
            return Result(splat(value.text, type_, width), width)
        return Result(self.w.broadcast(value.text, type_, width), width)

    # Indices

    def unrolled(self, index: Index) -> Index:
        """An index with numbers for the variables of unrolled loops: equal for elements that are the same."""
        return index.substitute(
            {v: as_index(int(n)) for v in index.variables() if (n := self.env.get(v, "")).isdecimal()}
        )

    def index(self, index: Index) -> str:
        """An index that is uniform across lanes."""
        terms, constant = self.terms(index)
        total = self.total(terms)
        if not total:
            return str(constant)
        return self.w.hoisted(f"add nsw i64 {total}, {constant}", total) if constant else total

    def terms(self, index: Index) -> tuple[list[tuple[int, str]], int]:
        """The terms of an index that vary, outermost first, each with the depth of its scope, and the constant."""
        constant, terms = index.constant, []
        for atom, c in index.ordered:
            text = self.atom(atom)
            if not text.startswith("%"):
                constant += int(text) * c
                continue
            if c != 1:
                text = self.w.hoisted(f"mul nsw i64 {text}, {c}", text)
            terms.append((self.w.depth(text), text))
        if len(terms) > 1:
            terms.sort(key=itemgetter(0))
        return terms, constant

    def total(self, terms: Sequence[tuple[int, str]]) -> str:
        """The sum of terms; empty if there are none."""
        total = ""
        for _, text in terms:
            total = self.w.hoisted(f"add nsw i64 {total}, {text}", total, text) if total else text
        return total

    def vector_index(self, index: Index) -> Result:
        """An index, with one value per lane if it depends on the lane."""
        if self.lanes is None or not _depends(index, self.lanes.var):
            return Result(self.index(index), 1)
        # Largest coefficients first, so that adjacent elements share partial sums.
        fixed = index.constant
        total: Result | None = None
        for atom, c in index.ordered:
            value = self.vector_atom(atom)
            if value.lanes == 1 and not value.text.startswith("%"):
                fixed += int(value.text) * c
                continue
            scaled = value
            if c != 1:
                type_ = vector("i64", value.lanes)
                scaled = Result(
                    self.w.pure(f"mul nsw {type_} {value.text}, {splat(str(c), 'i64', value.lanes)}"), value.lanes
                )
            total = scaled if total is None else self.plus(total, scaled)
        if total is None:
            return Result(str(fixed), 1)
        return self.plus(total, Result(str(fixed), 1)) if fixed else total

    def plus(self, a: Result, b: Result) -> Result:
        """The sum of two indices."""
        lanes = max(a.lanes, b.lanes)
        x, y = (self.widen(v, "i64", lanes).text for v in (a, b))
        return Result(self.w.hoisted(f"add nsw {vector('i64', lanes)} {x}, {y}", x, y), lanes)

    def atom(self, atom: Atom) -> str:
        """An atom that is uniform across lanes."""
        if isinstance(atom, Var):
            if self.lanes is not None and atom is self.lanes.var:
                return "0"  # the first lane's value; the contribution of the lane itself is handled separately
            return self.env[atom]
        if isinstance(atom, Dynamic):
            return self.expr(atom.expr).text
        inner = self.index(atom.of)
        if not inner.startswith("%"):
            return str(int(inner) // atom.by if isinstance(atom, Quotient) else int(inner) % atom.by)
        return self.divided(atom, Result(inner, 1)).text

    def divided(self, atom: Quotient | Remainder, inner: Result) -> Result:
        """Quotient or remainder of `inner`, rounded down; an index that may be negative is shifted first.

        The shift is a multiple of the divisor, so that an unsigned instruction gives the correct remainder, and the
        correct quotient after subtracting that multiple.
        """
        up = max(-(atom.of.low // atom.by), 0)
        moved = self.plus(inner, Result(str(up * atom.by), 1)) if up else inner
        type_, by = vector("i64", inner.lanes), splat(str(atom.by), "i64", inner.lanes)
        if isinstance(atom, Remainder):
            return Result(self.w.hoisted(f"urem {type_} {moved.text}, {by}", moved.text), inner.lanes)
        made = Result(self.w.hoisted(f"udiv {type_} {moved.text}, {by}", moved.text), inner.lanes)
        return self.plus(made, Result(str(-up), 1)) if up else made

    def vector_atom(self, atom: Atom) -> Result:
        """An atom, with one value per lane if it depends on the lane."""
        assert self.lanes is not None
        if isinstance(atom, Var) and atom is self.lanes.var:
            numbers = ", ".join(f"i64 {i}" for i in range(self.lanes.width))
            return Result(f"<{numbers}>" if self.lanes.width > 1 else "0", self.lanes.width)
        if isinstance(atom, Var):
            return Result(self.env[atom], 1)
        if isinstance(atom, Dynamic):
            return self.expr(atom.expr)
        inner = self.vector_index(atom.of)
        if inner.lanes == 1:
            return Result(self.atom(atom), 1)
        return self.divided(atom, inner)


def _depends(index: Index, var: Var) -> bool:
    return var in index.variables()
