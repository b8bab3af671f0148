"""Results of several tensors with names, which print as in PyTorch: ``adjoint.return_types.max(values=..., ...)``."""

from typing import Any, NamedTuple

__all__ = ["cummax", "cummin", "max", "min", "shown"]


def shown(result: Any) -> str:
    """The text of a named tuple of tensors, named like the function that returns it."""
    items = ",\n".join(f"{name}={item!r}" for name, item in zip(result._fields, result, strict=True))
    return f"adjoint.return_types.{type(result).__name__}(\n{items})"


class cummax(NamedTuple):  # noqa: N801
    """What `cummax` returns."""

    values: Any
    indices: Any

    def __repr__(self) -> str:
        return shown(self)


class cummin(NamedTuple):  # noqa: N801
    """What `cummin` returns."""

    values: Any
    indices: Any

    def __repr__(self) -> str:
        return shown(self)


class max(NamedTuple):  # noqa: N801
    """What `max` along an axis returns."""

    values: Any
    indices: Any

    def __repr__(self) -> str:
        return shown(self)


class min(NamedTuple):  # noqa: N801
    """What `min` along an axis returns."""

    values: Any
    indices: Any

    def __repr__(self) -> str:
        return shown(self)
