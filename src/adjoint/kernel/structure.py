"""Structural equality of kernels: those that differ only in names share one native function."""

from collections.abc import Hashable
from dataclasses import fields
from functools import cache
from typing import Any

import numpy as np

from adjoint.kernel.index import Index, Var
from adjoint.kernel.ir import Buffer, Expr, Kernel, postorder

__all__ = ["structure"]

#: Fields that may differ between structurally equal kernels.
_NAMES = frozenset(("name", "values"))


@cache
def _fields(cls: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(cls) if field.name not in _NAMES)


def structure(kernel: Kernel) -> Hashable:
    """A description of a kernel's effect on its buffers; equal descriptions imply equal effects.

    Buffers are represented by their position in the order of first writes, then first reads, with scratch buffers last;
    variables by their loops. Kernels with equal descriptions compute the same from corresponding buffers. The converse
    need not hold.
    """
    return _Walk().kernel(kernel)


class _Walk:
    """Numbers the objects that compare by identity: variables, buffers, expressions."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._indices: dict[Index, Hashable] = {}
        self._found: list[Hashable] = []

    def kernel(self, kernel: Kernel) -> Hashable:
        for buffer in (*kernel.writes, *kernel.reads, *kernel.scratch):
            self._key(buffer)
        body = self._key(kernel.unit), self._key(kernel.until), self._key(kernel.body)
        return tuple(self._found), body

    def _key(self, thing: Any) -> Hashable:
        if isinstance(thing, Var | Buffer):
            if thing not in self._numbers:
                self._number(thing)
            return self._numbers[thing]
        if isinstance(thing, Expr):
            if thing not in self._numbers:
                for expr in postorder([thing]):
                    if expr not in self._numbers:
                        self._number(expr)
            return self._numbers[thing]
        if isinstance(thing, Index):
            # Equal indices have equal keys, as variables keep their numbers.
            if thing not in self._indices:
                self._indices[thing] = self._described(thing)
            return self._indices[thing]
        if isinstance(thing, tuple):
            return tuple(map(self._key, thing))
        if isinstance(thing, frozenset):
            return frozenset(map(self._key, thing))
        if isinstance(thing, float | bool | np.generic):
            return repr(thing)  # distinguishes 0.0, -0.0 and False, and NaN equals itself
        if thing is None or isinstance(thing, int | str | np.dtype):
            return thing
        return self._described(thing)

    def _number(self, thing: Any) -> None:
        self._found.append(self._described(thing))
        self._numbers[thing] = len(self._numbers)

    def _described(self, thing: Any) -> Hashable:
        cls: Any = type(thing)
        return (cls.__name__, *[self._key(getattr(thing, name)) for name in _fields(cls)])
