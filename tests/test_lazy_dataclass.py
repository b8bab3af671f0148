"""`lazy_dataclass.dataclass` makes the classes that `dataclasses.dataclass` makes."""

import copy
import dataclasses
import importlib
import inspect
import math
import pickle
import pkgutil
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar

import pytest

import adjoint
from adjoint import lazy_dataclass
from adjoint.ops.base import Operator

OPTIONS = [
    {},
    {"eq": False},
    {"repr": False},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "eq": False, "repr": False},
]


def define(dataclass: Callable[..., Any], **options: Any) -> tuple[type, type, type]:
    """Three classes: one with every kind of field, one derived from it, and one without fields."""

    @dataclass(**options)
    class Base:
        registry: ClassVar[dict[str, int]] = {}
        number: float
        name: str = "base"
        parts: list[int] = field(default_factory=list, compare=False)
        secret: int = field(default=3, repr=False)
        doubled: float = field(init=False, hash=False)
        constant: int = field(default=5, init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "doubled", 2 * self.number)

    @dataclass(**options)
    class Derived(Base):
        name: str = "derived"
        last: tuple[int, ...] = (1, 2)

    @dataclass(**options)
    class Empty:
        pass

    return Base, Derived, Empty


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, or the kind of error that it raises."""
    try:
        return call()
    except Exception as error:
        return type(error)


@pytest.fixture(params=OPTIONS, ids=str)
def pairs(request: pytest.FixtureRequest) -> list[tuple[type, type]]:
    ours, theirs = define(lazy_dataclass.dataclass, **request.param), define(dataclasses.dataclass, **request.param)
    return list(zip(ours, theirs, strict=True))


def test_constructors_have_the_same_signatures(pairs):
    for ours, theirs in pairs:
        assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
        assert ours.__match_args__ == theirs.__match_args__


def test_objects_have_the_same_attributes_and_representations(pairs):
    (ours, theirs), (ours_derived, theirs_derived), (ours_empty, theirs_empty) = pairs
    arguments = [(1.5,), (1.5, "n"), (1.5, "n", [4]), (1.5, "n", [4], 9), (), (1, 2, 3, 4, 5, 6)]
    for mine, other in ((ours, theirs), (ours_derived, theirs_derived), (ours_empty, theirs_empty)):
        for given in arguments:
            made, expected = outcome(lambda k=mine, a=given: k(*a)), outcome(lambda k=other, a=given: k(*a))
            if isinstance(expected, type):
                assert made is expected
                continue
            if other.__repr__ is not object.__repr__:
                assert repr(made) == repr(expected)
            assert hasattr(made, "__dict__") == hasattr(expected, "__dict__")
            assert [f.name for f in dataclasses.fields(made)] == [f.name for f in dataclasses.fields(expected)]
            assert dataclasses.asdict(made) == dataclasses.asdict(expected)
    assert ours(1.0).parts is not ours(1.0).parts


def test_comparisons_and_hashes_are_the_same(pairs):
    for ours, theirs in pairs[:2]:
        for given in ((1.0,), (1.0, "n"), (math.nan,), (1.0, "n", [3])):
            same = outcome(lambda k=ours, a=given: k(*a) == k(*a)), outcome(lambda k=theirs, a=given: k(*a) == k(*a))
            assert same[0] == same[1]
            if theirs.__hash__ is not object.__hash__:
                assert outcome(lambda k=ours, a=given: hash(k(*a))) == outcome(lambda k=theirs, a=given: hash(k(*a)))
        assert ours(1.0) != (1.0, "n")
    assert pairs[0][0](1.0) != pairs[1][0](1.0, "base")


def test_assignments_are_refused_alike(pairs):
    given = [(1.0,), (1.0,), ()]
    for (ours, theirs), arguments in zip(pairs, given, strict=True):
        mine, other = ours(*arguments), theirs(*arguments)
        for name in ("number", "other"):
            for change in (lambda o, n=name: setattr(o, n, 2), lambda o, n=name: delattr(o, n)):
                changed = [outcome(lambda o=o, c=change: c(o)) for o in (mine, other)]
                assert (changed[0] is None) == (changed[1] is None)


def test_copies_and_replacements(pairs):
    for ours, _ in pairs[:2]:
        made = ours(1.0, "n", [3])
        for each in (copy.copy(made), copy.deepcopy(made)):
            assert dataclasses.asdict(each) == dataclasses.asdict(made)
        assert dataclasses.replace(made, number=4.0).doubled == 8.0


@lazy_dataclass.dataclass(frozen=True, slots=True)
class Pickled:
    number: int
    name: str = "n"


def test_frozen_classes_with_slots_are_pickled():
    assert pickle.loads(pickle.dumps(Pickled(3))) == Pickled(3)


def test_the_constructor_is_compiled_when_it_is_first_needed():
    ours = define(lazy_dataclass.dataclass, frozen=True)
    for each in ours:
        assert not inspect.isfunction(each.__dict__["__init__"])
    ours[1](1.0)
    assert not inspect.isfunction(ours[0].__dict__["__init__"])
    assert inspect.isfunction(ours[1].__dict__["__init__"])
    ours[0](1.0)
    assert inspect.isfunction(ours[0].__dict__["__init__"])


def test_methods_of_the_class_are_kept():
    @lazy_dataclass.dataclass(frozen=True)
    class Own:
        number: int

        def __init__(self) -> None:
            object.__setattr__(self, "number", 7)

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own)

        def __repr__(self) -> str:
            return "own"

    assert (repr(Own()), Own().number, Own() == Own()) == ("own", 7, True)
    assert hash(Own()) == hash((7,))


@pytest.mark.parametrize("outer", [lazy_dataclass.dataclass, dataclasses.dataclass])
@pytest.mark.parametrize("inner", [lazy_dataclass.dataclass, dataclasses.dataclass])
def test_frozen_classes_derive_from_frozen_ones_only(outer, inner):
    @inner(frozen=True)
    class Base:
        number: int

    @outer(frozen=True)
    class Derived(Base):
        name: str

    assert repr(Derived(3, "n")).endswith("Derived(number=3, name='n')")
    with pytest.raises(TypeError, match="cannot inherit"):

        @outer
        class Thawed(Base):
            name: str


def test_a_mutable_default_is_refused():
    with pytest.raises(ValueError, match=r"mutable default .* for field parts is not allowed: use default_factory"):

        @lazy_dataclass.dataclass
        class Wrong:
            parts: list[int] = []  # noqa: RUF012, the mistake


def test_an_attribute_of_a_plain_subclass_of_a_frozen_class_may_be_set():
    @lazy_dataclass.dataclass(frozen=True)
    class Base:
        number: int

    class Plain(Base):
        pass

    made = Plain(3)
    made.extra = 4
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'number'"):
        made.number = 4
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'number'"):
        del made.number


def test_every_constructor_of_the_package_compiles():
    modules = [
        importlib.import_module(each.name)
        for each in pkgutil.walk_packages(adjoint.__path__, "adjoint.")
        if each.name.startswith(("adjoint.ir", "adjoint.kernel", "adjoint.lower", "adjoint.ops", "adjoint.optim"))
    ]
    classes = {
        each
        for module in modules
        for each in vars(module).values()
        if inspect.isclass(each) and each.__module__ == module.__name__ and dataclasses.is_dataclass(each)
    }
    assert len(classes) > 200
    for each in classes:
        assert len(inspect.signature(each).parameters) <= len(dataclasses.fields(each)) or "__init__" in each.__dict__
    assert any(issubclass(each, Operator) for each in classes)
