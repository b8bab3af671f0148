"""The nodes and constants of an ONNX graph that is being written."""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from adjoint.importers.onnx.export.sizes import Sizes
from adjoint.importers.onnx.tensors import DTYPE_CODES
from adjoint.ir import Value

__all__ = ["Emitter", "Rule"]

#: Writes the nodes of a value, and returns the name of its result.
Rule = Callable[["Emitter", Value], str]

_I64 = np.dtype(np.int64)


class Emitter:
    """Collects what a graph consists of.

    Parameters
    ----------
    onnx : module
        The package.
    sizes : Sizes or None
        Which sizes depend on that of the batch, if it may vary.
    batch : tuple of (str, int) or None
        An input of the graph and its axis that has the size of the batch.
    """

    def __init__(self, onnx: Any, sizes: Sizes | None, batch: tuple[str, int] | None) -> None:
        self.onnx = onnx
        self.sizes = sizes
        self.batch = batch
        self.nodes: list[Any] = []
        self.stored: dict[str, np.ndarray] = {}
        #: The names of values in the graph, and of values before they were broadcast.
        self.names: dict[Value, str] = {}
        self.narrow: dict[Value, str] = {}
        self.taken: set[str] = set()
        self._constants: dict[Any, str] = {}
        self._rows = ""

    def fresh(self, wanted: str) -> str:
        """A name that is not taken yet."""
        name, n = wanted, 0
        while name in self.taken:
            n += 1
            name = f"{wanted}_{n}"
        self.taken.add(name)
        return name

    def node(self, op: str, *inputs: str, to: str | None = None, **attrs: Any) -> str:
        """Add a node with one result, which is named after the operator unless `to` says how."""
        made = self.fresh(op.lower()) if to is None else to
        self.nodes.append(self.onnx.helper.make_node(op, inputs, (made,), name=made, **attrs))
        return made

    def constant(self, array: np.ndarray) -> str:
        """The name of a constant; equal ones are stored once."""
        array = np.ascontiguousarray(array).reshape(array.shape)
        key = (array.shape, array.dtype, array.tobytes())
        if key not in self._constants:
            name = self._constants[key] = self.fresh("constant")
            self.stored[name] = array
        return self._constants[key]

    def scalar(self, value: float | int | bool, dtype: np.dtype) -> str:
        """The name of a constant without axes."""
        return self.constant(np.asarray(value, dtype))

    def ints(self, numbers: Sequence[int]) -> str:
        """The name of a vector of i64."""
        return self.constant(np.array(numbers, _I64).reshape(len(numbers)))

    def cast(self, name: str, dtype: np.dtype) -> str:
        """A conversion to a dtype, for whose node `to` is an attribute and not the name of its result."""
        made = self.fresh("cast")
        self.nodes.append(self.onnx.helper.make_node("Cast", (name,), (made,), name=made, to=DTYPE_CODES[dtype]))
        return made

    def factors(self, value: Value) -> tuple[int, ...]:
        """For each axis of a value, how many elements there are per row of a batch whose size may vary, or 0."""
        return (0,) * len(value.shape) if self.sizes is None else self.sizes.factors[value]

    def rows(self) -> str:
        """The size of the batch, i64[1]."""
        if not self._rows:
            assert self.batch is not None
            name, axis = self.batch
            self._rows = self.node("Shape", name, start=axis, end=axis + 1)
        return self._rows

    def size(self, each: int) -> str:
        """A multiple of the size of the batch, i64[1]."""
        return self.rows() if each == 1 else self.node("Mul", self.rows(), self.ints([each]))

    def shape(self, value: Value) -> str:
        """The shape of a value, in which sizes that depend on the batch are computed."""
        factors = self.factors(value)
        if not any(factors):
            return self.ints(value.shape)
        parts = []
        for varies, group in groupby(zip(factors, value.shape, strict=True), lambda pair: pair[0] > 0):
            pairs = list(group)
            parts += [self.size(each) for each, _ in pairs] if varies else [self.ints([size for _, size in pairs])]
        return parts[0] if len(parts) == 1 else self.node("Concat", *parts, axis=0)

    def of(self, value: Value) -> str:
        """The name of an operand."""
        if value not in self.names:  # which has not been broadcast
            self.names[value] = self.node("Expand", self.narrow[value], self.shape(value))
        return self.names[value]

    def broadcast(self, values: Sequence[Value], shape: tuple[int, ...]) -> list[str]:
        """The names of operands of an operator that broadcasts, whose result has a shape.

        Operands that were broadcast to that shape are used as they were before, as far as others still have it.
        """
        names = [self.names.get(v) or self.narrow[v] for v in values]
        if tuple(np.broadcast_shapes(*map(self._written_shape, values))) == shape:
            return names
        return [self.of(values[0]), *names[1:]]

    def _written_shape(self, value: Value) -> tuple[int, ...]:
        """The shape of a value in the graph, which may not have been broadcast."""
        if value in self.names:
            return value.shape
        return value.inputs[0].shape if value.inputs else ()
