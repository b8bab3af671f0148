"""Weights by name from files: those of other frameworks, of `save_params` and of `save`."""

from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from adjoint import ops
from adjoint.errors import CheckpointError, InvalidValueError, NameLookupError, TypeRuleError
from adjoint.ir import Function, IRModule, TensorType, param
from adjoint.losses import MSELoss
from adjoint.optim import SGD
from adjoint.training import SetupTrainer, Trainer, read_arrays, write_arrays
from tests.training.models import SIZES, batch_normalised, normalising
from tests.training.test_epochs import dataset


def in_torch_style(trainer):
    """The parameters as PyTorch's Linear has them: [out, in]."""
    rng = np.random.default_rng(4)
    return {
        name: rng.standard_normal(array.shape[::-1]).astype("f4") for name, array in trainer.export_params().items()
    }


WEIGHTS = ("w0", "w1", "w2")


def test_weights_of_a_file_are_loaded_by_name(trainer, tmp_path):
    given = {name: np.random.default_rng(2).random(a.shape, "f4") for name, a in trainer.export_params().items()}
    save_file(dict(reversed(given.items())), tmp_path / "file")
    trainer.load_params(tmp_path / "file")
    for name, array in trainer.export_params().items():
        np.testing.assert_array_equal(array, given[name])


def test_transposed_weights_are_loaded_if_they_are_named(trainer, tmp_path):
    given = in_torch_style(trainer)
    save_file(given, tmp_path / "file")
    trainer.load_params(str(tmp_path / "file"), transpose=WEIGHTS)
    x = dataset(8)[0]
    hidden = x
    for layer in range(len(SIZES) - 1):
        hidden = np.maximum(hidden, 0) if layer else hidden
        hidden = hidden @ given[f"w{layer}"].T + given[f"b{layer}"]
    np.testing.assert_allclose(trainer.predict(x), hidden, rtol=1e-4, atol=1e-4)


def test_renamed_arrays_are_loaded(trainer, tmp_path):
    given = in_torch_style(trainer)
    save_file({f"layers.{n[1]}.{'weight' if n[0] == 'w' else 'bias'}": a for n, a in given.items()}, tmp_path / "file")
    read = read_arrays(tmp_path / "file")
    trainer.load_params(
        {f"w{i}": read[f"layers.{i}.weight"].T for i in range(3)}
        | {f"b{i}": read[f"layers.{i}.bias"] for i in range(3)}
    )
    np.testing.assert_array_equal(trainer.export_params()["w1"], given["w1"].T)


def test_a_model_with_the_names_of_pytorch_loads_its_file(cache, tmp_path):
    """A state dict of ``Sequential(Linear(4, 3), ReLU(), Linear(3, 2))``."""
    rng = np.random.default_rng(7)
    shapes = {"0.weight": (3, 4), "0.bias": (3,), "2.weight": (2, 3), "2.bias": (2,)}
    given = {name: rng.standard_normal(shape).astype("f4") for name, shape in shapes.items()}
    save_file(given, tmp_path / "model.safetensors")
    x, *params = param("x", (5, 4)), *(param(name, shape) for name, shape in shapes.items())
    w0, b0, w2, b2 = params
    out = ops.relu(x @ w0.T + b0) @ w2.T + b2
    backbone = Function("backbone", (x, *params), (out,))
    trainer = Trainer(SetupTrainer(MSELoss(), SGD(0.1))(IRModule((backbone,))), options=cache)
    trainer.load_params(tmp_path / "model.safetensors")
    rows = rng.standard_normal((5, 4)).astype("f4")
    wide = {name: array.astype("f8") for name, array in given.items()}
    hidden = np.maximum(rows @ wide["0.weight"].T + wide["0.bias"], 0)
    np.testing.assert_allclose(
        trainer.predict(rows), hidden @ wide["2.weight"].T + wide["2.bias"], rtol=1e-4, atol=1e-5
    )
    trainer.update(rows, np.zeros((5, 2), np.float32))
    trainer.save_params(tmp_path / "trained.safetensors")
    written = load_file(tmp_path / "trained.safetensors")
    assert {name: array.shape for name, array in written.items()} == shapes


