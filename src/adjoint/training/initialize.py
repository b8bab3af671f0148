"""Initial values of parameters and states: as specified by the module, or by a default rule."""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from math import isfinite, prod, sqrt
from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError, NameLookupError, TypeRuleError, described
from adjoint.ir import DTYPES, IRModule, TensorType, is_float
from adjoint.lazy_dataclass import dataclass

__all__ = ["Initializer", "Start", "initial_params", "initial_states", "stated_starts"]


#: An own initializer: the name of a parameter, its shape and a generator of its own, to an array of that shape.
OwnInitializer = Callable[[str, tuple[int, ...], np.random.Generator], object]

#: What `init_parameters` accepts: a kind, an own initializer, or either or an array by name.
Initializer = str | OwnInitializer | Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Start:
    """The initializer of a parameter or state.

    Parameters
    ----------
    kind : str
        One of the kinds of `stated_starts`.
    numbers : tuple of float, default ()
        Parameters of the kind.
    """

    kind: str
    numbers: tuple[float, ...] = ()

    def draw(self, type_: TensorType, stream: np.random.SeedSequence) -> np.ndarray:
        """An array of that shape and dtype, with random numbers from the stream."""
        drawn = _KINDS[self.kind].draw(np.random.default_rng(stream), type_.shape, *self.numbers)
        return drawn.astype(type_.dtype)


def stated_starts(module: IRModule, types: Mapping[str, TensorType]) -> dict[str, Start]:
    """The initializers in a module's attribute ``init``: tuples of a name, a kind and the kind's parameters.

    ``init = (("table", "normal", 0.02), ("scale", "ones"))``, with the following kinds:

    * ``zeros`` and ``ones``;
    * ``normal``, standard deviation: normal with mean 0;
    * ``uniform``, low, high: uniform in this range;
    * ``xavier_uniform``: uniform within ``sqrt(6 / (fan_in + fan_out))`` (Glorot and Bengio 2010, "Understanding the
      difficulty of training deep feedforward neural networks", formula 16);
    * ``kaiming_normal``: normal with standard deviation ``sqrt(2 / fan_in)``, for layers before a relu (He et al.
      2015, "Delving Deep into Rectifiers", formula 10);
    * ``key``: random bits, for a key of `adjoint.ops.random`, u32[2].

    ``xavier_uniform`` and ``kaiming_normal`` require a rank of at least 2. A matrix has the shape ``[fan_in,
    fan_out]``, as in `ops.linear`. At higher ranks, as in the weight of a convolution, the first two axes are output
    and input channels and the others the window, and a fan is the number of channels times the elements of the window.

    Parameters
    ----------
    module : IRModule
        The module, with or without the attribute.
    types : mapping of str to TensorType
        Types of its parameters and states by name.

    Returns
    -------
    dict of str to Start
        For the names in the attribute.

    Raises
    ------
    InvalidValueError
        If the attribute is malformed, a name is repeated, or a kind or its parameters are invalid.
    NameLookupError
        If a name is not that of a parameter or state.
    """
    entries = module.attrs.get("init", ())
    if not isinstance(entries, tuple):
        raise _form(entries)
    found: dict[str, Start] = {}
    for entry in entries:
        match entry:
            case (str(name), str(kind), *numbers):
                if name in found:
                    raise InvalidValueError(f"init: names must be unique, got {name!r} twice; remove one")
                found[name] = _checked(name, kind, numbers, types)
            case _:
                raise _form(entry)
    return found


