"""Kernels above the roofline: which of them raise a peak, and the reasons of the others, word for word."""

import pytest

from adjoint import ops
from adjoint.ir import param
from adjoint.profiling.excess import Work, changes, excess_reason, raised_peaks
from tests.profiling.steps import PEAKS

X, W = param("x", (4, 4)), param("w", (4, 4))
IMAGES, WEIGHTS = param("images", (1, 2, 8, 8)), param("weights", (2, 2, 3, 3))
SUM = ops.add(X, W)
CONVOLUTION = ops.conv2d(IMAGES, WEIGHTS)
PART = ops.slice(X, (0, 0), (2, 4))


def work(value, times, flops=0, read=0):
    """A kernel that takes its least time divided by `times`."""
    return Work("k", (value,), flops, read, 0, PEAKS.nanoseconds(flops, read) / times)


@pytest.mark.parametrize(
    ("done", "raised"),
    [
        (work(SUM, 1.2, read=100_000), "memory 10.0 to 12.0 GB/s"),
        (work(SUM, 1.2, read=9_000), ""),  # as short as the noise
        (work(SUM, 1.2, read=10_000_000), "memory 10.0 to 12.0 GB/s"),
        (work(SUM, 1.04, read=100_000), ""),
        (work(SUM, 1.6, read=100_000), ""),
        (work(ops.matmul(X, W), 1.2, flops=1_000_000), "multiply-adds 100 to 120 GFLOP/s"),
        (work(CONVOLUTION, 1.2, flops=1_000_000), ""),
        (work(PART, 1.2, read=100_000), ""),
    ],
)
def test_only_what_needs_all_it_is_credited_with_raises_a_peak(done, raised):
    assert changes(PEAKS, raised_peaks(PEAKS, [done])) == raised


def test_no_kernel_is_above_the_raised_peaks():
    done = [work(SUM, times, read=read) for times in (1.1, 1.4) for read in (20_000, 60_000, 1_000_000)]
    raised = raised_peaks(PEAKS, done)
    assert all(one.attained(PEAKS) > 1 for one in done)
    assert all(one.attained(raised) <= 1 + 1e-9 for one in done)


@pytest.mark.parametrize(
    ("done", "reason"),
    [
        (work(SUM, 0.9, read=100_000), ""),
        (work(SUM, 1.04, read=100_000), "k is at 104% of the roofline, which is within the noise of the clock"),
        (
            work(CONVOLUTION, 1.8, flops=1_000_000),
            "k is at 180% of the roofline, because it computes its convolution with fewer products than the sums it is "
            "credited with",
        ),
        (
            work(ops.matmul(X, W), 1.8, flops=1_000_000),
            "k is at 180% of the roofline, because it is credited with more operations than it computes, or the peak "
            "is too low",
        ),
        (
            work(PART, 1.8, read=100_000),
            "k is at 180% of the roofline, because it is credited with all bytes of its operands, of which it need not "
            "read all",
        ),
        (
            work(SUM, 1.8, read=100_000),
            "k is at 180% of the roofline, because the peak is too low; measure it again with adjoint doctor --measure",
        ),
    ],
)
def test_every_excess_has_its_reason(done, reason):
    assert excess_reason(done, PEAKS) == reason
