"""SetupTrainer's module: its functions, and a whole step against NumPy, all by the reference interpreter."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.errors import AdjointWarning, InvalidValueError, NameLookupError, TypeRuleError, VerifyError, located
from adjoint.ir import Function, IRModule, TensorType, param
from adjoint.losses import CrossEntropyLoss, Loss, MSELoss
from adjoint.models import linreg, mlp
from adjoint.ops.calls import Call, call
from adjoint.optim import SGD, Adam
from adjoint.testing.interpreter import interpret
from adjoint.testing.rounding import rounding
from adjoint.training import AppendLoss, Gradient, SetupTrainer
from adjoint.transforms.batch_axis import batch_inputs
from adjoint.transforms.mask_batch import mask_batch
from tests.closeness import close_to_product, within
from tests.training.models import normalising
from tests.training.reference import mlp_step

SIZES, BATCH = (6, 5, 5, 3), 4
LOGITS, ONE_HOT = TensorType((BATCH, 3)), TensorType((BATCH, 3), "i64")


def names(function):
    return [p.label for p in function.params]


def test_the_module_has_everything_under_the_names_of_relax():
    module = SetupTrainer(CrossEntropyLoss("sum"), SGD(0.01, momentum=0.9), [LOGITS, ONE_HOT])(mlp(SIZES, BATCH))
    params = ["w0", "b0", "w1", "b1", "w2", "b2"]
    buffers = [f"{p}_momentum_buffer" for p in params]
    assert [f.name for f in module] == ["backbone", "backbone_loss", "backbone_loss_adjoint", "optimizer", "step"]
    assert names(module["backbone_loss"]) == ["x", *params, "targets", "rows"]
    assert names(module["backbone_loss_adjoint"]) == ["x", *params, "targets", "rows"]
    assert len(module["backbone_loss_adjoint"].results) == 7
    assert names(module["optimizer"]) == [*params, *[f"{p}_adjoint" for p in params], *buffers, "lr", "momentum"]
    step = module["step"]
    assert names(step) == ["x", "targets", *params, *buffers, "lr", "momentum", "rows"]
    assert [r.type for r in step.results] == [TensorType(()), *[p.type for p in step.params[2:-3]]]
    assert step.attrs["donate"] == tuple((n, i) for i, n in enumerate([*params, *buffers], 1))
    assert dict(module.attrs) == {
        "param_num": 6,
        "state_num": 0,
        "input_num": 1,
        "target_num": 1,
        "optimizer_state": tuple((n, 0.0) for n in buffers),
        "hyper": (("lr", 0.01), ("momentum", 0.9)),
        "rows": "rows",
        "batch_axes": (("x", 1), ("targets", 1)),
    }


def test_a_function_is_a_model():
    setup = SetupTrainer(CrossEntropyLoss(), SGD(0.01))
    given = mlp(SIZES, BATCH)
    assert setup(given["backbone"].renamed("classifier")) == setup(IRModule(given.functions, {"param_num": 6}))
    with pytest.raises(TypeRuleError, match="the model must be an IRModule or a Function, got a tuple; pass Function"):
        setup((given["backbone"],))


def test_the_given_module_stays_as_it_is():
    given = mlp(SIZES, BATCH)
    before = str(given)
    SetupTrainer(CrossEntropyLoss(), SGD(0.01), [LOGITS, ONE_HOT])(given)
    assert str(given) == before


@pytest.mark.parametrize("optimizer", [SGD(0.01), Adam(weight_decay=0.1)])
def test_the_module_prints_and_parses_back(optimizer):
    module = SetupTrainer(CrossEntropyLoss(), optimizer, [LOGITS, ONE_HOT])(mlp(SIZES, BATCH))
    assert ops.parse(str(module)) == module


def test_a_step_is_the_hand_written_one():
    """Relax's tutorial: sum reduction, int64 one-hot labels, weight decay; ten steps in float64 by hand."""
    rng = np.random.default_rng(0)
    module = SetupTrainer(CrossEntropyLoss("sum"), SGD(0.05, weight_decay=0.01), [LOGITS, ONE_HOT])(mlp(SIZES, BATCH))
    step = module["step"]
    expected = {p.label: rng.standard_normal(p.shape) for p in step.params[2:8]}
    got = {name: value.astype(np.float32) for name, value in expected.items()}
    expected = {name: value.astype(np.float64) for name, value in got.items()}
    hyper = [np.float32(0.05), np.float32(0.01), np.int32(BATCH)]
    for _ in range(10):
        x = rng.standard_normal((BATCH, 6)).astype(np.float32)
        y = np.eye(3, dtype=np.int64)[rng.integers(0, 3, BATCH)]
        loss, *new = interpret(step, x, y, *got.values(), *hyper)
        wanted, expected, _ = mlp_step(expected, x.astype(np.float64), y, 0.05, 0.01)
        got = dict(zip(got, new, strict=True))
        np.testing.assert_allclose(loss, wanted, rtol=2e-5)
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-5)


