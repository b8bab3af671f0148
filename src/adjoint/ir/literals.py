"""Text form of names and attribute values, and when two of them are equal.

The kind of a literal follows from its text: ``1`` is an int, ``1.0`` a float (`repr`, so exact; ``inf``, ``-inf``,
``nan``), ``True`` a bool, ``"..."`` a string, ``b64"..."`` bytes, ``(1, 2)`` a tuple, ``f32`` a dtype, ``f32[2,3]`` a
type, ``None`` None and ``@name`` a function.
"""

import ast
import math
import re
import types
from base64 import b64decode, b64encode
from collections.abc import Callable, Hashable
from dataclasses import fields
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from adjoint.ir.types import DTYPES, TensorType, dtype_name

__all__ = [
    "NAME",
    "Symbol",
    "attribute_hints",
    "convert",
    "exact",
    "hint_text",
    "literal",
    "quote",
    "quoted_name",
    "unquote",
]

#: Names that are printed without quotes.
NAME = r"[^\W\d][\w.]*"
_PLAIN = re.compile(NAME)

#: Words that start a float literal, and are therefore quoted as attribute names.
_RESERVED = frozenset({"inf", "nan"})


class Symbol:
    """Anything that text refers to by name, as ``@name``, such as a `Function`."""

    __slots__ = ()
    name: str


def quote(text: str) -> str:
    """A string literal: ASCII, in double quotes, on one line."""
    return '"' + text.encode("unicode_escape").decode("ascii").replace('"', '\\"') + '"'


def unquote(token: str) -> Any:
    """The string or bytes of a literal written by `quote` or `literal`.

    Raises
    ------
    ValueError
        If an escape is not one of Python's, or the base64 is malformed.
    """
    if token.startswith("b64"):
        return b64decode(token[4:-1], validate=True)
    try:
        return ast.literal_eval(token)
    except SyntaxError as error:
        raise ValueError(str(error)) from error


def quoted_name(name: str) -> str:
    """The name, quoted if it would not read back as a name."""
    return name if _PLAIN.fullmatch(name) and name not in _RESERVED else quote(name)


def literal(value: Any) -> str:
    """The text of an attribute's value.

    Parameters
    ----------
    value : Any
        A bool, int, float, str, bytes, None, dtype, `TensorType`, `Symbol`, or a tuple of these; NumPy scalars print as
        Python scalars. Anything else prints as its `repr`, which does not parse.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, tuple):
        inner = ", ".join(literal(item) for item in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, bytes):
        return f'b64"{b64encode(value).decode("ascii")}"'
    if isinstance(value, np.dtype) and value in DTYPES.values():
        return dtype_name(value)
    if isinstance(value, Symbol):
        return "@" + quoted_name(value.name)
    return str(value) if isinstance(value, TensorType) else repr(value)


def exact(value: Any, symbol: Callable[[Any], Hashable] | None = None) -> Hashable:
    """A key that is equal for identical attribute values only.

    Unlike Python's ``==``, it distinguishes 0.0 from -0.0, and NaN is equal to itself.

    Parameters
    ----------
    value : Any
        Anything that `literal` accepts.
    symbol : callable, optional
        Maps a `Symbol` to its key; default: the symbol itself.
    """
    if isinstance(value, float):
        if math.isnan(value):
            return ("nan",)
        if value == 0 and math.copysign(1.0, value) < 0:
            return ("-0.0",)
    if isinstance(value, tuple):
        return ("tuple", *(exact(item, symbol) for item in value))
    if symbol is not None and isinstance(value, Symbol):
        return ("symbol", symbol(value))
    return value  # type: ignore[no-any-return]


def attribute_hints(cls: Any) -> tuple[tuple[str, Any], ...]:
    """Name and declared type of every attribute of an op class, in declaration order."""
    return _hints(cls)


@cache
def _hints(cls: type) -> tuple[tuple[str, Any], ...]:
    hints = get_type_hints(cls)
    return tuple((field.name, hints[field.name]) for field in fields(cls))


def hint_text(hint: Any) -> str:
    """A declared type in readable form: ``int``, ``tuple[int, ...]``."""
    plain = isinstance(hint, type) and get_origin(hint) is None
    return hint.__name__ if plain else str(hint).replace("typing.", "")


def _tuple(value: Any, hint: Any) -> Any:
    inner = get_args(hint)
    if not isinstance(value, tuple):
        raise ValueError
    if len(inner) == 2 and inner[1] is Ellipsis:
        return tuple(convert(item, inner[0]) for item in value)
    if inner and len(inner) != len(value):
        raise ValueError
    return tuple(convert(item, sub) for item, sub in zip(value, inner, strict=True)) if inner else value


def _union(value: Any, hint: Any) -> Any:
    options = get_args(hint)
    if type(value) in options:
        return value
    for option in options:
        try:
            return convert(value, option)
        except ValueError:
            continue
    raise ValueError


def _choice(value: Any, hint: Any) -> Any:
    for option in get_args(hint):
        if type(option) is type(value) and option == value:
            return value
    raise ValueError


_BY_ORIGIN = {tuple: _tuple, Union: _union, types.UnionType: _union, Literal: _choice}


def convert(value: Any, hint: Any) -> Any:
    """`value` converted to the declared type `hint`; an int is accepted as a float.

    Raises
    ------
    ValueError
        If it cannot be converted.
    """
    if hint is Any:
        return value
    if isinstance(value, np.generic):
        value = value.item()
    by_origin = _BY_ORIGIN.get(get_origin(hint) or hint)
    if by_origin is not None:
        return by_origin(value, hint)
    if hint is float and isinstance(value, int):
        return float(value)
    if hint is int and isinstance(value, bool):
        raise ValueError
    kind = get_origin(hint) or hint
    if isinstance(kind, type) and isinstance(value, kind):
        return value
    raise ValueError
