"""Structural equality of kernels: those that differ only in names share one native function."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, Literal

import numpy as np

from adjoint.kernel.index import Index, Var
from adjoint.kernel.ir import Buffer, Expr, Kernel, postorder

__all__ = ["structure", "structures"]

#: Fields that may differ between structurally equal kernels.
_NAMES = frozenset(("name", "values"))


@cache
def _fields(cls: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(cls) if field.name not in _NAMES)


@cache
def _kind(cls: type) -> Literal["itself", "numbered", "index", "text", "described"]:
    """How the objects of a class are represented."""
    if cls in (type(None), str, int) or issubclass(cls, np.dtype):
        return "itself"
    if issubclass(cls, Expr | Var | Buffer):
        return "numbered"
    if issubclass(cls, Index):
        return "index"
    # A text distinguishes 0.0, -0.0 and False, and NaN equals itself.
    return "text" if issubclass(cls, float | bool | np.generic) else "described"


def structure(kernel: Kernel) -> Hashable:
    """A description of a kernel's effect on its buffers; equal descriptions imply equal effects.

    Buffers are represented by their position in the order of first writes, then first reads, with scratch buffers last;
    variables by their loops. Kernels with equal descriptions compute the same from corresponding buffers. The converse
    need not hold.
    """
    return _Walk().kernel(kernel)


def structures(kernels: Sequence[Kernel]) -> list[Hashable]:
    """A description of each kernel, equal for those of equal `structure` and cheaper than that of all.

    Where no other kernel has the same number of units and the same buffers, the kernel stands for itself.
    """
    outlines = [_outline(kernel) for kernel in kernels]
    times = Counter(outlines)
    return [
        structure(kernel) if times[outline] > 1 else kernel for kernel, outline in zip(kernels, outlines, strict=True)
    ]


def _outline(kernel: Kernel) -> Hashable:
    """What kernels of equal structure have in common, among other things."""
    buffers = [tuple((b.dtype, b.size, b.space) for b in found) for found in (kernel.writes, kernel.reads)]
    return (kernel.unit.extent, len(kernel.body), *buffers)


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
        cls: Any = type(thing)
        if cls is tuple:
            return tuple([self._key(each) for each in thing])
        kind = _kind(cls)
        if kind == "itself":
            return thing  # type: ignore[no-any-return]
        if kind == "numbered":
            number = self._numbers.get(thing)
            return number if number is not None else self._numbered(thing)
        if kind == "index":
            # Equal indices have equal keys, as variables keep their numbers.
            found = self._indices.get(thing)
            if found is None:
                terms = frozenset([(self._key(atom), c) for atom, c in thing.terms])
                found = self._indices[thing] = (thing.constant, terms)
            return found
        return repr(thing) if kind == "text" else self._described(thing)

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
