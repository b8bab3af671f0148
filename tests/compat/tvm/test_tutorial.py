"""TVM's tutorial on training, with only its imports changed, and numbers that TVM 0.27 computes."""

# ruff: noqa: N805 - scripts are not methods

import numpy as np
import pytest

import adjoint.compat.tvm as tvm
from adjoint.compat.tvm import relax
from adjoint.compat.tvm.relax.training.loss import CrossEntropyLoss, MSELoss
from adjoint.compat.tvm.relax.training.optimizer import SGD, Adam, MomentumSGD
from adjoint.compat.tvm.relax.training.setup_trainer import SetupTrainer
from adjoint.compat.tvm.relax.training.trainer import Trainer
from adjoint.compat.tvm.relax.transform import DecomposeOpsForTraining, LegalizeOps
from adjoint.compat.tvm.script import ir as I
from adjoint.compat.tvm.script import relax as R
from adjoint.errors import InvalidValueError, TypeRuleError

batch_size = 64


@tvm.script.ir_module
class MLP:
    I.module_attrs({"param_num": 6, "state_num": 0})

    @R.function
    def backbone(
        x: R.Tensor((batch_size, 20), "float32"),
        w0: R.Tensor((20, 16), "float32"),
        b0: R.Tensor((16,), "float32"),
        w1: R.Tensor((16, 16), "float32"),
        b1: R.Tensor((16,), "float32"),
        w2: R.Tensor((16, 10), "float32"),
        b2: R.Tensor((10,), "float32"),
    ) -> R.Tensor((batch_size, 10), "float32"):
        with R.dataflow():
            lv0 = R.matmul(x, w0)
            lv1 = R.add(lv0, b0)
            lv2 = R.nn.relu(lv1)
            lv3 = R.matmul(lv2, w1)
            lv4 = R.add(lv3, b1)
            lv5 = R.nn.relu(lv4)
            lv6 = R.matmul(lv5, w2)
            out = R.add(lv6, b2)
            R.output(out)
        return out


@I.ir_module
class Linear:
    I.module_attrs({"param_num": 2, "state_num": 0})

    @R.function
    def backbone(
        x: R.Tensor((4, 3), "float32"), w: R.Tensor((3, 2), "float32"), b: R.Tensor((2,), "float32")
    ) -> R.Tensor((4, 2), "float32"):
        with R.dataflow():
            lv = R.matmul(x, w)
            out = R.add(lv, b)
            R.output(out)
        return out


@I.ir_module
class Normalized:
    I.module_attrs({"param_num": 2, "state_num": 2})

    @R.function
    def backbone(
        x: R.Tensor((4, 3, 2, 2), "float32"),
        g: R.Tensor((3,), "float32"),
        b: R.Tensor((3,), "float32"),
        mean: R.Tensor((3,), "float32"),
        var: R.Tensor((3,), "float32"),
    ) -> R.Tuple(R.Tensor((4, 3, 2, 2), "float32"), R.Tensor((3,), "float32"), R.Tensor((3,), "float32")):
        with R.dataflow():
            bn = R.nn.batch_norm(x, g, b, mean, var, axis=1)
            out = bn[0]
            m = bn[1]
            v = bn[2]
            R.output(out, m, v)
        return (out, m, v)


RNG = np.random.default_rng(0)
X = RNG.standard_normal((batch_size, 20)).astype("float32")
Y = (X[:, :10].argmax(1)).astype("int64")
SMALL_X = (np.sin(np.arange(12)).reshape(4, 3) * 2).astype("float32")
SMALL_Y = np.array([0, 1, 1, 0])
SMALL = np.cos(np.arange(6)).reshape(3, 2).astype("float32"), np.array([0.1, -0.2], "float32")


def trainer_of(module, loss, opt, infos, profile=False):
    train_mod = SetupTrainer(loss, opt, infos)(module)
    ex = tvm.compile(train_mod, "llvm")
    vm = relax.VirtualMachine(ex, tvm.device("llvm", 0), profile=profile)
    return Trainer(train_mod, vm, tvm.cpu(0))


