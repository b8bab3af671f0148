"""Tuning: every form of a contraction gives the product; what was measured is remembered, obeyed, and checked."""

import json
import time
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from adjoint import compile, compiler, ops
from adjoint.compiler import CompileOptions, host
from adjoint.errors import AdjointError, InvalidValueError
from adjoint.ir import Function, apply, param
from adjoint.ir.printer import value_names
from adjoint.kernel.printer import print_kernel
from adjoint.lower.contractions.schedules import same_sums, schedules
from adjoint.lower.program import contractions_of
from adjoint.ops.convolution import Conv2dWeightGradient
from adjoint.pipeline import lower_function
from adjoint.transforms.simplify import simplify
from adjoint.tuning import Measured, Tuning, contractions_by_work, measure
from tests.closeness import agrees_with_graph
from tests.lower.contractions.test_contractions import product

OPTIONS = CompileOptions(cache=False, threads=1)


def convolution():
    x, w = param("x", (4, 24, 10, 10)), param("w", (32, 24, 3, 3))
    return Function("f", (x, w), (ops.relu(ops.conv2d(x, w)),))


def strided():
    x, w = param("x", (8, 16, 17, 17)), param("w", (20, 16, 3, 3))
    return Function("f", (x, w), (ops.conv2d(x, w, stride=2),))


def weight_gradient():
    x, ct = param("x", (8, 5, 14, 14)), param("ct", (8, 16, 12, 12))
    op = Conv2dWeightGradient((1, 1), (0, 0), (1, 1), 1, (3, 3))
    return Function("f", (x, ct), (apply(op, x, ct),))


CASES = {
    "product": lambda: product(70, 90, 100),
    "turned": lambda: product(64, 128, 80, transpose_b=True),
    "batches": lambda: product(30, 40, 50, batch=(3,)),
    "narrow": lambda: product(100, 40, 3, transpose_a=True),
    "convolution": convolution,
    "strided": strided,
    "weight gradient": weight_gradient,
}


def written(directory, function, form):
    """A file that has chosen a form for the only contraction of a function."""
    (found,) = contractions_of(simplify(function), host(), value_names(function))[1].values()
    made = Tuning.of(host(), directory)
    made.write({found.signature: Measured(form, 1.0, form, 1.0)})
    return made


@pytest.mark.parametrize("case", CASES)
def test_every_form_gives_the_product_and_those_that_are_measured_its_bits(tmp_path, case):
    function = CASES[case]()
    context, planned = contractions_of(function, host(), value_names(function))
    ((group, found),) = planned.items()
    names = list(map(str, schedules(context, group, found.contraction)))
    assert len(names) >= 3
    tuned = list(map(str, same_sums(schedules(context, group, found.contraction))))
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    untuned = compile(function, options=OPTIONS)(*arrays)
    for form in names:
        written(tmp_path, function, form)
        got = compile(function, options=OPTIONS, tune=tmp_path)(*arrays)
        agrees_with_graph(got, function, *arrays, message=form)
        if form in tuned:
            assert np.array_equal(got, untuned), form


def test_a_remembered_form_is_obeyed(tmp_path):
    function = product(64, 128, 128)
    for rows in (4, 6):
        made = written(tmp_path, function, f"gemm {rows}x2x1")
        (kernel,) = lower_function(function, host(), tuning=made).kernels
        assert f"for i in 0..{rows} unroll" in print_kernel(kernel)


def test_what_is_measured_is_kept_and_not_measured_again(tmp_path, monkeypatch):
    function = product(128, 128, 128)
    compile(function, options=OPTIONS, tune=tmp_path)
    (file,) = tmp_path.iterdir()
    content = json.loads(file.read_text())
    ((name, found),) = content["contractions"].items()
    assert name.startswith("float32 m128:128,0 n128:0,1 k128:1,128")
    assert 0 < found["microseconds"] <= found["estimated_microseconds"]
    monkeypatch.setattr(measure, "try_schedules", lambda *_: pytest.fail("measured again"))
    compile(function, options=OPTIONS, tune=tmp_path)


def test_measurements_of_several_functions_share_a_file(tmp_path):
    for size in (96, 128):
        compile(product(size, 128, 128), options=OPTIONS, tune=tmp_path)
    (file,) = tmp_path.iterdir()
    assert len(json.loads(file.read_text())["contractions"]) == 2


def test_small_contractions_are_not_measured(tmp_path):
    compile(product(4, 4, 16), options=OPTIONS, tune=tmp_path)
    assert not list(tmp_path.iterdir())


