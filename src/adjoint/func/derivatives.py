"""Derivatives of Python functions of tensors: `grad`, `value_and_grad`, `vjp`, `jvp`.

The arguments are those of JAX, and ``grad_position`` and ``weights`` those of MindSpore 2.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from adjoint import ops
from adjoint.errors import DifferentiationError, InvalidValueError, TypeRuleError, described, kind_of, plural
from adjoint.func.forward import forward_derivatives
from adjoint.func.tree import Structure, tree_flatten, tree_unflatten
from adjoint.func.variables import (
    as_tensor,
    closed,
    is_differentiable,
    ones_like,
    pullback,
    variables,
    zeros_like,
)
from adjoint.tensor.autograd import enable_grad
from adjoint.tensor.record import operation
from adjoint.tensor.tensor import Tensor, from_array
from adjoint.tensor.trace import state

__all__ = ["grad", "jvp", "stop_gradient", "value_and_grad", "vjp"]

_Positions = int | Sequence[int] | None


class _Nesting(threading.local):
    """How many transformations are calling a function, in this thread."""

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *error: object) -> None:
        self.depth -= 1


_nesting = _Nesting()

stop_gradient = operation(ops.stop_gradient)


def grad(
    function: Callable[..., Any],
    argnums: _Positions = 0,
    weights: Any = None,
    has_aux: bool = False,
    *,
    grad_position: _Positions = -1,
) -> Callable[..., Any]:
    """The function that computes the gradient of another one.

    The gradient is that of the sum of all elements of all tensors that the function returns. Use `stop_gradient` or
    `has_aux` for those that must not contribute.

    Parameters
    ----------
    function : callable
        Takes tensors, or nested tuples, lists, dicts and dataclasses of tensors; returns such.
    argnums : int, sequence of int or None, default 0
        Positions of the arguments to differentiate with respect to; None for none of them. An argument may be a
        module; its gradient is a dict by the names of the parameters.
    weights : module, Tensor, or iterable of Tensor, optional
        Parameters that the function uses, to differentiate with respect to.
    has_aux : bool, default False
        Whether the function returns a tuple of which only the first item is differentiated.
    grad_position : int, sequence of int or None, optional
        Another name for `argnums`, as in MindSpore.

    Returns
    -------
    callable
        Takes the same arguments and returns the gradient: a tree like the argument; a tuple of them for a sequence
        in `argnums`; for `weights`, a tuple in their order, or a single tensor for a single one; a pair of both if
        there are both. With `has_aux`, a pair of this and the second item that the function returned (the tuple of
        the others, if there are several).

    Raises
    ------
    InvalidValueError
        If there is nothing to differentiate with respect to, or a position is out of range.
    TypeRuleError
        In a call, if an argument has leaves that are not float tensors, or the function returns no float tensor.
    """
    call = _Gradient("grad", function, argnums, grad_position, weights, has_aux)

    @wraps(function)
    def gradient(*args: Any, **keywords: Any) -> Any:
        _, aux, found = call(args, keywords)
        return (found, aux) if has_aux else found

    return gradient


def value_and_grad(
    function: Callable[..., Any],
    argnums: _Positions = 0,
    weights: Any = None,
    has_aux: bool = False,
    *,
    grad_position: _Positions = -1,
) -> Callable[..., Any]:
    """The function that computes the value and the gradient of another one.

    Parameters
    ----------
    function, argnums, weights, has_aux, grad_position
        As for `grad`.

    Returns
    -------
    callable
        Takes the same arguments and returns a pair: what the function returns, and the gradient as `grad` returns it.

    Raises
    ------
    InvalidValueError, TypeRuleError
        As for `grad`.
    """
    call = _Gradient("value_and_grad", function, argnums, grad_position, weights, has_aux)

    @wraps(function)
    def value_and_gradient(*args: Any, **keywords: Any) -> Any:
        value, _, found = call(args, keywords)
        return value, found

    return value_and_gradient


class _Gradient:
    """What `grad` and `value_and_grad` have in common."""

    def __init__(
        self,
        caller: str,
        function: Callable[..., Any],
        argnums: _Positions,
        grad_position: _Positions,
        weights: Any,
        has_aux: bool,
    ) -> None:
        if not callable(function):
            raise TypeRuleError(f"{caller} takes a function, got {kind_of(function)}; pass the function, not its call")
        if isinstance(weights, bool):
            raise TypeRuleError(f"{caller}: weights must be parameters, got {weights}; pass has_aux by its name")
        self.caller, self.function, self.has_aux = caller, function, has_aux
        self.positions = argnums if grad_position == -1 else grad_position
        self.single = _single_weight(weights)
        self.weights = None if weights is None else _parameters(weights)
        if self.positions is None and not self.weights:
            raise InvalidValueError(
                f"{caller} needs something to differentiate with respect to, got argnums=None and no weights; choose "
                "arguments or pass weights"
            )

    def __call__(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, Any, Any]:
        """What the function returned, its auxiliary part, and the gradient."""
        chosen = [_Argument(self.caller, args, n) for n in _positions(self.caller, self.positions, len(args))]
        outermost = not _nesting.depth
        weights = self.weights or ()
        with _nesting, enable_grad():
            own = variables([tensor for one in chosen for tensor in one.tensors])
            given, rest = [_with_tensors(arg) for arg in args], iter(own)
            for one in chosen:
                given[one.position] = one.rebuilt([next(rest) for _ in one.tensors])
            value = self.function(*given, **keywords)
            main, aux = self._parts(value)
            leaves, _ = tree_flatten(main)
            outs = [leaf for leaf in leaves if is_differentiable(leaf)]
            if not outs:
                raise TypeRuleError(
                    f"{self.caller}: the function must return a float tensor, got {described(main)}; return the loss"
                )
            wanted = [*own, *(p for one in chosen for p in one.parameters), *weights]
            found = pullback(outs, wanted, [ones_like(out) for out in outs])
            grads = [zeros_like(w) if g is None else g for g, w in zip(found, wanted, strict=True)]
        detach = outermost and bool(weights or any(one.parameters for one in chosen))
        result_leaves, structure = tree_flatten((value, aux))
        tensors = [leaf for leaf in result_leaves if isinstance(leaf, Tensor)]
        finished = iter(closed([*tensors, *grads], own, detach=detach or not state.grad))
        value, aux = tree_unflatten(structure, [next(finished) if isinstance(x, Tensor) else x for x in result_leaves])
        return value, aux, self._arranged(chosen, list(finished))

    def _parts(self, value: Any) -> tuple[Any, Any]:
        if not self.has_aux:
            return value, None
        if not isinstance(value, tuple) or len(value) < 2:
            raise TypeRuleError(
                f"{self.caller}: with has_aux, the function must return a tuple of a loss and something else, got "
                f"{described(value)}; return (loss, aux)"
            )
        return value[0], value[1] if len(value) == 2 else value[1:]

    def _arranged(self, chosen: "list[_Argument]", grads: list[Tensor]) -> Any:
        """Gradients in the form that the caller expects."""
        own = iter(grads)
        aliased = [[next(own) for _ in one.tensors] for one in chosen]
        of_args = tuple(one.gradient(mine, own) for one, mine in zip(chosen, aliased, strict=True))
        args: Any = of_args[0] if isinstance(self.positions, int) else of_args
        if self.weights is None:
            return args
        rest = tuple(own)
        of_weights: Any = rest[0] if self.single else rest
        return of_weights if self.positions is None else (args, of_weights)


class _Argument:
    """An argument that a function is differentiated with respect to."""

    def __init__(self, caller: str, args: tuple[Any, ...], position: int) -> None:
        self.position = position
        self.leaves, self.structure = tree_flatten(args[position])
        self.names: list[tuple[str, ...] | None] = []
        self.tensors: list[Tensor] = []
        #: The parameters of modules among the leaves.
        self.parameters: list[Tensor] = []
        for leaf in self.leaves:
            if hasattr(leaf, "named_parameters"):
                named = {name: p for name, p in leaf.named_parameters() if p.requires_grad}
                self.names.append(tuple(named))
                self.parameters += named.values()
            else:
                self.names.append(None)
                self.tensors.append(as_tensor(caller, f"argument {position}", leaf))

    def rebuilt(self, tensors: list[Tensor]) -> Any:
        """The argument with other tensors."""
        rest = iter(tensors)
        pairs = zip(self.leaves, self.names, strict=True)
        return tree_unflatten(self.structure, [next(rest) if names is None else leaf for leaf, names in pairs])

    def gradient(self, grads: list[Tensor], of_parameters: Any) -> Any:
        """The gradient, of the structure of the argument."""
        rest = iter(grads)
        return tree_unflatten(
            self.structure,
            [next(rest) if names is None else {name: next(of_parameters) for name in names} for names in self.names],
        )


def _with_tensors(arg: Any) -> Any:
    """An argument with its arrays as tensors."""
    leaves, structure = tree_flatten(arg)
    made = [from_array(leaf, copy=False) if isinstance(leaf, np.ndarray) else leaf for leaf in leaves]
    return tree_unflatten(structure, made)


def _positions(caller: str, given: _Positions, count: int) -> tuple[int, ...]:
    """Positions of arguments, counted from the start."""
    if given is None:
        return ()
    found = (given,) if isinstance(given, int) else tuple(given)
    for n in found:
        if not -count <= n < count:
            raise InvalidValueError(
                f"{caller}: argnums must be positions of positional arguments, got {n} for "
                f"{plural(count, 'argument')}; correct it, or pass the argument by position"
            )
    return tuple(n % count for n in found)


def _single_weight(weights: Any) -> bool:
    return isinstance(weights, Tensor)


def _parameters(weights: Any) -> tuple[Tensor, ...]:
    """Parameters from a module, one of them, or several."""
    if isinstance(weights, Tensor):
        return (weights,)
    if hasattr(weights, "parameters"):
        return tuple(p for p in weights.parameters() if p.requires_grad)
    if isinstance(weights, Iterable):
        found = tuple(weights)
        if all(isinstance(p, Tensor) for p in found):
            return found
    raise TypeRuleError(
        f"weights must be a module, a parameter or several parameters, got {kind_of(weights)}; pass "
        "model.trainable_params() or list(model.parameters())"
    )


def vjp(function: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of a function, and the function that maps cotangents of its results to cotangents of its arguments.

    Parameters
    ----------
    function : callable
        Takes the primals; returns tensors, or a tree of them.
    *primals : trees of Tensor
        Arguments, of float dtypes.
    has_aux : bool, default False
        Whether the function returns a tuple of which only the first item is differentiated.

    Returns
    -------
    value : tree of Tensor
        What the function returned, without the auxiliary part.
    pull : callable
        Takes cotangents, a tree like the value; returns a tuple with the cotangent of each primal.
    aux : tree
        Only with `has_aux`.
    """
    call = _Primals("vjp", function, primals)
    value, aux = call.run(has_aux)
    leaves, structure = tree_flatten(value)
    outs = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    finished = iter(closed(outs, call.own))
    shown = tree_unflatten(structure, [next(finished) if isinstance(leaf, Tensor) else leaf for leaf in leaves])

    def pull(cotangents: Any) -> tuple[Any, ...]:
        """Map cotangents of the value to cotangents of the primals."""
        given = _matching("vjp", "the cotangents", cotangents, structure, leaves)
        pairs = [(leaf, ct) for leaf, ct in zip(leaves, given, strict=True) if is_differentiable(leaf)]
        found = pullback([leaf for leaf, _ in pairs], call.own, [ct for _, ct in pairs])
        grads = [zeros_like(v) if g is None else g for g, v in zip(found, call.own, strict=True)]
        result: tuple[Any, ...] = tree_unflatten(call.structure, closed(grads, call.own))
        return result

    return (shown, pull, aux) if has_aux else (shown, pull)


