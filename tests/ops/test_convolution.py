"""Convolution against PyTorch, a loop from the definition, and the identities that tie its gradients to it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adjoint import ops
from adjoint.compiler import CompileOptions, compile
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import Function, apply, param
from adjoint.lower.analysis.access import access_pattern
from adjoint.ops.convolution import Conv2d, Conv2dWeightGradient
from adjoint.ops.shape import Pad
from adjoint.testing import interpret, pullback
from adjoint.transforms import cse, gradient, jvp, simplify
from adjoint.transforms.polyphase import polyphase
from tests.closeness import agrees_with_graph, close_to_product
from tests.ops.golden import agrees, cases
from tests.ops.running import run

RNG = np.random.default_rng(8)


@cases("conv2d")
def test_results_and_gradients_are_pytorchs(case):
    agrees(case, ops.conv2d)


def by_definition(x, w, stride, padding, dilation, groups):
    """Seven loops."""
    (n, channels, *size), (outputs, _, *window) = x.shape, w.shape
    padded = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    rows, columns = ((size[a] + 2 * padding[a] - (window[a] - 1) * dilation[a] - 1) // stride[a] + 1 for a in (0, 1))
    result = np.zeros((n, outputs, rows, columns))
    each, own = channels // groups, outputs // groups
    for image, o, i, j in np.ndindex(result.shape):
        for c, a, b in np.ndindex(w.shape[1:]):
            row, column = i * stride[0] + a * dilation[0], j * stride[1] + b * dilation[1]
            result[image, o, i, j] += padded[image, o // own * each + c, row, column] * w[o, c, a, b]
    return result


@st.composite
def convolutions(draw):
    """An operator, an image and a weight, in whole numbers, of which sums are exact."""
    few = st.integers(1, 3)
    groups = draw(st.integers(1, 2))
    each, own, images = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(1, 2))
    stride, dilation, window = ((draw(few), draw(few)) for _ in range(3))
    padding = (draw(st.integers(0, 3)), draw(st.integers(0, 3)))
    spans = [(k - 1) * d + 1 for k, d in zip(window, dilation, strict=True)]
    size = [max(span - 2 * p, 1) + draw(st.integers(0, 4)) for span, p in zip(spans, padding, strict=True)]
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    x = rng.integers(-4, 5, (images, groups * each, *size)).astype(np.float64)
    w = rng.integers(-4, 5, (groups * own, each, *window)).astype(np.float64)
    return Conv2d(stride, padding, dilation, groups), x, w


@settings(deadline=None, max_examples=60, derandomize=True)
@given(convolutions())
def test_any_settings_follow_the_definition_and_its_adjoints(drawn):
    """``<ct, conv(x, w)> = <x, gradient of x> = <w, gradient of w>`` for any ct: that is what a gradient is here."""
    op, x, w = drawn
    expected = by_definition(x, w, op.stride, op.padding, op.dilation, op.groups)
    np.testing.assert_array_equal(op.reference(x, w), expected)
    ct = np.random.default_rng(1).integers(-4, 5, expected.shape).astype(np.float64)
    image, weight, cotangent = (param(name, a.shape, "f64") for name, a in (("x", x), ("w", w), ("ct", ct)))
    out = apply(op, image, weight)
    found = pullback([out], [cotangent], [image, weight])
    function = Function("f", (image, weight, cotangent), found)
    to_image, to_weight = interpret(function, x, w, ct)
    whole = np.sum(ct * expected)
    assert np.sum(to_weight * w) == whole
    assert np.sum(to_image * x) == whole
    # One identity fixes a sum only. The gradient is linear: other images and weights fix all of it.
    other = np.random.default_rng(2).integers(-4, 5, x.shape).astype(np.float64)
    assert np.sum(to_image * other) == np.sum(ct * op.reference(other, w))
    second = np.random.default_rng(3).integers(-4, 5, w.shape).astype(np.float64)
    assert np.sum(to_weight * second) == np.sum(ct * op.reference(x, second))


def step_of(op, image, weight):
    """Gradients of ``sum(sin(conv))`` as the compiler sees them."""
    x, w = param("x", image), param("w", weight)
    loss = Function("loss", (x, w), (ops.sum(ops.sin(apply(op, x, w))),))
    return cse(simplify(polyphase(gradient(loss))))


def products(function):
    """Multiplications of every convolution in a function."""
    found = []
    for v in function.values():
        if isinstance(v.op, Conv2d):
            found.append(v.type.size * v.inputs[1].type.size // v.inputs[1].shape[0])
        elif isinstance(v.op, Conv2dWeightGradient):
            found.append(v.inputs[1].type.size * v.type.size // v.shape[0])
    return found


def test_the_gradient_of_a_strided_convolution_multiplies_no_zeros():
    """Of 8x8 channels: forward and for the weight 9 products an element; for the image 4, 2, 2 and 1 for a quarter."""
    function = step_of(Conv2d((2, 2), (1, 1)), (2, 8, 16, 16), (8, 8, 3, 3))
    one = 2 * 8 * 8 * 8 * 8
    assert sorted(products(function)) == sorted([one * 9, one * 9, one * 4, one * 2, one * 2, one])
    projection = step_of(Conv2d((2, 2)), (2, 8, 16, 16), (8, 8, 1, 1))
    assert products(projection) == [one] * 3


def test_the_derivative_along_a_direction_is_one_convolution():
    """Not the transpose of the four that the gradient at this stride consists of."""
    x, w = param("x", (2, 8, 16, 16)), param("w", (8, 8, 3, 3))
    function = Function("f", (x, w), (ops.conv2d(x, w, stride=2, padding=1),))
    made = cse(simplify(polyphase(jvp(function, "x"))))
    assert products(made) == [2 * 8 * 8 * 8 * 8 * 9] * 2


def test_gradients_of_a_transposed_convolution_are_two_convolutions():
    x, w = param("x", (2, 4, 5, 5)), param("w", (4, 6, 3, 3))
    out = ops.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1)
    slopes = pullback([out], [param("ct", out.shape)], [x, w])
    assert [slope.op.name for slope in slopes] == ["conv2d", "conv2d_weight_gradient"]


def test_channels_last_and_zeros_on_one_side():
    """Four functions in one program, against those that pad and permute by hand."""
    x, w, v = RNG.standard_normal((2, 2, 4, 5)), RNG.standard_normal((4, 1, 2, 3)), RNG.standard_normal((3, 2, 2, 2, 1))
    images, weight = param("x", x.shape, "f64"), param("w", w.shape, "f64")
    last, volume = ops.permute(images, (0, 2, 3, 1)), ops.reshape(images, (1, 2, 2, 4, 5))
    taps = param("v", v.shape, "f64")
    plain = ops.conv2d(ops.pad(images, (0, 0, 0, 2), (0, 0, 1, 0)), weight, groups=2, stride=(1, 2))
    found = ops.conv2d(last, weight, groups=2, stride=(1, 2), padding=((0, 1), (2, 0)), layout="NHWC")
    up = ops.conv_transpose2d(images, ops.permute(weight, (1, 0, 2, 3))[:, :2].broadcast_to(2, 2, 2, 3), stride=2)
    up_last = ops.conv_transpose2d(
        last, ops.permute(weight, (1, 0, 2, 3))[:, :2].broadcast_to(2, 2, 2, 3), stride=2, layout="NHWC"
    )
    deep = ops.conv3d(volume, taps)
    deep_last = ops.conv3d(ops.permute(volume, (0, 2, 3, 4, 1)), taps, layout="NDHWC")
    row = ops.conv1d(images[:, :, 0], weight[:, :, 0], groups=2, padding="same")
    row_last = ops.conv1d(last[:, 0], weight[:, :, 0], groups=2, padding="same", layout="NLC")
    pairs = [(plain, found), (up, up_last), (deep, deep_last), (row, row_last)]
    results = tuple(each for one in pairs for each in one)
    made = interpret(Function("f", (images, weight, taps), results), x, w, v)
    for first, second in zip(made[::2], made[1::2], strict=True):
        np.testing.assert_allclose(np.moveaxis(second, -1, 1), first, rtol=1e-12)
    compiled = compile(Function("f", (images, weight, taps), results), options=CompileOptions(threads=1, cache=False))
    for one, other in zip(compiled(x, w, v), made, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


def test_padding_costs_the_gradient_nothing():
    """The image's cotangent is computed for the image, not for the padded image that is cut then."""
    function = step_of(Conv2d((1, 1), (1, 1)), (2, 8, 16, 16), (8, 8, 3, 3))
    assert products(function) == [2 * 16 * 16 * 8 * 8 * 9] * 3


