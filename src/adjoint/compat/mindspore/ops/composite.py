"""`mindspore.ops.composite`: gradients, and functions over tuples."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from adjoint.compat.uncovered import uncovered
from adjoint.errors import TypeRuleError
from adjoint.func.derivatives import grad as native_grad
from adjoint.func.derivatives import value_and_grad as native_value_and_grad
from adjoint.func.tree import tree_leaves
from adjoint.tensor.creation import full_like
from adjoint.tensor.reductions import sum as total
from adjoint.tensor.tensor import Tensor

__all__ = [
    "GradOperation",
    "HyperMap",
    "Map",
    "MultitypeFuncGraph",
    "clip_by_global_norm",
    "clip_by_value",
    "grad",
    "identity",
    "partial",
    "value_and_grad",
]


def grad(
    fn: Callable[..., Any], grad_position: Any = 0, weights: Any = None, has_aux: bool = False, return_ids: bool = False
) -> Callable[..., Any]:
    """`adjoint.grad` with MindSpore's arguments."""
    _check_ids("grad", return_ids)
    return native_grad(fn, grad_position, weights, has_aux)


def value_and_grad(
    fn: Callable[..., Any], grad_position: Any = 0, weights: Any = None, has_aux: bool = False, return_ids: bool = False
) -> Callable[..., Any]:
    """`adjoint.value_and_grad` with MindSpore's arguments."""
    _check_ids("value_and_grad", return_ids)
    return native_value_and_grad(fn, grad_position, weights, has_aux)


def _check_ids(caller: str, given: bool) -> None:
    if given:
        raise TypeRuleError(f"{caller}: return_ids is not covered, got True; zip the gradients with the parameters")


class GradOperation:
    """``GradOperation(get_all=False, get_by_list=False, sens_param=False)``: makes functions that compute gradients.

    ``GradOperation(...)(fn, weights)(*inputs)`` is the gradient with respect to the first input; with `get_all`, to all
    inputs; with `get_by_list`, to the weights; with both, a pair. With `sens_param`, the last input is the cotangent.
    """

    def __init__(self, get_all: bool = False, get_by_list: bool = False, sens_param: bool = False) -> None:
        self.get_all, self.get_by_list, self.sens_param = get_all, get_by_list, sens_param

    def __call__(self, fn: Callable[..., Any], weights: Any = None) -> Callable[..., Any]:
        """The function that computes the gradients of `fn`."""
        both = self.value_and_gradients(fn, weights)
        return lambda *inputs: both(*inputs)[1]

    def value_and_gradients(self, fn: Callable[..., Any], weights: Any = None) -> Callable[..., Any]:
        """The function that computes the value of `fn` as well."""
        if self.get_by_list and weights is None:
            weights = fn.trainable_params()  # type: ignore[attr-defined]  # a cell, as in MindSpore

        def computed(*inputs: Any) -> Any:
            *given, sens = inputs if self.sens_param else (*inputs, None)
            wanted = tuple(range(len(given))) if self.get_all else None if self.get_by_list else 0

            def seeded(*args: Any) -> Any:
                value = fn(*args)
                return (value if sens is None else _inner(value, sens)), value

            call = native_value_and_grad(seeded, wanted, weights if self.get_by_list else None, has_aux=True)
            (_, value), found = call(*given)
            return value, found

        return computed


def _inner(value: Any, sens: Any) -> Any:
    """The sum of the elements of results times their cotangents."""
    results = [x for x in tree_leaves(value) if isinstance(x, Tensor)]
    seeds = tree_leaves(sens)
    terms = [
        total(x * (s.detach() if isinstance(s, Tensor) else full_like(x, s)))
        for x, s in zip(results, seeds, strict=True)
    ]
    return sum(terms[1:], terms[0])


def identity(x: Any) -> Any:
    """The same."""
    return x


def clip_by_value(x: Any, clip_value_min: Any = None, clip_value_max: Any = None) -> Any:
    """Tensors with elements limited to a range."""
    if isinstance(x, tuple | list):
        return tuple(clip_by_value(one, clip_value_min, clip_value_max) for one in x)
    return x.clamp(clip_value_min, clip_value_max)


def clip_by_global_norm(x: Sequence[Any], clip_norm: float = 1.0, use_norm: Any = None) -> tuple[Any, ...]:
    """Tensors divided so that their norm together is `clip_norm` at most.

    Raises
    ------
    TypeRuleError
        If `use_norm` is given.
    """
    if use_norm is not None:
        raise TypeRuleError("clip_by_global_norm: use_norm is not covered, got one; divide the tensors by it")
    squares = [(one.float() * one.float()).sum() for one in x]
    norm = sum(squares[1:], squares[0]).sqrt()
    return tuple(one * (clip_norm / norm.clamp(min=clip_norm)).to(one.dtype) for one in x)


class HyperMap:
    """``HyperMap(ops)``: a function applied to the items of tuples and lists, however nested."""

    def __init__(self, ops: Callable[..., Any] | None = None, reverse: bool = False) -> None:  # noqa: ARG002
        self._function = ops

    def __call__(self, *args: Any) -> Any:
        """Apply it; without a function of its own, the first argument is the function."""
        function, items = (self._function, args) if self._function is not None else (args[0], args[1:])
        return self._over(function, items)

    def _over(self, function: Any, items: Sequence[Any]) -> Any:
        if not any(isinstance(item, tuple | list) for item in items):
            return function(*items)
        return tuple(self._over(function, one) for one in zip(*items, strict=True))


class Map(HyperMap):
    """``Map(ops)``: a function applied to the items of tuples and lists."""

    def _over(self, function: Any, items: Sequence[Any]) -> Any:
        return tuple(function(*one) for one in zip(*items, strict=True))


#: What the names of types in `MultitypeFuncGraph.register` mean.
_KINDS: Mapping[str, tuple[type, ...]] = {
    "Tensor": (Tensor,),
    "Parameter": (Tensor,),
    "Number": (int, float),
    "Int": (int,),
    "Float": (float,),
    "Bool": (bool,),
    "String": (str,),
    "Tuple": (tuple,),
    "List": (list,),
    "Function": (object,),
}


class MultitypeFuncGraph:
    """``MultitypeFuncGraph(name)``: a function with a definition for each kind of arguments; see `register`."""

    def __init__(self, name: str, read_value: bool = False) -> None:  # noqa: ARG002
        self.name = name
        self._known: list[tuple[tuple[str, ...], Callable[..., Any]]] = []

    def register(self, *type_names: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Add a definition for arguments of these types, given by name."""

        def added(function: Callable[..., Any]) -> Callable[..., Any]:
            self._known.append((tuple(map(str, type_names)), function))
            return function

        return added

    def __call__(self, *args: Any) -> Any:
        """Call the definition for these arguments.

        Raises
        ------
        TypeRuleError
            If there is none.
        """
        for names, function in self._known:
            if len(names) == len(args) and all(
                isinstance(arg, _KINDS.get(name, (object,))) for name, arg in zip(names, args, strict=True)
            ):
                return function(*args)
        kinds = ", ".join(type(arg).__name__ for arg in args)
        raise TypeRuleError(f"{self.name}: no definition takes ({kinds}); register one")


__getattr__ = uncovered(__name__, {}, "adjoint.func")