def jvp(
    function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], *, has_aux: bool = False
) -> tuple[Any, ...]:
    """The value of a function, and its derivative along a direction (forward mode).

    The vjp is linear in the cotangents, so its own vjp with respect to them is the transpose of the transpose: the
    derivative itself (Townsend, "A new trick for calculating Jacobian vector products", 2017). The discarded backward
    pass is never computed. A function with a `while_loop`, which has no vjp, is traced and differentiated forwards.

    Parameters
    ----------
    function : callable
        Takes the primals; returns tensors, or a tree of them.
    primals, tangents : sequence of trees of Tensor
        The arguments and their tangents, of the same structure, shapes and dtypes.
    has_aux : bool, default False
        Whether the function returns a tuple of which only the first item is differentiated.

    Returns
    -------
    value, tangent : trees of Tensor
        What the function returned and its tangent.
    aux : tree
        Only with `has_aux`.
    """
    for name, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, tuple | list):
            raise TypeRuleError(f"jvp: {name} must be a tuple of arguments, got {kind_of(given)}; write (x,)")
    call = _Primals("jvp", function, tuple(primals))
    directions = _matching("jvp", "the tangents", tuple(tangents), call.structure, list(call.own))
    value, aux = call.run(has_aux)
    leaves, structure = tree_flatten(value)
    outs = [leaf for leaf in leaves if is_differentiable(leaf)]
    with enable_grad():
        seeds = variables([zeros_like(out) for out in outs])
        try:
            back = pullback(outs, call.own, seeds)
            pairs = [(g, t) for g, t in zip(back, directions, strict=True) if g is not None]
            found = pullback([g for g, _ in pairs], seeds, [t for _, t in pairs])
        except DifferentiationError:
            made = forward_derivatives(function, call.structure, call.own, directions, has_aux)
            found = [t for t, leaf in zip(made, leaves, strict=True) if is_differentiable(leaf)]
    tangent = iter([zeros_like(out) if t is None else t for t, out in zip(found, outs, strict=True)])
    along = [next(tangent) if is_differentiable(leaf) else zeros_like(leaf) for leaf in leaves]
    finished = closed([*leaves, *along], [*call.own, *seeds])
    both = (tree_unflatten(structure, finished[: len(leaves)]), tree_unflatten(structure, finished[len(leaves) :]))
    return (*both, aux) if has_aux else both