def initial_params(
    params: Mapping[str, TensorType], starts: Mapping[str, Start], seed: int, kind: Initializer = "xavier_uniform"
) -> dict[str, np.ndarray]:
    """One array per parameter.

    Parameters
    ----------
    params : mapping of str to TensorType
        Names and types of the parameters.
    starts : mapping of str to Start
        Initializers of some of them; other names are ignored.
    seed : int
        Equal seeds give equal values. Each parameter has its own random stream, so its values do not depend on the
        other parameters.
    kind : {"xavier_uniform", "kaiming_normal", "zeros"}, callable or mapping
        Initializer of the other parameters: a kind for those of rank 2 or more, where those of lower rank are zeros; a
        function ``(name, shape, rng) -> array``; or a mapping of names, also of those in `starts`, to a kind, a
        tuple of a kind and its numbers, such a function, or an array. Parameters that it does not contain are
        initialized as by default.

    Raises
    ------
    InvalidValueError
        If the kind is unknown or cannot initialize a parameter, or values are not finite.
    NameLookupError
        If the mapping contains a name that is not that of a parameter.
    TypeRuleError
        If an array has a wrong shape or does not contain real numbers.
    """
    streams = dict(zip(params, np.random.SeedSequence(seed).spawn(len(params)), strict=True))
    given = kind if isinstance(kind, Mapping) else {}
    for name in given:
        if name not in params:
            raise NameLookupError(
                f"init_parameters: names must be those of parameters, got {name!r}; {_near(name, params)}"
            )
    rule = "xavier_uniform" if isinstance(kind, Mapping) else kind
    arrays = {}
    for name, type_ in params.items():
        if name in given:
            arrays[name] = _initialized(name, type_, given[name], streams[name], params)
        elif name in starts:
            arrays[name] = starts[name].draw(type_, streams[name])
        else:
            arrays[name] = _by_rule(name, type_, rule, streams[name])
    return arrays


def _by_rule(name: str, type_: TensorType, rule: object, stream: np.random.SeedSequence) -> np.ndarray:
    """The values of a parameter for which nothing else is specified."""
    if isinstance(rule, str) and rule in _RULES:
        return Start(rule if type_.rank >= _KINDS[rule].rank else "zeros").draw(type_, stream)
    if callable(rule):
        return _array(name, type_, rule(name, type_.shape, np.random.default_rng(stream)))
    raise InvalidValueError(
        f"init_parameters: kind must be one of {', '.join(_RULES)}, a function (name, shape, rng) -> array, or a dict "
        f"of names, got {rule!r}; use one of them"
    )


def _initialized(
    name: str, type_: TensorType, given: object, stream: np.random.SeedSequence, types: Mapping[str, TensorType]
) -> np.ndarray:
    """The values of a parameter from what a mapping contains for it."""
    if isinstance(given, str):
        given = (given,)
    if isinstance(given, tuple) and given and isinstance(given[0], str):
        return _checked(name, given[0], given[1:], types).draw(type_, stream)
    if callable(given):
        given = given(name, type_.shape, np.random.default_rng(stream))
    return _array(name, type_, given)


def _array(name: str, type_: TensorType, given: object) -> np.ndarray:
    """Values as an array of the parameter's type; raises if they are none."""
    array = np.asarray(given)
    if array.shape != type_.shape:
        got = described(given) if given is None else f"shape {list(array.shape)}"
        raise TypeRuleError(f"init_parameters: {name} must be {type_}, got {got}; return an array of its shape")
    if array.dtype.kind not in "fiub" and not is_float(array.dtype):
        raise TypeRuleError(f"init_parameters: {name} must be {type_}, got dtype {array.dtype}; return real numbers")
    with np.errstate(over="ignore"):
        held = array.astype(type_.dtype)
    if not np.isfinite(held.astype(np.float64)).all():
        raise InvalidValueError(f"init_parameters: {name} must be finite in {type_.dtype.name}; correct its values")
    return held