def test_the_step_is_its_parts_one_after_the_other():
    """The fused step gives the bits that backbone_loss_adjoint and optimizer give in turn."""
    rng = np.random.default_rng(1)
    module = SetupTrainer(CrossEntropyLoss(), Adam(0.1), [LOGITS, TensorType((BATCH,), "i64")])(mlp(SIZES, BATCH))
    step = module["step"]
    given = {p.label: rng.random(p.shape).astype(p.dtype) for p in step.params}
    given["targets"] = np.array([0, 2, 1, 1])
    given["rows"] = np.array(BATCH, np.int32)

    def run(function, known):
        return interpret(function, *(known[p.label] for p in function.params))

    loss, *grads = run(module["backbone_loss_adjoint"], given)
    known = given | {f"{p.label}_adjoint": g for p, g in zip(module["backbone"].params[1:], grads, strict=True)}
    parts = (loss, *run(module["optimizer"], known))
    for whole, part in zip(run(step, given), parts, strict=True):
        np.testing.assert_array_equal(whole, part)


def test_states_are_passed_on_and_updated():
    module = normalising()
    module = SetupTrainer(MSELoss("sum"), SGD(0.1), [TensorType((4, 2)), TensorType((4, 2))])(module)
    step = module["step"]
    assert names(step) == ["x", "targets", "w", "b", "mean", "lr", "rows"]
    assert step.attrs["donate"] == (("w", 1), ("b", 2), ("mean", 3))
    rng = np.random.default_rng(2)
    x, y, w, b, mean = (rng.standard_normal(s).astype(np.float32) for s in ((4, 3), (4, 2), (3, 2), 2, 3))
    loss, new_w, new_b, new_mean = interpret(step, x, y, w, b, mean, np.float32(0.1), np.int32(4))
    bounds = [bound for _, bound in rounding(step, x, y, w, b, mean, np.float32(0.1), np.int32(4))]
    x, y, w, b, mean = (a.astype(np.float64) for a in (x, y, w, b, mean))
    error, lr = (x - mean) @ w + b - y, np.float32(0.1).astype(np.float64)
    wanted = (error**2).sum(), w - lr * (x - mean).T @ (2 * error), b - lr * 2 * error.sum(0)
    for got, exact, bound in zip((loss, new_w, new_b), wanted, bounds, strict=False):
        within(got, exact, bound)
    np.testing.assert_allclose(new_mean, 0.9 * mean + 0.1 * x.mean(0), rtol=1e-5)


def test_calls_are_differentiated_and_gone_from_the_step():
    """Relax's Gradient silently gives 0 through a call to another function."""
    h, u = param("h", (4, 3)), param("u", (3, 2))
    layer = Function("layer", (h, u), (ops.matmul(h, u),))
    x, w = param("x", (4, 3)), param("w", (3, 2))
    types = [TensorType((4, 2)), TensorType((4, 2))]
    attrs = {"param_num": 1, "state_num": 0}
    called = IRModule((layer, Function("backbone", (x, w), (call(layer, x, w),))), attrs)
    plain = IRModule((Function("backbone", (x, w), (ops.matmul(x, w),)),), attrs)
    setup = SetupTrainer(MSELoss(), SGD(0.1), types)
    step = setup(called)["step"]
    assert not any(isinstance(v.op, Call) for v in step.values())
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((4, 3), (4, 2), (3, 2), ())]
    arrays.append(np.int32(4))
    new = interpret(step, *arrays)[1]
    assert not np.array_equal(new, arrays[2])
    np.testing.assert_array_equal(new, interpret(setup(plain)["step"], *arrays)[1])