class _Primals:
    """A call of a function with variables in place of its arguments."""

    def __init__(self, caller: str, function: Callable[..., Any], primals: tuple[Any, ...]) -> None:
        if not callable(function):
            raise TypeRuleError(f"{caller} takes a function, got {kind_of(function)}; pass the function, not its call")
        self.caller, self.function = caller, function
        leaves, self.structure = tree_flatten(primals)
        with enable_grad():
            self.own = variables([as_tensor(caller, "the primals", leaf) for leaf in leaves])

    def run(self, has_aux: bool) -> tuple[Any, Any]:
        """The value and the auxiliary part."""
        with _nesting, enable_grad():
            value = self.function(*tree_unflatten(self.structure, self.own))
        aux = None
        if has_aux:
            if not isinstance(value, tuple) or len(value) != 2:
                raise TypeRuleError(
                    f"{self.caller}: with has_aux, the function must return a pair of a value and something else, got "
                    f"{described(value)}; return (value, aux)"
                )
            value, aux = value
            extra, structure = tree_flatten(aux)
            tensors = iter(closed([x for x in extra if isinstance(x, Tensor)], self.own))
            aux = tree_unflatten(structure, [next(tensors) if isinstance(x, Tensor) else x for x in extra])
        wrong = next((leaf for leaf in tree_flatten(value)[0] if not isinstance(leaf, Tensor)), None)
        if wrong is not None or not tree_flatten(value)[0]:
            raise TypeRuleError(
                f"{self.caller}: the function must return tensors, got {described(wrong)}; return other things as "
                "aux, with has_aux=True"
            )
        return value, aux


def _matching(caller: str, what: str, given: Any, structure: Structure, like: list[Tensor]) -> list[Tensor]:
    """The leaves of a tree that must have a structure, and the types of these tensors."""
    leaves, found = tree_flatten(given)
    if found != structure:
        raise TypeRuleError(f"{caller}: {what} must have the structure {structure}, got {found}; pass one for each")
    made = []
    for leaf, one in zip(leaves, like, strict=True):
        tensor = as_tensor(caller, what, leaf) if is_differentiable(one) else leaf
        if is_differentiable(one) and tensor._spec.type != one._spec.type:
            raise TypeRuleError(
                f"{caller}: {what} must have the types {one._spec.type}, got {tensor._spec.type}; convert them"
            )
        made.append(tensor)
    return made
