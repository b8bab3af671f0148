import numpy as np
import pytest

from adjoint import models, ops
from adjoint.compiler import CompileOptions
from adjoint.errors import InvalidValueError
from adjoint.ir import TensorType
from adjoint.losses import CrossEntropyLoss
from adjoint.optim import SGD, AdamW
from adjoint.pipeline import after_graph_passes
from adjoint.testing import interpret
from adjoint.testing.rounding import rounding
from adjoint.training import SetupTrainer, Trainer
from tests.closeness import within


def test_mlp_has_the_parameters_of_its_layers():
    module = models.mlp((6, 5, 4, 3), batch_size=2)
    names = {p.label: p.type for p in module["backbone"].params}
    assert names == {
        "x": TensorType((2, 6)),
        "w0": TensorType((6, 5)), "b0": TensorType((5,)),
        "w1": TensorType((5, 4)), "b1": TensorType((4,)),
        "w2": TensorType((4, 3)), "b2": TensorType((3,)),
    }  # fmt: skip
    assert dict(module.attrs) == {"param_num": 6, "state_num": 0}


def test_mlp_computes_what_numpy_does():
    rng = np.random.default_rng(3)
    backbone = models.mlp((4, 3, 2), batch_size=5)["backbone"]
    arrays = [rng.standard_normal(p.shape).astype(np.float32) for p in backbone.params]
    x, w0, b0, w1, b1 = (a.astype(np.float64) for a in arrays)
    expected = np.maximum(x @ w0 + b0, 0) @ w1 + b1
    ((_, bound),) = rounding(backbone, *arrays)
    within(interpret(backbone, *arrays)[0], expected, bound)


def test_linreg_is_a_matrix_product():
    backbone = models.linreg()["backbone"]
    x, w = np.array([[1, 2], [2, 3], [4, 6], [3, 1]], np.float32), np.array([[2], [3]], np.float32)
    (got,) = interpret(backbone, x, w)
    np.testing.assert_array_equal(got, [[8], [13], [26], [9]])


@pytest.mark.parametrize(("sizes", "batch_size"), [((4,), 2), ((4, 0), 2), ((4, 3), 0)])
def test_mlp_refuses_sizes_that_are_none(sizes, batch_size):
    with pytest.raises(InvalidValueError, match="two or more integers, and all sizes and batch_size at least 1"):
        models.mlp(sizes, batch_size)


def test_linreg_refuses_sizes_that_are_none():
    with pytest.raises(InvalidValueError, match="features and batch_size must be at least 1, got 0 and 4"):
        models.linreg(features=0)


def with_optimizer(module, optimizer):
    """A trainer's module for class indices."""
    out = module["backbone"].results[0].type
    return SetupTrainer(CrossEntropyLoss(), optimizer, (out, TensorType(out.shape[:1], "i64")))(module)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Options with a compile cache of these tests' own."""
    return CompileOptions(threads=1, cache_directory=tmp_path_factory.mktemp("compiled"))


@pytest.fixture(scope="module")
def resnet():
    """A ResNet-20 for few small images, ready to train; and a batch."""
    rng = np.random.default_rng(0)
    batch = rng.standard_normal((6, 3, 8, 8)).astype(np.float32), rng.integers(0, 4, 6)
    return with_optimizer(models.resnet20(6, 8, classes=4), SGD(0.05, momentum=0.9)), batch


@pytest.fixture(scope="module")
def decoder():
    """A small GPT, ready to train; and texts with the tokens that come next."""
    text = np.random.default_rng(0).integers(0, 11, (3, 9))
    module = models.gpt(layers=2, heads=2, width=16, length=8, batch_size=3, vocabulary=11)
    return with_optimizer(module, AdamW(0.01)), (text[:, :-1].copy(), text[:, 1:].reshape(-1).copy())


def test_a_step_of_resnet_8_has_all_operations_of_resnet_20():
    """What tests rely on that train one block of each stage: operators and the types of their operands are the same."""
    found = []
    for blocks in (1, 3):
        module = with_optimizer(models._residual_network((4, 3, 16, 16), 10, blocks), SGD(0.01, momentum=0.9))
        values = after_graph_passes(module["step"]).values()
        found.append({(value.op.name, *(x.type for x in value.inputs)) for value in values})
    assert found[0] == found[1]


