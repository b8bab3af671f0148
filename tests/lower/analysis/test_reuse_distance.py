"""Reuse distances: what other kernels have displaced from the second-level cache is far away, and nothing else."""

from adjoint import costs, ops
from adjoint.ir import Function, param
from adjoint.kernel.ir import Buffer
from adjoint.lower.analysis.reuse_distance import far_buffers
from adjoint.lower.fusion.groups import fuse

#: Elements of a buffer, of which the second-level cache holds four.
SIZE = costs.l2_bytes(costs.MODEL) // 16


def chain(*widths: int) -> Function:
    """Sums of products of x and parameters of so many rows, one after the other."""
    x = param("x", (SIZE,))
    weights = [param(f"w{n}", (rows, SIZE)) for n, rows in enumerate(widths)]
    y = x
    for weight in weights:
        y = ops.sum(ops.multiply(ops.exp(weight), y), 0)
    return Function("f", (x, *weights), (y,))


def far_names(function: Function) -> list[set[str]]:
    """The parameters that are far away, group by group."""
    fusion = fuse(function)
    stored = [*function.params, *(v for group in fusion.groups for v in group.outputs)]
    buffers = {v: Buffer(v.label or f"%{n}", v.dtype, v.type.size, "arena") for n, v in enumerate(stored)}
    far = far_buffers(fusion.groups, buffers, costs.MODEL)
    return [{b.name for b in far[group] if b.name[0] != "%"} for group in sorted(far, key=lambda g: g.level)]


def test_all_is_near_in_a_step_that_fits_the_cache():
    assert far_names(chain(1)) == [set()]


def test_parameters_are_far_away_in_a_step_that_does_not_fit():
    """However small: what the last step left in the cache is gone when its kernel starts."""
    assert far_names(chain(2, 2, 2)) == [{"x", "w0"}, {"w1"}, {"w2"}]


def test_what_a_kernel_has_just_used_is_near():
    x, w = param("x", (SIZE,)), param("w", (6, SIZE))
    total = ops.sum(x)
    y = ops.sum(ops.multiply(x, ops.multiply(ops.exp(w), total)), 0)
    v = param("v", (4, SIZE))
    z = ops.sum(ops.multiply(y, ops.exp(v)), 0)
    assert far_names(Function("f", (x, w, v), (z,))) == [{"x"}, {"w"}, {"v"}]


def test_what_loops_come_back_to_stays():
    """A kernel that sweeps a large buffer reads the small one for each of its rows."""
    assert far_names(chain(8)) == [{"w0"}]