def initial_states(
    params: Mapping[str, TensorType], states: Mapping[str, TensorType], starts: Mapping[str, Start], seed: int
) -> dict[str, np.ndarray]:
    """One array per state, zeros by default; the random streams continue after those of the parameters."""
    streams = np.random.SeedSequence(seed).spawn(len(params) + len(states))[len(params) :]
    pairs = zip(states.items(), streams, strict=True)
    return {name: starts.get(name, Start("zeros")).draw(type_, stream) for (name, type_), stream in pairs}


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of initializer: its sampler, the names of its parameters, the minimum rank, whether it needs floats."""

    draw: Callable[..., np.ndarray]
    numbers: tuple[str, ...] = ()
    rank: int = 0
    floats: bool = True


def _zeros(_rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.zeros(shape)


def _ones(_rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.ones(shape)


def _normal(rng: np.random.Generator, shape: tuple[int, ...], std: float) -> np.ndarray:
    return np.asarray(rng.normal(0.0, std, shape))


def _uniform(rng: np.random.Generator, shape: tuple[int, ...], low: float, high: float) -> np.ndarray:
    return np.asarray(rng.uniform(low, high, shape))


def _xavier_uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    first, second, *window = shape
    bound = sqrt(6.0 / max((first + second) * prod(window), 1))
    return rng.uniform(-bound, bound, shape)


def _kaiming_normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    fan_in = shape[0] if len(shape) == 2 else prod(shape[1:])
    return rng.normal(0.0, sqrt(2.0 / max(fan_in, 1)), shape)


_KEY = TensorType((2,), DTYPES["u32"])


def _key(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(0, 2**32, shape, np.uint32)


_KINDS = {
    "zeros": _Kind(_zeros, floats=False),
    "ones": _Kind(_ones, floats=False),
    "normal": _Kind(_normal, ("std",)),
    "uniform": _Kind(_uniform, ("low", "high")),
    "xavier_uniform": _Kind(_xavier_uniform, rank=2),
    "kaiming_normal": _Kind(_kaiming_normal, rank=2),
    "key": _Kind(_key, floats=False),
}

#: Allowed default initializers.
_RULES = ("xavier_uniform", "kaiming_normal", "zeros")


def _form(given: object) -> InvalidValueError:
    return InvalidValueError(
        "init: the module's attribute holds tuples of a name, a kind and its numbers, such as ('scale', 'ones') and "
        f"('table', 'normal', 0.02), got {given!r}; correct it"
    )


def _checked(name: str, kind: str, numbers: Sequence[Any], types: Mapping[str, TensorType]) -> Start:
    """The initializer for that name; raises if it is invalid."""
    if name not in types:
        raise NameLookupError(f"init: names must be those of parameters and states, got {name!r}; {_near(name, types)}")
    found = _KINDS.get(kind)
    if found is None:
        near = get_close_matches(kind, _KINDS, n=1)
        fix = f"did you mean {near[0]!r}?" if near else "use one of them"
        raise InvalidValueError(f"init: the kind must be one of {', '.join(_KINDS)}, got {kind!r} for {name!r}; {fix}")
    type_ = types[name]
    if type_.rank < found.rank or (found.floats and not is_float(type_.dtype)):
        wanted = f"floats of a rank from {found.rank}" if found.rank else "floats"
        raise InvalidValueError(f"init: {kind} requires {wanted}, got {name!r} of {type_}; use zeros or ones")
    if kind == "key" and type_ != _KEY:
        raise InvalidValueError(f"init: key requires {_KEY}, got {name!r} of {type_}; use zeros or ones")
    if len(numbers) != len(found.numbers) or not all(_finite(n) for n in numbers):
        takes = f"the finite numbers {', '.join(found.numbers)}" if found.numbers else "no numbers"
        raise InvalidValueError(f"init: {kind} takes {takes}, got {tuple(numbers)!r} for {name!r}; correct them")
    if (kind == "normal" and numbers[0] < 0) or (kind == "uniform" and numbers[0] > numbers[1]):
        rule = "std of at least 0" if kind == "normal" else "low that is at most high"
        raise InvalidValueError(f"init: {kind} takes a {rule}, got {tuple(numbers)!r} for {name!r}; correct it")
    return Start(kind, tuple(float(n) for n in numbers))


def _near(name: object, types: Mapping[str, TensorType]) -> str:
    """A fix for a wrong name: a similar one, or all names."""
    near = get_close_matches(str(name), types, n=1)
    return f"did you mean {near[0]!r}?" if near else f"the names are {', '.join(types)}"


def _finite(number: object) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and isfinite(number)