@pytest.mark.parametrize("dtype", ["f2", "f8", ml_dtypes.bfloat16])
def test_other_floats_are_converted(trainer, tmp_path, dtype):
    given = {name: array.astype(dtype) for name, array in trainer.export_params().items()}
    write_arrays(tmp_path / "file", given)
    trainer.load_params(tmp_path / "file")
    for name, array in trainer.export_params().items():
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, given[name].astype("f4"))


def test_parameters_and_states_may_be_in_one_file(cache, tmp_path):
    types = [TensorType((8, 2))] * 2
    trainer = Trainer(SetupTrainer(MSELoss(), SGD(0.1), types)(batch_normalised()), options=cache)
    trainer.init_parameters()
    params = {name: array + 1 for name, array in trainer.export_params().items()}
    states = {name: array + 2 for name, array in trainer.export_states().items()}
    write_arrays(tmp_path / "file", params | states)
    trainer.load_params(tmp_path / "file")
    trainer.load_states(tmp_path / "file")
    for expected, got in ((params, trainer.export_params()), (states, trainer.export_states())):
        for name, array in expected.items():
            np.testing.assert_array_equal(got[name], array)


def test_a_file_of_save_has_the_weights(cache, tmp_path):
    """Also for a module with another loss and optimizer, whose trainer the file cannot restore."""
    types = [TensorType((4, 2))] * 2
    one = Trainer(SetupTrainer(MSELoss(), SGD(0.1, 0.9), types)(normalising()), options=cache)
    other = Trainer(SetupTrainer(MSELoss(reduction="sum"), SGD(0.2), types)(normalising()), options=cache)
    one.init_parameters()
    one.run_epoch((np.ones((8, 3), "f4"), np.ones((8, 2), "f4")), limit=1)
    one.save(tmp_path / "file")
    other.load_params(tmp_path / "file")
    other.load_states(tmp_path / "file")
    np.testing.assert_array_equal(other.export_params()["w"], one.export_params()["w"])
    np.testing.assert_array_equal(other.export_states()["mean"], one.export_states()["mean"])
    assert other.export_states()["mean"].any()


def test_parameters_without_values_are_not_saved(cache, tmp_path):
    trainer = Trainer(SetupTrainer(MSELoss(), SGD(0.1))(normalising()), options=cache)
    with pytest.raises(
        InvalidValueError, match=r"save_params: the parameters have no values yet; call trainer.init_pa"
    ):
        trainer.save_params(tmp_path / "file")
    assert not (tmp_path / "file").exists()


def test_save_params_writes_the_parameters_alone(trainer, tmp_path):
    trainer.save_params(tmp_path / "file")
    read = load_file(tmp_path / "file")
    assert read.keys() == trainer.export_params().keys()
    for name, array in trainer.export_params().items():
        np.testing.assert_array_equal(read[name], array)


def without(name):
    return lambda arrays: arrays.pop(name)


def turned(arrays):
    arrays.update({name: arrays[name].T.copy() for name in WEIGHTS})


