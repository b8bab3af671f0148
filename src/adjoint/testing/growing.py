"""A random graph while it grows: the values so far, what is known about each, and how to pick operands."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeVar

import hypothesis.strategies as st
import numpy as np

from adjoint import ops
from adjoint.ir import Value, is_float, is_integer, param

__all__ = ["INTEGER_BOUND", "SIZES", "Draw", "Growing", "Node"]

T = TypeVar("T")

#: What hypothesis hands to a composite strategy.
Draw = Callable[[st.SearchStrategy[Any]], Any]

#: Sizes of axes: 1, which broadcasts, and sizes that no vector width divides.
SIZES = (1, 2, 3, 7, 17, 33)

#: Most elements of a parameter and of an operand.
MOST = 1200

#: Arguments are floats in [-2, 2] and integers in [-3, 3].
FLOAT_BOUND, INTEGER_BOUND = 2.0, 3.0

#: Results beyond this magnitude are scaled down.
LIMIT = 40.0


@dataclass(frozen=True, slots=True)
class Node:
    """A value of the graph and what is known about it.

    Parameters
    ----------
    value : Value
        The value.
    bound : float
        No element is greater in magnitude.
    exact : bool
        Whether every correct program computes the same bits: nothing on the way was rounded. Only such values are
        compared, rounded to whole numbers or searched for their greatest element, because a difference in the last
        place would make another result altogether.
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
    draw : callable
        Hypothesis's.
    smooth : bool
        Whether operators with kinks take exact operands only, so that gradients are unambiguous too.
    """

    draw: Draw
    smooth: bool = False
    params: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)

    def choose(self, options: Sequence[T]) -> T:
        """One of several; the first is the simplest."""
        made: T = self.draw(st.sampled_from(options))
        return made

    def flag(self) -> bool:
        """Yes or no."""
        return self.choose((False, True))

    def shape(self, min_rank: int = 0) -> tuple[int, ...]:
        """A small shape."""
        shape: list[int] = self.draw(st.lists(st.sampled_from(SIZES), min_size=min_rank, max_size=3))
        while prod(shape) > MOST:
            shape[shape.index(max(shape))] = 3
        return tuple(shape)

    def parameter(self, shape: tuple[int, ...], kind: str = "float", dtype: object = None) -> Node:
        """A new parameter: of a given dtype, or f32 mostly, i32, i64 or bool as the kind says."""
        if dtype is None:
            dtypes = {"float": ("f32", "f32", "f32", "f32", "f64"), "integer": ("i64", "i32"), "bool": ("bool",)}
            dtype = self.choose(dtypes[kind])
        value = param(f"p{len(self.params)}", shape, dtype)
        self.params.append(value)
        bound = {"float": FLOAT_BOUND, "integer": INTEGER_BOUND, "bool": 1.0}[kind]
        return self.add(Node(value, bound, True))

    def add(self, node: Node) -> Node:
        """Put a value into the graph; one that may be large is scaled down first."""
        if node.bound > LIMIT and node.kind == "float":
            scale = 2.0 ** np.floor(np.log2(1 / node.bound))
            node = Node(ops.multiply(node.value, float(scale)), node.bound * float(scale), False)
        elif node.bound > LIMIT and node.kind == "integer":
            held = ops.maximum(ops.minimum(node.value, int(LIMIT)), -int(LIMIT) if node.value.dtype.kind == "i" else 0)
            node = Node(held, LIMIT, True)
        self.nodes.append(node)
        return node

    def pick(self, kind: str = "float", *, exact: bool = False, rank: int = 0) -> Node:
        """A value of the graph, of that kind and at least that rank; a new parameter where there is none."""

        def fits(node: Node) -> bool:
            suits = node.kind == kind and node.exact >= exact
            return suits and len(node.value.shape) >= rank and prod(node.value.shape) <= MOST

        found = [node for node in reversed(self.nodes) if fits(node)]
        if not found:
            return self.parameter(self.shape(rank), kind)
        return self.choose(found if self.flag() else found[:2])  # the latest ones, mostly: graphs grow deep

    def number(self, *, exact: bool = False, rank: int = 0) -> Node:
        """Floats, seldom integers."""
        return self.pick(self.choose(("float", "float", "float", "float", "integer")), exact=exact, rank=rank)

    def kinked(self) -> Node:
        """The operand of an operator with a kink."""
        return self.number(exact=self.smooth)

    def partner(self, node: Node, *, exact: bool = False) -> Node:
        """Another operand that broadcasts with `node`: of its dtype, from the graph or new."""

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
        """Some axes of a value, none or all included."""
        return tuple(axis for axis in range(len(node.value.shape)) if self.flag())
