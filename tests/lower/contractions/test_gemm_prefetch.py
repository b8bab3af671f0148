"""Prefetches of GEMMs: what later tiles access and no cache holds, a few lines at a time."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import compile, host
from adjoint.ir import Function, param
from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import For, Kernel, Prefetch, Stmt, When, walk
from adjoint.pipeline import lower_function
from tests.closeness import agrees_with_graph
from tests.hardware import levels
from tests.lower.contractions.test_contractions import AVX512, OPTIONS, product
from tests.lower.contractions.test_gemm import convolution, updated


def prefetched(kernel: Kernel) -> dict[str, bool]:
    """The names of the buffers that a kernel prefetches, and whether to write them."""
    return {s.buffer.name: s.write for s in walk(kernel.body) if isinstance(s, Prefetch)}


def test_a_small_result_is_not_prefetched():
    kernels = lower_function(product(64, 784, 128), host()).kernels
    assert not any(isinstance(s, Prefetch) for kernel in kernels for s in walk(kernel.body))


def test_what_an_update_reads_and_writes_is_prefetched():
    kernels = lower_function(updated(512, 64, 1024), host()).kernels
    hints = [s for kernel in kernels for s in walk(kernel.body) if isinstance(s, Prefetch)]
    assert {s.buffer.name for s in hints if s.write} == {"result0", "result1", "result2"}
    assert {s.buffer.name for s in hints if not s.write} == {"w", "a", "b"}


@pytest.mark.parametrize(("out", "hinted"), [(44, True), (8, False)])
def test_panels_of_a_large_matrix_are_prefetched_if_there_are_many_rows(out, hinted):
    """Their rows are far apart, so that the hardware prefetcher does not find the next ones."""
    kernel = lower_function(convolution(96, 120, out, 23, 1), AVX512).kernels[-1]
    hints = [s for s in walk(kernel.body) if isinstance(s, Prefetch)]
    assert any(hint.buffer.name == "x" for hint in hints) == hinted


def lines_of(name: str, body: Sequence[Stmt], at: dict[Var, Index]) -> int:
    """How many lines of a buffer some statements prefetch where enclosing loops are at some place."""
    lines = 0
    for s in body:
        if isinstance(s, Prefetch):
            lines += s.buffer.name == name
        elif isinstance(s, For) and any(isinstance(inner, Prefetch) for inner in walk(s.body)):
            lines += sum(lines_of(name, s.body, at | {s.var: as_index(n)}) for n in range(s.var.extent))
        elif isinstance(s, When):
            place = s.index.substitute(at).constant
            lines += lines_of(name, s.then if s.low <= place < s.high else s.other, at)
    return lines


@pytest.mark.parametrize(("m", "k", "n"), [(816, 816, 2169), (507, 134, 2648), (816, 1024, 1600)])
def test_an_operand_is_prefetched_once_not_by_every_tile(m, k, n):
    """Tiles share the prefetches of what later ones read, also where several panels stay in the cache together."""
    (kernel,) = lower_function(product(m, k, n, transpose_a=True), AVX512).kernels
    lines = kernel.unit.extent * lines_of("b", kernel.body, {kernel.unit: as_index(0)})
    assert 0.9 < lines / (k * n * 4 / AVX512.line_bytes) < 2


@pytest.mark.parametrize(
    ("m", "k", "n", "most"), [(1, 1469, 773, 1.3), (1, 700, 2100, 1.3), (1, 3000, 200, 0), (2, 1024, 1024, 0)]
)
def test_parts_of_rows_that_a_tile_reads_once_are_prefetched_some_rows_ahead(m, k, n, most):
    """Not whole rows, which the hardware prefetcher follows, nor rows that would evict each other.

    A part that does not begin with a line has one line more.
    """
    (kernel,) = lower_function(product(m, k, n), AVX512).kernels
    lines = kernel.unit.extent * lines_of("b", kernel.body, {kernel.unit: as_index(0)})
    assert 0.9 * min(most, 1) <= lines / (k * n * 4 / AVX512.line_bytes) <= most


@pytest.mark.parametrize(
    ("m", "k", "n", "hinted"), [(2640, 2118, 4, False), (2640, 128, 16, True), (1000, 1500, 30, True)]
)
def test_long_rows_that_pass_by_once_are_left_to_the_hardware(m, k, n, hinted):
    """Unless a tile has more than one vector, and so takes longer for each row."""
    kernel = lower_function(product(m, k, n, transpose_b=True, batch=(31,)), AVX512).kernels[-1]
    assert "panel" in [b.name for b in kernel.scratch]
    assert ("a" in prefetched(kernel)) == hinted


def chain(*widths: int) -> Function:
    """Products of a batch of 256 rows with weights of some widths; each result is one too."""
    x = param("x", (256, widths[0]))
    weights = [param(f"w{n}", shape) for n, shape in enumerate(pairwise(widths))]
    results = []
    y = x
    for weight in weights:
        y = ops.matmul(y, weight)
        results.append(y)
    return Function("f", (x, *weights), tuple(results))


def test_small_weights_are_prefetched_where_the_step_displaces_them():
    """128 KiB of weights are in the cache if nothing else is, and are not if megabytes have passed since."""
    near, far = (lower_function(chain(256, 128, *rest), AVX512).kernels for rest in ((), (1024, 1024, 256)))
    assert not any(map(prefetched, near))
    first = next(k for k in far if "w0" in {b.name for b in k.reads})
    assert prefetched(first)


@pytest.mark.parametrize("level", levels())
def test_products_with_prefetches_agree_with_float64(level):
    function = chain(200, 128, 1000, 260, 96)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    agrees_with_graph(compile(function, level, OPTIONS)(*arrays), function, *arrays)
