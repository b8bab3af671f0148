"""Prediction for any number of rows."""

import numpy as np
import pytest

from adjoint import compile, ops
from adjoint.errors import InvalidValueError, TypeRuleError, VerifyError
from adjoint.ir import Function, IRModule, TensorType, param
from adjoint.losses import Loss, MSELoss
from adjoint.optim import SGD
from adjoint.training import SetupTrainer, Trainer, inference_function
from tests.training.models import BATCH, batch_normalised, batches, widened


def forward(params, x):
    hidden = x.astype(np.float64)
    for i in range(3):
        hidden = hidden @ params[f"w{i}"] + params[f"b{i}"]
        hidden = np.maximum(hidden, 0) if i < 2 else hidden
    return hidden


@pytest.mark.parametrize("rows", [0, 1, BATCH - 1, BATCH, BATCH + 1, 3 * BATCH, 3 * BATCH + 5])
def test_any_number_of_rows_is_predicted(trainer, rows):
    x = np.random.default_rng(rows).standard_normal((rows, 12)).astype(np.float32)
    got = trainer.predict(x)
    assert got.shape == (rows, 3)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, forward(widened(trainer.export_params()), x), rtol=1e-4, atol=1e-5)


def test_predict_reads_the_newest_parameters_and_changes_none(trainer):
    (x, y), *_ = batches(1)
    before = trainer.predict(x)
    trainer.update(x, y)
    params = trainer.export_params()
    after = trainer.predict(x)
    assert not np.array_equal(before, after)
    np.testing.assert_allclose(after, forward(widened(params), x), rtol=1e-4, atol=1e-5)
    for name, value in trainer.export_params().items():
        np.testing.assert_array_equal(value, params[name])


