"""Prefetches of the next head: all of its lines, once, where they are far and few."""

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np
import pytest

from adjoint import Function, ops, param
from adjoint.compiler import compile, host
from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import For, Kernel, Prefetch, Stmt, When, walk
from adjoint.pipeline import lower_function
from adjoint.transforms.differentiate import gradient
from tests.closeness import agrees_with_graph
from tests.lower.attention.test_online_softmax import OPTIONS
from tests.lower.contractions.test_contractions import AVX512

LINE = 16


def joined_attention(batch, tokens, width, causal):
    """Attention whose queries, keys and values are parts of the rows of one tensor, and its gradient."""
    joined, ct = param("joined", (batch, tokens, 3 * width)), param("ct", (batch, tokens, width))
    q, k, v = (ops.slice(joined, (0, 0, n * width), (batch, tokens, (n + 1) * width)) for n in range(3))
    out = ops.scaled_dot_product_attention(q, k, v, causal=causal)
    return gradient(Function("f", (joined, ct), (ops.sum(ops.multiply(out, ct)),)), wrt="joined")


def prefetched(body: Sequence[Stmt], at: dict[Var, Index]) -> Iterator[tuple[str, int]]:
    """The buffers and lines that some statements prefetch where enclosing loops are at some place."""
    for s in body:
        if isinstance(s, Prefetch):
            yield s.buffer.name, s.index.substitute(at).constant // LINE
        elif isinstance(s, For) and any(isinstance(inner, Prefetch) for inner in walk(s.body)):
            for n in range(s.var.extent):
                yield from prefetched(s.body, at | {s.var: as_index(n)})
        elif isinstance(s, When):
            place = s.index.substitute(at).constant
            yield from prefetched(s.then if s.low <= place < s.high else s.other, at)


def hints(kernel: Kernel) -> list[Prefetch]:
    return [s for s in walk(kernel.body) if isinstance(s, Prefetch)]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("shape", [(128, 96, 32), (160, 80, 16), (96, 100, 32)], ids=str)
def test_every_line_of_the_next_head_is_prefetched_once(shape, causal):
    batch, tokens, width = shape
    kernels = [k for k in lower_function(joined_attention(*shape, causal), AVX512).kernels if hints(k)]
    assert len(kernels) == 2, "of the result, and of the gradients"
    for kernel in kernels:
        units = kernel.unit.extent // batch
        found = [line for u in range(units) for line in prefetched(kernel.body, {kernel.unit: as_index(u)})]
        joined = [line for name, line in found if name == "joined"]
        size = tokens * 3 * width // LINE
        assert set(joined) >= set(range(size, 2 * size))
        assert len(found) - len(set(found)) <= 0.1 * len(found), "tiles at the end of a head may share rows"


@pytest.mark.parametrize("shape", [(4, 96, 32), (2, 2048, 64)], ids=str)
def test_nothing_is_prefetched_of_what_is_near_or_long(shape):
    assert not any(map(hints, lower_function(joined_attention(*shape, True), AVX512).kernels))


def test_the_last_head_has_none_after_it():
    shape = (150, 64, 32)
    function = joined_attention(*shape, True)
    assert any(map(hints, lower_function(function, host()).kernels)) or host().l2.nbytes > prod(shape) * 12
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape, np.float32) for p in function.params]
    agrees_with_graph(compile(function, options=OPTIONS)(*arrays), function, *arrays)
