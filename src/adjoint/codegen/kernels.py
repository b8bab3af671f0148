"""A kernel as an LLVM function: ``void kernel(ptr buffer0, ptr buffer1, ..., i64 low, i64 high)``.

The function runs the units ``low <= unit < high``. That of a kernel whose units end at run time has the parameters
``i64 thread, i64 threads`` instead, and runs a thread's share of the units that there are. Vector loops become vector
instructions, unrolled and interleaved loops straight-line code, and other loops counted loops.
"""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from adjoint import costs
from adjoint.codegen.lane_sums import LaneSums, emit_lane_sums, match_lane_sums
from adjoint.codegen.scalars import INSTRUCTIONS, cast
from adjoint.codegen.strength_reduction import Nest, Terms, reads_only
from adjoint.codegen.strided_loads import lane_offsets, without_lane
from adjoint.codegen.transpose import Transpose, emit_transpose, load_row, match_transpose, resized
from adjoint.codegen.types import mangled, memory_type, value_type, vector
from adjoint.codegen.values import Lanes, Result, ValueEmitter
from adjoint.codegen.writer import Writer
from adjoint.kernel.index import Index
from adjoint.kernel.ir import Buffer, For, Kernel, Prefetch, Stmt, Store, When, postorder
from adjoint.kernel.target import Target

__all__ = ["emit_kernel", "parameters"]


def parameters(kernel: Kernel) -> tuple[Buffer, ...]:
    """The buffers that are parameters of a kernel's function, in order: all except registers."""
    return tuple(dict.fromkeys((*kernel.writes, *kernel.reads, *kernel.scratch)))


def emit_kernel(
    kernel: Kernel, name: str, target: Target, declarations: dict[str, str], flush_subnormals: bool = True
) -> str:
    """The text of a kernel's function; equal for kernels that differ only in names."""
    # Gradual underflow makes the instruction ten times slower, also where the result is 0, as for masked exponentials.
    scales = target.has_scaleb and flush_subnormals
    cached = costs.l3_block_bytes(target)
    return _KernelEmitter(kernel, Writer(declarations), target.masks_loads, scales, cached).function(name)


class _Induction(NamedTuple):
    """An induction variable of a loop: the names of its value and of the next one, and how both are computed."""

    name: str
    following: str
    type: str
    start: str
    step: str
    pointer: tuple[Buffer, Terms] | None = None


