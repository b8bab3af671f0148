"""Pytrees: what counts as a container, and that trees are put together as they were."""

from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import pytest

from adjoint import register_tree, tree_flatten, tree_leaves, tree_map, tree_unflatten
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.func.tree import tree_prefix

Pair = namedtuple("Pair", "left right")


@dataclass(frozen=True)
class Layer:
    weight: object
    bias: object = None


class Box:
    def __init__(self, content):
        self.content = content


TREES = [
    (3, [3]),
    ((1, [2, {"b": 3, "a": 4}]), [1, 2, 3, 4]),
    (Pair(1, (2, None)), [1, 2]),
    (OrderedDict(x=1, y=[2]), [1, 2]),
    (Layer(1, Pair(2, 3)), [1, 2, 3]),
    ((), []),
]


@pytest.mark.parametrize(("tree", "leaves"), TREES)
def test_a_tree_is_put_together_as_it_was(tree, leaves):
    found, structure = tree_flatten(tree)
    assert found == leaves == tree_leaves(tree)
    again = tree_unflatten(structure, found)
    assert again == tree
    assert type(again) is type(tree)
    assert structure == tree_flatten(tree_map(str, tree))[1]
    assert hash(structure) == hash(tree_flatten(tree)[1])


def test_a_function_is_applied_to_leaves_at_the_same_place():
    assert tree_map(lambda a, b: a + b, {"x": (1, 2)}, {"x": (10, 20)}) == {"x": (11, 22)}


def test_structures_differ_by_container_and_keys():
    forms = [(1, 2), [1, 2], {"a": 1, "b": 2}, {"a": 1, "c": 2}, Pair(1, 2), Layer(1, 2), (1, (2,))]
    assert len({tree_flatten(tree)[1] for tree in forms}) == len(forms)
    assert str(tree_flatten({"a": (1, 2)})[1]) == "dict(('a',): tuple(*, *))"


def test_a_registered_class_is_a_container_once():
    assert tree_leaves(Box(1)) != [1]
    register_tree(Box, lambda box: ((box.content,), None), lambda _, items: Box(*items))
    assert tree_map(lambda x: x + 1, [Box(1)])[0].content == 2
    with pytest.raises(InvalidValueError) as error:
        register_tree(Box, lambda _: ((), None), lambda _, items: Box(*items))
    assert error.value.message == "register_tree: Box must not be a container yet; register it only once"


def test_a_prefix_holds_for_everything_below():
    structure = tree_flatten(((1, 2), {"a": 3}))[1]

    def is_leaf(x):
        return x is None or isinstance(x, int)

    assert tree_prefix("axes", (0, {"a": None}), structure, is_leaf) == [0, 0, None]
    assert tree_prefix("axes", [0, 1], structure, is_leaf) == [0, 0, 1]
    with pytest.raises(TypeRuleError) as error:
        tree_prefix("axes", (0, {"b": 1}), structure, is_leaf)
    assert error.value.message == (
        "axes must have the structure of the tree, or of its outer part, got {'b': 1} for dict(('a',): *)"
    )
    with pytest.raises(TypeRuleError) as error:
        tree_prefix("axes", "x", structure, is_leaf)
    assert error.value.message == "axes must have the structure of the tree, or of its outer part, got 'x'"


def test_wrong_numbers_of_leaves_and_other_structures_are_refused():
    with pytest.raises(InvalidValueError) as error:
        tree_unflatten(tree_flatten((1, 2))[1], [1])
    assert error.value.message == "tree_unflatten: the structure has 2 leaves, got 1; pass one for each"
    with pytest.raises(TypeRuleError) as error:
        tree_map(max, (1, 2), [1, 2])
    assert error.value.message == (
        "tree_map: the trees must have the same structure, got tuple(*, *) and list(*, *); make them equal"
    )
