"""Observing an operator's `lower`: placeholders for elements, and the part of `Builder` that only passes them on."""

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.lazy_dataclass import dataclass

__all__ = ["Element", "Observer"]


@dataclass(frozen=True, slots=True)
class Element:
    """A placeholder for an element of which the dtype is known.

    Parameters
    ----------
    dtype : numpy.dtype
        Its dtype.
    of : int, default -1
        Number of the operand that it is an element of, or -1 if it is computed.
    """

    dtype: np.dtype
    of: int = -1


class Observer:
    """The methods of `adjoint.ops.base.Builder` that compute one element from others.

    A subclass adds those that choose coordinates: `position`, `reduce`, `scatter_add`, `prefix_scan`,
    `fused_attention` and `row_algorithm`.
    """

    def const(self, value: Any, dtype: np.dtype) -> Element:  # noqa: ARG002
        """A constant."""
        return Element(dtype)

    def constant_data(self, data: bytes, shape: Any, dtype: np.dtype, index: Any) -> Element:  # noqa: ARG002
        """An element of a literal array."""
        return Element(dtype)

    def call(self, function: str, *args: Element) -> Element:  # noqa: ARG002
        """The result of a scalar function."""
        return Element(args[0].dtype)

    def select(self, condition: Element, then: Element, other: Element) -> Element:  # noqa: ARG002
        """One of two elements."""
        return Element(then.dtype)

    def cast(self, x: Element, dtype: np.dtype) -> Element:  # noqa: ARG002
        """An element converted."""
        return Element(dtype)

    def dtype(self, x: Element) -> np.dtype:
        """The dtype of an element."""
        return x.dtype

    def coordinate(self, i: Any, dtype: np.dtype) -> Element:  # noqa: ARG002
        """A coordinate as a number."""
        return Element(dtype)

    def inside(self, i: Any, start: int, stop: int) -> Element:  # noqa: ARG002
        """A condition on a coordinate."""
        return Element(np.dtype(bool))

    def choose(self, condition: Element, then: Callable[[], Element], other: Callable[[], Element]) -> Element:  # noqa: ARG002
        """One of two elements, both of which are read."""
        return Element((then(), other())[0].dtype)