def test_tuned_code_is_cached_until_the_measurements_change(tmp_path):
    function = product(64, 128, 128)
    options = CompileOptions(cache_directory=tmp_path / "compiled", tune=tmp_path / "tuning")
    assert not compile(function, options=options).cached
    assert compile(function, options=options).cached
    written(tmp_path / "tuning", function, "gemm 4x2x1")
    assert not compile(function, options=options).cached


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"contractions": {"a": {"form": 1}}}'])
def test_a_file_of_something_else_is_refused(tmp_path, text):
    made = Tuning.of(host(), tmp_path)
    made.path.write_text(text)
    with pytest.raises(InvalidValueError, match=r"is not a file of measured contractions: .*; delete it"):
        compile(product(64, 128, 128), options=OPTIONS, tune=tmp_path)


def test_measurements_of_another_cpu_are_refused(tmp_path):
    function = product(64, 128, 128)
    made = written(tmp_path, function, "gemm 4x2x1")
    made.path.write_text(made.path.read_text().replace(made.cpu, "z80, 1-byte vectors"))
    with pytest.raises(InvalidValueError, match=r"measurements of z80, 1-byte vectors, but this CPU is .*; delete it"):
        compile(function, options=OPTIONS, tune=tmp_path)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("fast", "does not run in the form 'fast'; tune it anew"),
        ("gemm 99x9x9", "does not run in the form 'gemm 99x9x9'; tune it anew"),
        ("inner_product", "does not run in the form 'inner_product'; tune it anew"),
    ],
)
def test_forms_that_do_not_exist_are_refused(tmp_path, form, message):
    function = product(64, 128, 128)
    written(tmp_path, function, form)
    with pytest.raises(AdjointError, match=message):
        compile(function, options=OPTIONS, tune=tmp_path)


@pytest.mark.parametrize("tune", ["yes", 0, -1.5, float("nan")])
def test_what_is_neither_yes_nor_no_nor_seconds_nor_a_directory_is_refused(tune):
    message = "tune must be True, False, a number of seconds above 0, or the Path of a directory, got"
    with pytest.raises(InvalidValueError, match=message):
        compile(product(64, 128, 128), options=OPTIONS, tune=tune)


def layers(*widths):
    """A perceptron of products alone."""
    value = x = param("x", (64, widths[0]))
    weights = [param(f"w{n}", pair) for n, pair in enumerate(pairwise(widths))]
    for w in weights:
        value = ops.relu(value @ w)
    return Function("f", (x, *weights), (value,))


def test_contractions_are_measured_by_their_share_of_the_work():
    function = layers(96, 96, 96, 160, 96)
    _, planned = contractions_of(function, host(), value_names(function))
    chosen = [made.contraction for _, made in contractions_by_work(planned)]
    assert [(c.depth, c.columns) for c in chosen] == [(96, 96), (96, 160), (160, 96)]


def test_a_bound_in_seconds_keeps_what_is_known(tmp_path, monkeypatch):
    monkeypatch.setattr(compiler, "cache_dir", lambda: tmp_path)
    function = layers(96, 128, 160)
    clock = iter(range(100))
    seconds = SimpleNamespace(perf_counter=lambda: next(clock), perf_counter_ns=time.perf_counter_ns)
    monkeypatch.setattr(measure, "time", seconds)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    untuned = compile(function, options=OPTIONS)(*arrays)
    made = compile(function, options=OPTIONS, tune=1.5)
    (name,) = measured_names(tmp_path / "tuning")
    assert "k128" in name
    assert np.array_equal(made(*arrays), untuned)
    made["f"].text("kernels")  # measures nothing
    assert len(measured_names(tmp_path / "tuning")) == 1
    compile(function, options=OPTIONS, tune=100)
    assert len(measured_names(tmp_path / "tuning")) == 2


def measured_names(directory):
    return [name for file in directory.glob("*.json") for name in json.loads(file.read_text())["contractions"]]


@pytest.mark.parametrize("tuned_first", [False, True])
def test_tuning_measures_whatever_is_in_the_cache(tmp_path, tuned_first):
    function = product(64, 128, 128)
    tuned = CompileOptions(cache_directory=tmp_path / "compiled", tune=tmp_path / "tuning")
    untuned = replace(tuned, tune=False)
    for options in (tuned, untuned) if tuned_first else (untuned, tuned):
        assert not compile(function, options=options).cached
    assert len(measured_names(tmp_path / "tuning")) == 1
    for options in (tuned, untuned):
        assert compile(function, options=options).cached
    (file,) = (tmp_path / "tuning").iterdir()
    file.unlink()
    assert not compile(function, options=tuned).cached
    assert len(measured_names(tmp_path / "tuning")) == 1


def test_tuning_measures_what_another_function_did_not(tmp_path):
    options = CompileOptions(cache_directory=tmp_path / "compiled", tune=tmp_path / "tuning")
    for count, size in enumerate((96, 128), 1):
        function = product(size, 128, 128)
        compile(function, options=replace(options, tune=False))
        assert not compile(function, options=options).cached
        assert len(measured_names(tmp_path / "tuning")) == count
