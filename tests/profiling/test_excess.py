"""Kernels above the roofline: which of them raise a peak, and the reasons of the others, word for word."""

import pytest

from adjoint import ops
from adjoint.ir import param
from adjoint.profiling.excess import Work, changes, excess_notes, excess_reason, raised_peaks
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


def test_a_kernel_that_is_too_short_for_the_clock_raises_nothing():
    assert raised_peaks(PEAKS, [Work("k", (SUM,), 10_000, 100_000, 0, 0.0)]) == PEAKS


def test_no_kernel_is_above_the_raised_peaks():
    done = [work(SUM, times, read=read) for times in (1.1, 1.4) for read in (20_000, 60_000, 1_000_000)]
    raised = raised_peaks(PEAKS, done)
    assert all(one.attained(PEAKS) > 1 for one in done)
    assert all(one.attained(raised) <= 1 + 1e-9 for one in done)


@pytest.mark.parametrize(
    ("done", "reason"),
    [
        (work(SUM, 0.9, read=100_000), ""),
        (work(SUM, 1.04, read=100_000), "which is within the noise of the clock"),
        (
            work(CONVOLUTION, 1.8, flops=1_000_000),
            "because a convolution can take fewer products than the sums it is credited with",
        ),
        (
            work(ops.matmul(X, W), 1.8, flops=1_000_000),
            "because of operations that it is credited with and does not need, or a peak that is too low",
        ),
        (
            work(PART, 1.8, read=100_000),
            "because all bytes of its operands are credited, of which it need not read all",
        ),
        (
            work(SUM, 1.8, read=100_000),
            "because the peak is too low; adjoint doctor --measure measures it again",
        ),
    ],
)
def test_every_excess_has_its_reason(done, reason):
    assert excess_reason(done, PEAKS) == reason


def test_kernels_with_the_same_reason_share_a_note():
    many = [(f"k{i}", 1.1 + i / 100, "because") for i in range(8)]
    assert excess_notes([("one", 1.04, "which is noise"), *many]) == [
        "one is at 104% of the roofline, which is noise.",
        "k7, k6, k5, k4, k3 and 3 more are at up to 117% of the roofline, because.",
    ]
    assert excess_notes([]) == []
