"""Tables of vectors."""

from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.modules import Module
from adjoint.nn import functional as F  # noqa: N812
from adjoint.nn.parameters import drawn_normal, own_dtype
from adjoint.tensor.tensor import Parameter, Tensor

__all__ = ["Embedding"]


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
        given = {"max_norm": max_norm, "norm_type": norm_type, "scale_grad_by_freq": scale_grad_by_freq}
        supported = {"max_norm": None, "norm_type": 2.0, "scale_grad_by_freq": False}
        for name, setting in {**given, "sparse": sparse}.items():
            if setting != supported.get(name, False):
                raise InvalidValueError(
                    f"Embedding: {name} must be {supported.get(name, False)}, the only choice that is supported, got "
                    f"{setting!r}; omit it"
                )
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise InvalidValueError(
                f"Embedding: padding_idx must be one of {num_embeddings} rows, got {padding_idx}; change it"
            )
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
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
