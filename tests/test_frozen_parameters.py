"""Parameters that are not trained: what only their gradients need is neither computed nor kept, through every door.

A network of two layers is trained in whole, in its biases, in its last layer, and by low-rank updates (Hu et al.,
"LoRA: Low-Rank Adaptation of Large Language Models", 2021).
"""

import numpy as np
import pytest

from adjoint import CompileOptions, Function, compile, grad, jit, optim, param, tensor
from adjoint.compiler import host
from adjoint.pipeline import lower_function
from adjoint.transforms.differentiate import gradient

LAYERS, ROWS, WIDTH, RANK = 2, 64, 32, 2
ONE_THREAD = CompileOptions(threads=1, cache=False)
RNG = np.random.default_rng(2)
X = RNG.standard_normal((ROWS, WIDTH)).astype(np.float32)
WEIGHTS = [(0.2 * RNG.standard_normal((WIDTH, WIDTH))).astype(np.float32) for _ in range(LAYERS)]

NAMES = [f"{kind}{n}" for n in range(LAYERS) for kind in ("w", "b", "down", "up")]
SHAPES = {"w": (WIDTH, WIDTH), "b": (WIDTH,), "down": (WIDTH, RANK), "up": (RANK, WIDTH)}
VALUES = {
    name: WEIGHTS[int(name[-1])] if name[0] == "w" else np.full(SHAPES[name[:-1]], 0.01, np.float32) for name in NAMES
}

#: What is trained, whether there are low-rank updates, and the matrix products that a step needs: those of the forward
#: pass (one for each layer, and two for each update), those of cotangents (between the layers, and inside of updates),
#: and those of gradients of weights.
TRAINED = {
    "all": ([n for n in NAMES if n[0] in "wb"], False, 2 + 1 + 2),
    "biases": ([n for n in NAMES if n[0] == "b"], False, 2 + 1),
    "last layer": (["w1", "b1"], False, 2 + 1),
    "all, low-rank too": (NAMES, True, 6 + (2 + 2) + (2 + 4)),
    "low-rank": ([n for n in NAMES if n[0] in "du"], True, 6 + (2 + 2) + 4),
}


def loss(x, given, low_rank):
    """The mean square of the last layer, of graph values or tensors."""
    for n in range(LAYERS):
        layer = x @ given[f"w{n}"] + given[f"b{n}"]
        if low_rank:
            layer = layer + (x @ given[f"down{n}"]) @ given[f"up{n}"]
        x = layer.tanh()
    return (x * x).mean()


def used(low_rank):
    return [n for n in NAMES if low_rank or n[0] in "wb"]


def through_a_graph(trained, low_rank):
    x = param("x", X.shape)
    given = {name: param(name, VALUES[name].shape) for name in used(low_rank)}
    return gradient(Function("step", (x, *given.values()), (loss(x, given, low_rank),)), trained)


def through_tensors(trained, low_rank):
    """Of tensors that have their gradient computed by ``backward()``, in a compiled step with its update."""
    given = {name: tensor(VALUES[name], requires_grad=True) for name in used(low_rank)}
    for name in given.keys() - set(trained):
        given[name].requires_grad_(False)
    optimizer = optim.SGD([given[name] for name in trained], lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss(x, given, low_rank).backward()
        optimizer.step()

    return jit(step).lower(tensor(X))


def through_functions(trained, low_rank):
    """Of a function of which `argnums` chooses the arguments to differentiate."""
    names = used(low_rank)
    step = grad(
        lambda x, *values: loss(x, dict(zip(names, values, strict=True)), low_rank),
        argnums=tuple(1 + names.index(name) for name in trained),
    )
    return jit(step).lower(tensor(X), *(tensor(VALUES[name]) for name in names))


def planned(function):
    """The number of matrix products, the operations and the arena of a graph, which is not compiled."""
    graphs = []
    program = lower_function(
        function, host(), after=lambda _, made: graphs.append(made) if isinstance(made, Function) else None
    )
    operators = [value.op.name for value in graphs[-1].values()]
    return operators.count("matmul"), sum(kernel.flops for kernel in program.kernels), program.arena_bytes


def compiled(function):
    """The same of an executable, in its list of kernels and its memory; a product may be packed by another kernel."""
    entry = compile(function, options=ONE_THREAD)[function.name]
    found = {pair for kernel in entry.kernels for pair in zip(kernel.values, kernel.operators, strict=True)}
    operators = [name for _, name in found]
    return operators.count("matmul"), sum(kernel.flops for kernel in entry.kernels), entry.memory.arena


DOORS = {
    "graph": (through_a_graph, compiled),
    "tensors": (through_tensors, planned),
    "functions": (through_functions, planned),
}


@pytest.mark.parametrize("door", DOORS)
def test_only_what_is_needed_is_computed_and_kept(door):
    build, measure = DOORS[door]
    products, flops, arena = {}, {}, {}
    for kind, (trained, low_rank, _) in TRAINED.items():
        products[kind], flops[kind], arena[kind] = measure(build(trained, low_rank))
    assert products == {kind: count for kind, (_, _, count) in TRAINED.items()}
    assert arena["last layer"] < arena["biases"] <= arena["all"]
    assert arena["low-rank"] <= arena["all, low-rank too"], "low-rank updates need the inputs of layers, too"
    whole = 2 * ROWS * WIDTH * WIDTH
    assert flops["all"] - flops["biases"] >= 2 * whole
    assert flops["all, low-rank too"] - flops["low-rank"] >= 2 * whole


def test_the_gradients_are_those_of_training_everything():
    """Each is the same number, whatever else is trained."""
    whole = through_a_graph(NAMES, True)
    values = [VALUES[name] for name in NAMES]
    by_name = dict(zip(NAMES, compile(whole, options=ONE_THREAD)(X, *values)[1:], strict=True))
    trained = TRAINED["low-rank"][0]
    given = {name: tensor(VALUES[name], requires_grad=name in trained) for name in NAMES}
    loss(tensor(X), given, True).backward()
    for name in NAMES:
        assert (given[name].grad is not None) == (name in trained)
        if name in trained:
            np.testing.assert_allclose(given[name].grad.numpy(), by_name[name], rtol=1e-5, atol=1e-7)
