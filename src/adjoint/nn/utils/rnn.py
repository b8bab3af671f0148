"""Sequences of different lengths in one tensor: `torch.nn.utils.rnn`."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import adjoint.nn.functional as F  # noqa: N812
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.missing import missing_name
from adjoint.tensor.joining import stack
from adjoint.tensor.tensor import Tensor

__all__ = ["pad_sequence", "unpad_sequence"]


def pad_sequence(
    sequences: Iterable[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Tensors of different lengths as one, ``[T, B, ...]``, where `T` is the greatest length.

    Parameters
    ----------
    sequences : iterable of Tensor
        Tensors of shapes ``[length, ...]``, which differ in the first axis only.
    batch_first : bool, default False
        Whether the result is ``[B, T, ...]``.
    padding_value : float, default 0.0
        The elements that are added.
    padding_side : {"right", "left"}, default "right"
        Where they are added.

    Raises
    ------
    TypeRuleError
        If there is no sequence, or one is a scalar.
    InvalidValueError
        If the side is another one.
    """
    given = list(sequences)
    if not given or not all(isinstance(one, Tensor) and one.ndim for one in given):
        raise TypeRuleError(
            f"pad_sequence takes tensors with an axis, got {[getattr(one, 'shape', one) for one in given]}; pass at "
            "least one"
        )
    if padding_side not in ("right", "left"):
        raise InvalidValueError(f"pad_sequence: padding_side must be 'right' or 'left', got {padding_side!r}; use one")
    most = max(len(one) for one in given)
    padded = []
    for one in given:
        missing = most - len(one)
        ends = (0, missing) if padding_side == "right" else (missing, 0)
        padded.append(F.pad(one, (0, 0) * (one.ndim - 1) + ends, value=padding_value) if missing else one)
    found: Tensor = stack(padded, 0 if batch_first else 1)
    return found


def unpad_sequence(
    padded_sequences: Tensor, lengths: Sequence[Any] | Tensor, batch_first: bool = False
) -> list[Tensor]:
    """The tensors of different lengths of which `pad_sequence` made one.

    Parameters
    ----------
    padded_sequences : Tensor
        Shape ``[T, B, ...]``.
    lengths : Tensor or sequence of int
        The length of each.
    batch_first : bool, default False
        Whether the shape is ``[B, T, ...]``.
    """
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[: int(length)] for row, length in zip(rows, lengths, strict=True)]


if not TYPE_CHECKING:  # so that type checkers report names that do not exist

    def __getattr__(name):
        """Say what to use instead of a name of PyTorch that is not here."""
        raise missing_name(__name__, name, __all__)
