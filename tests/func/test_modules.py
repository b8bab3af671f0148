"""Modules in compiled functions: the numbers of the loop that is not compiled, and one program."""

import numpy as np

import adjoint
from adjoint import grad, jit, nn, no_grad, optim, value_and_grad
from adjoint.tensor.explain import log

RNG = np.random.default_rng(0)
X = [adjoint.tensor(RNG.standard_normal((6, 4)).astype(np.float32)) for _ in range(2)]
Y = [adjoint.tensor(RNG.integers(0, 3, 6)) for _ in range(2)]


def trained(door):
    """Losses of some steps, the output of the model in evaluation, and what was compiled for the steps."""
    adjoint.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.5), nn.Linear(5, 3))
    optimizer, criterion = optim.Adam(model.parameters(), lr=0.01), nn.CrossEntropyLoss()

    def objects(x, y):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    def functions(x, y):
        loss, gradients = value_and_grad(lambda: criterion(model(x), y), None, model)()
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter.grad = gradient
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    step = {"objects": objects, "jit(objects)": jit(objects), "jit(functions)": jit(functions)}[door]
    before = log.count
    losses = [step(X[n % 2], Y[n % 2]).item() for n in range(4)]
    count = log.count - before
    model.eval()
    with no_grad():
        evaluated = jit(model)(X[0]).numpy()
    return losses, evaluated.tolist(), model[1].num_batches_tracked.item(), count


def test_compiled_training_gives_the_same_numbers():
    expected = trained("objects")
    for door in ("jit(objects)", "jit(functions)"):
        found = trained(door)
        assert found[:3] == expected[:3], door
        assert found[3] == 1, door


def test_modules_are_traced_again_when_they_change():
    model = nn.Linear(2, 1)
    compiled = adjoint.compile(model)
    x = adjoint.ones(1, 2)
    with no_grad():
        for _ in range(2):
            assert compiled(x).item() == model(x).item()
            model.weight = nn.Parameter(adjoint.full((1, 2), 3.0))
        by_name = grad(lambda model, x: model(x).sum())(model, x)
    assert {name: g.tolist() for name, g in by_name.items()} == {"weight": [[1.0, 1.0]], "bias": [1.0]}
