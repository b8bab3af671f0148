"""`Function`: parameters and results. `IRModule`: functions by name, and attributes."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any

from adjoint.errors import NameLookupError, TypeRuleError, VerifyError, kind_of, listed, located
from adjoint.ir.literals import Symbol, exact
from adjoint.ir.printer import print_functions, print_module
from adjoint.ir.types import TensorType, TupleType
from adjoint.ir.value import Immutable, Param, Value, toposort
from adjoint.lazy_dataclass import dataclass

__all__ = ["Attribute", "Function", "IRModule", "called_by", "callees", "closure", "is_param", "reached", "rebuild"]

#: What an attribute of a function or module may hold: Python literals that print and parse.
Attribute = bool | int | float | str | tuple["Attribute", ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Function(Immutable, Symbol):
    """A named graph with parameters and results.

    Parameters
    ----------
    name : str
        Unique within a module.
    params : tuple of Value
        Created with `param`, with distinct names.
    results : tuple of Value
        The returned values, at least one. All parameters that they depend on must be in `params`.
    attrs : mapping, optional
        Literals stored with the function, such as ``donate``: pairs ``(parameter name, result index)`` that may share a
        buffer, so that the update happens in place.

    Two functions are equal if their names, parameters, attributes and graphs are; the labels of inner values do not
    count.

    Raises
    ------
    VerifyError
        If there is no result, two parameters have the same name, or the results depend on a parameter that is not
        declared.
    """

    name: str
    params: tuple[Value, ...]
    results: tuple[Value, ...]
    attrs: Mapping[str, Attribute] = field(default_factory=dict)
    #: What `values` returns, once it has been asked for: every pass does.
    _values: tuple[Value, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        for what, given in (("parameters", self.params), ("results", self.results)):
            if isinstance(given, Value):  # which a tuple could be made of: that of its rows
                raise TypeRuleError(
                    f"function @{self.name} takes its {what} as a tuple, got one value of type {given.type}; write "
                    "(value,)"
                )
            values = tuple(given) if isinstance(given, Iterable) else (given,)
            for value in values:
                if not isinstance(value, Value):
                    raise TypeRuleError(
                        f"function @{self.name} takes graph values as its {what}, got {kind_of(value)}; pass a tuple "
                        "of them"
                    )
            object.__setattr__(self, "params" if what == "parameters" else what, values)
        object.__setattr__(self, "attrs", MappingProxyType(dict(self.attrs)))
        if not self.results:
            raise VerifyError(f"function @{self.name} has no results; return at least one")
        names = [p.label for p in self.params]
        if len(set(names)) != len(names):
            twice = sorted({n for n in names if names.count(n) > 1})
            raise VerifyError(f"function @{self.name} has two parameters named {', '.join(twice)}; rename one")
        self._refuse_undeclared()

    def _refuse_undeclared(self) -> None:
        """Raise if the results depend on parameters that are not declared.

        A loop of its own rather than `toposort`, because passes create many functions: it is three times as fast.
        """
        seen = set(self.params)
        missing: list[Value] = []
        pending = list(self.results)
        while pending:
            value = pending.pop()
            if value in seen:
                continue
            seen.add(value)
            if value.inputs:
                pending.extend(value.inputs)
            elif isinstance(value.op, Param):
                missing.append(value)
        if not missing:
            return
        missing.sort(key=lambda p: p.label)
        listed = ", ".join(f"%{p.label}: {p.type}" for p in missing)
        same = [p.label for p in missing if p.label in {q.label for q in self.params}]
        fix = f"add {'it' if len(missing) == 1 else 'them'} to its parameters"
        if same:
            fix = f"declare and use the same object, because each call of param({same[0]!r}, ...) creates a parameter"
        raise VerifyError(
            f"function @{self.name} must declare every parameter that its results depend on, got {listed} only in its "
            f"graph; {fix}"
        )

    @property
    def type(self) -> TensorType | TupleType:
        """Type of a call: the type of the result, or a tuple of the results' types."""
        if len(self.results) == 1:
            single: TensorType = self.results[0].type
            return single
        return TupleType(tuple(r.type for r in self.results))

    def values(self) -> list[Value]:
        """Every value of the body, parameters included, inputs before users."""
        if not self._values:
            object.__setattr__(self, "_values", tuple(toposort((*self.params, *self.results))))
        return list(self._values)

    def param(self, name: str) -> Value:
        """The parameter of that name."""
        for value in self.params:
            if value.label == name:
                return value
        known = ", ".join(p.label for p in self.params)
        raise NameLookupError(f"function @{self.name} has no parameter {name!r}; known parameters: {known}")

    def with_attrs(self, **attrs: Attribute) -> "Function":
        """The same function with attributes added or replaced."""
        return Function(self.name, self.params, self.results, {**self.attrs, **attrs})

    def renamed(self, name: str) -> "Function":
        """The same function under another name."""
        return Function(name, self.params, self.results, self.attrs)

    def structure(self) -> tuple[Hashable, ...]:
        """A hashable description of the graph and everything it calls; equal functions have equal descriptions."""
        return tuple(_interned((self,)))

    def _key(self, symbol: Callable[[Any], Hashable]) -> Hashable:
        """The body alone; `symbol` maps a called function to its key."""
        number: dict[Value, int] = {p: i for i, p in enumerate(self.params)}
        body: list[Hashable] = [(p.label, p.type) for p in self.params]
        for value in self.values():
            if value in number:
                continue
            number[value] = len(number)
            body.append((value.op.key(symbol), tuple(number[v] for v in value.inputs), value.type))
        return (self.name, _attrs_key(self.attrs), tuple(body), tuple(number[r] for r in self.results))

    def __str__(self) -> str:
        return print_functions(closure((self,)))

    def __repr__(self) -> str:
        params = listed([f"{p.label}: {p.type}" for p in self.params])
        return f"<Function @{self.name}({params}) -> ({listed([r.type for r in self.results])})>"

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Function) and self.structure() == other.structure())

    def __hash__(self) -> int:
        return hash((self.name, len(self.params), tuple(r.type for r in self.results)))


