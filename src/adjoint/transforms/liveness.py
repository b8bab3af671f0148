"""Which values of a graph need memory, from when to when: the estimate in front of `rematerialize`.

The graph is taken in *stages*, as lowering takes it: a reduction or contraction comes one stage after what it reads,
and anything else runs in the stage of its newest operand, from registers. So a value needs memory where a later
stage reads it, and from its own stage to the last one that does. What the stages of values and their readers are
when kernels have been fused and ordered for real can differ a little.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from adjoint.ir import Function, TensorType, Value, is_param
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.base import Dot, Operator
from adjoint.ops.convert import After
from adjoint.transforms.observing import Element, Observer

__all__ = ["Liveness", "Work", "work_of"]


@dataclass(frozen=True, slots=True)
class Work:
    """The cost of computing a value.

    Parameters
    ----------
    kind : str
        ``param``; ``view``, which needs no computation; ``map``, one element from a few; ``root``, one element from
        many, which starts a stage.
    flops : float
        Number of operations: `Operator.flops` times the number of points evaluated.
    """

    kind: str
    flops: float


@dataclass(frozen=True, slots=True)
class _Operand:
    """An operand that returns a placeholder at every index."""

    type: TensorType
    number: int

    def __call__(self, index: Sequence[Any]) -> Element:  # noqa: ARG002
        return Element(self.type.dtype, self.number)


class _Watch(Observer):
    """A `Builder` that counts the points that are combined, with all coordinates 0."""

    def __init__(self) -> None:
        self.points = 0

    def position(self, x: Element, size: int) -> int:  # noqa: ARG002
        return 0

    def reduce(self, kind: str, extents: Sequence[int], body: Callable[[Any], Element]) -> Element:
        self.points += prod(extents)
        return Element(np.dtype(np.int64) if kind == "argmax" else body((0,) * len(extents)).dtype)

    def scatter_add(
        self, rows: int, count: int, ids: Callable[[Any], Element], updates: Callable[[Any], Element]
    ) -> Element:
        # Each update is visited once for all rows together.
        self.points += max(1, count // max(rows, 1))
        ids(0)
        return Element(updates(0).dtype)

    def prefix_scan(
        self,
        axis: int,  # noqa: ARG002
        size: int,
        start: Element,
        step: Callable[[Any, Element], Element],
        exclusive: bool = False,  # noqa: ARG002
        reverse: bool = False,  # noqa: ARG002
    ) -> Element:
        self.points += 1  # a step for each element
        return step(0, start) if size else start

    def fused_attention(
        self,
        kind: str,  # noqa: ARG002
        count: int,
        dots: Sequence[Dot],
        weight: Callable[[Any, Sequence[Element]], Element],
        values: Callable[[Any], Element] | None = None,
        span: Any = None,  # noqa: ARG002
        factor: Callable[[Any], Element] | None = None,  # noqa: ARG002
    ) -> Element:
        # Columns share the weights: their number is about that of the steps of a dot product.
        self.points += count * (1 if values is not None else sum(dot.depth for dot in dots))
        return Element(weight(0, [dot.row(0) for dot in dots]).dtype)

    def row_algorithm(
        self,
        name: str,  # noqa: ARG002
        rank: int,  # noqa: ARG002
        operands: Sequence[tuple[tuple[int, ...], Callable[[Any], Element]]],
        options: tuple[str, ...] = (),  # noqa: ARG002
    ) -> Element:
        # Each element of the result takes about one pass over a row of the longest operand.
        self.points += max(1, *(shape[-1] for shape, _ in operands if shape))
        return [read((0,) * len(shape)) for shape, read in operands][-1]


def work_of(value: Value) -> Work:
    """The cost of computing a value, found by lowering one element of it."""
    op = value.op
    if is_param(value) or not isinstance(op, Operator):
        return Work("param", 0.0)
    if not value.inputs:
        return Work("view", 0.0)
    watch = _Watch()
    operands = (_Operand(v.type, number) for number, v in enumerate(value.inputs))
    made: Element = op.lower(watch, (0,) * len(value.shape), *operands)
    if watch.points:
        return Work("root", op.flops * watch.points * value.type.size)
    if made.of >= 0:
        return Work("view", 0.0)
    return Work("map", op.flops * value.type.size)


@dataclass(frozen=True)
class Liveness:
    """The live ranges of the values of a function.

    Parameters
    ----------
    function : Function
        A graph without calls whose results are distinct values.
    works : mapping
        The `work_of` each of its values.
    """

    function: Function
    works: Mapping[Value, Work]

    @cached_property
    def order(self) -> list[Value]:
        """All values, inputs before users."""
        return self.function.values()

    @cached_property
    def place(self) -> dict[Value, int]:
        """The position of each value in `order`."""
        return {value: number for number, value in enumerate(self.order)}

    @cached_property
    def stage(self) -> dict[Value, int]:
        """The stage in which each value is computed; 0 for parameters."""
        found: dict[Value, int] = {}
        for value in self.order:
            root = self.works[value].kind == "root"
            found[value] = max((found[v] for v in value.inputs), default=0) + root
        return found

    def is_view(self, value: Value) -> bool:
        """Whether the value needs no memory of its own. Results are never views, because they are written."""
        return self.works[value].kind == "view" and value not in self._results

    @cached_property
    def _results(self) -> frozenset[Value]:
        return frozenset(self.function.results)

    def sources(self, value: Value) -> list[Value]:
        """The values that a value is computed from: its operands, with views replaced by what they refer to."""
        found: dict[Value, None] = {}
        pending = list(_read(value))
        while pending:
            operand = pending.pop()
            if self.is_view(operand):
                pending.extend(_read(operand))
            else:
                found[operand] = None
        return list(found)

    @cached_property
    def readers(self) -> dict[Value, list[Value]]:
        """For each value, the values computed from it, directly or through views."""
        found: dict[Value, list[Value]] = {value: [] for value in self.order}
        for value in self.order:
            if not self.is_view(value):
                for source in self.sources(value):
                    found[source].append(value)
        return found

    @cached_property
    def last(self) -> dict[Value, int]:
        """The last stage that reads each value; at least its own stage."""
        return {v: max((self.stage[r] for r in self.readers[v]), default=self.stage[v]) for v in self.order}

    def is_stored(self, value: Value) -> bool:
        """Whether a value is in memory allocated by the function itself."""
        outside = value in self._results or self.works[value].kind in ("param", "view")
        return not outside and self.last[value] > self.stage[value]

    def is_kept(self, value: Value) -> bool:
        """Whether a value is in memory, allocated by anyone, so that a later stage can read it."""
        return self.is_stored(value) or value in self._results or self.works[value].kind == "param"

    @cached_property
    def live(self) -> list[int]:
        """Number of live bytes in each stage."""
        change = [0] * (max(self.stage.values(), default=0) + 2)
        for value in self.order:
            if self.is_stored(value):
                change[self.stage[value]] += value.type.nbytes
                change[self.last[value] + 1] -= value.type.nbytes
        total, found = 0, []
        for amount in change[:-1]:
            total += amount
            found.append(total)
        return found

    @property
    def peak(self) -> int:
        """The maximum number of live bytes in any stage."""
        return max(self.live)


def _read(value: Value) -> tuple[Value, ...]:
    """Operands whose elements are read; `After` does not read its second operand."""
    return value.inputs[:1] if isinstance(value.op, After) else value.inputs
