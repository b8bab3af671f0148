"""Loops and branches: the kernels of the functions that they hold, and where these find their operands.

A function that a loop or branch holds is lowered like any other. Its parameters and results are buffers without memory
of their own; the places of a `Part` say where they are: in an operand, in a row of one, or in a carry.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from adjoint.ir import Function, Value, value_names
from adjoint.kernel.index import Var
from adjoint.kernel.ir import Buffer, Kernel
from adjoint.kernel.program import ALIGNMENT
from adjoint.kernel.regions import Carried, Nested, Part, Place, Rows
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.context import Context
from adjoint.lower.copying import copy_kernel
from adjoint.lower.fusion.groups import Group, flat_source
from adjoint.ops.calls import TupleGet
from adjoint.ops.control import Branch, Control, Scan, While

__all__ = ["Body", "nested_kernel", "read_while_updated", "values_inside"]


@dataclass(frozen=True, slots=True)
class Body:
    """A lowered function.

    Parameters
    ----------
    kernels : tuple of Kernel
        In execution order.
    params, results : tuple of Buffer
        Buffers without memory of their own.
    literals : mapping
        The literal arrays that the kernels read.
    """

    kernels: tuple[Kernel, ...]
    params: tuple[Buffer, ...]
    results: tuple[Buffer, ...]
    literals: Mapping[Buffer, bytes]


#: Lowers a function that a loop or branch holds.
LowerBody = Callable[[Function], Body]


def read_while_updated(kernels: Sequence[Kernel], updated: frozenset[Buffer]) -> frozenset[Buffer]:
    """In-place updates by a loop or branch that also reads the old contents, in every iteration or while it writes."""
    return frozenset(b for k in kernels if isinstance(k, Nested) for b in k.writes if b in updated and b in k.reads)


def values_inside(function: Function) -> dict[str, Value]:
    """The values of a function and of those that its loops and branches hold, by the names that kernels have for them.

    Parameters
    ----------
    function : Function
        A function after the graph passes.
    """
    found: dict[str, Value] = {}
    _collect_inside(function, "", found)
    return found


def _collect_inside(function: Function, prefix: str, found: dict[str, Value]) -> None:
    names = value_names(function)
    labels: dict[Value, list[str]] = {}
    for value, name in names.items():
        found[f"%{prefix}{name.removeprefix('%')}"] = value
        if isinstance(value.op, TupleGet) and value.label:
            labels.setdefault(value.inputs[0], []).append(value.label)
    for value, name in names.items():
        if not isinstance(value.op, Control):
            continue
        own = name.removeprefix("%")
        # A region has the name of a result that has a label, or that of its operator.
        for region in (*labels.get(value, ()), f"{value.op.name}_{own}" if own.isdigit() else own):
            found.setdefault(f"%{prefix}{region}", value)
            for side, body in zip(_SIDES[type(value.op)], value.op.bodies(), strict=True):
                _collect_inside(body, f"{prefix}{region}.{side}", found)


#: What the names of values begin with, after that of the loop or branch, in the functions that it holds.
_SIDES: Mapping[type, tuple[str, ...]] = MappingProxyType(
    {Scan: ("",), Branch: ("then.", "other."), While: ("condition.", "body.")}
)


def nested_kernel(context: Context, group: Group, lower_body: LowerBody) -> Kernel:
    """The kernel of a loop or branch."""
    root = group.root
    assert root is not None
    return _Nesting(context, group, root, lower_body).kernel()


class _Nesting:
    """One loop or branch on the way to its kernel."""

    def __init__(self, context: Context, group: Group, root: Value, lower_body: LowerBody) -> None:
        self.context = context
        self.name = context.name_of(group)
        self.root = root
        self.lower_body = lower_body
        self.operands = [context.buffers[flat_source(v, context.buffers)] for v in root.inputs]
        #: The buffers of the results that something reads.
        self.given: dict[int, Buffer] = {}
        for value in group.outputs:
            assert isinstance(value.op, TupleGet)
            self.given[value.op.index] = context.buffers[value]
        self.literals: dict[Buffer, bytes] = {}

    def kernel(self) -> Nested:
        op = self.root.op
        if isinstance(op, Scan):
            parts = [self._scan(op)]
        elif isinstance(op, Branch):
            parts = [self._side("then", op.then, want=True), self._side("other", op.other, want=False)]
        else:
            assert isinstance(op, While)
            parts = self._while(op)
        inside = [k for part in parts for k in part.kernels]
        trips = parts[-1].trips or 1
        return Nested(
            self.name,
            Var("u", 1),
            (),
            (self.context.names[self.root],),
            sum(k.flops for k in inside) * trips,
            sum(k.bytes for k in inside) * trips,
            operands=tuple(dict.fromkeys(self.operands)),
            outputs=tuple(dict.fromkeys(self.given.values())),
            parts=tuple(parts),
            literals=self.literals,
        )

    def _lowered(self, function: Function) -> Body:
        made = self.lower_body(function)
        self.literals |= made.literals
        return made

    def _scan(self, op: Scan) -> Part:
        body = self._lowered(op.body)
        fixed = op.consts + op.carries
        places: dict[Buffer, Place] = dict(zip(body.params[: op.consts], self.operands[: op.consts], strict=True))
        carried = zip(
            body.params[op.consts : fixed],
            body.results[: op.carries],
            self.operands[op.consts : fixed],
            strict=True,
        )
        for number, (before, after, first) in enumerate(carried):
            stride = -(-before.nbytes // ALIGNMENT) * ALIGNMENT
            pair = Buffer(f"{before.name}.carry", before.dtype, 2 * stride // before.dtype.itemsize, "arena")
            last = self.given.get(number)
            places[before] = Carried(first, last, pair, stride, written=False)
            places[after] = Carried(first, last, pair, stride, written=True)
        for row, whole in zip(body.params[fixed:], self.operands[fixed:], strict=True):
            places[row] = self._rows(op, row, whole)
        for number, row in enumerate(body.results[op.carries :], op.carries):
            whole = self.given.get(number) or self._spare(row, op.length)
            places[row] = self._rows(op, row, whole)
        return Part(self.name, body.kernels, places, op.length)

    def _rows(self, op: Scan, row: Buffer, whole: Buffer) -> Rows:
        if op.reverse:
            return Rows(whole, (op.length - 1) * row.nbytes, -row.nbytes)
        return Rows(whole, 0, row.nbytes)

    def _spare(self, like: Buffer, rows: int = 1) -> Buffer:
        """Memory for what nothing reads outside."""
        return Buffer(like.name, like.dtype, rows * like.size, "arena")

    def _side(self, side: str, function: Function, want: bool) -> Part:
        body = self._lowered(function)
        places: dict[Buffer, Place] = dict(zip(body.params, self.operands[1:], strict=True))
        for number, result in enumerate(body.results):
            places[result] = self.given.get(number) or self._spare(result)
        return Part(f"{self.name}.{side}", body.kernels, places, test=self.operands[0], want=want)

    def _while(self, op: While) -> list[Part]:
        """Carries are updated in their final places: each iteration makes new values and then copies them there."""
        condition, body = self._lowered(op.condition), self._lowered(op.body)
        first = self.operands[op.consts :]
        kept = [self.given.get(n) or self._spare(result) for n, result in enumerate(body.results)]
        now = [*self.operands[: op.consts], *kept]
        test = self._spare(condition.results[0])
        places: dict[Buffer, Place] = {**dict(zip(condition.params, now, strict=True)), condition.results[0]: test}
        places |= dict(zip(body.params, now, strict=True))
        new = [self._spare(result) for result in body.results]
        places |= dict(zip(body.results, new, strict=True))
        before = tuple(_labelled(k, "condition.") for k in condition.kernels)
        after = tuple(_labelled(k, "body.") for k in body.kernels)
        copies = tuple(self._copies("update", new, kept))
        return [
            Part(f"{self.name}.start", tuple(self._copies("start", first, kept)), {}),
            Part(self.name, (*before, *after, *copies), places, None, test, len(before)),
        ]

    def _copies(self, name: str, sources: Sequence[Buffer], to: Sequence[Buffer]) -> list[Kernel]:
        return [
            copy_kernel(self.context, f"{name}{n}", (), source, target)
            for n, (source, target) in enumerate(zip(sources, to, strict=True))
        ]


def _labelled(kernel: Kernel, prefix: str) -> Kernel:
    values = tuple(f"%{prefix}{value.removeprefix('%')}" for value in kernel.values)
    return replace(kernel, name=f"{prefix}{kernel.name}", values=values)
