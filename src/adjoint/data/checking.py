"""Checks of arguments that datasets, samplers and sources share."""

from collections.abc import Sequence

import numpy as np

from adjoint.errors import InvalidValueError, NameLookupError, TypeRuleError, listed

__all__ = ["names_of", "require_columns", "require_count", "require_flag", "require_seed"]

#: Seeds are words of 64 bits.
_SEEDS = 2**64


def require_count(name: str, what: str, given: object, least: int = 1) -> int:
    """A number that must be an integer of at least `least`; `name` is the function and `what` the argument."""
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < least:
        raise InvalidValueError(f"{name}: {what} must be an integer of at least {least}, got {given!r}; choose another")
    return int(given)


def require_seed(name: str, given: object) -> int:
    """A seed, which must be an integer from 0 to ``2**64 - 1``."""
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or not 0 <= given < _SEEDS:
        raise InvalidValueError(f"{name}: seed must be an integer from 0 to 2**64 - 1, got {given!r}; choose another")
    return int(given)


def require_flag(name: str, what: str, given: object) -> bool:
    """A choice that must be True or False."""
    if not isinstance(given, bool | np.bool_):
        raise InvalidValueError(f"{name}: {what} must be True or False, got {given!r}; choose one")
    return bool(given)


def names_of(name: str, what: str, given: object) -> tuple[str, ...]:
    """Names of columns, given as one string or a sequence of different ones."""
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, Sequence) or not names or not all(isinstance(each, str) for each in names):
        raise TypeRuleError(f"{name}: {what} must be a name or a list of names, got {given!r}; pass strings")
    if len(set(names)) != len(names):
        raise InvalidValueError(f"{name}: {what} must be different names, got {listed(names)}; rename one")
    return tuple(names)


def require_columns(name: str, wanted: Sequence[str], there: Sequence[str]) -> tuple[int, ...]:
    """The places of columns; raises if one does not exist."""
    for each in wanted:
        if each not in there:
            raise NameLookupError(f"{name}: there is no column {each!r}, the columns are {listed(there, 12)}; name one")
    return tuple(there.index(each) for each in wanted)
