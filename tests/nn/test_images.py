"""Convolutions, pooling, padding, normalization and resizing: PyTorch's results and gradients, in one program."""

import numpy as np
import pytest

import adjoint.nn.functional as F  # noqa: N812
from adjoint import nn, ops, zeros
from adjoint.errors import AdjointError
from adjoint.ir import param
from tests.nn.image_cases import CASES
from tests.nn.image_numbers import NUMBERS
from tests.nn.test_nn import Adjoint, added, weighted


@pytest.fixture(scope="module")
def computed():
    """The numbers of all cases, with one backward pass."""
    scores, entered = {}, {}
    for name, case in CASES.items():
        library = Adjoint()
        found = case(library)
        scores[name] = weighted(found if isinstance(found, tuple) else (found,))
        entered[name] = library.entered
    added(tuple(scores.values())).backward()
    gradients = {name: weighted(tuple(t.grad for t in tensors)) for name, tensors in entered.items()}
    return {name: (scores[name].item(), gradients[name].item()) for name in CASES}


def test_every_case_has_its_numbers():
    assert CASES.keys() == NUMBERS.keys()


@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients_are_those_of_pytorch(name, computed):
    np.testing.assert_allclose(computed[name], NUMBERS[name], rtol=1e-7, atol=1e-9)


IMAGES, LINES = zeros(1, 2, 4, 4), zeros(2, 5)

