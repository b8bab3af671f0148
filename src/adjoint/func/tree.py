"""Pytrees: nested containers of tensors, taken apart into their leaves and put together again.

Tuples, lists, dicts, named tuples, dataclasses and None are containers; `register_tree` adds classes. Everything else
is a leaf. The name and the idea are JAX's.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from adjoint.errors import InvalidValueError, TypeRuleError, plural
from adjoint.lazy_dataclass import dataclass

__all__ = [
    "LEAF",
    "Structure",
    "register_tree",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_prefix",
    "tree_unflatten",
]


@dataclass(frozen=True, slots=True)
class Structure:
    """The containers of a tree, without its leaves. Hashable, and equal for trees of the same form.

    Parameters
    ----------
    kind : type or None
        The class of the container; None for a leaf.
    data : hashable
        What distinguishes containers of a class: the keys of a dict, the names of the fields of a dataclass.
    children : tuple of Structure
        The structures of the items, in order.
    count : int
        Number of leaves.
    """

    kind: type | None
    data: Hashable
    children: tuple["Structure", ...]
    count: int

    def __repr__(self) -> str:
        if self.kind is None:
            return "*"
        items = ", ".join(map(repr, self.children))
        keys = f"{self.data}: " if self.data else ""
        return f"{self.kind.__name__}({keys}{items})"


#: The structure of a leaf.
LEAF = Structure(None, None, (), 1)

_Flatten = Callable[[Any], tuple[Iterable[Any], Hashable]]
_Unflatten = Callable[[Hashable, Sequence[Any]], Any]

_CONTAINERS: dict[type, tuple[_Flatten, _Unflatten]] = {
    tuple: (lambda tree: (tree, None), lambda _, items: tuple(items)),
    list: (lambda tree: (tree, None), lambda _, items: list(items)),
    dict: (lambda tree: (tree.values(), tuple(tree)), lambda keys, items: dict(zip(keys, items, strict=True))),  # type: ignore[call-overload]
    OrderedDict: (
        lambda tree: (tree.values(), tuple(tree)),
        lambda keys, items: OrderedDict(zip(keys, items, strict=True)),  # type: ignore[call-overload]
    ),
    type(None): (lambda _: ((), None), lambda _, __: None),
}


def register_tree(kind: type, flatten: _Flatten, unflatten: _Unflatten) -> None:
    """Let instances of a class be containers.

    Parameters
    ----------
    kind : type
        The class; its subclasses are not included.
    flatten : callable
        Takes an instance; returns its items, and hashable data that `unflatten` needs besides them.
    unflatten : callable
        Takes the data and the items; returns an instance.

    Raises
    ------
    InvalidValueError
        If the class is a container already.
    """
    if kind in _CONTAINERS:
        raise InvalidValueError(f"register_tree: {kind.__name__} must not be a container yet; register it only once")
    _CONTAINERS[kind] = (flatten, unflatten)


def _flatten_named(tree: Any) -> tuple[Iterable[Any], Hashable]:
    return tree, None


def _flatten_fields(tree: Any) -> tuple[Iterable[Any], Hashable]:
    names = tuple(field.name for field in fields(tree))
    return [getattr(tree, name) for name in names], names


def _flatten(tree: Any) -> tuple[Iterable[Any], Hashable] | None:
    """The items of a container and its data; None for a leaf."""
    kind = type(tree)
    known = _CONTAINERS.get(kind)
    if known is not None:
        return known[0](tree)
    if isinstance(tree, tuple) and hasattr(kind, "_fields"):
        return _flatten_named(tree)
    if is_dataclass(tree) and not isinstance(tree, type) and not kind.__module__.startswith("adjoint."):
        return _flatten_fields(tree)
    return None


def tree_flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves of a tree, in order, and its structure.

    Dicts keep the order of their keys, which is part of the structure.
    """
    leaves: list[Any] = []
    return leaves, _visit(tree, leaves)


def _visit(tree: Any, leaves: list[Any]) -> Structure:
    found = _flatten(tree)
    if found is None:
        leaves.append(tree)
        return LEAF
    items, data = found
    children = tuple([_visit(item, leaves) for item in items])
    return Structure(type(tree), data, children, sum([child.count for child in children]))


def tree_unflatten(structure: Structure, leaves: Iterable[Any]) -> Any:
    """The tree of a structure with these leaves.

    Raises
    ------
    InvalidValueError
        If the number of leaves is wrong.
    """
    given = list(leaves)
    if len(given) != structure.count:
        raise InvalidValueError(
            f"tree_unflatten: the structure has {plural(structure.count, 'leaf').replace('leafs', 'leaves')}, got "
            f"{len(given)}; pass one for each"
        )
    return _build(structure, iter(given))


def _build(structure: Structure, leaves: Iterator[Any]) -> Any:
    kind = structure.kind
    if kind is None:
        return next(leaves)
    items = [_build(child, leaves) for child in structure.children]
    known = _CONTAINERS.get(kind)
    if known is not None:
        return known[1](structure.data, items)
    if issubclass(kind, tuple):
        return kind(*items)
    made = object.__new__(kind)
    names: Any = structure.data
    for name, item in zip(names, items, strict=True):
        object.__setattr__(made, name, item)
    return made


def tree_leaves(tree: Any) -> list[Any]:
    """The leaves of a tree, in order."""
    return tree_flatten(tree)[0]


def tree_map(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """A tree of the same structure, with a function applied to each leaf.

    Parameters
    ----------
    function : callable
        Takes a leaf of `tree` and the leaves of `others` at the same place.
    tree : tree
        Decides on the structure.
    *others : trees
        Trees of the same structure.

    Raises
    ------
    TypeRuleError
        If the structures differ.
    """
    leaves, structure = tree_flatten(tree)
    rows = [leaves]
    for other in others:
        found, its = tree_flatten(other)
        if its != structure:
            raise TypeRuleError(
                f"tree_map: the trees must have the same structure, got {structure} and {its}; make them equal"
            )
        rows.append(found)
    return tree_unflatten(structure, [function(*row) for row in zip(*rows, strict=True)])


def tree_prefix(what: str, prefix: Any, structure: Structure, is_leaf: Callable[[Any], bool]) -> list[Any]:
    """For each leaf of a structure, the item of a tree that has the same containers down to some depth.

    Parameters
    ----------
    what : str
        Name of the prefix, for errors.
    prefix : tree
        Its leaves hold for everything below their place.
    structure : Structure
        The whole tree.
    is_leaf : callable
        Says of an object whether it is a leaf of the prefix, which None may be.

    Raises
    ------
    TypeRuleError
        If the containers differ.
    """
    if is_leaf(prefix):
        return [prefix] * structure.count
    found = _flatten(prefix)
    if found is None or structure.kind is None:
        raise TypeRuleError(f"{what} must have the structure of the tree, or of its outer part, got {prefix!r}")
    items, data = list(found[0]), found[1]
    same = structure.kind is type(prefix) or {structure.kind, type(prefix)} == {tuple, list}
    if not same or data != structure.data or len(items) != len(structure.children):
        raise TypeRuleError(
            f"{what} must have the structure of the tree, or of its outer part, got {prefix!r} for {structure}"
        )
    result = []
    for item, child in zip(items, structure.children, strict=True):
        result += tree_prefix(what, item, child, is_leaf)
    return result