READ = "rename or reshape the arrays of adjoint.training.read_arrays(path) and pass them to load_params"
TURN = "for weights stored as [out, in], as in PyTorch"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (without("b1"), NameLookupError, f"missing b1; {READ}"),
        (lambda arrays: arrays.update(c=np.ones(3)), NameLookupError, f"unknown c; {READ}"),
        (
            turned, TypeRuleError,
            "mismatched w0: f32[16,12] instead of f32[12,16], w1: f32[8,16] instead of f32[16,8], w2: "
            f"f32[3,8] instead of f32[8,3]; pass transpose=('w0', 'w1', 'w2',) {TURN}",
        ),
        (
            lambda arrays: arrays.update(b0=np.ones(16, np.int8), w0=arrays["w0"].T.copy(), c=arrays.pop("b1")),
            NameLookupError,
            "missing b1; unknown c; mismatched w0: f32[16,12] instead of f32[12,16], b0: i8[16] instead of "
            f"f32[16]; pass transpose=('w0',) {TURN}, and {READ}",
        ),
        (
            lambda arrays: [arrays.update({f"layer{i}": arrays["w0"]}) for i in range(8)], NameLookupError,
            f"unknown layer0, layer1, layer2, layer3, layer4, layer5 and 2 more; {READ}",
        ),
    ],
)  # fmt: skip
def test_all_differences_are_in_one_sentence_and_nothing_is_loaded(trainer, tmp_path, change, error, message):
    path = tmp_path / "file"
    before = trainer.export_params()
    arrays = {name: array + 1 for name, array in before.items()}
    change(arrays)
    write_arrays(path, arrays)
    with pytest.raises(error) as caught:
        trainer.load_params(path)
    assert caught.value.message == (
        f"load_params: {path} must hold every parameter under its name and of its shape, got {message}"
    )
    for name, array in trainer.export_params().items():
        np.testing.assert_array_equal(array, before[name])


def test_values_beyond_the_range_of_the_model_are_refused(trainer, tmp_path):
    path = tmp_path / "file"
    arrays = {name: array.astype("f8") for name, array in trainer.export_params().items()}
    arrays["w1"][0, 0] = 1e300
    write_arrays(path, arrays)
    with pytest.raises(InvalidValueError) as caught:
        trainer.load_params(path)
    assert caught.value.message == (
        f"load_params: values must be in the range of float32, got larger ones of float64 in 'w1' of {path}; scale "
        "them, or build the model in a wider dtype"
    )


def test_wrong_uses_of_transpose_are_refused(trainer, tmp_path):
    trainer.save_params(tmp_path / "file")
    for name in ("b0", "fc"):
        with pytest.raises(NameLookupError) as caught:
            trainer.load_params(tmp_path / "file", transpose=[name])
        assert caught.value.message == (
            f"load_params: transpose must name matrices of the model, got {name!r}; they are w0, w1, w2"
        )
    with pytest.raises(TypeRuleError) as caught:
        trainer.load_params(trainer.export_params(), transpose=["w0"])
    assert caught.value.message == "load_params: transpose is for a file, got arrays; transpose them with .T"


def test_files_that_cannot_be_read_are_refused(trainer, tmp_path):
    with pytest.raises(CheckpointError) as caught:
        trainer.load_params(tmp_path / "none")
    assert caught.value.message == f"load_params: there is no file {tmp_path / 'none'}; check the path"
    (tmp_path / "model.pt").write_bytes(b"PK\x03\x04" * 10)
    with pytest.raises(CheckpointError, match=r"^load_states reads safetensors files, and .*model\.pt is truncated or"):
        trainer.load_states(tmp_path / "model.pt")


def test_a_file_of_pytorch_is_loaded(trainer, tmp_path):
    torch = pytest.importorskip("torch")
    torch_file = pytest.importorskip("safetensors.torch")
    layers = [torch.nn.Linear(i, o) for i, o in pairwise(SIZES)]
    arrays = {f"{kind}{i}": getattr(m, n) for i, m in enumerate(layers) for kind, n in (("w", "weight"), ("b", "bias"))}
    torch_file.save_file({name: tensor.detach() for name, tensor in arrays.items()}, tmp_path / "file")
    trainer.load_params(tmp_path / "file", transpose=WEIGHTS)
    np.testing.assert_array_equal(trainer.export_params()["w0"], layers[0].weight.detach().numpy().T)
    trainer.save_params(tmp_path / "back")
    assert torch_file.load_file(tmp_path / "back")["w0"].shape == (SIZES[0], SIZES[1])
