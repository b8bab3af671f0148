"""Checks of sizes that networks share."""

from adjoint.errors import InvalidValueError

__all__ = ["require_sizes"]


def require_sizes(name: str, least: int = 1, /, **sizes: object) -> None:
    """Raise unless every size is an integer of at least `least`."""
    for which, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < least:
            raise InvalidValueError(f"{name}: {which} must be an integer of at least {least}, got {size!r}")