def _attrs_key(attrs: Mapping[str, Attribute]) -> Hashable:
    return tuple((name, exact(attrs[name])) for name in sorted(attrs))


def _functions_in(value: Any) -> Iterator[Function]:
    if isinstance(value, Function):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _functions_in(item)


def callees(function: Function) -> list[Function]:
    """The functions in a function's ops, each once, in order of first occurrence in the body."""
    return called_by(function.values())


def called_by(values: Iterable[Value]) -> list[Function]:
    """The functions in the ops of these values, each once, in order of first occurrence."""
    found: dict[int, Function] = {}
    for value in values:
        for attribute in value.op.attributes().values():
            for callee in _functions_in(attribute):
                found.setdefault(id(callee), callee)
    return list(found.values())


def reached(functions: Iterable[Function]) -> list[Function]:
    """All functions reachable from `functions` by calls, callees first, each object once. Iterative, linear time."""
    order: list[Function] = []
    seen: dict[int, Function] = {}
    for root in functions:
        stack = [(root, iter(callees(root)))] if id(root) not in seen else []
        seen[id(root)] = root
        while stack:
            function, pending = stack[-1]
            callee = next((f for f in pending if id(f) not in seen), None)
            if callee is not None:
                seen[id(callee)] = callee
                stack.append((callee, iter(callees(callee))))
                continue
            stack.pop()
            order.append(function)
    return order


def _interned(functions: Iterable[Function]) -> dict[Hashable, Function]:
    """The reachable functions, deduplicated by structure. A key refers to callees by number, so keys stay small."""
    found: dict[Hashable, Function] = {}
    numbers: dict[Hashable, int] = {}
    place: dict[int, int] = {}
    for function in reached(functions):
        key = function._key(lambda f: place[id(f)])
        found.setdefault(key, function)
        place[id(function)] = numbers.setdefault(key, len(numbers))
    return found


