"""The pass that lets products compute in half floats: its texts, its types, and training with it."""

import inspect
import re
import sys
import textwrap

import numpy as np
import pytest

from adjoint import SetupTrainer, Trainer, losses, models, ops, optim
from adjoint.errors import AdjointError
from adjoint.ir import DTYPES, Function, param
from adjoint.ops.catalogue import CATALOGUE
from adjoint.testing.interpreter import interpret
from adjoint.transforms import MixedPrecision, mixed_precision

O1, O2 = MixedPrecision("O1"), MixedPrecision("O2")
X, W, B = param("x", (2, 3)), param("w", (3, 4)), param("b", (4,))


def half_values(function):
    return {v.op.name for v in function.values() if v.type.dtype == DTYPES["bf16"]}


def renumbered(function):
    """The text with the numbers of values in the order in which they occur."""
    numbers = {}
    return re.sub(r"%\d+", lambda found: f"%{numbers.setdefault(found[0], len(numbers))}", str(function))


def test_loops_compute_products_in_half_floats():
    rows, state = param("rows", (3, 2, 4)), param("state", (2, 4))
    w = param("w", (4, 4))

    def step(carry, row):
        return ops.tanh(carry @ w + row), ops.exp(carry)

    last, outs = ops.scan(step, state, rows)
    function = Function("f", (rows, state, w), (last, outs))
    arrays = [0.3 * np.cos(np.arange(np.prod(p.shape)).reshape(p.shape)).astype(np.float32) for p in function.params]
    for policy in (O1, O2):
        made = mixed_precision(function, policy, ["w"], ["rows"])
        (loop,) = (v.op for v in made.values() if v.op.name == "scan")
        assert {v.op.name for v in loop.body.values() if v.type.dtype == DTYPES["bf16"]} >= {"matmul"}
        assert [r.type for r in made.results] == [r.type for r in function.results]
        for found, expected in zip(interpret(made, *arrays), interpret(function, *arrays), strict=True):
            np.testing.assert_allclose(found, expected, atol=2e-2)
            assert not np.array_equal(found, expected)


def test_a_network_with_convolution_normalization_and_attention():
    x, kernel = param("x", (2, 3, 4, 4)), param("kernel", (4, 3, 3, 3))
    hidden = ops.relu(ops.group_norm(ops.conv2d(x, kernel, padding=1), 2))
    rows = ops.reshape(hidden, (2, 4, 16))
    out = ops.layer_norm(rows + ops.scaled_dot_product_attention(rows, rows, rows))
    function = Function("f", (x, kernel), (ops.mean(ops.log_softmax(out)),))
    arrays = [np.sin(np.arange(np.prod(p.shape)).reshape(p.shape)).astype(np.float32) for p in function.params]
    (expected,) = interpret(function, *arrays)
    for policy, low in ((O1, {"conv2d", "matmul"}), (O2, {"conv2d", "matmul", "relu", "multiply"})):
        made = mixed_precision(function, policy, ["kernel"], ["x"])
        assert half_values(made) >= low
        assert not half_values(made) & {"normalize", "exp", "sum", "sum_exp", "log"}
        np.testing.assert_allclose(interpret(made, *arrays)[0], expected, rtol=2e-2)


def test_the_text_of_the_docstring():
    text = inspect.cleandoc(sys.modules[mixed_precision.__module__].__doc__)
    parts = [part.partition("\n    }")[0] for part in text.split("func ")[1:]]
    before, after = (ops.parse_function(textwrap.dedent(f"    func {part}\n    }}")) for part in parts)
    assert renumbered(mixed_precision(before, O1, ["w", "b"])) == renumbered(after)


def test_o1_widens_and_o2_narrows():
    product = X @ W
    mixed = product + ops.exp(product)
    for policy, expected in ((O1, "f32"), (O2, "bf16")):
        made = mixed_precision(Function("f", (X, W), (mixed,)), policy, ["w"], ["x"])
        assert made.results[0].dtype == DTYPES["f32"]
        (add,) = (v for v in made.values() if v.op.name == "add")
        (exponential,) = (v for v in made.values() if v.op.name == "exp")
        assert add.dtype == DTYPES[expected]
        assert exponential.dtype == DTYPES["f32"]


def test_normalization_and_softmax_are_f32():
    function = Function("f", (X, W, B), (ops.softmax(ops.layer_norm(X @ W, B)),))
    assert half_values(mixed_precision(function, O1, ["w", "b"])) == {"cast", "matmul"}
    # The normalized rows are rounded, and multiplied by the weight in bf16.
    assert half_values(mixed_precision(function, O2, ["w", "b"], ["x"])) == {"cast", "matmul", "multiply"}


def test_casts_of_the_user_and_other_dtypes_stay():
    y = param("y", (2, 3), "f64")
    results = (ops.cast(ops.cast(X, "f16") * 2.0, "f32"), y * 2.0, X)
    function = Function("f", (X, y), results)
    for policy in (O1, O2):
        assert [r.type for r in mixed_precision(function, policy, [], ["x"]).results] == [r.type for r in results]
    arrays = np.ones((2, 3), np.float32), np.full((2, 3), 1 / 3)
    for found, expected in zip(
        interpret(mixed_precision(function, O1), *arrays), interpret(function, *arrays), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def trained(optimizer, **settings):
    """The losses of five steps, and the trainer."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((8, 5)).astype(np.float32), rng.integers(0, 3, 8)
    trainer = Trainer(SetupTrainer(losses.CrossEntropyLoss(), optimizer, **settings)(models.mlp((5, 8, 3), 8)), seed=0)
    trainer.init_parameters()
    return [float(trainer.update(x, y)) for _ in range(5)], trainer


def test_a_model_trains_with_f32_weights():
    optimizer = optim.SGD(0.1)
    full, _ = trained(optimizer)
    # bf16 rounds to 8 bits, f16 to 11.
    for policy, made, tolerance in (
        (O1, optimizer, 2e-2),
        (MixedPrecision("O2", "f16"), optim.scale_loss(optimizer, 1024.0), 2e-3),
    ):
        half, trainer = trained(made, mixed_precision=policy)
        assert half != full
        np.testing.assert_allclose(half, full, rtol=tolerance)
        assert {a.dtype for a in trainer.export_params().values()} == {np.dtype(np.float32)}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MixedPrecision("O3"), "MixedPrecision: level must be 'O1' or 'O2', got 'O3'"),
        (
            lambda: MixedPrecision("O1", "f64"),
            "MixedPrecision: dtype must be 'bf16' or 'f16', got float64; use one of them",
        ),
        (
            lambda: SetupTrainer(losses.MSELoss(), optim.SGD(), mixed_precision="O1"),
            "SetupTrainer: mixed_precision must be a MixedPrecision, got a str; write "
            "transforms.MixedPrecision('O1', 'bf16')",
        ),
    ],
)
def test_refusals(make, message):
    with pytest.raises(AdjointError) as error:
        make()
    assert error.value.message == message


def test_each_operator_is_in_one_table():
    module = sys.modules[mixed_precision.__module__]
    known = {operator.name for operator in CATALOGUE}
    tables = [module._FOLLOW, module._FULL, module._OTHER, module._CONSTANT]
    products = {name for name in known if name.startswith(module._LOW)}
    assert known - set().union(*tables, products) == set(), "say in which floats a new operator computes"
    assert set().union(*tables, products) == known
    assert sum(map(len, tables)) + len(products) == len(known)
    assert known >= module._ROUNDED
    assert {name for name in known if name.startswith(module._LOW)} >= {"matmul", "conv2d", "attention"}
    assert module._WIDEST <= module._FOLLOW
