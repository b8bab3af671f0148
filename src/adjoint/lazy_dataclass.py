"""``dataclass``, as the standard library has it, for hundreds of classes that most processes never create.

`dataclasses.dataclass` writes and compiles all methods of a class when it is defined: half a millisecond for each on a
slow CPU, which was half of what importing a compiler of 470 such classes took. Here ``__init__`` is compiled when it is
first needed, and the other methods are closures that all classes share:

    @dataclass(frozen=True)
    class Tile:
        rows: int
        columns: int = 1

    Tile.__dict__["__init__"]    # a descriptor that compiles the constructor
    Tile(2)                      # Tile(rows=2, columns=1)
    Tile.__dict__["__init__"]    # def __init__(self, rows, columns=1)

Classes are what the standard library would make of them: `dataclasses.fields`, ``replace``, ``asdict`` and
`inspect.signature` work, and type checkers see its decorator. Not supported, because nothing here needs them, are
``order``, ``kw_only``, ``InitVar`` and ``unsafe_hash``.
"""

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, FrozenInstanceError, field
from operator import attrgetter
from reprlib import recursive_repr
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, init=True, repr=True, eq=True, frozen=False, slots=False):
        """Add ``__init__``, ``__repr__``, ``__eq__`` and so on, as `dataclasses.dataclass` does with these options."""

        def made(cls):
            return _dataclass(cls, init, repr, eq, frozen, slots)

        return made if cls is None else made(cls)


Fields = dict[str, "Field[Any]"]

#: What `dataclasses.fields` recognises a field by.
_FIELD = dataclasses._FIELD  # type: ignore[attr-defined]


def _dataclass(cls: type, init: bool, repr: bool, eq: bool, frozen: bool, slots: bool) -> type:
    fields, own = _inherited_fields(cls), _own_fields(cls)
    fields.update(own)
    _check_frozen(cls, frozen)
    methods: dict[str, Any] = {
        "__dataclass_fields__": fields,
        "__dataclass_params__": SimpleNamespace(
            init=init, repr=repr, eq=eq, order=False, unsafe_hash=False, frozen=frozen
        ),
        "__match_args__": tuple(name for name, each in fields.items() if each.init),
    }
    if repr:
        methods["__repr__"] = _repr(fields)
    if eq:
        methods |= _comparisons(fields, frozen)
    made = _with_slots(cls, fields) if slots else cls
    if init:
        methods["__init__"] = _Constructor(made, fields, frozen, slots)
    for name, method in methods.items():
        if name not in cls.__dict__ or (name == "__hash__" and _is_implicit_hash(cls)):
            setattr(made, name, method)
    if frozen:
        _freeze(made, fields, slots)
    return made


def _inherited_fields(cls: type) -> Fields:
    fields: Fields = {}
    for base in reversed(cls.__mro__[1:]):
        fields.update(base.__dict__.get("__dataclass_fields__", {}))
    return fields


def _own_fields(cls: type) -> Fields:
    """The fields that a class declares; as attributes, only their defaults remain."""
    fields: Fields = {}
    for name, kind in inspect.get_annotations(cls).items():
        if _is_class_variable(kind):
            continue
        default = cls.__dict__.get(name, MISSING)
        each: Any = default if isinstance(default, Field) else field(default=default)
        if each.default.__class__.__hash__ is None:
            raise ValueError(
                f"mutable default {type(each.default)} for field {name} is not allowed: use default_factory"
            )
        each.name, each.type, each._field_type, each.kw_only = name, kind, _FIELD, False
        if isinstance(default, Field):
            if default.default is MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, default.default)
        fields[name] = each
    return fields


def _is_class_variable(kind: Any) -> bool:
    if isinstance(kind, str):
        return kind.startswith(("ClassVar", "typing.ClassVar"))
    return kind is typing.ClassVar or typing.get_origin(kind) is typing.ClassVar


def _check_frozen(cls: type, frozen: bool) -> None:
    for base in cls.__mro__[1:]:
        params = base.__dict__.get("__dataclass_params__")
        if params is not None and params.frozen != frozen:
            kinds = ("a frozen", "one that is not") if frozen else ("a non-frozen", "a frozen one")
            raise TypeError(f"cannot inherit {kinds[0]} dataclass from {kinds[1]}")