def closure(functions: Iterable[Function]) -> list[Function]:
    """`functions` and everything they call, callees before callers, without duplicates."""
    found = reached(functions)
    if len({f.name for f in found}) == len(found):
        return found  # equal functions have equal names
    return list(_interned(found).values())


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IRModule(Immutable):
    """Functions by name, and attributes (``param_num``, ``state_num``, ...).

    Parameters
    ----------
    functions : tuple of Function
        In printing order; callees come before their callers.
    attrs : mapping, optional
        Literals stored with the module.
    """

    functions: tuple[Function, ...]
    attrs: Mapping[str, Attribute] = field(default_factory=dict)

    def __post_init__(self) -> None:
        given: object = self.functions
        if not isinstance(given, Iterable):
            raise TypeRuleError(
                f"IRModule takes its functions as a tuple, got {kind_of(given)}; write IRModule((function,))"
            )
        functions = tuple(given)
        for function in functions:
            if not isinstance(function, Function):
                raise TypeRuleError(f"IRModule takes a tuple of functions, got {kind_of(function)} in it; leave it out")
        object.__setattr__(self, "functions", functions)
        object.__setattr__(self, "attrs", MappingProxyType(dict(self.attrs)))
        names = [f.name for f in self.functions]
        if len(set(names)) != len(names):
            twice = sorted({n for n in names if names.count(n) > 1})
            raise VerifyError(f"the module has two functions named {', '.join(twice)}; rename one")

    def __getitem__(self, name: str) -> Function:
        for function in self.functions:
            if function.name == name:
                return function
        known = ", ".join(f.name for f in self.functions) or "none"
        raise NameLookupError(f"the module has no function {name!r}; known functions: {known}")

    def __contains__(self, name: str) -> bool:
        return any(f.name == name for f in self.functions)

    def __iter__(self) -> Iterator[Function]:
        return iter(self.functions)

    def with_function(self, function: Function) -> "IRModule":
        """The module with the function added, or replacing the one of the same name."""
        if function.name not in self:
            return IRModule((*self.functions, function), self.attrs)
        kept = tuple(function if f.name == function.name else f for f in self.functions)
        return IRModule(kept, self.attrs)

    def with_attrs(self, **attrs: Attribute) -> "IRModule":
        """The module with attributes added or replaced."""
        return IRModule(self.functions, {**self.attrs, **attrs})

    def __str__(self) -> str:
        return print_module(self)

    def __repr__(self) -> str:
        names = listed([f"@{f.name}" for f in self.functions], most=8) or "no functions"
        return f"<IRModule of {names}; attributes: {listed(list(self.attrs), most=8) or 'none'}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IRModule):
            return NotImplemented
        mine, others = ([f.name for f in m.functions] for m in (self, other))
        return (
            mine == others
            and _attrs_key(self.attrs) == _attrs_key(other.attrs)
            and tuple(_interned(self.functions)) == tuple(_interned(other.functions))
        )

    def __hash__(self) -> int:
        return hash(self.functions)


def rebuild(
    results: tuple[Value, ...],
    replace: Callable[[Value, tuple[Value, ...]], Value | None],
    known: Mapping[Value, Value] | None = None,
) -> tuple[Value, ...]:
    """Copy a graph bottom-up, replacing values on the way. All rewriting passes use this loop.

    What `replace` creates gets the line of the value that it is called with.

    Parameters
    ----------
    results : tuple of Value
        What to copy.
    replace : callable
        Called with a value and its new inputs; returns the replacement, or None to keep the op.
    known : mapping, optional
        Values already replaced, such as parameters by arguments.

    Returns
    -------
    tuple of Value
        The new results. Unchanged values are the same objects as before.
    """
    new: dict[Value, Value] = dict(known or {})
    for value in toposort(results):
        if value in new:
            continue
        inputs = tuple(new[v] for v in value.inputs)
        with located(value.line):
            made = replace(value, inputs)
        new[value] = value.with_inputs(inputs) if made is None else made
    return tuple(new[r] for r in results)


def is_param(value: Value) -> bool:
    """Whether the value is a function parameter."""
    return isinstance(value.op, Param)
