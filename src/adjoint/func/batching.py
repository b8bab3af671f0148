"""`vmap`: a function of single examples becomes a function of many."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError, described, kind_of
from adjoint.func.tracing import Tracing, applied, function_of, refuse_changes, sources, traced
from adjoint.func.tree import tree_flatten, tree_prefix, tree_unflatten
from adjoint.ir import TensorType
from adjoint.tensor.record import record
from adjoint.tensor.structure import Node, Operation
from adjoint.tensor.tensor import Tensor, from_array
from adjoint.tensor.trace import growing, lock
from adjoint.transforms.vectorize import vectorize

__all__ = ["vmap"]


def vmap(function: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]:
    """The function that applies another one to every example along an axis of its arguments, all at once.

    The function is traced once, with tensors of one example, and its graph is vectorized by a rule per operator
    (`adjoint.transforms.vectorize`). It can use other tensors, which all examples share.

    Parameters
    ----------
    function : callable
        Takes tensors, or trees of tensors, of one example; returns such.
    in_axes : int, None or tree of them, default 0
        The axis of examples of each argument; None for one that all examples share. A tuple has an item for each
        positional argument, which may be a tree of the structure of the argument, or of its outer part.
    out_axes : int, None or tree of them, default 0
        The axis of examples of each result, in the same way.

    Returns
    -------
    callable
        Takes the arguments with the axis of examples. Arguments that are not tensors or arrays are passed on. Keyword
        arguments have the axis of examples at axis 0.

    Raises
    ------
    InvalidValueError
        In a call, if no argument has an axis of examples, or their sizes differ.
    TypeRuleError
        In a call, if an axis is out of range, the function changes a tensor, or returns something else than tensors.
    """
    if not callable(function):
        raise TypeRuleError(f"vmap takes a function, got {kind_of(function)}; pass the function, not its call")
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)

    @wraps(function)
    def mapped(*args: Any, **keywords: Any) -> Any:
        return _Call(function, in_axes, out_axes, args, keywords).result()

    return mapped


def _is_axis(given: Any) -> bool:
    return given is None or (isinstance(given, int) and not isinstance(given, bool))


class _Call:
    """One call of a mapped function."""

    def __init__(
        self, function: Callable[..., Any], in_axes: Any, out_axes: Any, args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> None:
        self.function, self.out_axes = function, out_axes
        leaves, self.structure = tree_flatten((args, keywords))
        of_args, of_keywords = self.structure.children
        axes = tree_prefix("vmap: in_axes", in_axes, of_args, _is_axis) + [0] * of_keywords.count
        self.leaves = [from_array(leaf, copy=False) if isinstance(leaf, np.ndarray) else leaf for leaf in leaves]
        self.axes: list[int | None] = [
            _checked(leaf, axis) if isinstance(leaf, Tensor) else None
            for leaf, axis in zip(self.leaves, axes, strict=True)
        ]
        sizes = {leaf.shape[a] for leaf, a in zip(self.leaves, self.axes, strict=True) if a is not None}
        if len(sizes) != 1:
            raise InvalidValueError(
                "vmap: the mapped axes of all arguments must have the same size, got "
                + (f"{', '.join(map(str, sorted(sizes)))}; correct in_axes" if sizes else "no mapped axis; choose one")
            )
        (self.size,) = sizes

    def result(self) -> Any:
        """What the function returns for all examples."""
        with lock, traced(Tracing(growing.root)) as trace:
            outs, structure = self._trace(trace)
            axes = tuple(tree_prefix("vmap: out_axes", self.out_axes, structure, _is_axis))
            wanted = [trace.operand(out) for out in outs]
            examples = {id(e): leaf for e, leaf in zip(self.examples, self.leaves, strict=True) if e is not leaf}
            entry, places = self._entry(trace, wanted, axes)
            tensors = sources(trace, places, examples)
        found = record(entry, tensors)
        return tree_unflatten(structure, found)

    def _trace(self, trace: Tracing) -> tuple[list[Tensor], Any]:
        """Call the function with examples."""
        self.examples = []
        for leaf, axis in zip(self.leaves, self.axes, strict=True):
            if axis is None:
                self.examples.append(leaf)
                continue
            shape, spec = leaf.shape, leaf._spec
            type_ = TensorType(shape[:axis] + shape[axis + 1 :], leaf.dtype)
            self.examples.append(trace.example(type_, spec.requires_grad, not spec.requires_grad, leaf._label))
        args, keywords = tree_unflatten(self.structure, self.examples)
        made = self.function(*args, **keywords)
        refuse_changes("vmap", trace)
        outs, structure = tree_flatten(made)
        wrong = next((out for out in outs if not isinstance(out, Tensor)), None)
        if wrong is not None or not outs:
            raise TypeRuleError(f"vmap: the function must return tensors, got {described(wrong)}; return tensors")
        return outs, structure

    def _entry(
        self, trace: Tracing, wanted: Sequence[Node], out_axes: tuple[int | None, ...]
    ) -> tuple[Operation, list[int]]:
        """The operation that applies the vectorized function, and the positions of its operands."""
        mapped = {id(e): a for e, a in zip(self.examples, self.axes, strict=True) if a is not None}
        in_axes = tuple(mapped.get(id(tensor)) for tensor in trace.entered)
        key = ("vmap", *wanted, self.size, in_axes, out_axes)
        node = trace.node.children.get(key)
        if node is None:
            name = getattr(self.function, "__name__", "function").strip("<>")
            function, places = function_of(trace, wanted, name)
            many = vectorize(function, [in_axes[place] for place in places], self.size, out_axes, name)
            node = Node(trace.node)
            node.made = Operation(applied(many), numbers=False), places
            node = trace.node.child(key, node)
        made: tuple[Operation, list[int]] = node.made
        return made


def _checked(tensor: Tensor, axis: int | None) -> int | None:
    """An axis of a tensor, counted from the start."""
    if axis is None:
        return None
    rank = len(tensor.shape)
    if not -rank <= axis < rank:
        raise TypeRuleError(
            f"vmap: in_axes must be axes of the arguments, got {axis} for {tensor._spec.type}; correct it, or pass None"
        )
    return axis % rank
