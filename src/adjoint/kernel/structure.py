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
        cls = type(thing)
        if cls is tuple:
            return tuple([self._key(each) for each in thing])
        if thing is None or cls is str or cls is int:
            return thing  # type: ignore[no-any-return]
        if isinstance(thing, Expr | Var | Buffer):
            number = self._numbers.get(thing)
            return number if number is not None else self._numbered(thing)
        if isinstance(thing, Index):
            # Equal indices have equal keys, as variables keep their numbers.
            found = self._indices.get(thing)
            if found is None:
                found = self._indices[thing] = self._described(thing)
            return found
        if isinstance(thing, frozenset):
            return frozenset([self._key(each) for each in thing])
        if isinstance(thing, float | bool | np.generic):
            return repr(thing)  # distinguishes 0.0, -0.0 and False, and NaN equals itself
        if isinstance(thing, np.dtype):
            return thing
        return self._described(thing)

    def _numbered(self, thing: Var | Buffer | Expr) -> int:
        """The number of an object that had none; operands of an expression get theirs before it."""
        for each in postorder([thing]) if isinstance(thing, Expr) else (thing,):
            if each not in self._numbers:
                self._number(each)
        return self._numbers[thing]

    def _number(self, thing: Any) -> None:
        self._found.append(self._described(thing))
        self._numbers[thing] = len(self._numbers)

    def _described(self, thing: Any) -> Hashable:
        cls: Any = type(thing)
        return (cls.__name__, *[self._key(getattr(thing, name)) for name in _fields(cls)])
