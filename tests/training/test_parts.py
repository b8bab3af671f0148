"""Which part of the step a value and a kernel belong to."""

from collections import Counter

import pytest

from adjoint import ops, optim
from adjoint.compiler import CompileOptions, compile, host
from adjoint.ir import Function, IRModule, is_param, param
from adjoint.ir.printer import value_names
from adjoint.pipeline import after_graph_passes, lower_function, lowered_graph
from adjoint.training.parts import (
    BACKWARD,
    BACKWARD_UPDATE,
    FORWARD,
    STEP,
    UPDATE,
    kernel_parts,
    part_of,
    value_parts,
)
from tests.profiling.steps import mlp_step

OPTIMIZERS = {"sgd": optim.SGD(0.01, momentum=0.9, weight_decay=0.1), "adam": optim.Adam(0.001)}


@pytest.fixture(scope="module", params=OPTIMIZERS)
def training(request):
    module = mlp_step(OPTIMIZERS[request.param])
    step = after_graph_passes(module["step"])
    return module, step, value_parts(module, step)


def labelled(step, label):
    return next(v for v in step.values() if v.label == label)


def operators(values):
    return Counter(v.op.name for v in values if not is_param(v))


def test_forward_is_the_graph_of_the_loss(training):
    module, _, parts = training
    mine = [v for v, part in parts.items() if part == FORWARD]
    assert operators(mine) == operators(after_graph_passes(module["backbone_loss"]).values())


def test_forward_and_backward_together_are_the_graph_of_the_adjoint(training):
    module, _, parts = training
    mine = [v for v, part in parts.items() if part in (FORWARD, BACKWARD)]
    theirs = operators(after_graph_passes(module["backbone_loss_adjoint"]).values())
    # What only separates results that are the same value is not in the step.
    assert operators(mine) - theirs == Counter()
    assert set(theirs - operators(mine)) <= {"stop_gradient"}


def test_no_part_needs_a_later_one(training):
    _, step, parts = training
    order = {FORWARD: 0, BACKWARD: 1, UPDATE: 2}
    for value in step.values():
        for operand in value.inputs:
            assert is_param(operand) or order[parts[operand]] <= order[parts[value]]


def test_gradients_are_backward_and_what_is_made_of_them_is_the_update(training):
    _, step, parts = training
    assert parts[labelled(step, "logits")] == FORWARD
    assert parts[labelled(step, "logits_adjoint")] == BACKWARD
    for number in range(3):
        assert parts[labelled(step, f"w{number}_adjoint")] == BACKWARD
        assert parts[labelled(step, f"w{number}_new")] == UPDATE


def test_kernels_of_the_perceptron(training):
    module, step, parts = training
    named = {name: value for value, name in value_names(step).items()}
    part_by_kernel = {}
    for kernel in lower_function(module["step"], host()).kernels:
        part = part_of([named[name] for name in kernel.values], parts)
        part_by_kernel.update(dict.fromkeys(kernel.values, part))
    products = [n for n, v in named.items() if v.op.name == "matmul"]
    assert [part_by_kernel[n] for n in products if parts[named[n]] == FORWARD] == [FORWARD] * 3
    # Gradients of two activations, and of three weights with their updates.
    backward = Counter(part_by_kernel[n] for n in products if parts[named[n]] == BACKWARD)
    assert backward == {BACKWARD: 2, BACKWARD_UPDATE: 3}
    for name in ("w0", "b0", "w1", "b1", "w2", "b2"):
        assert part_by_kernel[f"%{name}_new"] == BACKWARD_UPDATE
        assert part_by_kernel[f"%{name}_adjoint"] == BACKWARD_UPDATE
    if "step_new" in {v.label for v in named.values()}:
        # One kernel with the other scalars that depend on the step only.
        assert part_by_kernel["%step_new"] == UPDATE


def test_borders_hide_no_part():
    """The forward pass reads an activation inside its border; a reader in the backward pass wants it without one."""
    x, w = param("x", (2, 3, 8, 8)), param("w", (3, 3, 3, 3))
    h = ops.relu(x)
    z = ops.exp(ops.add(ops.conv2d(h, w, padding=1), h)).named("z")
    loss = ops.sum(z)
    rest = ops.matmul(ops.reshape(h, (2, 192)), ops.reshape(h, (192, 2)))
    forward = Function("backbone_loss", (x, w), (loss,))
    adjoint = Function("backbone_loss_adjoint", (x, w), (loss, rest))
    step = Function("step", (x, w), (loss, rest))
    module = IRModule((forward, adjoint, step))
    made = after_graph_passes(step)
    assert operators(after_graph_passes(forward).values())["slice"] == 1
    assert operators(made.values())["slice"] == 0
    parts = value_parts(module, made)
    assert parts[labelled(made, "z")] == FORWARD
    assert parts[made.results[1]] == BACKWARD


def test_a_step_from_elsewhere_is_not_divided():
    x, w = param("x", (4,)), param("w", (4,))
    step = Function("step", (x, w), (ops.subtract(w, x),), {"donate": (("w", 0),)})
    parts = value_parts(IRModule((step,)), step)
    assert set(parts.values()) == {STEP}
    assert part_of(step.values()[2:], parts) == STEP


def test_a_kernel_is_of_the_first_part_that_needs_it_and_of_the_update():
    values = [param(name, ()) for name in "fbu"]
    parts = dict(zip(values, (FORWARD, BACKWARD, UPDATE), strict=True))
    forward, backward, update = values
    assert part_of([backward, forward], parts) == FORWARD
    assert part_of([update, backward], parts) == BACKWARD_UPDATE
    assert part_of([update], parts) == UPDATE
    assert part_of([update, forward], parts) == "forward+update"
    assert part_of([], parts) == STEP


def test_what_is_computed_again_is_backward():
    module = mlp_step(sizes=(32, *[32] * 12, 10), rows=256)
    budget = lower_function(module["step"], host()).working_bytes(1) * 8 // 10
    step = lowered_graph(module["step"], host(), budget)
    parts = value_parts(module, step)
    assert step.params == module["step"].params
    usual = after_graph_passes(module["step"])
    expected = {name: value for value, name in value_names(usual).items()}
    again = [v for v, name in value_names(step).items() if name not in expected and v.op.name != "after"]
    assert again
    assert {parts[value] for value in again} == {BACKWARD}
    names = value_names(step)
    usual_parts = value_parts(module, usual)
    wanted = {(name, usual_parts[value]) for name, value in expected.items()}
    found = {(names[value], part) for value, part in parts.items() if names[value] in expected}
    assert found <= wanted
    assert len(found) > 0.9 * len(wanted)


def test_parts_of_kernels(training):
    module, step, parts = training
    kernels = compile(module, options=CompileOptions(threads=1), entries=("step",)).kernels
    named = {name: value for value, name in value_names(step).items()}
    found = kernel_parts(module, step, kernels)
    assert found == tuple(part_of([named[name] for name in kernel.values], parts) for kernel in kernels)
    assert {FORWARD, BACKWARD_UPDATE} <= set(found)