def test_what_is_lowered_reads_its_image_unguarded_and_pads_it_once():
    function = step_of(Conv2d((2, 1), (1, 2), (1, 2)), (2, 4, 9, 9), (6, 4, 3, 3))
    sliding = [v for v in function.values() if isinstance(v.op, Conv2d | Conv2dWeightGradient)]
    assert len(sliding) > 2
    assert all(v.op.padding == (0, 0) and access_pattern(v).product for v in sliding)
    x = function.param("x")
    assert len([v for v in function.values() if isinstance(v.op, Pad) and v.inputs[0] is x]) == 1


def test_padding_said_apart_changes_no_bit():
    op = Conv2d((2, 1), (1, 2), (1, 2), 2)
    x, w = RNG.standard_normal((2, 4, 5, 6)), RNG.standard_normal((4, 2, 2, 3))
    params = param("x", x.shape, "f64"), param("w", w.shape, "f64")
    function = Function("f", params, (apply(op, *params),))
    np.testing.assert_array_equal(interpret(simplify(function), x, w)[0], interpret(function, x, w)[0])
    integers = param("x", x.shape, "i32"), param("w", w.shape, "i32")
    whole = Function("f", integers, (apply(op, *integers),))
    arrays = [(10 * a).astype(np.int32) for a in (x, w)]
    np.testing.assert_array_equal(interpret(simplify(whole), *arrays)[0], op.reference(*arrays))