REFUSALS = {
    "conv3d: the input must be [N, C, D, H, W] or [C, D, H, W] and the weight [O, C/groups, KD, KH, KW], got "
    "f32[2,5] and f32[1,1,1,1,1]; reshape them": lambda: F.conv3d(LINES, zeros(1, 1, 1, 1, 1)),
    "Conv2d: padding_mode must be 'zeros', 'reflect', 'replicate', 'circular', got 'mirror'; use 'zeros'": lambda: (
        nn.Conv2d(1, 1, 1, padding_mode="mirror")
    ),
    "ConvTranspose2d: padding_mode must be 'zeros', got 'reflect'; use 'zeros'": lambda: nn.ConvTranspose2d(
        1, 1, 1, padding_mode="reflect"
    ),
    "conv_transpose2d: output_padding must be less than the stride or the dilation, got (2, 0) for the stride (2, 1) "
    "and the dilation (1, 1); use a smaller one": lambda: nn.ConvTranspose2d(2, 2, 1, (2, 1), 0, (2, 0))(IMAGES),
    "conv_transpose2d: the result must not be empty, got [0, 0] for f32[1,2,4,4] and f32[2,2,1,1] with padding "
    "(2, 2); pad less": lambda: nn.ConvTranspose2d(2, 2, 1, padding=2)(IMAGES),
    "ConvTranspose2d: output_size must be from [7, 7] to [8, 8] for an input of [1, 2, 4, 4], got [7, 9]; change it": (
        lambda: nn.ConvTranspose2d(2, 2, 1, 2)(IMAGES, [7, 9])
    ),
    "conv_transpose2d: the weight's first axis must hold the input channels, got f32[1,2,4,4] and f32[3,1,1,1]; use "
    "size 2 there": lambda: F.conv_transpose2d(IMAGES, zeros(3, 1, 1, 1)),
    "ReflectionPad2d: padding must be one number, or two for each of 2 axes, got (1, 2); change it": lambda: (
        nn.ReflectionPad2d((1, 2))
    ),
    "pad: with mode 'reflect', an axis of 4 can get 0 to 3 elements, got 4 and 4; pad less": lambda: nn.ReflectionPad2d(
        4
    )(IMAGES),
    "pad: the mode must be constant, reflect, replicate, circular, got 'same'; use one of them": lambda: F.pad(
        LINES, (1, 1), "same"
    ),
    "max_pool3d: the input must be [N, C, D, H, W] or [C, D, H, W], got f32[2,5]; reshape it": lambda: F.max_pool3d(
        LINES, 2
    ),
    "max_pool2d: windows must fit into the padded image, got windows that span 5 on an axis of 4 padded by 0 on both "
    "sides; pad more or use a smaller window": lambda: F.max_pool2d(IMAGES, 3, dilation=2),
    "max_unpool2d: the indices must have the shape of the input, with 4 or 3 axes, got f32[1,2,4,4] and i64[2,5]; "
    "pass what the pooling returned": lambda: F.max_unpool2d(IMAGES, LINES.long(), 2),
    "max_unpool2d: output_size must end with 2 sizes of at least 1, got [8]; correct it": lambda: F.max_unpool2d(
        IMAGES, IMAGES.long(), 2, output_size=[8]
    ),
    "avg_pool2d: divisor_override must not be 0, got 0; omit it for the mean": lambda: F.avg_pool2d(
        IMAGES, 2, divisor_override=0
    ),
    "lp_pool2d: p must not be 0, got 0; use 2 for the root of the sum of squares": lambda: F.lp_pool2d(IMAGES, 0, 2),
    "adaptive_max_pool2d: output_size must be an integer of at least 1 or None, or one for each axis, got (3,); "
    "correct it": lambda: F.adaptive_max_pool2d(IMAGES, (3,)),
    "group_norm: a group must have more than one element, got f32[1,2,1] in 2 groups; use fewer groups": lambda: (
        F.group_norm(zeros(1, 2, 1), 2)
    ),
    "instance_norm: the input must be [N, C, ...] with more than one pixel, got f32[1,2,1]; use larger images": (
        lambda: F.instance_norm(zeros(1, 2, 1))
    ),
    "instance_norm: running statistics must be given unless use_input_stats, got None; pass both": lambda: (
        F.instance_norm(IMAGES, use_input_stats=False)
    ),
    "instance_norm: running statistics of a graph value cannot be changed, got f32[1,2,4]; use ops.instance_norm, "
    "which returns them": lambda: F.instance_norm(*(param("x", n) for n in ((1, 2, 4), (2,), (2,)))),
    "InstanceNorm1d: the input must have 2 or 3 axes, got the shape (1, 2, 4, 4); use the layer for it": lambda: (
        nn.InstanceNorm1d(2)(IMAGES)
    ),
    "local_response_norm: the input must be [N, C, ...] with pixels, got f32[2,5]; reshape it": lambda: (
        F.local_response_norm(LINES, 2)
    ),
    "local_response_norm: size must be at least 1, got 0; use 5": lambda: F.local_response_norm(IMAGES, 0),
    "unfold: windows must fit into the padded image, got 5 with dilation 1 for an image of [4, 4] padded by 0; pad "
    "more or use a smaller window": lambda: F.unfold(IMAGES, 5),
    "unfold: stride must be one or two integers of at least 1, got 0; change it": lambda: F.unfold(IMAGES, 2, stride=0),
    "fold: the input must be [N, C * 4, 9] or without N, got f32[2,5]; change output_size or the windows": lambda: (
        F.fold(LINES, 4, 2)
    ),
    "pixel_unshuffle: rows and columns of [..., C, H, W] must be multiples of the factor, got f32[1,2,4,4] and 3; "
    "change one": lambda: F.pixel_unshuffle(IMAGES, 3),
    "channel_shuffle: the channels of [N, C, ...] must be a multiple of groups, got f32[1,2,4,4] and 3; change one": (
        lambda: F.channel_shuffle(IMAGES, 3)
    ),
    "interpolate: for the mode 'linear', the input must have 3 axes, got f32[1,2,4,4]; reshape it": lambda: (
        F.interpolate(IMAGES, 2, mode="linear")
    ),
    "interpolate: align_corners is for the linear and cubic modes, got True for 'nearest'; omit it": lambda: (
        F.interpolate(IMAGES, 2, align_corners=True)
    ),
    "interpolate: antialias is for 'bilinear' and 'bicubic', got 'nearest'; omit it": lambda: F.interpolate(
        IMAGES, 2, antialias=True
    ),
    "interpolate: the size must be at least 1 along each of 2 axes, got [0, 0] for f32[1,2,4,4]; correct size or "
    "scale_factor": lambda: F.interpolate(IMAGES, scale_factor=0.2),
    "grid_sample: the mode must be 'bilinear', 'nearest' or 'bicubic', got 'cubic'; use 'bilinear'": lambda: (
        F.grid_sample(IMAGES, zeros(1, 2, 2, 2), "cubic")
    ),
    "grid_sample: the mode 'bicubic' is for images [N, C, H, W], got f32[1,1,2,2,2]; use 'bilinear'": lambda: (
        F.grid_sample(zeros(1, 1, 2, 2, 2), zeros(1, 2, 2, 2, 3), "bicubic")
    ),
    "grid_sample: padding_mode must be 'zeros', 'border' or 'reflection', got 'wrap'; use 'zeros'": lambda: (
        F.grid_sample(IMAGES, zeros(1, 2, 2, 2), padding_mode="wrap")
    ),
    "grid_sample: the input must be [N, C, H, W] and the grid [N, I, J, 2], or [N, C, D, H, W] and [N, K, I, J, 3], "
    "got f32[1,2,4,4] and f32[2,2,2,2]; reshape one": lambda: F.grid_sample(IMAGES, zeros(2, 2, 2, 2)),
    "grid_sample: input and grid must have the same dtype, and images must not be empty, got f32[1,2,4,4] and "
    "f64[1,2,2,2]; cast one": lambda: F.grid_sample(IMAGES, zeros(1, 2, 2, 2).double()),
    "affine_grid: theta must be [N, 2, 3] for a size of 4 numbers or [N, 3, 4] for one of 5, got f32[2,5] and "
    "[2, 1, 3, 3]; change one": lambda: F.affine_grid(LINES, [2, 1, 3, 3]),
}


