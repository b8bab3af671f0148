"""Sequences of different lengths in one tensor: `torch.nn.utils.rnn`."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import adjoint.nn.functional as F  # noqa: N812
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.missing import missing_name
from adjoint.tensor.comparison import where
from adjoint.tensor.joining import stack
from adjoint.tensor.making import from_array
from adjoint.tensor.tensor import Tensor

__all__ = [
    "PackedSequence",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpad_sequence",
]


class PackedSequence(NamedTuple):
    """Sequences of different lengths without padding: the first steps of all, then the second steps, and so on.

    Parameters
    ----------
    data : Tensor
        The steps, shape ``[sum of lengths, ...]``.
    batch_sizes : Tensor
        The number of sequences that have each step, i64[T].
    sorted_indices, unsorted_indices : Tensor or None
        The order of the sequences by decreasing length, and its inverse; None if that is the order they were given in.
    """

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None


def pack_padded_sequence(
    input: Tensor, lengths: Sequence[Any] | Tensor, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Padded sequences without their padding, for recurrent layers.

    Parameters
    ----------
    input : Tensor
        Shape ``[T, B, ...]``.
    lengths : Tensor or sequence of int
        The number of steps of each sequence, at least 1.
    batch_first : bool, default False
        Whether the shape is ``[B, T, ...]``.
    enforce_sorted : bool, default True
        Whether the lengths must be in decreasing order; otherwise the sequences are sorted.

    Raises
    ------
    InvalidValueError
        If the lengths are out of range, not as many as sequences, or not sorted although they must be.
    """
    rows = input.transpose(0, 1) if batch_first else input
    counts = np.array([int(n) for n in lengths], np.int64)
    if len(counts) != rows.shape[1] or not len(counts) or counts.min() < 1 or counts.max() > rows.shape[0]:
        raise InvalidValueError(
            f"pack_padded_sequence: lengths must be {rows.shape[1]} numbers from 1 to {rows.shape[0]}, got "
            f"{counts.tolist()}; pass one for each sequence"
        )
    order = None
    if not enforce_sorted:
        order = np.argsort(-counts, kind="stable")
        counts, rows = counts[order], rows[:, from_array(order)]
    elif np.any(np.diff(counts) > 0):
        raise InvalidValueError(
            f"pack_padded_sequence: lengths must be in decreasing order, got {counts.tolist()}; pass "
            "enforce_sorted=False"
        )
    sizes = np.array([np.sum(counts > t) for t in range(counts[0])], np.int64)
    indices = (None, None) if order is None else (from_array(order), from_array(np.argsort(order)))
    return pack_rows(rows, PackedSequence(rows, from_array(sizes), *indices))


def pack_rows(rows: Tensor, like: PackedSequence) -> PackedSequence:
    """Padded sequences ``[T, B, ...]``, in the order of decreasing lengths, packed like others."""
    batch = rows.shape[1]
    sizes = like.batch_sizes.tolist()
    places = np.concatenate([t * batch + np.arange(size) for t, size in enumerate(sizes)])
    data = rows.reshape(-1, *rows.shape[2:])[from_array(places.astype(np.int64))]
    return PackedSequence(data, like.batch_sizes, like.sorted_indices, like.unsorted_indices)


def unpack_rows(packed: PackedSequence, padding_value: float = 0.0) -> tuple[Tensor, Tensor]:
    """The padded sequences ``[T, B, ...]`` and their lengths, in the order of decreasing lengths."""
    sizes = np.array(packed.batch_sizes.tolist(), np.int64)
    batch = int(sizes[0])
    present = np.arange(batch) < sizes[:, None]
    places = np.where(present, np.arange(batch) + (np.cumsum(sizes) - sizes)[:, None], 0)
    data = packed.data
    padded = data[from_array(places)]
    mask = from_array(present.reshape(len(sizes), batch, *(1 for _ in data.shape[1:])))
    return where(mask, padded, padding_value), from_array(present.sum(0).astype(np.int64))


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """The padded sequences, in the order in which they were given, and their lengths.

    Parameters
    ----------
    sequence : PackedSequence
        What `pack_padded_sequence` has made, or a recurrent layer of it.
    batch_first : bool, default False
        Whether the result is ``[B, T, ...]`` instead of ``[T, B, ...]``.
    padding_value : float, default 0.0
        The elements that are added.
    total_length : int, optional
        `T`; default: the greatest length.

    Raises
    ------
    InvalidValueError
        If `total_length` is less than the greatest length.
    """
    rows, lengths = unpack_rows(sequence, padding_value)
    if total_length is not None:
        if total_length < rows.shape[0]:
            raise InvalidValueError(
                f"pad_packed_sequence: total_length must be at least the greatest length, {rows.shape[0]}, got "
                f"{total_length}; increase it"
            )
        missing = total_length - rows.shape[0]
        rows = F.pad(rows, (0, 0) * (rows.ndim - 1) + (0, missing), value=padding_value) if missing else rows
    if sequence.unsorted_indices is not None:
        rows, lengths = rows[:, sequence.unsorted_indices], lengths[sequence.unsorted_indices]
    return (rows.transpose(0, 1) if batch_first else rows), lengths


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Tensors of different lengths, packed; arguments as in `pack_padded_sequence`."""
    return pack_padded_sequence(pad_sequence(sequences), [len(one) for one in sequences], False, enforce_sorted)


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
