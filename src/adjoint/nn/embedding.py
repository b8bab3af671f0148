"""Tables of vectors."""

from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.modules import Module
from adjoint.nn import functional as F  # noqa: N812
from adjoint.nn.parameters import check_sizes, drawn_normal, own_dtype
from adjoint.tensor.tensor import Parameter, Tensor

__all__ = ["Embedding", "EmbeddingBag"]


#: The only choices of settings that are supported.
_SUPPORTED = {"max_norm": None, "norm_type": 2.0, "scale_grad_by_freq": False, "sparse": False}


def _check_settings(name: str, **given: object) -> None:
    for setting, value in given.items():
        if value != _SUPPORTED[setting]:
            raise InvalidValueError(
                f"{name}: {setting} must be {_SUPPORTED[setting]}, the only choice that is supported, got {value!r}; "
                "omit it"
            )


def _padding(name: str, rows: int, padding_idx: int | None) -> int | None:
    """The row that stands for padding, counted from the start."""
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise InvalidValueError(f"{name}: padding_idx must be one of {rows} rows, got {padding_idx}; change it")
    return None if padding_idx is None else padding_idx % rows


class Embedding(Module):
    """A table of vectors, of which integers select some.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
        Number of vectors, and their size.
    padding_idx : int, optional
        A vector that is zeros at first and gets no gradient.
    max_norm, norm_type, scale_grad_by_freq, sparse
        None, 2.0, False and False, the only choices that are supported.
    device : str, optional
        "cpu".
    dtype : str or numpy dtype, optional
        Dtype of the table.

    Attributes
    ----------
    weight : Parameter
        Shape ``[num_embeddings, embedding_dim]``, drawn from the standard normal distribution.

    Raises
    ------
    InvalidValueError
        If a setting is not supported, or `padding_idx` is not a row.
    """

    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__()
        _check_settings(
            "Embedding", max_norm=max_norm, norm_type=norm_type, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse
        )
        check_sizes(type(self).__name__, num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = _padding("Embedding", num_embeddings, padding_idx)
        self.weight = drawn_normal((num_embeddings, embedding_dim), own_dtype(device, dtype))
        if self.padding_idx is not None:
            self.weight.elements().array[self.padding_idx] = 0

    @classmethod
    def from_pretrained(
        cls, embeddings: Any, freeze: bool = True, padding_idx: int | None = None, **settings: Any
    ) -> "Embedding":
        """An embedding with a given table.

        Parameters
        ----------
        embeddings : Tensor or numpy.ndarray
            The table, of two axes.
        freeze : bool, default True
            Whether it is not trained.
        padding_idx : int, optional
            A vector that gets no gradient.
        **settings
            As in `Embedding`.

        Raises
        ------
        TypeRuleError
            If the table does not have two axes.
        """
        array = embeddings.elements().array if isinstance(embeddings, Tensor) else np.asarray(embeddings)
        if array.ndim != 2:
            raise TypeRuleError(
                f"from_pretrained: the table must have two axes, got the shape {array.shape}; reshape it"
            )
        rows, size = array.shape
        made = cls(rows, size, padding_idx, **{**settings, "dtype": array.dtype})
        made.weight.elements().array[...] = array
        made.weight.requires_grad = not freeze
        return made

    def forward(self, input: Any) -> Any:
        """One vector per integer, shape ``input.shape + [embedding_dim]``."""
        return F.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        """The settings."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


class EmbeddingBag(Module):
    """Sums, means or maxima of bags of vectors of a table, which integers select.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
        Number of vectors, and their size.
    max_norm, norm_type, scale_grad_by_freq, sparse
        None, 2.0, False and False, the only choices that are supported.
    mode : {"mean", "sum", "max"}, default "mean"
        How the vectors of a bag are combined.
    include_last_offset : bool, default False
        Whether the last offset is the end of the last bag.
    padding_idx : int, optional
        A vector that is zeros at first, and left out of all bags.
    device : str, optional
        "cpu".
    dtype : str or numpy dtype, optional
        Dtype of the table.

    Attributes
    ----------
    weight : Parameter
        Shape ``[num_embeddings, embedding_dim]``, drawn from the standard normal distribution.

    Raises
    ------
    InvalidValueError
        If a setting is not supported, or `padding_idx` is not a row.
    """

    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__()
        _check_settings(
            "EmbeddingBag", max_norm=max_norm, norm_type=norm_type, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse
        )
        check_sizes(type(self).__name__, num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.mode, self.include_last_offset = mode, include_last_offset
        self.padding_idx = _padding("EmbeddingBag", num_embeddings, padding_idx)
        self.weight = drawn_normal((num_embeddings, embedding_dim), own_dtype(device, dtype))
        if self.padding_idx is not None:
            self.weight.elements().array[self.padding_idx] = 0

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Any:
        """One vector per bag; arguments as in `adjoint.nn.functional.embedding_bag`."""
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )

    def extra_repr(self) -> str:
        """The settings."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}, mode={self.mode!r}{padding}"
