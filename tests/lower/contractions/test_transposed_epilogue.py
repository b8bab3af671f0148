"""Results of few columns: their rows are stored in vectors although lanes run along the other axis."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import compile
from adjoint.ir import Function, param
from adjoint.kernel.ir import For, walk
from adjoint.lower.loops import indices_of
from adjoint.pipeline import lower_function
from tests.closeness import agrees_with_graph
from tests.hardware import shared_among_levels
from tests.lower.contractions.test_contractions import AVX512, OPTIONS


def updated_weight(batch, inputs, outputs):
    """The gradient of a last layer's weight, with the momentum of the update behind it."""
    x, ct = param("x", (batch, inputs)), param("ct", (batch, outputs))
    w, momentum = param("w", (inputs, outputs)), param("momentum", (inputs, outputs))
    moved = ops.matmul(x, ct, transpose_a=True) + momentum * 0.9
    return Function("f", (x, ct, w, momentum), (w - moved * 0.1, moved))


def with_bias(batch, inputs, outputs):
    """A product of few columns, each of which has a bias."""
    x, w, b = param("x", (inputs, batch)), param("w", (inputs, outputs)), param("b", (outputs,))
    return Function("f", (x, w, b), (ops.matmul(x, w, transpose_a=True) + b,))


def steps(function):
    """The steps in memory from lane to lane, of all vectors, and the buffers that are stored."""
    kernels = lower_function(function, AVX512).kernels
    loops = [s for k in kernels for s in walk(k.body) if isinstance(s, For) and s.kind == "vector"]
    stored = {buffer.name for loop in loops for buffer, _, _ in loop.body[0].targets}
    return {index.coefficient(loop.var) for loop in loops for index in indices_of(loop.body)}, stored


def test_what_the_epilogue_reads_and_stores_is_consecutive():
    found, stored = steps(updated_weight(64, 128, 10))
    assert found == {0, 1, 32}  # the ten lanes of a square are apart where it is read, which takes no gather
    assert {"sums", "turned"} <= stored


def test_a_bias_of_columns_is_not_gathered():
    found, stored = steps(with_bias(512, 40, 6))
    assert found == {0, 1, 6}
    assert "turned" not in stored


def of_a_batch(batch, depth, columns):
    """Products of a batch, whose tiles are stacked."""
    x, ct = param("x", (batch, depth, 16)), param("ct", (depth, columns))
    return Function("f", (x, ct), (ops.negative(ops.matmul(ops.permute(x, (0, 2, 1)), ct)),))


#: Functions by name, with batch, inputs and outputs.
MADE = {"updated weight": updated_weight, "bias": with_bias, "batch": of_a_batch}
CASES = [
    ("batch", 4, 64, 3),
    ("updated weight", 64, 128, 10),
    ("updated weight", 7, 90, 3),
    ("updated weight", 33, 517, 15),
    ("updated weight", 300, 70, 2),
    ("bias", 512, 40, 6),
]


@pytest.mark.parametrize(("case", "level"), shared_among_levels(CASES), ids=str)
def test_results_agree_with_the_reference(level, case):
    name, *sizes = case
    function = MADE[name](*sizes)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    agrees_with_graph(compile(function, level, OPTIONS)(*arrays), function, *arrays)
