"""Where the batch axis is found, and which parameters have one."""

from adjoint import ops
from adjoint.ir import Function, param
from adjoint.losses import cross_entropy
from adjoint.transforms.batch_axis import Axis, batch_inputs


def axes_of(*results, params):
    return batch_inputs(Function("main", params, results), params)


def test_the_axis_is_followed_through_views():
    x = param("x", (4, 6, 5))
    views = {
        ops.transpose(x, (1, 2, 0)): Axis(2, 1),
        ops.reshape(x, (24, 5)): Axis(0, 6),
        ops.reshape(ops.transpose(x, (1, 0, 2)), (6, 20)): Axis(1, 5),
        ops.reshape(ops.reshape(x, (120,)), (4, 30)): Axis(0, 1),
        ops.slice_axis(x, 1, 2, 4): Axis(0, 1),
        ops.concat(x, x, axis=2): Axis(0, 1),
        ops.expand_dims(x, 0): Axis(1, 1),
    }
    found = axes_of(*views, params=(x,))
    assert {v: found.of[v] for v in views} == views
    assert not found.mixed


def test_rows_of_other_values_are_told_apart():
    x, w, bias, per_row = param("x", (4, 4)), param("w", (4, 4)), param("b", (4,)), param("r", (4, 1))
    spread = ops.broadcast_to(bias, (4, 4))
    y = ops.add(ops.matmul(x, w), spread)
    z = ops.multiply(y, per_row)
    total = ops.sum(z, 0)
    found = axes_of(total, params=(x, w, bias, per_row))
    assert found.of[y] == Axis(0, 1)
    assert found.of[per_row] == Axis(0, 1)  # combined with rows one by one: an input, too
    assert not {w, bias} & {*found.of, *found.aligned}
    assert found.aligned[spread] == Axis(0, 1)
    assert found.combines == {total: (0,)}


def test_targets_are_inputs_and_class_weights_are_not():
    """Although there are as many classes as rows."""
    logits, targets, weights = param("logits", (4, 4)), param("targets", (4,), "i64"), param("weights", (4,))
    found = axes_of(cross_entropy(logits, targets, weights), params=(logits, targets, weights))
    assert {p.label for p in (logits, targets, weights) if p in found.of} == {"logits", "targets"}


def test_targets_may_have_several_elements_for_each_row():
    x, targets, w = param("x", (2, 3, 4)), param("targets", (6,), "i64"), param("w", (4, 5))
    loss = cross_entropy(ops.matmul(ops.reshape(x, (6, 4)), w), targets)
    found = axes_of(loss, params=(x, targets, w))
    assert found.of[targets] == Axis(0, 3)
    assert w not in found.of


def test_a_scalar_input_has_no_batch_axis():
    scale, x = param("scale", ()), param("x", (4, 2))
    found = axes_of(ops.mean(ops.multiply(x, scale)), params=(scale, x))
    assert found.rows == 4
    assert x in found.of
    assert scale not in found.of
    assert axes_of(ops.square(scale), params=(scale,)).of == {}


def test_a_row_at_a_position_read_from_memory_is_any_row():
    x, ids = param("x", (4, 3)), param("ids", (4,), "i64")
    taken = ops.take(x, ids)
    assert axes_of(taken, params=(x, ids)).mixed == [taken]