@pytest.mark.parametrize(("name", "classes", "factor"), [("resnet", 4, 20), ("decoder", 11, 4)])
def test_networks_learn_a_batch_from_where_they_begin(name, classes, factor, cache, request):
    module, batch = request.getfixturevalue(name)
    starts, ends = [], []
    for seed in (0, 1, 1):
        trainer = Trainer(module, seed=seed, options=cache)
        trainer.init_parameters()
        starts.append(trainer.export_params() | trainer.export_states())
        ends.append([trainer.update(*batch) for _ in range(25)])
        # At first it knows no class from another (ln of their number). With scales that begin as zeros the losses
        # fall by factors of 1.1 and 1.9.
        assert 0.5 * np.log(classes) < ends[-1][0] < 2 * np.log(classes)
        assert ends[-1][-1] < ends[-1][0] / factor
    assert ends[0] != ends[1]
    assert ends[1] == ends[2]
    matrices = [name for name, array in starts[0].items() if array.ndim > 1]
    assert not any(np.array_equal(starts[0][name], starts[1][name]) for name in matrices)
    for name, array in starts[1].items():
        np.testing.assert_array_equal(array, starts[2][name])


def test_resnet_begins_as_its_paper_says(resnet):
    trainer = Trainer(resnet[0], seed=3)
    trainer.init_parameters()
    arrays = trainer.export_params() | trainer.export_states()
    assert len(arrays) == 65 + 42
    for name, array in arrays.items():
        if array.ndim == 4:
            fan_in = array[0].size
            np.testing.assert_allclose(array.std(), np.sqrt(2 / fan_in), rtol=0.15, err_msg=name)
        elif array.ndim == 1:
            assert np.all(array == name.endswith(("_g", "_var"))), name
    assert np.abs(arrays["w"]).max() <= np.sqrt(6 / (64 + 4))


def test_gpt_begins_as_its_paper_says(decoder):
    trainer = Trainer(decoder[0], seed=3)
    trainer.init_parameters()
    for name, array in trainer.export_params().items():
        if array.ndim == 1:
            assert np.all(array == 1), name
        else:
            std = 0.02 / 2 if name.endswith(("_proj", "_out")) else 0.02  # 2 = sqrt(2 * layers)
            np.testing.assert_allclose(array.std(), std, rtol=0.15, err_msg=name)
            assert abs(array.mean()) < std / 4


def test_networks_print_and_parse_back(resnet, decoder):
    for module, _ in (resnet, decoder):
        again = ops.parse(str(module))
        assert again == module
        assert again.attrs["init"] == module.attrs["init"]


def resnet_in_numpy(arrays, x):
    """Logits of ResNet-20 in float64, normalised by running means and variances."""

    def normalized(x, name, stride=1):
        weight = arrays[name]
        pad = weight.shape[2] // 2
        padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[2:], axis=(2, 3))
        out = np.einsum("nchwij,ocij->nohw", windows[:, :, ::stride, ::stride], weight)
        mean, var, scale, shift = (arrays[f"{name}_{s}"][:, None, None] for s in ("mean", "var", "g", "b"))
        return (out - mean) / np.sqrt(var + 1e-5) * scale + shift

    out = np.maximum(normalized(x, "stem"), 0)
    for stage in range(3):
        for block in range(3):
            name, stride = f"s{stage}b{block}", 2 if stage and not block else 1
            inner = normalized(np.maximum(normalized(out, f"{name}_c1", stride), 0), f"{name}_c2")
            shortcut = normalized(out, f"{name}_cs", stride) if f"{name}_cs" in arrays else out
            out = np.maximum(inner + shortcut, 0)
    return out.mean((2, 3)) @ arrays["w"] + arrays["b"]


def test_resnet_predicts_by_running_statistics_each_image_by_itself(resnet, cache):
    module, (x, y) = resnet
    trainer = Trainer(module, seed=1, options=cache)
    trainer.init_parameters()
    for _ in range(10):
        trainer.update(x, y)
    states = trainer.export_states()
    together = trainer.predict(x)
    arrays = {n: a.astype(np.float64) for n, a in (trainer.export_params() | states).items()}
    np.testing.assert_allclose(together, resnet_in_numpy(arrays, x.astype(np.float64)), rtol=1e-3, atol=1e-4)
    for i in range(len(x)):
        np.testing.assert_allclose(trainer.predict(x[i : i + 1])[0], together[i], rtol=1e-4, atol=1e-5)
    among_others = trainer.predict(np.concatenate([9 * x[::-1], x[2:3]]))
    np.testing.assert_allclose(among_others[-1], together[2], rtol=1e-4, atol=1e-5)
    for name, array in trainer.export_states().items():
        np.testing.assert_array_equal(array, states[name])