def test_groups_see_their_own_channels():
    x, w = RNG.standard_normal((2, 6, 5, 4)), RNG.standard_normal((9, 2, 3, 2))
    found = run(lambda a, b: ops.conv2d(a, b, padding=1, groups=3), x, w)
    parts = [
        run(lambda a, b: ops.conv2d(a, b, padding=1), x[:, 2 * g : 2 * g + 2], w[3 * g : 3 * g + 3]) for g in range(3)
    ]
    np.testing.assert_allclose(found, np.concatenate(parts, 1), rtol=1e-12, atol=1e-13)


def test_one_by_one_windows_are_a_matrix_product():
    x, w = RNG.standard_normal((2, 5, 3, 4)), RNG.standard_normal((7, 5, 1, 1))
    found = run(ops.conv2d, x, w)
    close_to_product(np.moveaxis(found, 1, -1), np.moveaxis(x, 1, -1), w[..., 0, 0].T)


def test_windows_that_lie_on_the_padding_give_the_image_no_gradient():
    x, w = param("x", (1, 1, 1, 1)), param("w", (1, 1, 1, 1))
    out = ops.conv2d(x, w, stride=3, padding=1)
    (slope,) = pullback([out], [ops.full(1.0, out.shape)], [x])
    (found,) = polyphase(Function("f", (x, w), (slope,))).results
    assert (found.op.name, found.op.value, found.type) == ("full", 0.0, x.type)


def test_compiled_gradients_agree_with_the_references():
    function = step_of(Conv2d((2, 2), (1, 1), (1, 1), 2), (2, 4, 9, 18), (6, 2, 3, 3))
    arrays = [RNG.standard_normal(p.shape).astype(np.float32) for p in function.params]
    agrees_with_graph(compile(function, options=CompileOptions(threads=1, cache=False))(*arrays), function, *arrays)


X, W = param("x", (2, 4, 8, 8)), param("w", (6, 4, 3, 3))


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (
            {"stride": 0},
            "conv2d: stride must be an integer of at least 1, or a pair for rows and columns, got 0; correct it",
        ),
        (
            {"stride": (1, 2, 3)},
            r"conv2d: stride must be an integer of at least 1, or a pair for rows and columns, got \(1, 2, 3\)",
        ),
        ({"padding": -1}, "conv2d: padding must be an integer of at least 0, or a pair for rows and columns, got -1"),
        ({"padding": "full"}, "conv2d: padding must be numbers, 'valid' or 'same', got 'full'; use 'same'"),
        ({"padding": "same", "stride": 2}, r"padding='same' requires a stride of 1, got \(2, 2\); pass the padding as"),
        ({"padding": ((1, 2),)}, r"padding must have a pair for each of 2 axes, got \(\(1, 2\),\); pass as many"),
        ({"padding": 1.5}, "conv2d: padding must be an integer of at least 0, or a pair for rows and columns, got 1.5"),
        ({"layout": "HWC"}, "conv2d: layout must be 'NCHW' or 'NHWC', got 'HWC'; use 'NCHW'"),
        (
            {"dilation": (1, True)},
            r"conv2d: dilation must be an integer of at least 1, or a pair for rows and columns, got \(1, True\)",
        ),
        ({"groups": 0}, "conv2d: groups must be an integer of at least 1, got 0"),
    ],
)
def test_settings_are_refused_by_name(keys, words):
    with pytest.raises(InvalidValueError, match=words):
        ops.conv2d(X, W, **keys)


def test_other_refusals():
    with pytest.raises(
        TypeRuleError,
        match=r"bias must have one element per output channel, got f32\[4\] for f32\[2,6,6,6\]; pass f32\[6\]",
    ):
        ops.conv2d(X, W, param("b", (4,)))
    with pytest.raises(
        TypeRuleError,
        match=r"conv2d: the bias .* got f64\[6\] .* pass f32\[6\]",
    ):
        ops.conv2d(X, W, param("b", (6,), "f64"))
    with pytest.raises(TypeRuleError, match=r"in 2 groups and f32\[6,4,3,3\]; use size 2 there"):
        ops.conv2d(X, W, groups=2)