def test_class_weights_may_come_with_the_batch():
    types = [LOGITS, TensorType((BATCH,), "i32"), TensorType((3,))]
    module = SetupTrainer(CrossEntropyLoss(), SGD(0.1), types)(mlp(SIZES, BATCH))
    assert module.attrs["target_num"] == 2
    assert names(module["step"])[:3] == ["x", "targets", "weights"]


def test_a_parameter_that_the_loss_does_not_see_stays():
    x, w, idle = param("x", (2, 2)), param("w", (2, 2)), param("idle", (3,))
    backbone = Function("backbone", (x, w, idle), (ops.matmul(x, w),))
    types = [TensorType((2, 2)), TensorType((2, 2))]
    setup = SetupTrainer(MSELoss(), SGD(0.1), types)
    with pytest.warns(AdjointWarning, match="does not reach idle, because the loss does not depend on it"):
        module = setup(IRModule((backbone,), {"param_num": 2, "state_num": 0}))
    ones = np.ones((2, 2), np.float32)
    idle_value = np.array([1, 2, 3], np.float32)
    results = interpret(module["step"], ones, ones, ones, idle_value, np.float32(1), np.int32(2))
    np.testing.assert_array_equal(results[2], idle_value)


def test_the_passes_make_the_same_functions():
    given = mlp(SIZES, BATCH)
    whole = SetupTrainer(CrossEntropyLoss(), SGD(0.01), [LOGITS, ONE_HOT])(given)
    module = AppendLoss("backbone", CrossEntropyLoss().function(LOGITS, ONE_HOT))(given)
    with_loss = module["backbone_loss"]
    module = module.with_function(mask_batch(with_loss, batch_inputs(with_loss, with_loss.params)))
    module = Gradient("backbone_loss", ["w0", "b0", "w1", "b1", "w2", "b2"])(module)
    for name in ("backbone_loss", "backbone_loss_adjoint"):
        assert module[name] == whole[name]
    assert "loss2" in AppendLoss("backbone", CrossEntropyLoss().function(LOGITS, ONE_HOT), 1, "loss2")(given)
    with pytest.raises(NameLookupError, match="no function 'model'; known functions: backbone"):
        AppendLoss("model", CrossEntropyLoss().function(LOGITS, ONE_HOT))(given)
    with pytest.raises(NameLookupError, match="no parameter 'v0'"):
        Gradient("backbone", ["v0"])(given)


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"param_num": "6", "state_num": 0}, "param_num, .* got '6'"),
        ({"param_num": -1, "state_num": 0}, "param_num, .* got -1"),
        ({"param_num": 6, "state_num": True}, "state_num, .* got True"),
        ({"param_num": 8, "state_num": 0}, "at least one input and one parameter, .*; it has .*, got param_num=8"),
        ({"param_num": 0, "state_num": 0}, "it has the parameters x, w0, b0, w1, b1, w2, b2 and .* got param_num=0"),
        ({"param_num": 5, "state_num": 1}, "state_num=1; correct"),
    ],
)
def test_attributes_that_do_not_fit_are_refused(attrs, message):
    module = IRModule(mlp(SIZES, BATCH).functions, attrs)
    with pytest.raises(InvalidValueError, match=message):
        SetupTrainer(CrossEntropyLoss(), SGD(0.01), [LOGITS, ONE_HOT])(module)


@pytest.mark.parametrize(
    ("loss", "loss_args", "message"),
    [
        (
            CrossEntropyLoss(),
            [LOGITS],
            r"SetupTrainer: loss_args must be the types of all arguments of cross_entropy_loss, \[predictions, "
            r"targets, weights \(optional\)\], got 1 type, \[f32\[4,3\]\]; pass one for each",
        ),
        (
            MSELoss(),
            [LOGITS] * 3,
            r"arguments of mse_loss, \[predictions, targets\], got 3 types, \[f32\[4,3\], .*; pass",
        ),
        (
            CrossEntropyLoss(),
            [TensorType((BATCH, 10)), TensorType((BATCH,), "i64")],
            r"\[f32\[4,3\]\], got \[f32\[4,10\]\]",
        ),
        (CrossEntropyLoss(), [LOGITS, TensorType((5,), "i64")], r"class indices of shape \[4\]"),
        (CrossEntropyLoss("none"), [LOGITS, ONE_HOT], r"the loss must be a float scalar, got f32\[4\]; use reduction"),
    ],
)
def test_loss_args_that_do_not_fit_are_refused(loss, loss_args, message):
    with pytest.raises(TypeRuleError, match=message):
        SetupTrainer(loss, SGD(0.01), loss_args)(mlp(SIZES, BATCH))


