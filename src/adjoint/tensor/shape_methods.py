"""Methods of tensors that change shapes, select parts, join, and multiply matrices."""

from collections.abc import Iterator, Sequence
from typing import Any

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.tensor import diagonals, gathering, indexing, joining, linear_algebra, shapes
from adjoint.tensor.aliases import viewed
from adjoint.tensor.trace import Recorded
from adjoint.tensor.views import CONTIGUOUS, PERMUTE

__all__ = ["ShapeMethods"]


class ShapeMethods(Recorded):
    """The part of `Tensor` with shapes and indexing."""

    shape: Any

    def __getitem__(self, key: Any) -> Any:
        return indexing.getitem(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        indexing.setitem(self, key, value)

    def __iter__(self) -> Iterator[Any]:
        if not self._spec.type.shape:
            raise InvalidValueError("only a tensor with an axis can be iterated over, got a scalar; use item()")
        return iter(shapes.unbind(self))

    @property
    def T(self) -> Any:  # noqa: N802
        """All axes in reverse order."""
        return viewed(PERMUTE, self, tuple(reversed(range(len(self._spec.type.shape)))))

    @property
    def mT(self) -> Any:  # noqa: N802
        """The last two axes exchanged."""
        return shapes.transpose(self, -2, -1)

    mH = mT  # noqa: N815 - the conjugates of real numbers are themselves

    @property
    def H(self) -> Any:  # noqa: N802
        """The transposed matrix."""
        if len(self._spec.type.shape) not in (0, 2):
            raise TypeRuleError(f"H: the operand must be a matrix, got {self._spec.type}; use mH for batches of them")
        return self.T

    def view(self, *shape: Any) -> Any:
        """The same elements in another shape; see `adjoint.reshape`.

        Unlike in PyTorch, the tensor need not be contiguous.
        """
        return shapes.reshape(self, shape[0] if len(shape) == 1 else shape)

    def reshape(self, *shape: Any) -> Any:
        """See `adjoint.reshape`."""
        return shapes.reshape(self, shape[0] if len(shape) == 1 else shape)

    def view_as(self, other: Any) -> Any:
        """The same elements in the shape of another tensor."""
        return shapes.reshape(self, other.shape)

    def reshape_as(self, other: Any) -> Any:
        """The same elements in the shape of another tensor."""
        return shapes.reshape(self, other.shape)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Any:
        """See `adjoint.flatten`."""
        return shapes.flatten(self, start_dim, end_dim)

    def ravel(self) -> Any:
        """See `adjoint.ravel`."""
        return shapes.ravel(self)

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Any:
        """See `adjoint.unflatten`."""
        return shapes.unflatten(self, dim, sizes)

    def unsqueeze(self, dim: int) -> Any:
        """See `adjoint.unsqueeze`."""
        return shapes.unsqueeze(self, dim)

    def squeeze(self, dim: Any = None) -> Any:
        """See `adjoint.squeeze`."""
        return shapes.squeeze(self, dim)

    def permute(self, *dims: Any) -> Any:
        """See `adjoint.permute`."""
        return shapes.permute(self, shapes.sizes_of(dims))

    def transpose(self, dim0: int, dim1: int) -> Any:
        """See `adjoint.transpose`."""
        return shapes.transpose(self, dim0, dim1)

    swapaxes = swapdims = transpose

    def t(self) -> Any:
        """See `adjoint.t`."""
        return shapes.t(self)

    def movedim(self, source: Any, destination: Any) -> Any:
        """See `adjoint.movedim`."""
        return shapes.movedim(self, source, destination)

    def contiguous(self) -> Any:
        """The same elements, one after another: a copy if PyTorch would make one, otherwise this tensor."""
        alias = self._alias
        return self if alias is None or alias.plain else viewed(CONTIGUOUS, self, None)

    def is_contiguous(self) -> bool:
        """Whether the elements would follow each other in PyTorch's memory; here they always do."""
        alias = self._alias
        if alias is None or alias.plain:
            return True
        return CONTIGUOUS.layout(self._spec.type.shape, alias.strides(), None)[1] is not None

    def expand(self, *sizes: Any) -> Any:
        """See `adjoint.expand`."""
        return shapes.expand(self, *sizes)

    def expand_as(self, other: Any) -> Any:
        """`expand` to the shape of another tensor."""
        return shapes.expand(self, tuple(other.shape))

    def broadcast_to(self, size: Sequence[int]) -> Any:
        """See `adjoint.broadcast_to`."""
        return shapes.expand(self, tuple(size))

    def repeat(self, *repeats: Any) -> Any:
        """See `adjoint.repeat`."""
        return joining.repeat(self, *repeats)

    def tile(self, *dims: Any) -> Any:
        """See `adjoint.tile`."""
        return joining.tile(self, shapes.sizes_of(dims))

    def repeat_interleave(self, repeats: Any, dim: int | None = None, *, output_size: int | None = None) -> Any:
        """See `adjoint.repeat_interleave`."""
        return joining.repeat_interleave(self, repeats, dim, output_size=output_size)

    def narrow(self, dim: int, start: int, length: int) -> Any:
        """See `adjoint.narrow`."""
        return shapes.narrow(self, dim, start, length)

    def select(self, dim: int, index: int) -> Any:
        """See `adjoint.select`."""
        return shapes.select(self, dim, index)

    def unbind(self, dim: int = 0) -> Any:
        """See `adjoint.unbind`."""
        return shapes.unbind(self, dim)

    def split(self, split_size: Any, dim: int = 0) -> Any:
        """See `adjoint.split`."""
        return shapes.split(self, split_size, dim)

    def chunk(self, chunks: int, dim: int = 0) -> Any:
        """See `adjoint.chunk`."""
        return shapes.chunk(self, chunks, dim)

    def flip(self, *dims: Any) -> Any:
        """See `adjoint.flip`."""
        return _called(joining.flip, self, shapes.sizes_of(dims))

    def roll(self, shifts: Any, dims: Any = None) -> Any:
        """See `adjoint.roll`."""
        return _called(joining.roll, self, shifts, dims)

    def tril(self, diagonal: int = 0) -> Any:
        """See `adjoint.tril`."""
        return _called(diagonals.tril, self, diagonal)

    def triu(self, diagonal: int = 0) -> Any:
        """See `adjoint.triu`."""
        return _called(diagonals.triu, self, diagonal)

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
        """See `adjoint.diagonal`."""
        return diagonals.diagonal(self, offset, dim1, dim2)

    def diag(self, diagonal: int = 0) -> Any:
        """See `adjoint.diag`."""
        return diagonals.diag(self, diagonal)

    def gather(self, dim: int, index: Any) -> Any:
        """See `adjoint.gather`."""
        return gathering.gather(self, dim, index)

    def take(self, index: Any) -> Any:
        """See `adjoint.take`."""
        return gathering.take(self, index)

    def take_along_dim(self, indices: Any, dim: int | None = None) -> Any:
        """See `adjoint.take_along_dim`."""
        return gathering.take_along_dim(self, indices, dim)

    def index_select(self, dim: int, index: Any) -> Any:
        """See `adjoint.index_select`."""
        return gathering.index_select(self, dim, index)

    def scatter(self, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: Any = None) -> Any:
        """See `adjoint.scatter`."""
        return gathering.scatter(self, dim, index, src, value=value, reduce=reduce)

    def scatter_add(self, dim: int, index: Any, src: Any) -> Any:
        """See `adjoint.scatter_add`."""
        return gathering.scatter_add(self, dim, index, src)

    def index_add(self, dim: int, index: Any, source: Any, *, alpha: float = 1) -> Any:
        """See `adjoint.index_add`."""
        return gathering.index_add(self, dim, index, source, alpha=alpha)

    def masked_select(self, mask: Any) -> Any:
        """See `adjoint.masked_select`."""
        return gathering.masked_select(self, mask)

    def nonzero(self, *, as_tuple: bool = False) -> Any:
        """See `adjoint.nonzero`."""
        return gathering.nonzero(self, as_tuple=as_tuple)

    def bincount(self, weights: Any = None, minlength: int = 0) -> Any:
        """See `adjoint.bincount`."""
        return gathering.bincount(self, weights, minlength)

    def matmul(self, other: Any) -> Any:
        """See `adjoint.matmul`."""
        return self @ other

    def mm(self, mat2: Any) -> Any:
        """See `adjoint.mm`."""
        return _called(linear_algebra.mm, self, mat2)

    def bmm(self, mat2: Any) -> Any:
        """See `adjoint.bmm`."""
        return _called(linear_algebra.bmm, self, mat2)

    def mv(self, vec: Any) -> Any:
        """See `adjoint.mv`."""
        return _called(linear_algebra.mv, self, vec)

    def dot(self, tensor: Any) -> Any:
        """See `adjoint.dot`."""
        return _called(linear_algebra.dot, self, tensor)

    def outer(self, vec2: Any) -> Any:
        """See `adjoint.outer`."""
        return _called(linear_algebra.outer, self, vec2)

    def addmm(self, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
        """See `adjoint.addmm`."""
        return _called(linear_algebra.addmm, self, mat1, mat2, beta=beta, alpha=alpha)

    def trace(self) -> Any:
        """See `adjoint.trace`."""
        return _called(linear_algebra.trace, self)


def _called(function: Any, *args: Any, **keywords: Any) -> Any:
    return function(*args, **keywords)  # not its entry: it may compute in other floats within a context
