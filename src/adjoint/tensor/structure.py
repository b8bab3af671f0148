"""The structure of recorded programs: a trie whose nodes are operations in the context of all operations before them.

A path from a root is a program. Recording the same operations on operands of the same types again follows the same
path, one dictionary look-up per operation; a node made once has the type of its result, its graph value and the line of
code, and nothing is inferred, differentiated or compiled again.

Keys of `Node.children`: the `Spec` of a tensor that enters the program, or a tuple of an `Operation` (or another
marker) and its operands. Operands that are tensors are nodes, which hash by identity, so a key costs no comparison of
shapes.
"""

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError
from adjoint.ir import TensorType, Value
from adjoint.tensor.size import Size

__all__ = ["Node", "Operation", "Spec", "spec_of", "spec_of_array"]


class Spec:
    """What a recorded program knows of a tensor: its type, and how it takes part in differentiation.

    Instances are interned by `spec_of`, so equal specs are the same object.

    Attributes
    ----------
    type : TensorType
        Shape and dtype.
    shape : Size
        The shape, as tensors show it.
    requires_grad : bool
        Whether gradients flow to it.
    leaf : bool
        Whether a gradient is accumulated in its ``grad``; False for the results of operations.
    can_start : bool
        Whether a backward pass can start from it without a cotangent: a result with one element.
    """

    __slots__ = ("can_start", "leaf", "requires_grad", "shape", "type")

    def __init__(self, type_: TensorType, requires_grad: bool, leaf: bool) -> None:
        self.type = type_
        self.shape = Size(type_.shape)
        self.requires_grad = requires_grad
        self.leaf = leaf
        self.can_start = requires_grad and not leaf and type_.size == 1

    def __repr__(self) -> str:
        return f"<Spec {self.type}{', requires_grad' * self.requires_grad}{', leaf' * self.leaf}>"


_specs: dict[tuple[tuple[int, ...], Any, bool, bool], Spec] = {}


def spec_of_array(array: np.ndarray, requires_grad: bool) -> Spec:
    """The spec of a leaf with the type of an array."""
    found = _specs.get((array.shape, array.dtype, requires_grad, True))
    return spec_of(TensorType(array.shape, array.dtype), requires_grad) if found is None else found


def spec_of(type_: TensorType, requires_grad: bool = False, leaf: bool = True) -> Spec:
    """The spec with these attributes. Tensors without gradients are all leaves."""
    key = (type_.shape, type_.dtype, requires_grad, leaf or not requires_grad)
    found = _specs.get(key)
    if found is None:
        found = _specs.setdefault(key, Spec(type_, requires_grad, key[3]))
    return found


class Operation:
    """A function that builds graph values, as an entry of recorded programs.

    Parameters
    ----------
    function : callable
        Takes graph values and static arguments; returns a value or a tuple of values.
    numbers : bool, default True
        Whether floats among the arguments may be replaced by scalar tensors, if they vary.
    """

    __slots__ = ("function", "name", "numbers")

    def __init__(self, function: Callable[..., Any], numbers: bool = True) -> None:
        self.function = function
        self.name: str = getattr(function, "__name__", "operation").lstrip("_")
        self.numbers = numbers

    def __repr__(self) -> str:
        return f"<Operation {self.name}>"


class Node:
    """One operation of a recorded program, or a tensor that enters it.

    Attributes
    ----------
    parent : Node or None
        The operation recorded before.
    key : tuple or Spec or None
        Its key among the parent's children.
    children : dict
        The operations that were recorded after it, by key.
    operands : tuple of Node
        The nodes that it reads.
    spec : Spec or None
        Of its result; None for an operation with several results, which are its `items`.
    value : Value or None
        Its graph value: a parameter for a tensor that enters the program.
    items : tuple of Node
        The results of an operation that has several.
    enters : tuple of Node
        For tensors that enter the program with this entry.
    followers : Followers or None
        The updates that came next after the program that ends here had been run.
    index : int
        For a tensor that enters the program: its position among them; otherwise -1.
    depth : int
        Number of nodes before it on the path.
    made : object
        What the kind of operation has derived from the structure, such as the leaves that a backward pass reaches.
    late : bool
        Whether gradients that an optimizer had used were read after the program that ends here had been run.
    rebinds : tuple of (Node, Node)
        For an entry that rebinds tensors: their old and their new nodes.
    kept : dict of Node to int
        For an entry that continues a program that has been run: the nodes whose results are available, and their
        positions among the tensors of the program.
    recent : tuple
        The key in `plans` and the plan of the last run.
    plans : dict or None
        How to run the program that ends here, by the nodes whose results are wanted.
    residuals : dict or None
        By the nodes whose results are wanted: the values that a backward pass, which came after the program had been
        run, needed too. They are kept the next time.
    varied : set or None
        Keys, without their numbers, of operations whose numbers vary and enter the program as tensors.
    """

    __slots__ = (
        "children",
        "depth",
        "enters",
        "followers",
        "index",
        "items",
        "kept",
        "key",
        "late",
        "made",
        "operands",
        "parent",
        "plans",
        "rebinds",
        "recent",
        "residuals",
        "spec",
        "value",
        "varied",
    )

    def __init__(
        self,
        parent: "Node | None",
        spec: Spec | None = None,
        value: Value | None = None,
        operands: "tuple[Node, ...]" = (),
        index: int = -1,
    ) -> None:
        self.parent = parent
        self.children: dict[Hashable, Node] = {}
        self.operands = operands
        self.spec = spec
        self.value = value
        self.items: tuple[Node, ...] = ()
        self.enters: tuple[Node, ...] = ()
        self.followers: Any = None
        self.index = index
        self.key: Hashable = None
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.late = False
        self.made: Any = None
        self.rebinds: tuple[tuple[Node, Node], ...] = ()
        self.kept: dict[Node, int] = {}
        self.plans: dict[Any, Any] | None = None
        self.recent: tuple[Any, Any] = (None, None)
        self.residuals: dict[Any, tuple[Node, ...]] | None = None
        self.varied: set[Hashable] | None = None

    def __repr__(self) -> str:
        return f"<Node {self.value!r}>" if self.value is not None else f"<Node of {len(self.items)} results>"

    @property
    def graph(self) -> Value:
        """Its graph value; raises for an operation with several results."""
        if self.value is None:
            raise InvalidValueError(f"an operation with {len(self.items)} results has no value of its own")
        return self.value

    def child(self, key: Hashable, made: "Node") -> "Node":
        """The child with this key: the given node, unless another thread has added one."""
        made.key = key
        return self.children.setdefault(key, made)

    def inputs(self) -> "list[Node]":
        """The nodes of the tensors that enter the program that ends here, by `index`."""
        found: list[Node] = []
        for node in self.path():
            if node.index >= 0:
                found.append(node)
            else:
                found += node.enters
        return found

    def path(self) -> "list[Node]":
        """The nodes from the root to this one."""
        found: list[Node] = []
        node: Node | None = self
        while node is not None:
            found.append(node)
            node = node.parent
        return found[::-1]
