"""One numbering: a value is called the same in the model, in the step, after every pass, and in kernels."""

import re
from itertools import pairwise

import numpy as np
import pytest

from adjoint import models
from adjoint.cli.builtin import BUILTIN, OPTIMIZERS, training_module
from adjoint.codegen.targets import target_for
from adjoint.ir import Function, is_param, value_names
from adjoint.pipeline import GRAPH_PASSES, after_graph_passes, lower_function
from adjoint.testing.interpreter import interpret

TARGET = target_for("avx2")
STAGES = ("backbone", "backbone_loss", "backbone_loss_adjoint", "step")

#: Operators that `mask_batch` replaces by another one that computes the same tensor from whole batches.
MASKED = {("sum", "present_sum"), ("sum", "reshape"), ("centred_squares", "present_squares"), ("count", "multiply")}

#: The same for `simplify`. What takes the place of a value keeps the name.
REPLACED = MASKED | {
    *[("multiply", "square"), ("divide", "multiply")],
    # A transposed convolution is one convolution, without a stride; with one, its phases put together.
    *(("conv_transpose2d", made) for made in ("conv2d", "pad", "add")),
}


#: Models whose steps the interpreter runs quickly.
SMALL = {
    "linreg": models.linreg,
    "mlp": lambda: models.mlp((5, 4, 3), 2),
    "lenet": lambda: models.lenet(1),
}


def named(function):
    return {name: value for value, name in value_names(function).items()}


@pytest.fixture(scope="module", params=sorted(BUILTIN))
def module(request):
    builtin = BUILTIN[request.param]
    return training_module(request.param, builtin.build(2), OPTIMIZERS["adam"])


@pytest.fixture(scope="module")
def lowered(module):
    """The values of the graph that kernels are built from by name, and the kernels."""
    return named(after_graph_passes(module["step"])), lower_function(module["step"], TARGET).kernels


def test_functions_derived_from_a_model_call_its_values_the_same(module):
    for earlier, later in pairwise(STAGES):
        one, other = named(module[earlier]), named(module[later])
        shared = one.keys() & other.keys()
        assert len(shared) > 0.8 * len(one)
        for name in shared:
            before, after = one[name], other[name]
            assert before.type == after.type, (later, name)
            assert before.op == after.op or (before.op.name, after.op.name) in MASKED, (later, name)


def test_kernels_compute_the_values_of_the_step(module, lowered):
    step, model = named(module["step"]), named(module["backbone"])
    graph, kernels = lowered
    computed = {name for kernel in kernels for name in kernel.values}
    assert computed <= graph.keys()
    assert len(computed & step.keys()) > 0.6 * len(computed)
    assert computed & model.keys()
    for name in computed:
        for written in (step, model):
            if name in written:
                assert graph[name].type == written[name].type, name
                before, after = written[name].op.name, graph[name].op.name
                assert before == after or (before, after) in REPLACED, (name, before, after)


def test_kernels_are_named_after_what_they_compute(module, lowered):
    """A kernel that is called ``<operator>_<number>`` computes the value of that number, by that operator."""
    step = named(module["step"])
    graph, kernels = lowered
    checked = 0
    for kernel in kernels:
        found = re.fullmatch(r"([a-z_]+?\d?[a-z_]*(?<!_and))_(\d+)", kernel.name)
        if found and f"%{found[2]}" in kernel.values:
            assert graph[f"%{found[2]}"].op.name == found[1], kernel.name
            checked += f"%{found[2]}" in step
    assert checked or len(kernels) == 2  # linear regression has labels for everything


def values_of(function):
    """What each name stands for, on fixed random arguments, by the interpreter."""
    rng = np.random.default_rng(0)
    arrays = [(rng.random(p.shape) * 2).astype(p.dtype) for p in function.params]
    values = {name: v for name, v in named(function).items() if not is_param(v)}
    results = interpret(Function("all", function.params, tuple(values.values())), *arrays)
    return dict(zip(values, results, strict=True))


@pytest.mark.parametrize("name", ["linreg", "mlp", "lenet"])
def test_every_pass_keeps_what_a_name_stands_for(name):
    module = training_module(name, SMALL[name](), OPTIMIZERS["adam"])
    step = module["step"]
    wanted = values_of(step)
    after = {}
    after_graph_passes(step, after.__setitem__)
    assert list(after) == [graph_pass.__name__ for graph_pass in GRAPH_PASSES]
    for done, function in after.items():
        found = values_of(function)
        shared = wanted.keys() & found.keys()
        assert len(shared) > 0.4 * len(wanted)
        for value in shared:
            if done == "polyphase":  # which adds in another order
                error = 1e-5 * np.max(np.abs(wanted[value]), initial=0)
                np.testing.assert_allclose(found[value], wanted[value], rtol=1e-5, atol=error, err_msg=value)
            else:
                np.testing.assert_array_equal(found[value], wanted[value], err_msg=f"{value} after {done}")
        wanted = wanted | found


def test_new_values_never_get_the_name_of_another_one():
    """A number of the step that a pass has freed is not given to a value that a later pass adds."""
    module = training_module("resnet20", BUILTIN["resnet20"].build(1), OPTIMIZERS["sgd"])
    step = named(module["step"])
    made = named(after_graph_passes(module["step"]))
    pads = {name for name, v in made.items() if v.op.name == "pad"}
    assert pads
    assert not any(name in step and step[name].op.name not in ("pad", "conv_transpose2d") for name in pads)