@pytest.mark.parametrize("labels", ["indices", "one-hot"])
def test_the_high_level_path(labels):
    out_sinfo = relax.TensorStructInfo((batch_size, 10), "float32")
    shape = (batch_size,) if labels == "indices" else (batch_size, 10)
    label_sinfo = relax.TensorStructInfo(shape, "int64")
    targets = Y if labels == "indices" else np.eye(10, dtype="float32")[Y]
    opt = SGD(0.01, weight_decay=0.01)
    trainer = trainer_of(MLP, CrossEntropyLoss(reduction="sum"), opt, [out_sinfo, label_sinfo], profile=True)
    assert trainer.predict(X).numpy().tolist() == np.zeros((batch_size, 10)).tolist()
    trainer.xaiver_uniform_init_params()
    losses = [float(trainer.update(X, targets).numpy()) for _ in range(30)]
    assert losses[-1] < 0.3 * losses[0]
    assert (trainer.predict(X).numpy().argmax(1) == Y).mean() > 0.8
    assert sorted(trainer.export_params()) == ["b0", "b1", "b2", "w0", "w1", "w2"]
    text = str(trainer.profile_adjoint(X, targets))
    assert "matmul" in text
    assert "test_tutorial.py:" in text  # the lines of the script


def test_the_low_level_path(capsys):
    func = CrossEntropyLoss(reduction="sum")(
        relax.TensorStructInfo((4, 2), "float32"), relax.TensorStructInfo((4,), "int64")
    )
    assert str(func).startswith("func @cross_entropy_loss(%predictions: f32[4,2], %targets: i64[4])")
    module = tvm.IRModule(Linear.functions, Linear.attrs)
    module["loss"] = relax.training.utils.append_loss(module["backbone"], func)
    params = module["loss"].params[1:3]
    module = relax.transform.Gradient(module.get_global_var("loss"), require_grads=params)(module)
    opt = relax.optimizer.SGD(0.1).init(params)
    module["SGD"] = opt.get_function()
    module.show()
    shown = capsys.readouterr().out
    assert "func @loss_adjoint(" in shown
    assert "    def loss_adjoint(" in shown
    ex = relax.vm.build(LegalizeOps()(DecomposeOpsForTraining()(module)), target="llvm")
    vm = relax.VirtualMachine(ex, tvm.cpu())
    arrays = tuple(tvm.nd.array(array) for array in SMALL)
    assert [[int(size) for size in param.struct_info.shape] for param in params] == [[3, 2], [2]]
    loss, grads = vm["loss_adjoint"](tvm.nd.array(SMALL_X), *arrays, tvm.nd.array(SMALL_Y))
    updated, opt.state = vm["SGD"](arrays, grads, opt.state)
    # The gradient of a sum of cross entropies: x.T @ (softmax - one-hot).
    scores = SMALL_X @ SMALL[0] + SMALL[1]
    shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    expected = SMALL_X.T @ (shares - np.eye(2)[SMALL_Y])
    np.testing.assert_allclose(loss.numpy(), -np.log(shares[np.arange(4), SMALL_Y]).sum(), rtol=1e-6)
    np.testing.assert_allclose(grads[0].numpy(), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(updated[0].numpy(), SMALL[0] - 0.1 * expected, rtol=1e-5, atol=1e-6)
    assert len(updated) == len(grads) == 2


#: Losses of four steps and the parameter w after them, as TVM 0.27.0 computes them.
NUMBERS = {
    "sgd": (lambda: SGD(0.1, weight_decay=0.01), [2.957686, 2.221731, 2.142329, 2.071432], [1.1210691, 0.4130813]),
    "momentum": (
        lambda: MomentumSGD(0.1, 0.9, dampening=0.1, weight_decay=0.01),
        [2.957686, 2.236638, 2.529568, 2.433641],
        [1.2964904, 0.2312848],
    ),
    "nesterov": (
        lambda: MomentumSGD(0.1, 0.9, nesterov=True),
        [2.957686, 2.680167, 1.955659, 1.752677],
        [1.4719161, 0.0683862],
    ),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_the_numbers_are_those_of_tvm(name):
    make, losses, weights = NUMBERS[name]
    infos = [relax.TensorStructInfo((4, 2), "float32"), relax.TensorStructInfo((4,), "int64")]
    trainer = trainer_of(Linear, CrossEntropyLoss(reduction="sum"), make(), infos)
    trainer.load_params(list(SMALL))
    found = [float(trainer.update([SMALL_X], [SMALL_Y]).numpy()) for _ in range(4)]
    np.testing.assert_allclose(found, losses, rtol=1e-5)
    np.testing.assert_allclose(trainer.export_params()["w"].numpy()[0], weights, rtol=2e-5)


def test_adam_is_that_of_the_paper():
    infos = [relax.TensorStructInfo((4, 2), "float32")] * 2
    trainer = trainer_of(Linear, MSELoss(reduction="sum"), Adam(0.1), infos)
    trainer.load_params({"w": SMALL[0], "b": SMALL[1]})
    target = np.ones((4, 2), "float32")
    trainer.update(SMALL_X, target)
    gradient = 2 * SMALL_X.T @ (SMALL_X @ SMALL[0] + SMALL[1] - target)
    np.testing.assert_allclose(trainer.export_params()["w"].numpy(), SMALL[0] - 0.1 * np.sign(gradient), rtol=1e-4)


def test_running_statistics_are_biased_and_used_by_predict():
    x = (np.sin(np.arange(48)).reshape(4, 3, 2, 2) * 2).astype("float32")
    y = np.cos(np.arange(48)).reshape(4, 3, 2, 2).astype("float32")
    infos = [relax.TensorStructInfo((4, 3, 2, 2), "float32")] * 2
    trainer = trainer_of(Normalized, MSELoss(), SGD(0.05), infos)
    trainer.load_params([np.ones(3), np.zeros(3)])
    trainer.load_states([np.zeros(3), np.ones(3)])
    losses = [float(trainer.update(x, y).numpy()) for _ in range(4)]
    np.testing.assert_allclose(losses, [1.518576, 1.447464, 1.381014, 1.31892], rtol=1e-6)
    states = {name: tensor.numpy() for name, tensor in trainer.export_states().items()}
    np.testing.assert_allclose(states["mean"], [0.1600093, -0.2637356, 0.1847689], rtol=1e-5)
    np.testing.assert_allclose(states["var"], [1.284211, 1.0867108, 1.2458531], rtol=1e-6)
    np.testing.assert_allclose(
        trainer.predict(x).numpy().ravel()[:4], [-0.08160691, 1.1845112, 1.2865663, 0.13072912], rtol=1e-5
    )


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: tvm.device("cuda"),
            InvalidValueError,
            "device: programs run on the CPU, got 'cuda'; use 'llvm' or 'cpu'",
        ),
        (
            lambda: MomentumSGD(0.1, 0.9, dampening=0.1, nesterov=True),
            InvalidValueError,
            "MomentumSGD: dampening must be 0 with nesterov, got 0.1; leave one of them out",
        ),
        (
            lambda: SGD(0.1).get_function(),
            InvalidValueError,
            r"SGD: init\(params\) must come before get_function\(\), got none; call it",
        ),
        (
            lambda: CrossEntropyLoss()((4, 2), (4,)),
            TypeRuleError,
            r"a loss is called with struct infos, got a tuple; write relax.TensorStructInfo\(shape, dtype\)",
        ),
        (
            lambda: relax.build(Linear, "cuda"),
            InvalidValueError,
            "build: the target must be llvm, the CPU of this machine, got cuda; use 'llvm'",
        ),
        (
            lambda: relax.VirtualMachine(tvm.compile(Linear)).profile("backbone"),
            InvalidValueError,
            "profile: the VirtualMachine must be made with profile=True, got profile=False",
        ),
        (
            lambda: relax.VirtualMachine(tvm.compile(Linear))["backbone"](SMALL_X),
            TypeRuleError,
            "backbone takes 3 arguments, got 1; pass all",
        ),
        (lambda: relax.frontend, AttributeError, "tvm.relax.frontend is not covered; look for it in adjoint"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()
