"""Bundles that repeat are built once: the kernels of the others are the same as if each were built on its own."""

import pytest

from adjoint import Function, SetupTrainer, TensorType, losses, models, ops, optim, param
from adjoint.compiler import host
from adjoint.kernel.printer import print_program
from adjoint.lower import build_kernels
from adjoint.lower.bundles import Bundle, Names
from adjoint.pipeline import lower_function
from adjoint.testing.programs import network
from tests.runtime.networks import NETWORKS, module_of


def apart(monkeypatch):
    """From here on every bundle is built on its own."""
    monkeypatch.setattr(Bundle, "repeats", False)


def counted(monkeypatch):
    """The groups of which kernels are built rather than copied, as they come."""
    found, new = [], build_kernels._Builder._new

    def build(self, bundle):
        found.append(bundle.first)
        return new(self, bundle)

    monkeypatch.setattr(build_kernels._Builder, "_new", build)
    return found


def text(function):
    return print_program(lower_function(function, host()))


@pytest.mark.parametrize("name", list(NETWORKS))
def test_networks_have_the_same_kernels(name, monkeypatch):
    step = module_of(name)["step"]
    found = text(step)
    apart(monkeypatch)
    assert text(step) == found


def twice(function):
    """A function applied to parameters of its own two times."""
    copies = [[param(f"{p.label}{n}", p.shape, p.dtype) for p in function.params] for n in range(2)]
    called = [ops.call(function, *params) for params in copies]
    results = [r for made in called for r in (made if isinstance(made, tuple) else (made,))]
    return Function("twice", tuple(p for params in copies for p in params), tuple(results))


@pytest.mark.parametrize("number", range(40))
def test_random_programs_twice_have_the_same_kernels(number, monkeypatch):
    function, built = twice(network(number).function), counted(monkeypatch)
    found = text(function)
    few = len(built)
    apart(monkeypatch)
    assert text(function) == found
    assert len(built) - few > few


def test_layers_of_a_transformer_have_the_same_kernels(monkeypatch):
    module = models.gpt(layers=3, heads=2, width=32, length=16, batch_size=4, vocabulary=31)
    labels = TensorType(module["backbone"].results[0].shape[:1], "i64")
    make = SetupTrainer(losses.CrossEntropyLoss(), optim.AdamW(0.001), (module["backbone"].results[0].type, labels))
    step = make(module)["step"]
    found = text(step)
    apart(monkeypatch)
    assert text(step) == found


def layers(count, width=64):
    x = param("x", (32, width))
    weights = [param(f"w{n}", (width, width)) for n in range(count)]
    out = x
    for w in weights:
        out = ops.relu(ops.matmul(out, w))
    return Function("f", (x, *weights), (out,))


def test_as_many_kernels_are_built_of_a_deep_network_as_of_a_shallow_one(monkeypatch):
    found = counted(monkeypatch)
    lower_function(layers(4), host())
    few = len(found)
    lower_function(layers(20), host())
    assert len(found) - few == few


def test_layers_of_other_sizes_layouts_and_constants_are_built_on_their_own(monkeypatch):
    x, w = param("x", (32, 64)), param("w", (64, 64))
    v, u = param("v", (64, 64)), param("u", (64, 48))
    made = (
        ops.matmul(x, w) * 2.0,
        ops.matmul(x, v, transpose_b=True) * 2.0,
        ops.matmul(x, u) * 2.0,
        ops.matmul(x, v) * 3.0,
        ops.matmul(x, v) * 2.0,
    )
    found = counted(monkeypatch)
    lower_function(Function("f", (x, w, v, u), made), host())
    assert len(found) == 4


def test_an_update_in_place_differs_from_a_new_tensor(monkeypatch):
    """The first reads and writes one buffer, the second two."""
    w, v = param("w", (1000,)), param("v", (1000,))
    donated = {"donate": (("w", 0),)}
    function = Function("f", (w, v), (w * 0.5, v * 0.5), donated)
    found = counted(monkeypatch)
    lower_function(function, host())
    assert len(found) == 2


def test_names_of_kernels_and_buffers_begin_with_those_of_groups():
    names = Names({"%a": "%b"}, {"fc": "head", "fc_0": "body"})
    assert [names.of(name) for name in ("fc", "fc_parts", "fc_0", "fc_0_sums", "fcx", "acc")] == [
        "head", "head_parts", "body", "body_sums", "fcx", "acc",
    ]  # fmt: skip
