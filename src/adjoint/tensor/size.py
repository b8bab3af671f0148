"""The shape of a tensor, as its attribute ``shape``."""

from math import prod
from typing import Any, SupportsIndex, overload

__all__ = ["Size"]


class Size(tuple[int, ...]):
    """The shape of a tensor: a tuple with the number of elements as `numel`."""

    __slots__ = ()

    def numel(self) -> int:
        """The product of the sizes."""
        return prod(self)

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> "Size": ...
    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return Size(found) if isinstance(found, tuple) else found

    def __add__(self, other: Any) -> "Size":
        return Size(super().__add__(other))

    def __repr__(self) -> str:
        return f"Size({list(self)})"
