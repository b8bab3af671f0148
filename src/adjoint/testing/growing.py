"""A random graph under construction: its values, what is known about each, and the selection of operands."""

from collections.abc import Sequence
from dataclasses import field
from math import prod
from typing import Protocol, TypeVar

import numpy as np

from adjoint import ops
from adjoint.ir import Value, is_float, is_integer, param
from adjoint.lazy_dataclass import dataclass

__all__ = ["INTEGER_BOUND", "SIZES", "Choose", "Growing", "Node"]

T = TypeVar("T")

#: Sizes of axes: 1, which broadcasts, and sizes that are mostly no multiple of a vector width.
SIZES = (1, 2, 3, 7, 17, 33)

#: Maximum number of elements of a parameter or operand.
MOST = 1200

#: Bounds of the magnitude of float and integer arguments.
FLOAT_BOUND, INTEGER_BOUND = 2.0, 3.0

#: Maximum magnitude of results; larger ones are scaled down.
LIMIT = 40.0


class Choose(Protocol):
    """A function that returns one of several options, such as `random.Random.choice`."""

    def __call__(self, options: Sequence[T], /) -> T:
        """One of the options, of which the first is the simplest."""


@dataclass(frozen=True, slots=True)
class Node:
    """A value of the graph, with what is known about it.

    Parameters
    ----------
    value : Value
        The value.
    bound : float
        Upper bound of the magnitude of its elements.
    exact : bool
        Whether every correct program computes the same bits, because no operation rounded. Only such values are
        compared, rounded to integers or searched for their maximum, because otherwise a difference in the last bit
        could change the result completely.
    """

    value: Value
    bound: float
    exact: bool

    @property
    def kind(self) -> str:
        """``float``, ``integer`` or ``bool``."""
        dtype = self.value.dtype
        return "float" if is_float(dtype) else "integer" if is_integer(dtype) else "bool"


@dataclass
class Growing:
    """The graph so far.

    Parameters
    ----------
    choose : callable
        Returns one of a sequence of options: all that is random in a graph.
    smooth : bool
        Whether operators with kinks are applied to exact operands only, so that gradients are unambiguous too.
    """

    choose: Choose
    smooth: bool = False
    params: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)

    def flag(self) -> bool:
        """A random bool."""
        return self.choose((False, True))

    def shape(self, min_rank: int = 0) -> tuple[int, ...]:
        """A small shape."""
        shape = [self.choose(SIZES) for _ in range(self.choose(range(min_rank, max(min_rank, 3) + 1)))]
        while prod(shape) > MOST:
            shape[shape.index(max(shape))] = 3
        return tuple(shape)

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """All options, in a random order."""
        left = list(options)
        return [left.pop(self.choose(range(len(left)))) for _ in options]

    def parameter(self, shape: tuple[int, ...], kind: str = "float", dtype: object = None) -> Node:
        """A new parameter of the given dtype, by default a random one of the given kind, mostly f32."""
        if dtype is None:
            dtypes = {"float": ("f32", "f32", "f32", "f32", "f64"), "integer": ("i64", "i32"), "bool": ("bool",)}
            dtype = self.choose(dtypes[kind])
        value = param(f"p{len(self.params)}", shape, dtype)
        self.params.append(value)
        bound = {"float": FLOAT_BOUND, "integer": INTEGER_BOUND, "bool": 1.0}[kind]
        return self.add(Node(value, bound, True))

    def add(self, node: Node) -> Node:
        """Add a value to the graph, scaling it down if it may be large."""
        if node.bound > LIMIT and node.kind == "float":
            scale = 2.0 ** np.floor(np.log2(1 / node.bound))
            node = Node(ops.multiply(node.value, float(scale)), node.bound * float(scale), False)
        elif node.bound > LIMIT and node.kind == "integer":
            held = ops.maximum(ops.minimum(node.value, int(LIMIT)), -int(LIMIT) if node.value.dtype.kind == "i" else 0)
            node = Node(held, LIMIT, True)
        self.nodes.append(node)
        return node

    def pick(self, kind: str = "float", *, exact: bool = False, rank: int = 0) -> Node:
        """A value of the graph of the given kind and minimum rank; a new parameter if there is none."""

        def fits(node: Node) -> bool:
            suits = node.kind == kind and node.exact >= exact
            return suits and len(node.value.shape) >= rank and prod(node.value.shape) <= MOST

        found = [node for node in reversed(self.nodes) if fits(node)]
        if not found:
            return self.parameter(self.shape(rank), kind)
        return self.choose(found if self.flag() else found[:2])  # prefer the latest values, so that graphs become deep

    def number(self, *, exact: bool = False, rank: int = 0) -> Node:
        """A number: usually floats, sometimes integers."""
        return self.pick(self.choose(("float", "float", "float", "float", "integer")), exact=exact, rank=rank)

    def kinked(self) -> Node:
        """An operand for an operator with a kink."""
        return self.number(exact=self.smooth)

    def partner(self, node: Node, *, exact: bool = False) -> Node:
        """A second operand that broadcasts with `node` and has its dtype, from the graph or new."""

        def fits(other: Node) -> bool:
            if other.value.dtype != node.value.dtype or other.exact < exact:
                return False
            try:
                together = np.broadcast_shapes(other.value.shape, node.value.shape)
            except ValueError:
                return False
            return prod(together) <= MOST

        found = [other for other in reversed(self.nodes) if fits(other)]
        if found and not self.flag():
            return self.choose(found)
        own = node.value.shape
        tail = own[self.choose(range(len(own) + 1)) :]
        return self.parameter(tail, node.kind, node.value.dtype)

    def axes(self, node: Node) -> tuple[int, ...]:
        """A random subset of the axes of a value."""
        return tuple(axis for axis in range(len(node.value.shape)) if self.flag())