class _Constructor:
    """``__init__`` until it is first needed, by a call or by `inspect.signature`; then the function takes its place."""

    def __init__(self, owner: type, fields: Fields, frozen: bool, slots: bool) -> None:
        self._owner: Any = owner
        self._fields = fields
        self._frozen = frozen
        self._slots = slots

    def __get__(self, instance: Any, kind: type) -> Any:
        self._owner.__init__ = made = self._function()
        return made if instance is None else made.__get__(instance, kind)

    def _function(self) -> Callable[..., None]:
        parameters, body = ["self"], []
        names: dict[str, Any] = {"set_attribute": object.__setattr__, "FACTORY": _FACTORY}
        for name, each in self._fields.items():
            parameter, value = self._assignment(name, each, names)
            if parameter:
                parameters.append(parameter)
            if value:
                body.append(f"set_attribute(self, {name!r}, {value})" if self._frozen else f"self.{name} = {value}")
        if hasattr(self._owner, "__post_init__"):
            body.append("self.__post_init__()")
        lines = [f"def __init__({', '.join(parameters)}):", *(f"    {line}" for line in body or ["pass"])]
        qualname = f"{self._owner.__qualname__}.__init__"
        exec(compile("\n".join(lines), f"<adjoint {qualname}>", "exec"), names)
        made: Callable[..., None] = names["__init__"]
        made.__qualname__ = qualname
        made.__annotations__ = {name: each.type for name, each in self._fields.items() if each.init} | {"return": None}
        return made

    def _assignment(self, name: str, each: "Field[Any]", names: dict[str, Any]) -> tuple[str, str]:
        """The parameter and the value of a field, each "" if there is none."""
        if each.default_factory is not MISSING:
            names[f"factory_{name}"] = each.default_factory
            new = f"factory_{name}()"
            return (f"{name}=FACTORY", f"{new} if {name} is FACTORY else {name}") if each.init else ("", new)
        if each.default is not MISSING:
            names[f"default_{name}"] = each.default
            if each.init:
                return f"{name}=default_{name}", name
            return "", f"default_{name}" if self._slots else ""  # without slots, the class has the default
        return (name, name) if each.init else ("", "")


class _Factory:
    """The default of parameters whose field has a ``default_factory``."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _repr(fields: Fields) -> Callable[[Any], str]:
    shown = [name for name, each in fields.items() if each.repr]

    @recursive_repr()
    def represent(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    return represent


def _comparisons(fields: Fields, frozen: bool) -> dict[str, Any]:
    compared = _values(name for name, each in fields.items() if each.compare)

    def equal(self: Any, other: object) -> Any:
        return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

    if not frozen:
        return {"__eq__": equal, "__hash__": None}
    hashed = _values(name for name, each in fields.items() if (each.compare if each.hash is None else each.hash))

    def hash_of(self: Any) -> int:
        return hash(hashed(self))

    return {"__eq__": equal, "__hash__": hash_of}


def _values(names: Iterable[str]) -> Callable[[Any], tuple[Any, ...]]:
    """The attributes of an object as a tuple, whose comparison takes the same object to be equal even if it is NaN."""
    listed = list(names)
    if len(listed) > 1:
        return attrgetter(*listed)
    return lambda self: tuple(getattr(self, name) for name in listed)


def _is_implicit_hash(cls: type) -> bool:
    """Whether Python set ``__hash__`` to None because the class has an ``__eq__``."""
    return cls.__dict__.get("__hash__", MISSING) is None and "__eq__" in cls.__dict__


def _freeze(cls: Any, fields: Fields, slots: bool) -> None:
    def refuse(self: Any, name: str, what: str) -> None:
        if type(self) is cls or name in fields:
            raise FrozenInstanceError(f"cannot {what} field {name!r}")

    def set_attribute(self: Any, name: str, value: Any) -> None:
        refuse(self, name, "assign to")
        super(cls, self).__setattr__(name, value)

    def delete_attribute(self: Any, name: str) -> None:
        refuse(self, name, "delete")
        super(cls, self).__delattr__(name)

    if "__setattr__" in cls.__dict__ or "__delattr__" in cls.__dict__:
        raise TypeError(f"cannot overwrite __setattr__ or __delattr__ of the frozen dataclass {cls.__name__}")
    cls.__setattr__, cls.__delattr__ = set_attribute, delete_attribute
    if slots and "__getstate__" not in cls.__dict__:  # pickle would assign attributes
        cls.__getstate__, cls.__setstate__ = _state, _set_state


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__dataclass_fields__]


def _set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__dataclass_fields__, state, strict=True):
        object.__setattr__(self, name, value)


def _with_slots(cls: type, fields: Fields) -> type:
    """The class anew, with slots for its fields: a class gets them only when it is created."""
    if "__slots__" in cls.__dict__:
        raise TypeError(f"{cls.__name__} already specifies __slots__")
    inherited = {name for base in cls.__mro__[1:] for name in base.__dict__.get("__slots__", ())}
    slots = tuple(name for name in fields if name not in inherited)
    body = {name: each for name, each in cls.__dict__.items() if name not in {*fields, "__dict__", "__weakref__"}}
    made = type(cls)(cls.__name__, cls.__bases__, body | {"__slots__": slots})
    made.__qualname__ = cls.__qualname__
    return made
