"""The three doors, given the same model, make the same step graph."""

import numpy as np
import pytest

import adjoint as torch
from adjoint import Function, TensorType, losses, nn, ops, optim, param
from adjoint.ir import rebuild
from adjoint.ops.convert import StopGradient
from adjoint.pipeline import after_graph_passes
from adjoint.tensor import plan
from adjoint.transforms.append_loss import append_loss
from adjoint.transforms.differentiate import gradient

SHAPES = {"0.weight": (8, 5), "0.bias": (8,), "2.weight": (3, 8), "2.bias": (3,)}


def text(function):
    """The graph after all passes, with values named by number and parameters by their order."""
    names = {p: param(f"p{n}", p.shape, p.dtype) for n, p in enumerate(function.params)}

    def plain(value, inputs):
        if isinstance(value.op, StopGradient):  # the identity, once everything is differentiated
            return inputs[0]
        return value.with_inputs(inputs).named("")

    results = rebuild(function.results, plain, names)
    return str(after_graph_passes(Function("step", tuple(names.values()), results)))


def graph_door():
    """The step, written with the graph door's own transforms."""
    x = param("x", (4, 5))
    params = {name: param(name, shape) for name, shape in SHAPES.items()}
    w0, b0, w1, b1 = params.values()
    hidden = ops.relu(ops.add(ops.matmul(x, w0, transpose_b=True), b0))
    logits = ops.add(ops.matmul(hidden, w1, transpose_b=True), b1)
    backbone = Function("backbone", (x, *params.values()), (logits,))
    loss = losses.CrossEntropyLoss()
    whole = append_loss(backbone, loss.function(logits.type, TensorType((4,), "i64")), 1)
    adjoint = gradient(whole, list(SHAPES))
    sgd = optim.SGD(0.1, momentum=0.9)
    types = {p.label: p.type for p in params.values()}
    state = {spec.name: param(spec.name, spec.type.shape, spec.type.dtype) for spec in sgd.init(types)}
    hyper = {spec.name: param(spec.name, spec.type.shape, spec.type.dtype) for spec in sgd.hyper(types)}
    known = {p.label: p for p in adjoint.params}
    value, *grads = adjoint.results
    new, states = sgd.apply({n: known[n] for n in SHAPES}, dict(zip(SHAPES, grads, strict=True)), state, hyper)
    targets = next(p for p in adjoint.params if p.dtype == np.int64)
    return known, targets, state, hyper, (value, *new.values(), *states.values())


def trained():
    """The same step in the object door: the model, its optimizer, a batch, and the step as a function."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    criterion = nn.CrossEntropyLoss()

    def step(x, y):
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step, torch.ones(4, 5), torch.tensor([0, 1, 2, 0])


@pytest.fixture(scope="module")
def functions():
    """The step functions of the object door and of `jit`."""
    step, x, y = trained()
    step(x, y).item()
    recorded = next(reversed(plan.options.plans.values()))
    objects = recorded[0].plans[recorded[1]].function
    step, x, y = trained()
    jitted = torch.jit(step)
    return {"objects": objects, "jit": jitted.lower(x, y)}


@pytest.mark.parametrize("door", ["objects", "jit"])
def test_a_step_is_the_graph_that_the_graph_door_makes(functions, door):
    made = functions[door]
    known, targets, state, hyper, results = graph_door()
    by_shape = {(p.shape, p.dtype): p for p in (known["x"], targets)}
    lines = text(made).splitlines()
    assert len(lines) > 20
    order = []
    params, moments = iter(known[n] for n in SHAPES), iter(state.values())
    used = set()
    for p in made.params:
        given = by_shape.get((p.shape, p.dtype))
        if given is not None:
            order.append(given)
        elif p.shape == ():
            order.append(hyper["momentum" if "lr" in used else "lr"])
            used.add(order[-1].label)
        else:
            order.append(next(moments) if (p.label not in SHAPES) else next(params))
    loss, *rest = results
    results = (loss, *rest) if made.results[0].shape == () else (*rest, loss)
    assert text(Function("step", tuple(order), results)).splitlines() == lines
