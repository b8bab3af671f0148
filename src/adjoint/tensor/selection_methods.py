"""Methods of tensors that sort, select by rank, write at positions, rearrange, and solve linear systems."""

from collections.abc import Sequence
from typing import Any, Self

from adjoint.ir import Value
from adjoint.tensor import arranging, diagonals, joining, linear_algebra, ordering, scattering, shapes, systems
from adjoint.tensor.record import record_in_place
from adjoint.tensor.structure import Operation
from adjoint.tensor.trace import Recorded

__all__ = ["SelectionMethods"]


def _result(_old: Value, new: Value) -> Value:
    return new


_RESULT = Operation(_result)


def _called(function: Any, *args: Any, **keywords: Any) -> Any:
    return function(*args, **keywords)  # not its entry: it may compute in other floats within a context


class SelectionMethods(Recorded):
    """The part of `Tensor` that selects and writes elements, beyond indexing, and with linear algebra."""

    def sort(self, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
        """See `adjoint.sort`."""
        return ordering.sort(self, dim, descending, stable)

    def argsort(self, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
        """See `adjoint.argsort`."""
        return _called(ordering.argsort, self, dim, descending, stable)

    def msort(self) -> Any:
        """See `adjoint.msort`."""
        return ordering.msort(self)

    def topk(self, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
        """See `adjoint.topk`."""
        return ordering.topk(self, k, dim, largest, sorted)

    def kthvalue(self, k: int, dim: int = -1, keepdim: bool = False) -> Any:
        """See `adjoint.kthvalue`."""
        return ordering.kthvalue(self, k, dim, keepdim)

    def median(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """See `adjoint.median`."""
        return ordering.median(self, dim, keepdim)

    def nanmedian(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """See `adjoint.nanmedian`."""
        return ordering.nanmedian(self, dim, keepdim)

    def mode(self, dim: int = -1, keepdim: bool = False) -> Any:
        """See `adjoint.mode`."""
        return ordering.mode(self, dim, keepdim)

    def quantile(self, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear") -> Any:
        """See `adjoint.quantile`."""
        return _called(ordering.quantile, self, q, dim, keepdim, interpolation=interpolation)

    def nanquantile(
        self,
        q: Any,
        dim: int | None = None,
        keepdim: bool = False,
        *,
        interpolation: str = "linear",
    ) -> Any:
        """See `adjoint.nanquantile`."""
        return _called(ordering.nanquantile, self, q, dim, keepdim, interpolation=interpolation)

    def histc(self, bins: int = 100, min: float = 0, max: float = 0) -> Any:
        """See `adjoint.histc`."""
        return _called(ordering.histc, self, bins, min, max)

    def unique(
        self,
        sorted: bool = True,
        return_inverse: bool = False,
        return_counts: bool = False,
        dim: int | None = None,
    ) -> Any:
        """See `adjoint.unique`."""
        return ordering.unique(self, sorted, return_inverse, return_counts, dim)

    def unique_consecutive(
        self,
        return_inverse: bool = False,
        return_counts: bool = False,
        dim: int | None = None,
    ) -> Any:
        """See `adjoint.unique_consecutive`."""
        return ordering.unique_consecutive(self, return_inverse, return_counts, dim)

    def scatter_reduce(self, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Any:
        """See `adjoint.scatter_reduce`."""
        return scattering.scatter_reduce(self, dim, index, src, reduce, include_self=include_self)

    def index_reduce(self, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
        """See `adjoint.index_reduce`."""
        return scattering.index_reduce(self, dim, index, source, reduce, include_self=include_self)

    def index_fill(self, dim: int, index: Any, value: Any) -> Any:
        """See `adjoint.index_fill`."""
        return scattering.index_fill(self, dim, index, value)

    def index_copy(self, dim: int, index: Any, source: Any) -> Any:
        """See `adjoint.index_copy`."""
        return scattering.index_copy(self, dim, index, source)

    def index_put(self, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
        """See `adjoint.index_put`."""
        return scattering.index_put(self, indices, values, accumulate)

    def masked_scatter(self, mask: Any, source: Any) -> Any:
        """See `adjoint.masked_scatter`."""
        return _called(scattering.masked_scatter, self, mask, source)

    def slice_scatter(
        self,
        src: Any,
        dim: int = 0,
        start: int | None = None,
        end: int | None = None,
        step: int = 1,
    ) -> Any:
        """See `adjoint.slice_scatter`."""
        return _called(scattering.slice_scatter, self, src, dim, start, end, step)

    def select_scatter(self, src: Any, dim: int, index: int) -> Any:
        """See `adjoint.select_scatter`."""
        return _called(scattering.select_scatter, self, src, dim, index)

    def unfold(self, dimension: int, size: int, step: int) -> Any:
        """See `adjoint.unfold`."""
        return _called(arranging.unfold, self, dimension, size, step)

    def tensor_split(self, indices_or_sections: Any, dim: int = 0) -> Any:
        """See `adjoint.tensor_split`."""
        return arranging.tensor_split(self, indices_or_sections, dim)

    def hsplit(self, indices_or_sections: Any) -> Any:
        """See `adjoint.hsplit`."""
        return arranging.hsplit(self, indices_or_sections)

    def vsplit(self, indices_or_sections: Any) -> Any:
        """See `adjoint.vsplit`."""
        return arranging.vsplit(self, indices_or_sections)

    def dsplit(self, indices_or_sections: Any) -> Any:
        """See `adjoint.dsplit`."""
        return arranging.dsplit(self, indices_or_sections)

    def rot90(self, k: int = 1, dims: Sequence[int] = (0, 1)) -> Any:
        """See `adjoint.rot90`."""
        return arranging.rot90(self, k, dims)

    def diag_embed(self, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
        """See `adjoint.diag_embed`."""
        return _called(arranging.diag_embed, self, offset, dim1, dim2)

    def diagflat(self, offset: int = 0) -> Any:
        """See `adjoint.diagflat`."""
        return arranging.diagflat(self, offset)

    def kron(self, other: Any) -> Any:
        """See `adjoint.kron`."""
        return _called(arranging.kron, self, other)

    def cross(self, other: Any, dim: int | None = None) -> Any:
        """See `adjoint.cross`."""
        return _called(arranging.cross, self, other, dim)

    def fliplr(self) -> Any:
        """See `adjoint.fliplr`."""
        return joining.fliplr(self)

    def flipud(self) -> Any:
        """See `adjoint.flipud`."""
        return joining.flipud(self)

    def moveaxis(self, source: Any, destination: Any) -> Any:
        """See `adjoint.moveaxis`."""
        return shapes.moveaxis(self, source, destination)

    def cholesky(self, upper: bool = False) -> Any:
        """See `adjoint.cholesky`."""
        return _called(systems.cholesky, self, upper)

    def cholesky_solve(self, L: Any, upper: bool = False) -> Any:
        """See `adjoint.cholesky_solve`."""
        return _called(systems.cholesky_solve, self, L, upper)

    def cholesky_inverse(self, upper: bool = False) -> Any:
        """See `adjoint.cholesky_inverse`."""
        return _called(systems.cholesky_inverse, self, upper)

    def triangular_solve(
        self,
        A: Any,
        upper: bool = True,
        transpose: bool = False,
        unitriangular: bool = False,
    ) -> Any:
        """See `adjoint.triangular_solve`."""
        return systems.triangular_solve(self, A, upper, transpose, unitriangular)

    def inverse(self) -> Any:
        """See `adjoint.inverse`."""
        return _called(systems.inverse, self)

    def det(self) -> Any:
        """See `adjoint.det`."""
        return _called(systems.det, self)

    def slogdet(self) -> Any:
        """See `adjoint.slogdet`."""
        return systems.slogdet(self)

    def logdet(self) -> Any:
        """See `adjoint.logdet`."""
        return _called(systems.logdet, self)

    def matrix_power(self, n: int) -> Any:
        """See `adjoint.matrix_power`."""
        return _called(systems.matrix_power, self, n)

    def inner(self, other: Any) -> Any:
        """See `adjoint.inner`."""
        return _called(linear_algebra.inner, self, other)

    def vdot(self, other: Any) -> Any:
        """See `adjoint.vdot`."""
        return _called(linear_algebra.vdot, self, other)

    def addmv(self, mat: Any, vec: Any, *, beta: float = 1, alpha: float = 1) -> Any:
        """See `adjoint.addmv`."""
        return _called(linear_algebra.addmv, self, mat, vec, beta=beta, alpha=alpha)

    def addr(self, vec1: Any, vec2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
        """See `adjoint.addr`."""
        return _called(linear_algebra.addr, self, vec1, vec2, beta=beta, alpha=alpha)

    def addbmm(self, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
        """See `adjoint.addbmm`."""
        return _called(linear_algebra.addbmm, self, batch1, batch2, beta=beta, alpha=alpha)

    def baddbmm(self, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
        """See `adjoint.baddbmm`."""
        return _called(linear_algebra.baddbmm, self, batch1, batch2, beta=beta, alpha=alpha)

    def scatter_reduce_(self, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Self:
        """`scatter_reduce` in place."""
        record_in_place(
            _RESULT, self, scattering.scatter_reduce(self, dim, index, src, reduce, include_self=include_self)
        )
        return self

    def index_reduce_(self, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Self:
        """`index_reduce` in place."""
        record_in_place(
            _RESULT, self, scattering.index_reduce(self, dim, index, source, reduce, include_self=include_self)
        )
        return self

    def index_fill_(self, dim: int, index: Any, value: Any) -> Self:
        """`index_fill` in place."""
        record_in_place(_RESULT, self, scattering.index_fill(self, dim, index, value))
        return self

    def index_copy_(self, dim: int, index: Any, source: Any) -> Self:
        """`index_copy` in place."""
        record_in_place(_RESULT, self, scattering.index_copy(self, dim, index, source))
        return self

    def index_put_(self, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Self:
        """`index_put` in place."""
        record_in_place(_RESULT, self, scattering.index_put(self, indices, values, accumulate))
        return self

    def masked_scatter_(self, mask: Any, source: Any) -> Self:
        """`masked_scatter` in place."""
        record_in_place(_RESULT, self, _called(scattering.masked_scatter, self, mask, source))
        return self

    def tril_(self, diagonal: int = 0) -> Self:
        """`tril` in place."""
        record_in_place(_RESULT, self, _called(diagonals.tril, self, diagonal))
        return self

    def triu_(self, diagonal: int = 0) -> Self:
        """`triu` in place."""
        record_in_place(_RESULT, self, _called(diagonals.triu, self, diagonal))
        return self
