"""One kernel as one LLVM function: ``void kernel(ptr buffer0, ptr buffer1, ..., i64 low, i64 high)``.

The function runs units ``low <= unit < high``. Vector loops become vector instructions: an expression that does
not depend on the lane stays scalar and is broadcast where it meets one that does; a read is one vector load where
neighbouring lanes read neighbouring elements, else a gather. Lanes beyond a loop's extent are masked.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from adjoint.codegen.scalars import INSTRUCTIONS, cast
from adjoint.codegen.turn import Square, emit_exchange, match_square
from adjoint.codegen.types import constant, memory_type, splat, value_type, vector
from adjoint.codegen.writer import Writer
from adjoint.errors import CompileError
from adjoint.kernel.index import Atom, Dynamic, Index, Quotient, Var
from adjoint.kernel.ir import (
    PRIVATE,
    Across,
    Apply,
    Buffer,
    Const,
    Coordinate,
    Expr,
    For,
    Kernel,
    Load,
    Stmt,
    Store,
    When,
    postorder,
)

__all__ = ["emit_kernel", "parameters"]


def parameters(kernel: Kernel) -> tuple[Buffer, ...]:
    """The buffers that a kernel's function takes, in order."""
    return tuple(dict.fromkeys((*kernel.writes, *kernel.reads)))


def emit_kernel(kernel: Kernel, name: str, declarations: dict[str, str]) -> str:
    """The text of a kernel's function; equal for kernels that differ in names only."""
    return _KernelEmitter(kernel, Writer(declarations)).function(name)


@dataclass(frozen=True, slots=True)
class _Lanes:
    """The vector loop around a store: its variable, how many lanes do work, how many the type has."""

    var: Var
    active: int
    width: int


@dataclass(frozen=True, slots=True)
class _Result:
    """Text of a value, and its lanes: 1 where it is the same in all."""

    text: str
    lanes: int