def test_rows_in_another_order_of_memory_are_predicted(trainer):
    x = np.random.default_rng(0).standard_normal((12, 20)).astype(np.float32).T
    np.testing.assert_array_equal(trainer.predict(x), trainer.predict(np.ascontiguousarray(x)))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            [np.zeros((3, 11), np.float32)],
            r"^predict: x must be f32\[8,12\] with any number of rows, got float32\[3, 11\]; reshape it, or",
        ),
        ([np.zeros(12, np.float32)], r"got float32\[12\]; pass x\[None\] if it is a single row"),
        ([np.zeros((3, 12))], r"got float64\[3, 12\]; convert it with \.astype\('float32'\)"),
        ([np.zeros((3, 12), np.uint8)], r"convert it with \.astype\('float32'\), and divide images by 255"),
        ([np.zeros((3, 3, 4), np.float32)], r"; flatten its rows, x\.reshape\(len\(x\), -1\)"),
        ([np.zeros((3, 12), np.float32)] * 2, "the model takes x, got 2 arrays"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(trainer, arrays, message):
    with pytest.raises(TypeRuleError, match=message):
        trainer.predict(*arrays)


def test_lists_are_converted_as_in_a_step(trainer):
    x = np.random.default_rng(0).standard_normal((3, 12)).astype(np.float32)
    np.testing.assert_array_equal(trainer.predict(x.tolist()), trainer.predict(x))
    with pytest.raises(
        TypeRuleError, match=r"^predict: x must be an array, got nested lists of different lengths; make"
    ):
        trainer.predict([[1.0], [2.0, 3.0]])
    with pytest.raises(TypeRuleError, match=r"^predict: the model takes x, got 2 arrays; pass one each"):
        trainer.predict(x, [1.0])


SETUP = SetupTrainer(MSELoss(), SGD(0.1), [TensorType((8, 2))] * 2)


def test_batch_normalisation_predicts_by_running_statistics(cache):
    trainer = Trainer(SETUP(batch_normalised()), options=cache)
    trainer.init_parameters()
    rng = np.random.default_rng(0)
    mean, var = np.zeros(4), np.ones(4)
    for _ in range(5):
        x, y = (2 + 3 * rng.standard_normal((8, 3))).astype(np.float32), rng.random((8, 2), np.float32)
        hidden = x @ trainer.export_params()["w"].astype(np.float64)
        mean, var = 0.75 * mean + 0.25 * hidden.mean(0), 0.75 * var + 0.25 * hidden.var(0, ddof=1)
        trainer.update(x, y)
    for got, wanted in zip(trainer.export_states().values(), (mean, var), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5)
    p = widened(trainer.export_params())
    x = rng.standard_normal((19, 3)).astype(np.float32)
    hidden = (x @ p["w"] - mean) / np.sqrt(var + 1e-5) * p["scale"] + p["shift"]
    expected = np.maximum(hidden, 0) @ p["v"]
    np.testing.assert_allclose(trainer.predict(x), expected, rtol=1e-4, atol=1e-5)
    for i in (0, 7, 18):
        np.testing.assert_allclose(trainer.predict(x[i : i + 1]), expected[i : i + 1], rtol=1e-4, atol=1e-5)


def test_predicting_changes_no_state_whatever_the_function_says(cache):
    x, w, mean = param("x", (4, 2)), param("w", (2, 2)), param("mean", (4, 2))
    out = ops.add(ops.matmul(x, w), mean)
    backbone = Function("backbone", (x, w, mean), (out, mean))
    eager = Function("backbone_inference", backbone.params, (out,), {"donate": (("mean", 0),)})
    module = IRModule((backbone, eager), {"param_num": 1, "state_num": 1, "init": (("mean", "ones"), ("w", "ones"))})
    trainer = Trainer(SetupTrainer(MSELoss(), SGD(0.1), [out.type] * 2)(module), options=cache)
    trainer.init_parameters()
    np.testing.assert_array_equal(trainer.predict(np.ones((1, 2), np.float32)), [[3, 3]])
    np.testing.assert_array_equal(trainer.export_states()["mean"], np.ones((4, 2)))


def test_a_model_that_predicts_something_else_is_refused():
    module = batch_normalised()
    backbone, inference = module["backbone"], module["backbone_inference"]
    x, *others = inference.params
    with pytest.raises(
        VerifyError,
        match=r"@backbone_inference must take the parameters of @backbone, \(%x: f32\[8,3\], .*got",
    ):
        SETUP(module.with_function(Function(inference.name, (x, *reversed(others)), inference.results)))
    states = Function(inference.name, backbone.params, backbone.results)
    message = r"return the outputs of @backbone, \[f32\[8,2\]\], got \[f32\[8,2\], f32\[4\], f32\[4\]\]; return no"
    with pytest.raises(VerifyError, match=message):
        SETUP(module.with_function(states))
    ready = SETUP(module)
    broken = Trainer(ready.with_function(states))
    broken.init_parameters()
    with pytest.raises(VerifyError, match=message):
        broken.predict(np.zeros((1, 3), np.float32))


def predicting(backbone, rows, cache):
    """A trainer of a model of which only the predictions matter."""
    outputs = [r.type for r in backbone.results]

    class Total(Loss):
        arg_names = ("a", "b")[: len(outputs)]
        num_backbone_results = len(outputs)

        def __call__(self, *args):
            return ops.add(*map(ops.sum, args)) if len(args) > 1 else ops.sum(args[0])

    module = SetupTrainer(Total(), SGD(0.1), outputs)(IRModule((backbone,)))
    made = Trainer(module, options=cache)
    made.init_parameters()
    assert backbone.params[0].shape[0] == rows
    return made


@pytest.mark.parametrize("rows", [1, 2, 8, 9, 12, 30])
def test_outputs_of_any_layout_have_the_rows_of_the_inputs(rows, cache):
    """Two outputs: one with several elements for each row, one with the rows last."""
    x, w = param("x", (12, 4, 3)), param("w", (3, 5))
    tokens = ops.matmul(ops.reshape(x, (48, 3)), w)
    backbone = Function("backbone", (x, w), (tokens, ops.permute(x, (1, 2, 0))))
    trainer = predicting(backbone, 12, cache)
    given = np.random.default_rng(rows).standard_normal((rows, 4, 3)).astype(np.float32)
    found, turned = trainer.predict(given)
    wanted = given.reshape(-1, 3).astype(np.float64) @ trainer.export_params()["w"]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(turned, given.transpose(1, 2, 0))


@pytest.mark.parametrize("rows", [2, 5, 12, 13])
def test_a_model_that_combines_rows_combines_those_that_there_are(rows, cache):
    x, w = param("x", (12, 3)), param("w", (3, 3))
    hidden = ops.matmul(x, w)
    trainer = predicting(Function("backbone", (x, w), (ops.subtract(hidden, ops.mean(hidden, 0)),)), 12, cache)
    given = np.random.default_rng(rows).standard_normal((rows, 3)).astype(np.float32)
    hidden = given.astype(np.float64) @ trainer.export_params()["w"]
    parts = [hidden[start : start + 12] for start in range(0, rows, 12)]
    wanted = np.concatenate([part - part.mean(0) for part in parts])
    np.testing.assert_allclose(trainer.predict(given), wanted, rtol=1e-4, atol=1e-5)


def test_a_model_that_compares_rows_predicts_whole_batches(cache):
    x, w = param("x", (4, 3)), param("w", (3, 3))
    hidden = ops.matmul(x, w)
    flipped = ops.add(hidden, ops.flip(hidden, 0))
    trainer = predicting(Function("backbone", (x, w), (flipped,)), 4, cache)
    given = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    hidden = given.astype(np.float64) @ trainer.export_params()["w"]
    np.testing.assert_allclose(trainer.predict(given), hidden + hidden[::-1], rtol=1e-4, atol=1e-5)
    message = (
        r"a batch must have exactly 4 rows, because %1 = flip\(...\): f32\[4,3\] depends on all rows of a batch, g"
    )
    with pytest.raises(TypeRuleError, match=message):
        trainer.predict(given[:3])


@pytest.mark.parametrize("rows", [1, 5])
def test_the_inference_function_is_compiled_alone(trainer, rows):
    function = inference_function(trainer.module, rows)
    run = compile(function, options=trainer.options)["backbone"].bind(trainer.export_params())
    x = np.random.default_rng(rows).standard_normal((rows, 12)).astype(np.float32)
    np.testing.assert_allclose(run(x), forward(widened(trainer.export_params()), x), rtol=1e-4, atol=1e-5)


def test_inference_functions_that_cannot_be_rewritten_are_refused(trainer):
    with pytest.raises(InvalidValueError, match="inference_function: rows must be an integer of at least 1, got 0"):
        inference_function(trainer.module, 0)
    x, w = param("x", (4, 3)), param("w", (3, 3))
    backbone = Function("backbone", (x, w), (ops.flip(ops.matmul(x, w), 0),))
    message = (
        r"cannot be rewritten for 2 rows, because %1 = flip\(...\): f32\[4,3\] depends on the number of rows; build"
    )
    with pytest.raises(InvalidValueError, match=message):
        inference_function(IRModule((backbone,)), 2)
