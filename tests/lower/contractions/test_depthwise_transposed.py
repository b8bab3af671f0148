"""Transposed depthwise convolutions: which taps share a load, what strips and tiles are, and results."""

from itertools import product

import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import compile
from adjoint.ir import Function, apply, param
from adjoint.kernel.ir import Store, walk
from adjoint.lower.contractions.depthwise_transposed import Taps
from adjoint.ops.convolution import ConvTranspose2d
from adjoint.pipeline import lower_function
from adjoint.transforms.differentiate import gradient
from tests.closeness import agrees_with_graph
from tests.hardware import shared_among_levels
from tests.lower.contractions.test_contractions import AVX512, OPTIONS


def transposed(batch, channels, size, window=(3, 3), padding=(1, 1), dtype="f32", stride=2):
    """The gradient of a depthwise convolution for its image, of a ReLU, with a ReLU and a product behind it."""
    op = ConvTranspose2d((stride, stride), padding, (1, 1), channels, size)
    x = param("x", (batch, channels, *op.positions(size, window)), dtype)
    w, scale = param("w", (channels, 1, *window), dtype), param("scale", (batch, channels, *size), dtype)
    return Function("f", (x, w, scale), (ops.relu(apply(op, ops.relu(x), w)) * scale,))


def plain(batch, channels, size):
    """One without anything in front or behind."""
    op = ConvTranspose2d((2, 2), (1, 1), (1, 1), channels, size)
    x, w = param("x", (batch, channels, *op.positions(size, (3, 3)))), param("w", (channels, 1, 3, 3))
    return Function("f", (x, w), (apply(op, x, w),))


def kernels(function):
    return lower_function(function, AVX512).kernels


@pytest.mark.parametrize(("window", "padding"), [*product(range(2, 8), range(5))])
def test_every_tap_has_one_shift_and_one_phase(window, padding):
    """Element ``2 * i + phase`` is the sum of ``w[tap] * x[i + shift]``: ``2 * shift = phase + padding - tap``."""
    taps = Taps(window, padding)
    found = [(tap, phase, shift + taps.first) for shift in range(taps.shifts) for phase, tap in taps.at(shift)]
    assert sorted(tap for tap, _, _ in found) == list(range(window))
    assert all(2 * shift == phase + padding - tap for tap, phase, shift in found)
    assert taps.at(0)
    assert taps.at(taps.shifts - 1)


def test_all_phases_are_computed_by_one_kernel_without_a_padded_copy():
    """The ReLU in front runs once for each element, in a kernel of its own."""
    *_, kernel = kernels(transposed(2, 32, (28, 28)))
    assert [b.size for b in kernel.reads] == [2 * 32 * 14 * 14, 32 * 9, 2 * 32 * 28 * 28]
    assert kernel.unit.extent == 2 * 32


def test_rows_of_large_images_and_of_few_images_are_computed_in_strips():
    """Copied rows of 256 elements fill half of a first-level cache of 32 KiB, and one image is work for all threads."""
    (kernel,) = kernels(plain(4, 16, (256, 512)))
    stores = (s for s in walk(kernel.body) if isinstance(s, Store))
    (rows,) = {b for s in stores for b, _, _ in s.targets if b.name == "rows"}
    assert kernel.unit.extent > 4 * 16
    assert rows.nbytes <= AVX512.l1.nbytes // 2 + 1024
    (kernel,) = kernels(plain(1, 1, (64, 64)))
    assert kernel.unit.extent >= 16


@pytest.mark.parametrize(
    "function",
    [
        transposed(2, 8, (9, 9), stride=3),
        transposed(2, 8, (2, 2)),
        transposed(1, 4, (40, 40), (16, 16), (8, 8)),
        transposed(2, 8, (16, 16), (1, 1), (0, 0)),
    ],
    ids=["another stride", "single elements", "too large to unroll", "single taps"],
)
def test_other_transposed_convolutions_are_computed_phase_by_phase(function):
    assert not any("conv_transpose2d" in kernel.name for kernel in kernels(function))


#: Batch, channels, size of the result, window, padding, dtype: odd sizes, remainders, rows that no window reaches.
CASES = [
    (2, 5, (16, 16), (3, 3), (1, 1), "f32"),
    (1, 3, (37, 75), (3, 5), (1, 2), "f32"),
    (3, 2, (7, 31), (4, 4), (3, 2), "f64"),
    (2, 4, (13, 6), (2, 7), (0, 4), "f32"),
    (1, 2, (5, 140), (5, 3), (0, 0), "f16"),
    (1, 1, (90, 33), (6, 2), (5, 1), "bf16"),
    (2, 3, (4, 5), (2, 2), (2, 1), "f64"),
]


@pytest.mark.parametrize(("number", "level"), shared_among_levels(range(len(CASES))), ids=str)
def test_results_agree_with_the_reference(level, number):
    function = transposed(*CASES[number])
    rng = np.random.default_rng(number)
    arrays = [rng.standard_normal(p.shape).astype(p.dtype) for p in function.params]
    agrees_with_graph(compile(function, level, OPTIONS)(*arrays), function, *arrays)


def test_gradients_of_a_network_agree_with_those_phase_by_phase(monkeypatch):
    """Stride two, odd sizes and a channel count that fills no vector; the same products are added in another order."""
    x, w, v = param("x", (2, 5, 21, 27), "f64"), param("w", (5, 1, 3, 3), "f64"), param("v", (5, 1, 5, 4), "f64")
    hidden = ops.relu(ops.conv2d(x, w, stride=2, padding=1, groups=5))
    loss = Function("loss", (x, w, v), (ops.sum(ops.sin(ops.conv2d(hidden, v, stride=2, padding=2, groups=5))),))
    rng = np.random.default_rng(5)
    arrays = [rng.standard_normal(p.shape) for p in loss.params]
    backward = gradient(loss)
    made = compile(backward, options=OPTIONS)(*arrays)
    monkeypatch.setattr(ConvTranspose2d, "is_depthwise_by_two", lambda *_: False)
    for own, other in zip(made, compile(backward, options=OPTIONS)(*arrays), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-12, atol=1e-12)
