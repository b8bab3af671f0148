"""Whole matrices of derivatives: `jacobian` (by rows), `jacfwd` (by columns) and `hessian`, composed of the others."""

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError, described
from adjoint.func.batching import vmap
from adjoint.func.derivatives import jvp, vjp
from adjoint.func.tracing import Tracing, traced
from adjoint.func.tree import tree_flatten, tree_leaves, tree_unflatten
from adjoint.func.variables import as_tensor
from adjoint.ir import TensorType
from adjoint.ops.slicing import slice_axis
from adjoint.tensor.record import operation
from adjoint.tensor.tensor import Tensor, from_array
from adjoint.tensor.trace import growing

__all__ = ["hessian", "jacfwd", "jacobian"]


def jacobian(function: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """The function that computes all first derivatives of another one, by rows: one vjp for each element of the result.

    Parameters
    ----------
    function : callable
        Takes tensors, or trees of them; returns such.
    argnums : int or tuple of int, default 0
        Positions of the arguments to differentiate with respect to.

    Returns
    -------
    callable
        Takes the same arguments. For each result, of shape ``r``, and each argument, of shape ``a``, it returns a
        tensor of shape ``r + a``: a tree of the results with trees of the arguments at its leaves.

    Raises
    ------
    TypeRuleError
        In a call, as for `vjp`.
    """

    def matrix(*args: Any) -> Any:
        call = _Call("jacobian", function, argnums, args)
        types, structure = call.outputs(caller="jacobian")
        basis = _basis(types)
        rows = vmap(lambda *cts: vjp(call.function, *call.primals)[1](tree_unflatten(structure, cts)))(*basis)
        # For each argument, by results.
        pieces = [_by_rows(leaf, tuple(t.shape for t in types)) for leaf in tree_leaves(rows)]
        return tree_unflatten(structure, [call.tree([piece[n] for piece in pieces]) for n in range(len(types))])

    return wraps(function)(matrix)


def jacfwd(function: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """The function that computes all first derivatives of another one, by columns, one jvp each.

    Parameters
    ----------
    function, argnums
        As for `jacobian`.

    Returns
    -------
    callable
        As for `jacobian`. This is faster if the arguments have fewer elements than the results.

    Raises
    ------
    TypeRuleError
        In a call, as for `jvp`.
    """

    def matrix(*args: Any) -> Any:
        call = _Call("jacfwd", function, argnums, args)
        _, structure = call.outputs(caller="jacfwd")
        inputs = tuple(leaf.shape for leaf in call.leaves)
        tangents = _basis([leaf._spec.type for leaf in call.leaves])
        columns = vmap(
            lambda *ts: jvp(call.function, call.primals, tree_unflatten(call.structure, ts))[1], out_axes=-1
        )(*tangents)
        pieces = [_by_columns(leaf, inputs) for leaf in tree_leaves(columns)]  # for each result, by arguments
        return tree_unflatten(structure, [call.tree(piece) for piece in pieces])

    return wraps(function)(matrix)


def hessian(function: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """The function that computes all second derivatives of another one: `jacfwd` of `jacobian`.

    Parameters
    ----------
    function, argnums
        As for `jacobian`.

    Returns
    -------
    callable
        Takes the same arguments; for a scalar result and an argument of shape ``a``, it returns a tensor of shape
        ``a + a``.
    """
    return jacfwd(jacobian(function, argnums), argnums)


class _Call:
    """A call, as a function of the chosen arguments."""

    def __init__(
        self, caller: str, function: Callable[..., Any], argnums: int | tuple[int, ...], args: tuple[Any, ...]
    ) -> None:
        self.single = isinstance(argnums, int)
        chosen = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        for n in chosen:
            if not -len(args) <= n < len(args):
                raise InvalidValueError(
                    f"{caller}: argnums must be positions of arguments, got {n} for {len(args)}; correct it"
                )
        places = [n % len(args) for n in chosen]

        def partly(*primals: Any) -> Any:
            given = list(args)
            for place, primal in zip(places, primals, strict=True):
                given[place] = primal
            return function(*given)

        self.function = partly
        found, self.structure = tree_flatten(tuple(args[place] for place in places))
        self.leaves = [as_tensor(caller, "the arguments", leaf) for leaf in found]
        self.primals: tuple[Any, ...] = tree_unflatten(self.structure, self.leaves)

    def outputs(self, caller: str) -> tuple[list[TensorType], Any]:
        """The types of the results, and their structure, by tracing the function."""
        with traced(Tracing(growing.root)) as trace:
            examples = [trace.example(leaf._spec.type) for leaf in self.leaves]
            outs, structure = tree_flatten(self.function(*tree_unflatten(self.structure, examples)))
            wrong = next((out for out in outs if not isinstance(out, Tensor)), None)
            if wrong is not None or not outs:
                raise TypeRuleError(
                    f"{caller}: the function must return tensors, got {described(wrong)}; return tensors"
                )
            return [out._spec.type for out in outs], structure

    def tree(self, leaves: list[Tensor]) -> Any:
        """Derivatives in the structure of the chosen arguments."""
        made = tree_unflatten(self.structure, leaves)
        return made[0] if self.single else made


def _basis(types: list[TensorType]) -> list[Tensor]:
    """For tensors of these types, all directions of a single element: tensors with an axis of directions in front."""
    sizes = [type_.size for type_ in types]
    whole = np.eye(sum(sizes))
    parts = np.split(whole, np.cumsum(sizes)[:-1], axis=1)
    return [
        from_array(part.reshape(-1, *type_.shape).astype(type_.dtype)) for part, type_ in zip(parts, types, strict=True)
    ]


@operation
def _by_rows(x: Any, shapes: tuple[tuple[int, ...], ...]) -> Any:
    """The parts of a tensor along axis 0, each with its part of the axis split into axes of these shapes."""
    found, start = [], 0
    for shape in shapes:
        stop = start + math.prod(shape)
        found.append(ops.reshape(slice_axis(x, 0, start, stop), (*shape, *x.shape[1:])))
        start = stop
    return tuple(found)


@operation
def _by_columns(x: Any, shapes: tuple[tuple[int, ...], ...]) -> Any:
    """The parts of a tensor along the last axis, each with its part of the axis split into axes of these shapes."""
    found, start = [], 0
    for shape in shapes:
        stop = start + math.prod(shape)
        found.append(ops.reshape(slice_axis(x, len(x.shape) - 1, start, stop), (*x.shape[:-1], *shape)))
        start = stop
    return tuple(found)