@pytest.mark.parametrize("expected", REFUSALS)
def test_what_they_refuse(expected):
    with pytest.raises(AdjointError) as caught:
        REFUSALS[expected]()
    assert caught.value.message == expected
    assert caught.value.where.startswith(__file__)


def test_running_variances_may_be_biased():
    """As in the paper of batch normalization: with the number of elements as the divisor."""
    batch = np.random.default_rng(0).standard_normal((3, 2, 4)).astype(np.float32)
    norm = nn.BatchNorm1d(2, momentum=0.25, unbiased=False)
    norm(Adjoint().constant(batch))
    np.testing.assert_allclose(norm.running_var.numpy(), 0.75 + 0.25 * batch.var((0, 2)), rtol=1e-6)


def test_graph_values_may_be_given():
    x = param("x", (1, 2, 4, 4))
    assert F.conv_transpose2d(x, param("w", (2, 3, 2, 2)), stride=2).shape == (1, 3, 8, 8)
    assert F.interpolate(x, scale_factor=2, mode="bilinear").shape == (1, 2, 8, 8)
    values, places = F.max_pool2d(x, 2, return_indices=True)
    assert (values.type, places.type) == (param("v", (1, 2, 2, 2)).type, param("p", (1, 2, 2, 2), "i64").type)
    assert ops.pad_mode(x, (0, 0, 1, 0), (0, 0, 0, 2), "circular").shape == (1, 2, 5, 6)


def test_what_layers_print():
    assert repr(nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect")) == (
        "Conv2d(1, 1, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), padding_mode='reflect')"
    )
    assert repr(nn.ReflectionPad2d(1)) == "ReflectionPad2d((1, 1, 1, 1))"
    assert repr(nn.LocalResponseNorm(3)) == "LocalResponseNorm(3, alpha=0.0001, beta=0.75, k=1.0)"
    assert repr(nn.LPPool2d(2, 3)) == "LPPool2d(norm_type=2, kernel_size=3, stride=None, ceil_mode=False)"
    assert repr(nn.MaxUnpool2d(2)) == "MaxUnpool2d(kernel_size=2, stride=2, padding=0)"