class _KernelEmitter(ValueEmitter):
    """Emits the function of a kernel."""

    def function(self, name: str) -> str:
        buffers = parameters(self.kernel)
        for number, buffer in enumerate(buffers):
            self.pointers[buffer] = f"%b{number}"
        params = [f"ptr noalias nocapture %b{n}" for n in range(len(buffers))]
        share = []
        if self.kernel.until is not None:
            share = self.share(name, params, self.kernel.until)
            name = f"{name}.units"
        self.env[self.kernel.unit] = "%unit"
        with self.w.scope():
            for statement in self.kernel.body:
                self.statement(statement)
        # Inlined into the computation of the share, loops over units take up to 30 % more instructions.
        inline = "noinline #0" if share else "#0"
        head = f"define hidden void @{name}({', '.join([*params, 'i64 %low', 'i64 %high'])}) {inline} {{"
        lines = [
            *share,
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
            "  %unit.plus = add nuw nsw i64 %unit, 1",
            f"  %unit.next = {self.w.opaque('i64', '%unit.plus')}",
            "  %more = icmp slt i64 %unit.next, %high",
            "  br i1 %more, label %units, label %done",
            "done:",
            "  ret void",
            "}",
        ]
        return "\n".join(lines)

    def share(self, name: str, params: list[str], until: Index) -> list[str]:
        """The function that runs a thread's share of the units that there are: `share_of` with fewer units."""
        around, self.w = self.w, Writer(self.w.declarations)
        count = self.index(until)
        for function, limit in (("smin", self.kernel.unit.extent), ("smax", 0)):
            text = self.w.call_text(f"llvm.{function}.i64", "i64", ["i64", "i64"], [count, str(limit)])
            count = self.w.pure(text)
        lines, self.w, self.values = self.w.lines, around, {}
        pointers = [f"ptr %b{n}" for n in range(len(params))]
        return [
            f"define hidden void @{name}({', '.join([*params, 'i64 %thread', 'i64 %threads'])}) #0 {{",
            *lines,
            f"  %from = mul i64 %thread, {count}",
            "  %low = udiv i64 %from, %threads",
            f"  %to = add i64 %from, {count}",
            "  %high = udiv i64 %to, %threads",
            f"  call void @{name}.units({', '.join([*pointers, 'i64 %low', 'i64 %high'])})",
            "  ret void",
            "}",
        ]

    # Statements

    def statement(self, statement: Stmt) -> None:
        if isinstance(statement, Store):
            self.store(statement)
        elif isinstance(statement, When):
            self.when(statement)
        elif isinstance(statement, Prefetch):
            self.prefetch(statement)
        elif statement.kind == "vector":
            extent = statement.var.extent
            self.lanes = Lanes(statement.var, extent, 1 << (extent - 1).bit_length())
            for inner in statement.body:
                self.statement(inner)
            self.lanes = None
        elif statement.kind == "interleave":
            self.interleaved(statement)
        elif (match := match_transpose(statement)) is not None:
            self.transpose(match)
        elif (sums := match_lane_sums(statement)) is not None:
            self.lane_sums(sums)
        elif statement.kind == "unroll":
            for i in range(statement.var.extent):
                self.env[statement.var] = str(i)
                for inner in statement.body:
                    self.statement(inner)
        elif statement.var.extent:
            self.loop(statement)

    def interleaved(self, loop: For) -> None:
        """Emit each operation for all iterations of a nest of ``interleave`` loops, then the stores."""
        nest = [loop]
        while nest[-1].kind == "interleave":
            (inner,) = nest[-1].body
            assert isinstance(inner, For)
            nest.append(inner)
        *around, vector = nest
        places = list(product(*(map(str, range(outer.var.extent)) for outer in around)))
        variables = [outer.var for outer in around]
        extent = vector.var.extent
        self.lanes = Lanes(vector.var, extent, 1 << (extent - 1).bit_length())
        for store in vector.body:
            assert isinstance(store, Store)
            values: list[dict[int, Result]] = [{} for _ in places]
            for expr in postorder([value for _, _, value in store.targets]):
                for place, self.values in zip(places, values, strict=True):
                    self.env.update(zip(variables, place, strict=True))
                    self.expr(expr)
            for place, self.values in zip(places, values, strict=True):
                self.env.update(zip(variables, place, strict=True))
                for buffer, index, value in store.targets:
                    self.write(buffer, index, self.values[id(value)])
        self.lanes = None

    def transpose(self, match: Transpose) -> None:
        """Emit a copy that transposes a square: load rows as vectors, shuffle them, and store columns."""
        ((target, place, _),) = match.store.targets
        load, align, size = match.load, match.load.dtype.itemsize, match.size
        type_ = memory_type(target.dtype)
        many, long = match.inner.extent, match.outer.extent
        rows = []
        self.env[match.outer] = "0"
        for i in range(many):
            self.env[match.inner] = str(i)
            where = self.address(load.buffer, load.index)
            pointer = self.pointer(load.buffer)
            row = load_row(self.w, memory_type(load.dtype), long, match.stride, where, pointer, align)
            rows.append(resized(self.w, cast(self.w, row, load.dtype, target.dtype, long), type_, long, size))
        align = target.dtype.itemsize
        rows += ["poison"] * (size - many)
        self.env[match.inner] = "0"
        for i, column in enumerate(emit_transpose(self.w, rows, type_)[:long]):
            self.env[match.outer] = str(i)
            where = self.address(target, place)
            made = resized(self.w, column, type_, size, many)
            self.w.store(self.pointer(target), f"store {vector(type_, many)} {made}, ptr {where}, align {align}")

    def lane_sums(self, match: LaneSums) -> None:
        """Emit the sums of the lanes of several vectors, side by side."""
        ((result, place, _),) = match.store.targets
        dtype, count, lanes = match.across.dtype, match.outer.extent, match.inner.extent
        type_ = value_type(dtype)
        rows = []
        self.lanes = Lanes(match.inner, lanes, lanes)
        for i in range(count):
            self.values = {}
            self.env[match.outer] = str(i)
            rows.append(self.expr(match.load).text)
        self.lanes = None

        def combine(halves: list[str], lanes: int) -> str:
            return INSTRUCTIONS[match.across.function](self.w, halves, dtype, lanes)

        made = emit_lane_sums(self.w, rows, type_, lanes, combine)
        made = resized(self.w, made, type_, 1 << (count - 1).bit_length(), count)
        self.env[match.outer] = "0"
        where = self.address(result, place)
        self.w.store(self.pointer(result), f"store {vector(type_, count)} {made}, ptr {where}, align {dtype.itemsize}")

    def loop(self, loop: For) -> None:
        if loop.var.extent == 1 and loop.until is None and self.nest.inside:
            self.apart(loop)
            return
        end, around = self.end(loop), self.nest
        if not around.inside and reads_only(loop):
            self.nest = Nest.around(loop)
        with self.w.scope(loop=True):
            self.counted(loop, end)
        self.nest = around

    def counted(self, loop: For, end: str) -> None:
        """A loop whose counter ends at `end`, in a scope of its own."""
        before, head, latch, after = (self.w.label(h) for h in ("before", "head", "latch", "after"))
        if loop.until is None:
            self.w.line(f"  br label %{before}")
        else:
            some = self.w.pure(f"icmp sgt i64 {end}, 0")
            self.w.line(f"  br i1 {some}, label %{before}, label %{after}")
        self.w.line(f"{before}:")
        inductions = list(self.inductions(loop))
        self.nest = self.nest.body(loop)
        self.w.line(f"  br label %{head}")
        self.w.line(f"{head}:")
        for it in inductions:
            self.w.line(f"  {it.name} = phi {it.type} [ {it.start}, %{before} ], [ {it.following}, %{latch} ]")
        self.env[loop.var] = inductions[0].name
        self.nest.pointers.update((it.pointer, it.name) for it in inductions if it.pointer)
        for inner in loop.body:
            self.statement(inner)
        self.w.line(f"  br label %{latch}")
        self.w.line(f"{latch}:")
        for it in inductions:
            self.w.line(f"  {it.following} = {self.w.opaque(it.type, self.w.pure(it.step))}")
        more = self.w.pure(f"icmp ult i64 {inductions[0].following}, {end}")
        self.w.line(f"  br i1 {more}, label %{head}, label %{after}")
        self.w.line(f"{after}:")

    def inductions(self, loop: For) -> Iterator[_Induction]:
        """The variables of a loop: its counter, and the pointers that it advances (`strength_reduction`)."""
        name = self.w.name()
        yield _Induction(name, self.w.name(), "i64", "0", f"add nuw nsw i64 {name}, 1")
        for buffer, terms, stride in self.nest.advanced(loop) if self.nest.inside else ():
            start = self.address(buffer, Index(0, self.nest.fixed(Index(0, terms))))
            name = self.w.name()
            step = f"getelementptr {memory_type(buffer.dtype)}, ptr {name}, i64 {stride}"
            yield _Induction(name, self.w.name(), "ptr", start, step, (buffer, terms))

    def apart(self, loop: For) -> None:
        """A single iteration, with pointers of its own: LLVM does not keep what others load in registers for it."""
        self.env[loop.var], around = "0", self.nest
        nest = around.body(loop)
        with self.w.scope():
            for buffer, terms in nest.read(loop):
                # An empty instruction, of which LLVM does not know that its result is its operand.
                where = self.address(buffer, Index(0, terms))
                nest.pointers[buffer, terms] = self.w.pure(f'call ptr asm sideeffect "", "=r,0"(ptr {where})')
            self.nest = nest
            for inner in loop.body:
                self.statement(inner)
        self.nest = around

    def end(self, loop: For) -> str:
        """The number of iterations of a loop; with `For.until`, not positive if none runs."""
        if loop.until is None:
            return str(loop.var.extent)
        self.values = {}
        args = [self.index(loop.until), str(loop.var.extent)]
        return self.w.pure(self.w.call_text("llvm.smin.i64", "i64", ["i64", "i64"], args))

    def when(self, when: When) -> None:
        self.values = {}
        index = self.index(when.index)
        # A single unsigned comparison checks both bounds.
        shifted = index if not when.low else self.w.hoisted(f"sub i64 {index}, {when.low}", index)
        with self.w.scope():
            self.branches(when, shifted)

    def branches(self, when: When, shifted: str) -> None:
        """Both branches, of which the first is taken if the index is in the range."""
        yes, no, after = (self.w.label(h) for h in ("then", "else", "after"))
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

    def prefetch(self, statement: Prefetch) -> None:
        self.values = {}
        type_, pointer = memory_type(statement.buffer.dtype), self.pointer(statement.buffer)
        # Not "inbounds", because a prefetched address may be outside the buffer.
        where = self.w.pure(f"getelementptr {type_}, ptr {pointer}, i64 {self.index(statement.index)}")
        # Into every level of the cache (locality 3), because the data is used next; what comes from memory into the
        # second one (locality 2), which waits for more lines at a time (Zen 4: 58 GB/s instead of 40 on two cores).
        far = not statement.write and statement.buffer.nbytes > self.cached
        args = [where, str(int(statement.write)), "2" if far else "3", "1"]
        self.w.line(f"  {self.w.call_text('llvm.prefetch.p0', 'void', ['ptr', 'i32', 'i32', 'i32'], args)}")

    def write(self, buffer: Buffer, index: Index, value: Result) -> None:
        type_ = memory_type(buffer.dtype)
        if self.lanes is None:
            text = self.to_memory(buffer, value).text
            self.w.store(self.pointer(buffer), f"store {type_} {text}, ptr {self.address(buffer, index)}")
            return
        lanes = self.lanes
        text = self.to_memory(buffer, self.widen(value, value_type(buffer.dtype))).text
        wide = vector(type_, lanes.width)
        align = buffer.dtype.itemsize
        if index.coefficient(lanes.var) == 1 or lanes.width == 1:
            where = self.address(buffer, index.without(lanes.var))
            if lanes.active == lanes.width:
                self.w.store(self.pointer(buffer), f"store {wide} {text}, ptr {where}, align {align}")
            elif buffer.space == "register":
                # The lanes beyond the loop's extent keep their old values.
                old = self.w.load(self.pointer(buffer), f"load {wide}, ptr {where}, align {align}")
                mixed = self.w.pure(f"select <{lanes.width} x i1> {self.mask()}, {wide} {text}, {wide} {old}")
                self.w.store(self.pointer(buffer), f"store {wide} {mixed}, ptr {where}, align {align}")
            else:
                self.masked_store(buffer, wide, text, "ptr", where, f"llvm.masked.store.{mangled(wide)}.p0")
            return
        if offsets := lane_offsets(index, lanes.var, lanes.active):
            # Faster than a scatter (Zen 5: 16 of 2048x32 @ 32x3 in 0.8 of the time).
            first = self.address(buffer, without_lane(index, lanes.var))
            for lane, offset in enumerate(offsets):
                where = self.w.pure(f"getelementptr inbounds {type_}, ptr {first}, i64 {offset}")
                one = self.w.pure(f"extractelement {wide} {text}, i64 {lane}")
                self.w.store(self.pointer(buffer), f"store {type_} {one}, ptr {where}, align {align}")
            return
        where = self.addresses(buffer, index)
        pointers = f"<{lanes.width} x ptr>"
        name = f"llvm.masked.scatter.{mangled(wide)}.v{lanes.width}p0"
        self.masked_store(buffer, wide, text, pointers, where, name)

    def masked_store(self, buffer: Buffer, wide: str, text: str, pointers: str, where: str, name: str) -> None:
        assert self.lanes is not None
        types = [wide, pointers, "i32", f"<{self.lanes.width} x i1>"]
        args = [text, where, str(buffer.dtype.itemsize), self.mask()]
        self.w.store(self.pointer(buffer), self.w.call_text(name, "void", types, args))

    def to_memory(self, buffer: Buffer, value: Result) -> Result:
        if buffer.dtype.kind != "b":
            return value
        wide = vector("i8", value.lanes)
        return Result(self.w.pure(f"zext {vector('i1', value.lanes)} {value.text} to {wide}"), value.lanes)
