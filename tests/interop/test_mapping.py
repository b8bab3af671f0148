"""Arrays of other programs find their places in a network, or are refused with the names of both sides."""

import numpy as np
import pytest

import adjoint
from adjoint import nn
from adjoint.errors import InvalidValueError, NameLookupError
from adjoint.interop import map_names


def arrays(**shapes):
    rng = np.random.default_rng(0)
    return {name.replace("__", "/"): rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}


def test_names_of_mindspore_are_mapped_and_printed():
    network = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    theirs = {
        **{f"0.{name}": array for name, array in arrays(weight=(2, 3), bias=(2,)).items()},
        **{f"1.{name}": np.full(2, i, np.float32) for i, name in enumerate(("moving_mean", "moving_variance"))},
        **{f"1.{name}": np.full(2, i, np.float32) for i, name in enumerate(("gamma", "beta"), 2)},
        "epoch": np.array(3),
        "note": "text",
    }
    found = map_names(theirs, network.state_dict())
    assert str(found) == (
        "0.weight        <-  0.weight [2, 3]\n"
        "0.bias          <-  0.bias [2]\n"
        "1.weight        <-  1.gamma [2]\n"
        "1.bias          <-  1.beta [2]\n"
        "1.running_mean  <-  1.moving_mean [2]\n"
        "1.running_var   <-  1.moving_variance [2]\n"
        "(unused)            epoch\n"
        "(unused)            note"
    )
    network.load_state_dict(found.apply(theirs))
    assert [float(network[1].state_dict()[name][0]) for name in ("running_mean", "running_var", "weight", "bias")] == [
        0.0,
        1.0,
        2.0,
        3.0,
    ]


def test_layers_of_keras_are_mapped_by_shapes_and_compute_the_same():
    theirs = arrays(layers__conv2d__kernel=(3, 3, 1, 2), layers__conv2d__bias=(2,), layers__dense__kernel=(8, 4),
                    layers__dense__bias=(4,), layers__dense_1__kernel=(4, 4), layers__dense_1__bias=(4,),
                    layers__dense_2__kernel=(4, 4), layers__dense_2__bias=(4,))  # fmt: skip
    network = nn.Sequential(
        nn.Linear(8, 4), nn.Linear(4, 4), nn.Linear(4, 4), nn.ModuleDict({"conv": nn.Conv2d(1, 2, 3)})
    )
    found = map_names(theirs, network.state_dict(), layout="keras")
    assert "3.conv.weight  <-  layers/conv2d/kernel [2, 1, 3, 3], transposed (3, 2, 0, 1)" in str(found)
    network.load_state_dict(found.apply(theirs))
    x = np.ones((1, 8), np.float32)
    wanted = x
    for name in ("dense", "dense_1", "dense_2"):  # the formula of Keras: x @ kernel + bias
        wanted = wanted @ theirs[f"layers/{name}/kernel"] + theirs[f"layers/{name}/bias"]
    got = network[2](network[1](network[0](adjoint.tensor(x)))).detach().numpy()
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
    image = np.random.default_rng(1).standard_normal((3, 3), np.float32)
    kernel = theirs["layers/conv2d/kernel"]
    got = network[3]["conv"](adjoint.tensor(image[None, None])).detach().numpy()[0, :, 0, 0]
    np.testing.assert_allclose(
        got, np.einsum("hw,hwio->o", image, kernel) + theirs["layers/conv2d/bias"], rtol=1e-5, atol=1e-5
    )


def test_what_is_ambiguous_or_missing_is_refused():
    theirs = arrays(a__weight=(2, 2), b__weight=(2, 2), c__weight=(5, 2))
    ours = nn.Sequential(nn.Linear(2, 2, bias=False)).state_dict()
    with pytest.raises(
        InvalidValueError,
        match=r"^map_names: each layer must have one counterpart, got another number of candidates for 0.weight: "
        r"a/weight, b/weight; pass names=\{'name in the file': 'name in the network'\}, or another layout",
    ):
        map_names(theirs, ours)
    assert map_names(theirs, ours, names={"b/weight": "0.weight"}).names == {"0.weight": "b/weight"}
    with pytest.raises(
        InvalidValueError, match=r"got no candidate for 0.weight among a/weight, b/weight, c/weight; pa"
    ):
        map_names(theirs, nn.Sequential(nn.Linear(3, 3, bias=False)).state_dict())


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"layout": "tf"}, InvalidValueError, "map_names: layout must be 'pytorch' or 'keras', got 'tf'"),
        (
            {"names": {"a": "0.other"}},
            NameLookupError,
            "map_names: names must be those of both sides, got '0.other', which is not in the network; correct it",
        ),
        (
            {"names": {"x": "0.weight"}},
            NameLookupError,
            "map_names: names must be those of both sides, got 'x', which is not in the file; correct it",
        ),
        (
            {"names": {"a": "0.weight"}},
            InvalidValueError,
            r"map_names: 'a' must have the shape of '0.weight', \[2, 2\], got \[3\]; choose another name or layout",
        ),
    ],
)
def test_wrong_arguments_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        map_names({"a": np.ones(3)}, {"0.weight": np.ones((2, 2))}, **options)
