"""The shape of a tensor, as its attribute ``shape``."""

from math import prod

__all__ = ["Size"]


class Size(tuple[int, ...]):
    """The shape of a tensor: a tuple with the number of elements as `numel`."""

    __slots__ = ()

    def numel(self) -> int:
        """The product of the sizes."""
        return prod(self)

    def __repr__(self) -> str:
        return f"Size({list(self)})"
