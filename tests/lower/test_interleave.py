"""Interleaving: which loops of compiled functions it changes, and that the code computes the same bits."""

import numpy as np
import pytest

from adjoint import costs, ops
from adjoint.compiler import CompileOptions, compile, host
from adjoint.ir import Function, apply, param
from adjoint.kernel.interpreter import run_kernel
from adjoint.kernel.ir import For, Kernel, Store, walk
from adjoint.kernel.parser import parse_kernel
from adjoint.kernel.verifier import verify_kernel
from adjoint.lower.expand import expand_math
from adjoint.lower.interleave import interleave
from adjoint.ops.attention import Attention
from adjoint.pipeline import finish_program, lower_function
from adjoint.transforms.differentiate import gradient
from tests.closeness import agrees_with_graph
from tests.hardware import levels

OPTIONS = CompileOptions(cache=False, threads=1)

#: What is computed of a vector, by name.
ACTIVATIONS = {
    "gelu": ops.gelu,
    "mish": lambda x: ops.multiply(x, ops.tanh(ops.log(ops.add(ops.exp(x), 1.0)))),
    "erf": ops.erf,
    "softmax": ops.softmax,
}


def interleaved(kernels):
    """The numbers of iterations of interleaved loops."""
    loops = [loop for kernel in kernels if isinstance(kernel, Kernel) for loop in walk(kernel.body)]
    return [loop.var.extent for loop in loops if isinstance(loop, For) and loop.kind == "interleave"]


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize("shape", [(3, 1), (5, 12), (2, 37), (3, 100), (2, 1000)], ids=str)
@pytest.mark.parametrize("name", list(ACTIVATIONS))
def test_results_of_any_length_are_right(name, shape, level):
    """Of blocks of four vectors, of fewer, and of vectors that are not full."""
    x = param("x", shape)
    function = Function("f", (x,), (ACTIVATIONS[name](x),))
    array = np.random.default_rng(0).normal(0, 2, shape).astype(np.float32)
    agrees_with_graph(compile(function, level, OPTIONS)(array), function, array)


def test_epilogues_of_products_and_gradients_are_interleaved():
    a, b = param("a", (64, 48)), param("b", (48, 96))
    function = gradient(Function("f", (a, b), (ops.sum(ops.gelu(ops.matmul(a, b))),)), wrt="b")
    assert interleaved(finish_program(lower_function(function, host())).kernels)
    rng = np.random.default_rng(1)
    arrays = [rng.normal(0, 0.5, p.shape).astype(np.float32) for p in (a, b)]
    agrees_with_graph(compile(function, options=OPTIONS)(*arrays), function, *arrays)


def test_no_more_vectors_than_the_limit_are_interleaved():
    x = param("x", (64, 4096))
    found = interleaved(finish_program(lower_function(Function("f", (x,), (ops.gelu(x),)), host())).kernels)
    assert found
    assert max(found) == costs.INTERLEAVED_VECTORS


def test_exponentials_that_are_stored_and_added_up_are_interleaved():
    """Attention's: their products with values follow, and their sums."""
    q = param("q", (2, 40, 8))
    function = Function("f", (q,), (apply(Attention(0.5), q, q, q),))
    (kernel,) = finish_program(lower_function(function, host())).kernels
    stores = [store for store in walk(kernel.body) if isinstance(store, Store) and len(store.targets) == 2]
    assert any(buffer.name.startswith("terms") for store in stores for buffer, _, _ in store.targets)


def test_optimizers_and_sums_of_parts_are_left_alone():
    """Their operations wait for memory rather than for each other."""
    x, m, v = (param(name, (8, 4096)) for name in "xmv")
    root = ops.sqrt(ops.add(ops.multiply(v, 0.999), ops.multiply(ops.square(x), 0.001)))
    step = ops.subtract(x, ops.divide(ops.multiply(ops.add(m, x), 0.01), ops.add(root, 1e-8)))
    parts = [param(f"p{i}", (4096,)) for i in range(20)]
    total = parts[0]
    for part in parts[1:]:
        total = ops.add(total, part)
    for function in (Function("f", (x, m, v), (step,)), Function("f", tuple(parts), (total,))):
        assert not interleaved(finish_program(lower_function(function, host())).kernels)


GUARDED = """
kernel y: computes %y
  1 units, on one thread; 64 flops, 512 bytes
  reads x f32[96]; writes y f32[96]
  for u in 0..1 units:
    if 0 <= u < 1:
      for v in 0..6:
        for l in 0..16 vector:
          y[v*16 + l] = exp(x[v*16 + l])
"""


def test_loops_under_conditions_are_interleaved_with_the_same_bits():
    kernel = expand_math(parse_kernel(GUARDED.strip()))
    changed = interleave(kernel)
    verify_kernel(changed)
    assert interleaved([changed]) == [4, 2]
    array = np.random.default_rng(2).normal(0, 30, 96).astype(np.float32)
    results = []
    for one in (kernel, changed):
        memory = {b: array.copy() if b.name == "x" else np.zeros(b.size, b.dtype) for b in (*one.reads, *one.writes)}
        run_kernel(one, memory)
        results.append(next(found.tobytes() for b, found in memory.items() if b.name == "y"))
    assert results[0] == results[1]


def test_a_kernel_without_long_chains_is_the_same_object():
    kernel = parse_kernel(GUARDED.strip().replace("exp", "sqrt"))
    assert interleave(kernel) is kernel
