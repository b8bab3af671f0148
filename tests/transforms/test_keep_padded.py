"""Values that are padded, and their readers."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import CompileOptions, compile, host
from adjoint.ir import Function, param, verify
from adjoint.ops.convolution import Conv2d
from adjoint.ops.shape import Pad, Slice
from adjoint.pipeline import lower_function
from adjoint.testing import interpret
from adjoint.transforms import cse, gradient, simplify
from adjoint.transforms.keep_padded import keep_padded
from adjoint.transforms.polyphase import polyphase
from adjoint.transforms.rematerialize import rematerialize
from adjoint.transforms.separate_results import separate_results
from tests.closeness import agrees_with_graph

X, W = param("x", (2, 3, 16, 16)), param("w", (3, 3, 3, 3))
BORDER = (0, 0, 1, 1)


def made(*results, params=(X, W)):
    """What the pass makes of some results, checked to mean the same to the bit."""
    before = cse(simplify(polyphase(Function("f", params, results))))
    after = keep_padded(before)
    verify(after)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in params]
    for one, other in zip(interpret(before, *arrays), interpret(after, *arrays), strict=True):
        np.testing.assert_array_equal(one, other)
    return before, after


def of(function, kind):
    return [v for v in function.values() if isinstance(v.op, kind)]


def block(x=X, w=W, **convolution):
    h = ops.relu(x)
    return ops.add(ops.conv2d(h, w, padding=1, **convolution), h)


def test_a_reader_beside_the_convolution_reads_inside_the_border():
    _, after = made(block())
    (pad,) = of(after, Pad)
    (relu,) = pad.inputs
    assert [v for v in after.values() if relu in v.inputs] == [pad]
    assert [v.inputs for v in of(after, Slice)] == [(pad,)]


def test_the_unpadded_value_has_no_kernel_and_no_memory():
    kernels = lower_function(Function("f", (X, W), (ops.multiply(ops.exp(block()), 2.0),)), host()).kernels
    written = [b.size for k in kernels for b in k.writes if b.space == "arena"]
    assert written.count(2 * 3 * 18 * 18) == 1
    assert 2 * 3 * 16 * 16 not in written


def test_pads_of_one_value_are_parts_of_the_widest():
    h = ops.exp(X)
    first, second = ops.pad(h, (0, 0, 1, 0), (0, 0, 0, 2)), ops.pad(h, (0, 0, 0, 2), (0, 0, 1, 0))
    _, after = made(ops.negative(first), ops.negative(second))
    (pad,) = of(after, Pad)
    assert (pad.op.low, pad.op.high) == ((0, 0, 1, 2), (0, 0, 1, 2))
    assert len(of(after, Slice)) == 2


@pytest.mark.parametrize(
    "results",
    [
        lambda h: (ops.pad(h, BORDER, BORDER),),
        lambda h: (h, ops.negative(ops.pad(h, BORDER, BORDER)), ops.add(h, 1.0)),
        lambda h: (ops.negative(ops.pad(h, BORDER, BORDER)), ops.reshape(h, (2, 768))),
        lambda h: (ops.negative(ops.pad(h, BORDER, BORDER)), ops.conv2d(h, ops.slice(W, (0,) * 4, (3, 3, 1, 1)))),
        lambda h: (ops.negative(ops.pad(h, BORDER, BORDER)), ops.conv2d(ops.concat(X, X, axis=2), h)),
        lambda h: (ops.negative(ops.pad(h, (0, 0, 9, 9), (0, 0, 9, 9))), ops.add(h, 1.0)),
        lambda h: (ops.pad(h, BORDER, BORDER), ops.add(h, 1.0)),
        lambda h: (ops.negative(ops.pad(h, (0,) * 4, (0,) * 4, (0, 0, 1, 1))), ops.add(h, 1.0)),
    ],
    ids=[
        "one reader",
        "a result",
        "rows joined",
        "a window of one element",
        "a weight",
        "far larger",
        "a pad that is a result",
        "zeros in between only",
    ],
)
def test_what_stays_as_it_is(results):
    before, after = made(*results(ops.exp(X)))
    assert after == before


def test_parameters_stay_as_they_are():
    before, after = made(ops.negative(ops.pad(X, BORDER, BORDER)), ops.add(X, 1.0))
    assert after == before


def test_pads_with_other_values_are_readers_like_others():
    h = ops.exp(X)
    low, zero = ops.pad(h, BORDER, BORDER, -1.0), ops.pad(h, BORDER, BORDER)
    _, after = made(ops.negative(zero), ops.negative(low))
    assert sorted(v.op.value for v in of(after, Pad)) == [-1.0, 0.0]
    assert len(of(after, Slice)) == 1


@pytest.mark.parametrize("stride", [1, 2])
def test_a_step_is_the_same_compiled_and_within_a_budget(stride):
    h = ops.relu(ops.conv2d(ops.relu(X), W, padding=1))
    loss = ops.sum(ops.square(ops.relu(ops.conv2d(ops.add(block(h), h), W, padding=1, stride=stride))))
    function = gradient(Function("loss", (X, W), (loss,)))
    _, after = made(*function.results)
    assert len(of(after, Pad)) >= 3
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    found = [compile(function, options=CompileOptions(threads=n))(*arrays) for n in (1, 3)]
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    agrees_with_graph(found[0], function, *arrays)
    again = rematerialize(separate_results(after), 0)
    agrees_with_graph(interpret(again, *arrays), function, *arrays)


def test_a_stride_reads_parts_of_one_padded_cotangent():
    """Three of its four phases meet zeros on some side; the fourth takes all rows for one, and reads no padded ones."""
    loss = ops.sum(ops.exp(ops.conv2d(ops.relu(X), W, padding=1, stride=2)))
    function = gradient(Function("loss", (X, W), (loss,)), ("x",))
    _, after = made(*function.results)
    phases = [v for v in of(after, Conv2d) if v.op.stride == (1, 1)]
    assert len(phases) == 4
    sources = {v.inputs[0].inputs[0] if isinstance(v.inputs[0].op, Slice) else v.inputs[0] for v in phases}
    assert sorted(v.op.name for v in sources) == ["exp", "pad"]