def test_models_that_do_not_fit_are_refused():
    setup = SetupTrainer(MSELoss(), SGD(0.01), [TensorType((2,)), TensorType((2,))])
    x, n, w = param("x", (2,)), param("n", (2,), "i64"), param("lr", (2,))
    attrs = {"param_num": 1, "state_num": 0}
    integer = IRModule((Function("backbone", (x, n), (ops.add(x, ops.cast(n, "f32")),)),), attrs)
    with pytest.raises(TypeRuleError, match=r"float dtype, got %n: i64\[2\]"):
        setup(integer)
    taken = IRModule((Function("backbone", (x, w), (ops.add(x, w),)),), attrs)
    with pytest.raises(VerifyError, match="two parameters named lr; rename one"):
        setup(taken)
    state = param("s", (3,))
    changed = IRModule(
        (Function("backbone", (x, w, state), (ops.add(x, w), ops.sum(state))),), {"param_num": 1, "state_num": 1}
    )
    with pytest.raises(
        TypeRuleError, match=r"an updated state must have the type of the state, got f32\[\] for %s: f32\[3\]"
    ):
        setup(changed)
    with pytest.raises(NameLookupError, match="must be named backbone, got a module of no functions; add it"):
        setup(IRModule((), attrs))


def test_settings_of_another_kind_are_refused():
    with pytest.raises(
        TypeRuleError, match="a loss must be a Loss or a function, got 'cross_entropy'; pass a Loss such as"
    ):
        SetupTrainer("cross_entropy", SGD(0.1), [])
    with pytest.raises(TypeRuleError, match="optimizer must be an Optimizer such as"):
        SetupTrainer(MSELoss(), "sgd", [])


def test_a_loss_of_ones_own_takes_part():
    class Hinge(Loss):
        name = "hinge"

        def __call__(self, *args):
            predictions, signs = args
            return ops.sum(ops.relu(ops.subtract(1.0, ops.multiply(predictions, signs))))

    x, w = param("x", (4, 3)), param("w", (3, 1))
    module = IRModule((Function("backbone", (x, w), (ops.matmul(x, w),)),), {"param_num": 1, "state_num": 0})
    step = SetupTrainer(Hinge(), SGD(1.0), [TensorType((4, 1))] * 2)(module)["step"]
    rng = np.random.default_rng(4)
    a, v = rng.standard_normal((4, 3)).astype(np.float32), np.zeros((3, 1), np.float32)
    signs = np.array([[1], [-1], [1], [-1]], np.float32)
    loss, new = interpret(step, a, signs, v, np.float32(1), np.int32(4))
    assert loss == 4.0
    close_to_product(new, a.T, signs)


def test_refusals_about_a_value_name_the_line_that_created_it():
    with located("model.py:3"):
        x, i = param("x", (2, 3)), param("i", (2,), "i64")
    module = IRModule((Function("backbone", (x, i), (x,)),), {"param_num": 1, "state_num": 0})
    setup = SetupTrainer(MSELoss(), SGD(0.1), (x.type, x.type))
    with pytest.raises(TypeRuleError) as caught:
        setup(module)
    assert str(caught.value) == (
        "SetupTrainer: parameters must have a float dtype, got %i: i64[2]; make it an input or a state [at model.py:3]"
    )
    w = param("w", (2, 3))
    with located("model.py:9"):
        new = ops.sum(x)
    states = Function("backbone", (x, w, param("mean", (2, 3))), (ops.add(w, 1.0), new))
    with pytest.raises(TypeRuleError, match=r"in order \[at model.py:9\]$"):
        setup(IRModule((states,), {"param_num": 1, "state_num": 1}))


def test_what_nobody_wrote_has_no_line():
    step = SetupTrainer(MSELoss(), SGD(0.1, momentum=0.9), (TensorType((4, 1)),) * 2)(linreg())["step"]
    lines = {p.label: p.line for p in step.params}
    assert lines["lr"] == lines["w_momentum_buffer"] == ""
    assert lines["w"].partition("models.py:")[2].isdigit()
    assert all(value.line for value in step.values() if value.inputs)
