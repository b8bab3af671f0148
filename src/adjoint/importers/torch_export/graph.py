"""Graphs of ATen operators, as plain data that does not depend on PyTorch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from adjoint.lazy_dataclass import dataclass

__all__ = ["Graph", "Input", "Node", "Outputs", "Ref"]


@dataclass(frozen=True, slots=True)
class Ref:
    """The value of an input or a node, as an argument of a node.

    Parameters
    ----------
    name : str
        Of the input or node.
    """

    name: str


@dataclass(frozen=True, slots=True)
class Input:
    """What a graph takes.

    Parameters
    ----------
    name : str
        As nodes refer to it.
    kind : {"input", "tensor", "constant", "fixed"}
        What it is: a tensor that is an argument of the call, a parameter or buffer of the module, an entry of
        `Graph.constants`, or an argument that is the same in every call, which no node refers to.
    target : str, default ""
        The dotted name of the parameter or buffer, or the name of the constant.
    shape : tuple of int or str, default ()
        For an argument: its sizes; a str is the name of a size that varies.
    dtype : numpy.dtype, optional
        For an argument: its dtype.
    """

    name: str
    kind: str = "input"
    target: str = ""
    shape: tuple[int | str, ...] = ()
    dtype: np.dtype | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """One operation.

    Parameters
    ----------
    name : str
        Of its value.
    op : str
        The ATen operator with its overload, such as ``"add.Tensor"``; of Python's operators on sizes, ``"py.mul"``.
    args : tuple
        Its arguments: numbers, strings, dtypes, None, `Ref`, graphs, and lists and tuples of these.
    keywords : mapping, default {}
        Its other arguments, by name.
    line : str, default ""
        ``file:line`` of the code that it is from.
    """

    name: str
    op: str
    args: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)
    line: str = ""


@dataclass(frozen=True, slots=True)
class Graph:
    """A program of ATen operators.

    Parameters
    ----------
    inputs : sequence of Input
        What it takes.
    nodes : sequence of Node
        The operations, in the order in which they run; some change their first argument in place.
    outputs : sequence
        The leaves of the result: `Ref`, numbers or None.
    build : callable
        Makes the result from the list of its leaves.
    constants : mapping of str to numpy.ndarray, default {}
        Tensors that belong to the program.
    ranges : mapping of str to (int, int or None), default {}
        The least and the largest value of each size that varies.
    updates : sequence of (str, Ref), default ()
        Parameters and buffers that get another value at the end.
    structure : object, optional
        The form of the result in the words of the program that made the graph.
    """

    inputs: Sequence[Input]
    nodes: Sequence[Node]
    outputs: Sequence[Any]
    build: Callable[[list[Any]], Any]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    ranges: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    updates: Sequence[tuple[str, Ref]] = ()
    structure: Any = None

    @property
    def arguments(self) -> list[Input]:
        """The inputs that are arguments of the call."""
        return [one for one in self.inputs if one.kind == "input"]

    def accepts(self, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[np.dtype]) -> bool:
        """Whether the graph computes what the module does for arguments of these shapes and dtypes."""
        arguments = self.arguments
        if len(arguments) != len(shapes):
            return False
        sizes: dict[str, int] = {}
        for argument, shape, dtype in zip(arguments, shapes, dtypes, strict=True):
            if argument.dtype is not None and (argument.dtype != dtype or len(argument.shape) != len(shape)):
                return False
            for wanted, size in zip(argument.shape, shape, strict=False):
                if isinstance(wanted, str):
                    least, most = self.ranges.get(wanted, (0, None))
                    if sizes.setdefault(wanted, size) != size or size < least or (most is not None and size > most):
                        return False
                elif wanted != size:
                    return False
        return True


class Outputs(dict[str, Any]):
    """What a module returns that returns an object with named fields: a dict whose entries are attributes too.

    As in the classes of the library transformers, a number selects an entry by its position.
    """

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(f"the outputs are {', '.join(self)}, got {name!r}")

    def __getitem__(self, key: Any) -> Any:
        return list(self.values())[key] if isinstance(key, int | slice) else super().__getitem__(key)
