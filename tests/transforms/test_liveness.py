"""When values live: stages, views, what is read from memory, and what an element takes."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.ir import Function, apply, param
from adjoint.ops.catalogue import CATALOGUE
from adjoint.ops.convert import after
from adjoint.transforms.liveness import Liveness, work_of


def liveness(params, *results):
    function = Function("f", params, results)
    return Liveness(function, {v: work_of(v) for v in function.values()})


def chain():
    x, w = param("x", (8, 4)), param("w", (4, 4))
    product = ops.matmul(x, w)
    h = ops.tanh(product)
    y = ops.matmul(h, w)
    z = ops.matmul(y, ops.transpose(h))
    return (x, w), product, h, y, z


def test_a_root_is_a_stage_later_and_the_rest_runs_with_it():
    params, product, h, y, z = chain()
    found = liveness(params, z)
    assert [found.stage[v] for v in (*params, product, h, y, z)] == [0, 0, 1, 1, 2, 3]


def test_memory_is_for_what_a_later_stage_reads():
    params, product, h, y, z = chain()
    found = liveness(params, z)
    assert [v for v in found.order if found.is_stored(v)] == [h, y]
    assert (found.last[h], found.last[y]) == (3, 3)  # h behind the transposition
    assert found.live == [0, 128, 256, 256]
    assert found.peak == 256
    assert found.last[product] == 1


def test_parameters_results_and_constants_take_none():
    x = param("x", (4, 4))
    y = ops.matmul(x, x)
    inner = ops.matmul(ops.add(y, ops.full(2.0, (4, 4))), x)
    found = liveness((x,), y, ops.matmul(inner, inner))
    assert [v.op.name for v in found.order if found.is_stored(v)] == ["add", "matmul"]
    assert not found.is_stored(y)
    assert found.is_kept(y)


def test_what_comes_after_a_value_is_as_late_but_does_not_read_it():
    x, w = param("x", (8, 4)), param("w", (4, 4))
    y = ops.matmul(x, w)
    late = ops.exp(after(x, y))
    found = liveness((x, w), late, y)
    assert found.stage[late] == 1
    assert found.sources(late) == [x]
    assert found.readers[y] == []


@pytest.mark.parametrize(
    ("make", "kind", "flops"),
    [
        (lambda x: ops.reshape(x, (6,)), "view", 0),
        (lambda x: ops.take(x, ops.full(1, (5,), "i64")), "view", 0),
        (lambda x: ops.add(x, x), "map", 6),
        (lambda x: ops.exp(x), "map", 12 * 6),
        (lambda x: ops.sum(x, axis=1), "root", 6),
        (lambda x: ops.matmul(x, ops.transpose(x)), "root", 2 * 2 * 3 * 2),
        (lambda x: ops.pad(x, (1, 0), (1, 0)), "map", 0),
    ],
)
def test_what_an_operator_takes(make, kind, flops):
    work = work_of(make(param("x", (2, 3))))
    assert (work.kind, work.flops) == (kind, flops)


@pytest.mark.parametrize("cls", CATALOGUE, ids=lambda cls: cls.name)
def test_every_operator_can_be_asked(cls):
    for sample in cls.samples():
        if sample.error:
            continue
        operands = [param(f"p{i}", np.shape(a), np.asarray(a).dtype) for i, a in enumerate(sample.inputs)]
        work = work_of(apply(sample.op, *operands))
        assert work.kind in ("view", "map", "root")
        assert work.flops >= 0