@dataclass
class _KernelEmitter:
    kernel: Kernel
    w: Writer
    env: dict[Var, str] = field(default_factory=dict)
    pointers: dict[Buffer, str] = field(default_factory=dict)
    lanes: _Lanes | None = None
    values: dict[int, _Result] = field(default_factory=dict)

    def function(self, name: str) -> str:
        buffers = parameters(self.kernel)
        for number, buffer in enumerate(buffers):
            self.pointers[buffer] = f"%b{number}"
        params = [f"ptr noalias nocapture %b{n}" for n in range(len(buffers))]
        self.env[self.kernel.unit] = "%unit"
        with self.w.scope():
            for statement in self.kernel.body:
                self.statement(statement)
        head = f"define internal void @{name}({', '.join([*params, 'i64 %low', 'i64 %high'])}) #0 {{"
        lines = [
            head,
            "entry:",
            *self.w.entry,
            "  %none = icmp sge i64 %low, %high",
            "  br i1 %none, label %done, label %units",
            "units:",
            "  %unit = phi i64 [ %low, %entry ], [ %unit.next, %latch ]",
            *self.w.lines,
            "  br label %latch",
            "latch:",
            "  %unit.next = add nuw nsw i64 %unit, 1",
            "  %more = icmp slt i64 %unit.next, %high",
            "  br i1 %more, label %units, label %done",
            "done:",
            "  ret void",
            "}",
        ]
        return "\n".join(lines)

    # Statements

    def statement(self, statement: Stmt) -> None:
        if isinstance(statement, Store):
            self.store(statement)
        elif isinstance(statement, When):
            self.when(statement)
        elif statement.kind == "vector":
            extent = statement.var.extent
            self.lanes = _Lanes(statement.var, extent, 1 << (extent - 1).bit_length())
            for inner in statement.body:
                self.statement(inner)
            self.lanes = None
        elif (square := match_square(statement)) is not None:
            self.turn(square)
        elif statement.kind == "unroll":
            for i in range(statement.var.extent):
                self.env[statement.var] = str(i)
                for inner in statement.body:
                    self.statement(inner)
        elif statement.var.extent:
            self.loop(statement)

    def turn(self, square: Square) -> None:
        """A copy that turns a square: rows are read, exchanged and written as vectors."""
        ((target, place, value),) = square.store.targets
        assert isinstance(value, Load)
        type_, align = memory_type(target.dtype), target.dtype.itemsize
        wide = vector(type_, square.size)
        rows = []
        self.env[square.outer] = "0"
        for i in range(square.size):
            self.env[square.inner] = str(i)
            where = self.address(value.buffer, self.index(value.index))
            rows.append(self.w.load(self.pointer(value.buffer), f"load {wide}, ptr {where}, align {align}"))
        self.env[square.inner] = "0"
        for i, column in enumerate(emit_exchange(self.w, rows, type_)):
            self.env[square.outer] = str(i)
            where = self.address(target, self.index(place))
            self.w.store(self.pointer(target), f"store {wide} {column}, ptr {where}, align {align}")

    def loop(self, loop: For) -> None:
        before, head, latch, after = (self.w.label(h) for h in ("before", "head", "latch", "after"))
        i, following, more = self.w.name(), self.w.name(), self.w.name()
        self.env[loop.var] = i
        self.w.line(f"  br label %{before}")
        self.w.line(f"{before}:")
        self.w.line(f"  br label %{head}")
        self.w.line(f"{head}:")
        self.w.line(f"  {i} = phi i64 [ 0, %{before} ], [ {following}, %{latch} ]")
        with self.w.scope():
            for inner in loop.body:
                self.statement(inner)
        self.w.line(f"  br label %{latch}")
        self.w.line(f"{latch}:")
        self.w.line(f"  {following} = add nuw nsw i64 {i}, 1")
        self.w.line(f"  {more} = icmp ult i64 {following}, {loop.var.extent}")
        self.w.line(f"  br i1 {more}, label %{head}, label %{after}")
        self.w.line(f"{after}:")

    def when(self, when: When) -> None:
        index = self.index(when.index)
        yes, no, after = (self.w.label(h) for h in ("then", "else", "after"))
        # One unsigned comparison covers both bounds.
        shifted = index if not when.low else self.w.pure(f"sub i64 {index}, {when.low}")
        inside = self.w.pure(f"icmp ult i64 {shifted}, {max(when.high - when.low, 0)}")
        self.w.line(f"  br i1 {inside}, label %{yes}, label %{no}")
        for label, body in ((yes, when.then), (no, when.other)):
            self.w.line(f"{label}:")
            with self.w.scope():
                for inner in body:
                    self.statement(inner)
            self.w.line(f"  br label %{after}")
        self.w.line(f"{after}:")

    def store(self, store: Store) -> None:
        self.values = {}
        done = [(buffer, index, self.expr(value)) for buffer, index, value in store.targets]
        for buffer, index, value in done:
            self.write(buffer, index, value)

    # Memory

    def pointer(self, buffer: Buffer) -> str:
        found = self.pointers.get(buffer)
        if found is None:
            if buffer.space not in PRIVATE:
                raise CompileError(f"kernel {self.kernel.name} uses {buffer.name} without having it as a parameter")
            found = self.w.alloca(f"[{buffer.size} x {memory_type(buffer.dtype)}], align 64")
            self.pointers[buffer] = found
        return found

    def address(self, buffer: Buffer, index: str) -> str:
        if index == "0":
            return self.pointer(buffer)
        return self.w.pure(
            f"getelementptr inbounds {memory_type(buffer.dtype)}, ptr {self.pointer(buffer)}, i64 {index}"
        )

    def write(self, buffer: Buffer, index: Index, value: _Result) -> None:
        type_ = memory_type(buffer.dtype)
        if self.lanes is None:
            text = self.to_memory(buffer, value).text
            self.w.store(self.pointer(buffer), f"store {type_} {text}, ptr {self.address(buffer, self.index(index))}")
            return
        lanes = self.lanes
        text = self.to_memory(buffer, self.widen(value, value_type(buffer.dtype))).text
        wide = vector(type_, lanes.width)
        align = buffer.dtype.itemsize
        if index.coefficient(lanes.var) == 1 or lanes.width == 1:
            where = self.address(buffer, self.index(index.without(lanes.var)))
            if lanes.active == lanes.width:
                self.w.store(self.pointer(buffer), f"store {wide} {text}, ptr {where}, align {align}")
            elif buffer.space == "register":
                # The lanes beyond the loop keep what they held.
                old = self.w.load(self.pointer(buffer), f"load {wide}, ptr {where}, align {align}")
                mixed = self.w.pure(f"select <{lanes.width} x i1> {self.mask()}, {wide} {text}, {wide} {old}")
                self.w.store(self.pointer(buffer), f"store {wide} {mixed}, ptr {where}, align {align}")
            else:
                self.masked_store(buffer, wide, text, "ptr", where, f"llvm.masked.store.{_mangled(wide)}.p0")
            return
        where = self.addresses(buffer, index)
        pointers = f"<{lanes.width} x ptr>"
        name = f"llvm.masked.scatter.{_mangled(wide)}.v{lanes.width}p0"
        self.masked_store(buffer, wide, text, pointers, where, name)

    def masked_store(self, buffer: Buffer, wide: str, text: str, pointers: str, where: str, name: str) -> None:
        assert self.lanes is not None
        types = [wide, pointers, "i32", f"<{self.lanes.width} x i1>"]
        args = [text, where, str(buffer.dtype.itemsize), self.mask()]
        self.w.store(self.pointer(buffer), self.w.call_text(name, "void", types, args))

    def read(self, load: Load) -> _Result:
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
        if load.index.coefficient(lanes.var) == 1:
            where = self.address(buffer, self.index(load.index.without(lanes.var)))
            if whole or buffer.space == "register":
                text = self.w.load(pointer, f"load {wide}, ptr {where}, align {align}")
            else:
                text = self.masked_load(buffer, wide, "ptr", where, mask, f"llvm.masked.load.{_mangled(wide)}.p0")
        else:
            where = self.addresses(buffer, load.index)
            pointers = f"<{lanes.width} x ptr>"
            name = f"llvm.masked.gather.{_mangled(wide)}.v{lanes.width}p0"
            text = self.masked_load(buffer, wide, pointers, where, mask, name)
        return self.from_memory(buffer, _Result(text, lanes.width))

    def read_one(self, load: Load, guard: _Result | None) -> _Result:
        """A read that is the same for all lanes; where its guard fails, the buffer's first element is read."""
        buffer = load.buffer
        type_ = memory_type(buffer.dtype)
        where = self.address(buffer, self.index(load.index))
        if guard is not None:
            where = self.w.pure(f"select i1 {guard.text}, ptr {where}, ptr {self.pointer(buffer)}")
        text = self.w.load(self.pointer(buffer), f"load {type_}, ptr {where}")
        if guard is not None:
            zero = constant(0, buffer.dtype) if buffer.dtype.kind != "b" else "0"
            text = self.w.pure(f"select i1 {guard.text}, {type_} {text}, {type_} {zero}")
        return self.from_memory(buffer, _Result(text, 1))

    def masked_load(self, buffer: Buffer, wide: str, pointers: str, where: str, mask: str, name: str) -> str:
        assert self.lanes is not None
        types = [pointers, "i32", f"<{self.lanes.width} x i1>", wide]
        args = [where, str(buffer.dtype.itemsize), mask, "zeroinitializer"]
        return self.w.load(self.pointer(buffer), self.w.call_text(name, wide, types, args))

    def addresses(self, buffer: Buffer, index: Index) -> str:
        """One address a lane."""
        assert self.lanes is not None
        at = self.widen(self.vector_index(index), "i64").text
        type_ = memory_type(buffer.dtype)
        return self.w.pure(
            f"getelementptr inbounds {type_}, ptr {self.pointer(buffer)}, <{self.lanes.width} x i64> {at}"
        )

    def mask(self, guard: _Result | None = None) -> str:
        """Which lanes work."""
        assert self.lanes is not None
        active, width = self.lanes.active, self.lanes.width
        fixed = f"<{', '.join(['i1 true'] * active + ['i1 false'] * (width - active))}>" if width > 1 else "true"
        if guard is None:
            return fixed
        text = self.widen(guard, "i1").text
        return text if active == width else self.w.pure(f"and <{width} x i1> {text}, {fixed}")

    def to_memory(self, buffer: Buffer, value: _Result) -> _Result:
        if buffer.dtype.kind != "b":
            return value
        wide = vector("i8", value.lanes)
        return _Result(self.w.pure(f"zext {vector('i1', value.lanes)} {value.text} to {wide}"), value.lanes)

    def from_memory(self, buffer: Buffer, value: _Result) -> _Result:
        if buffer.dtype.kind != "b":
            return value
        wide = vector("i8", value.lanes)
        return _Result(self.w.pure(f"icmp ne {wide} {value.text}, {splat('0', 'i8', value.lanes)}"), value.lanes)

    # Expressions

    def expr(self, root: Expr) -> _Result:
        for expr in postorder([root]):
            if id(expr) not in self.values:
                self.values[id(expr)] = self.node(expr)
        return self.values[id(root)]

    def node(self, expr: Expr) -> _Result:
        if isinstance(expr, Const):
            return _Result(constant(expr.value, expr.dtype), 1)
        if isinstance(expr, Load):
            return self.read(expr)
        if isinstance(expr, Coordinate):
            return self.vector_index(expr.index)
        if isinstance(expr, Across):
            return self.across(expr)
        assert isinstance(expr, Apply)
        return self.apply(expr)

    def apply(self, expr: Apply) -> _Result:
        args = [self.values[id(a)] for a in expr.operands]
        lanes = max(a.lanes for a in args)
        texts = [self.widen(a, value_type(e.dtype), lanes).text for a, e in zip(args, expr.operands, strict=True)]
        first = expr.operands[0].dtype
        if expr.function == "cast":
            return _Result(cast(self.w, texts[0], first, expr.dtype, lanes), lanes)
        if expr.function == "bitcast":
            have, want = vector(value_type(first), lanes), vector(value_type(expr.dtype), lanes)
            return _Result(self.w.pure(f"bitcast {have} {texts[0]} to {want}"), lanes)
        if expr.function == "select":
            type_ = vector(value_type(expr.dtype), lanes)
            mask = vector("i1", lanes)
            return _Result(self.w.pure(f"select {mask} {texts[0]}, {type_} {texts[1]}, {type_} {texts[2]}"), lanes)
        return _Result(INSTRUCTIONS[expr.function](self.w, texts, first, lanes), lanes)

    def across(self, expr: Across) -> _Result:
        """Halves are combined until one element is left."""
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
        return _Result(text, 1)

    def widen(self, value: _Result, type_: str, lanes: int | None = None) -> _Result:
        """A value in every lane."""
        width = lanes if lanes is not None else self.lanes.width if self.lanes is not None else 1
        if value.lanes == width:
            return value
        if not value.text.startswith("%"):
            return _Result(splat(value.text, type_, width), width)
        wide = vector(type_, width)
        one = self.w.pure(f"insertelement {wide} poison, {type_} {value.text}, i64 0")
        zeros = f"<{width} x i32> zeroinitializer"
        return _Result(self.w.pure(f"shufflevector {wide} {one}, {wide} poison, {zeros}"), width)

    # Indices

    def index(self, index: Index) -> str:
        """An index that is the same for all lanes."""
        return self.sum(index, lambda atom: _Result(self.atom(atom), 1)).text

    def vector_index(self, index: Index) -> _Result:
        """An index, for each lane where it depends on the lane."""
        if self.lanes is None or not _depends(index, self.lanes.var):
            return _Result(self.index(index), 1)
        return self.sum(index, self.vector_atom)

    def sum(self, index: Index, emit: Callable[[Atom], _Result]) -> _Result:
        """Constant and terms, largest steps first so that neighbours share prefixes."""
        fixed = index.constant
        total: _Result | None = None
        for atom, c in sorted(index.terms, key=lambda t: (-abs(t[1]), str(t[0]))):
            value = emit(atom)
            if value.lanes == 1 and not value.text.startswith("%"):
                fixed += int(value.text) * c
                continue
            scaled = value
            if c != 1:
                type_ = vector("i64", value.lanes)
                scaled = _Result(
                    self.w.pure(f"mul nsw {type_} {value.text}, {splat(str(c), 'i64', value.lanes)}"), value.lanes
                )
            total = scaled if total is None else self.plus(total, scaled)
        if total is None:
            return _Result(str(fixed), 1)
        return self.plus(total, _Result(str(fixed), 1)) if fixed else total

    def plus(self, a: _Result, b: _Result) -> _Result:
        lanes = max(a.lanes, b.lanes)
        x, y = (self.widen(v, "i64", lanes).text for v in (a, b))
        return _Result(self.w.pure(f"add nsw {vector('i64', lanes)} {x}, {y}"), lanes)

    def atom(self, atom: Atom) -> str:
        if isinstance(atom, Var):
            if self.lanes is not None and atom is self.lanes.var:
                return "0"  # the first lane: what is left when the lane's own part is taken off
            return self.env[atom]
        if isinstance(atom, Dynamic):
            return self.expr(atom.expr).text
        inner = self.index(atom.of)
        if not inner.startswith("%"):
            return str(int(inner) // atom.by if isinstance(atom, Quotient) else int(inner) % atom.by)
        op = "udiv" if isinstance(atom, Quotient) else "urem"
        if atom.of.low < 0:
            raise CompileError(f"kernel {self.kernel.name}: {atom} divides an index that can be negative")
        return self.w.pure(f"{op} i64 {inner}, {atom.by}")

    def vector_atom(self, atom: Atom) -> _Result:
        assert self.lanes is not None
        if isinstance(atom, Var) and atom is self.lanes.var:
            numbers = ", ".join(f"i64 {i}" for i in range(self.lanes.width))
            return _Result(f"<{numbers}>" if self.lanes.width > 1 else "0", self.lanes.width)
        if isinstance(atom, Var):
            return _Result(self.env[atom], 1)
        if isinstance(atom, Dynamic):
            return self.expr(atom.expr)
        inner = self.vector_index(atom.of)
        if inner.lanes == 1:
            return _Result(self.atom(atom), 1)
        op = "udiv" if isinstance(atom, Quotient) else "urem"
        type_ = vector("i64", inner.lanes)
        return _Result(
            self.w.pure(f"{op} {type_} {inner.text}, {splat(str(atom.by), 'i64', inner.lanes)}"), inner.lanes
        )


def _depends(index: Index, var: Var) -> bool:
    return var in index.variables()


def _mangled(type_: str) -> str:
    """``<16 x float>`` as intrinsics' names spell it: ``v16f32``."""
    lanes, element = type_[1:-1].split(" x ") if type_.startswith("<") else ("", type_)
    name = {"float": "f32", "double": "f64", "half": "f16"}.get(element, element)
    return f"v{lanes}{name}" if lanes else name
