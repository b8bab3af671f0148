"""What a trainer holds: hyperparameters, parameters and states, exported, loaded and refused."""

from itertools import pairwise

import numpy as np
import pytest

from adjoint.errors import InvalidValueError, MissingAttributeError, NameLookupError, TypeRuleError
from adjoint.training import Trainer
from tests.training.models import SIZES, batches, widened
from tests.training.reference import mlp_step

PARAMS = ["w0", "b0", "w1", "b1", "w2", "b2"]


def test_hyperparameters_change_between_steps(trainer):
    (x, y), *_ = batches(1)
    trainer.update(x, y)
    before = trainer.export_params()
    trainer.hyper["lr"] = 0
    trainer.update(x, y)
    for name, value in trainer.export_params().items():
        np.testing.assert_array_equal(value, before[name])
    trainer.hyper.update(lr=0.05, momentum=0.5)
    expected, buffers = (
        widened(before),
        {n.removesuffix("_momentum_buffer"): b for n, b in widened(trainer.export_optimizer_state()).items()},
    )
    trainer.update(x, y)
    _, expected, _ = mlp_step(expected, x.astype(np.float64), np.eye(3)[y], 0.05, 0.01, 0.5, buffers, reduction="mean")
    for name, value in trainer.export_params().items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=1e-6)


def test_hyperparameters_are_items_and_not_attributes(trainer):
    with pytest.raises(MissingAttributeError) as caught:
        trainer.hyper.lr = 5
    assert caught.value.message == (
        "hyper: hyperparameters are items, got an assignment to the attribute lr; set trainer.hyper['lr']"
    )
    with pytest.raises(MissingAttributeError) as caught:
        _ = trainer.hyper.lr
    assert caught.value.message == "hyper: hyperparameters are items, got the attribute lr; read trainer.hyper['lr']"
    with pytest.raises(AttributeError, match="'Hyper' object has no attribute 'rate'"):
        _ = trainer.hyper.rate
    assert not hasattr(trainer.hyper, "__array__")
    assert trainer.hyper["lr"] == 0.1


def test_attributes_that_a_trainer_does_not_have_are_not_assigned(trainer):
    for name, message in (
        (
            "lr",
            "Trainer: lr is a hyperparameter, got an assignment to the attribute lr; set trainer.hyper['lr']",
        ),
        (
            "threads",
            "Trainer: there is no attribute threads to assign to, got an assignment; pass settings to Trainer(...), or "
            "use a subclass for attributes of your own",
        ),
    ):
        with pytest.raises(MissingAttributeError) as caught:
            setattr(trainer, name, 5)
        assert caught.value.message == message
        assert not hasattr(trainer, name)
    with pytest.raises(InvalidValueError) as caught:
        trainer.hyper = {"lr": 5.0}
    assert caught.value.message == (
        "Trainer: hyper cannot be replaced, got an assignment to it; set its items, as in trainer.hyper['lr'] = 0.1"
    )
    assert trainer.hyper["lr"] == 0.1
    trainer.seed = 5
    assert trainer.seed == 5


def test_hyperparameters_read_as_they_were_written(trainer):
    assert dict(trainer.hyper) == {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}
    trainer.hyper["lr"] = 0.3
    assert trainer.hyper["lr"] == 0.3
    assert repr(trainer.hyper) == "{'lr': 0.3, 'momentum': 0.9, 'weight_decay': 0.01}"
    assert len(trainer.hyper) == 3


@pytest.mark.parametrize(
    ("name", "value", "kind", "message"),
    [
        ("beta1", 0.5, NameLookupError, "no 'beta1', only lr, momentum, weight_decay; settings that were 0"),
        ("lr", float("nan"), InvalidValueError, "lr must be finite in float32, got nan"),
        ("lr", 1e39, InvalidValueError, r"lr must be finite in float32, got 1e\+39"),
        ("lr", "0.1", InvalidValueError, r"lr must be a number, got '0\.1'"),
        ("lr", True, InvalidValueError, "lr must be a number, got True"),
    ],
)
def test_hyperparameters_that_do_not_exist_or_fit_are_refused(trainer, name, value, kind, message):
    with pytest.raises(kind, match=message):
        trainer.hyper[name] = value
    with pytest.raises(InvalidValueError, match="lr is an input of the compiled step and cannot"):
        del trainer.hyper["lr"]
    assert trainer.hyper["lr"] == 0.1


def test_export_and_load_resume_training_exactly(module, cache, trainer):
    data = list(batches(10))
    for x, y in data[:5]:
        trainer.update(x, y)
    other = Trainer(module, options=cache)
    other.load_params(trainer.export_params())
    other.load_optimizer_state(trainer.export_optimizer_state())
    rest = [trainer.update(x, y) for x, y in data[5:]]
    assert [other.update(x, y) for x, y in data[5:]] == rest
    again = Trainer(module, options=cache)
    again.load_params(list(trainer.export_params().values()))
    for name, value in again.export_params().items():
        np.testing.assert_array_equal(value, trainer.export_params()[name])


def test_what_is_exported_or_loaded_is_a_copy(trainer):
    exported = trainer.export_params()
    exported["w0"][:] = 7
    assert not np.any(trainer.export_params()["w0"] == 7)
    trainer.load_params(exported)
    exported["w0"][:] = 8
    assert np.all(trainer.export_params()["w0"] == 7)


def test_parameters_can_be_loaded_between_steps(trainer):
    """The compiled step reads what was loaded: loading writes into the arrays that it is bound to."""
    (x, y), *_ = batches(1)
    start = trainer.export_params()
    first = trainer.update(x, y)
    assert trainer.update(x, y) != first
    trainer.load_params(start)
    trainer.reset_optimizer_state()
    assert trainer.update(x, y) == first


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (lambda p: p.pop("w1"), NameLookupError, "missing w1; the names are w0, b0, w1, b1, w2, b2"),
        (lambda p: p.update(v=p["w0"]), NameLookupError, "exactly their names, got unknown v;"),
        (lambda p: p.update(v=p.pop("w0")), NameLookupError, "missing w0 and unknown v"),
        (
            lambda p: p.update(b2=np.zeros(4, np.float32)),
            TypeRuleError,
            r"'b2' must be f32\[3\], got shape \[4\]; reshape",
        ),
        (lambda p: p.update(w2=p["w2"].T), TypeRuleError, r"'w2' must be f32\[8,3\], got shape \[3, 8\]"),
        (lambda p: p.update(b2=np.zeros(3)), TypeRuleError, r"got dtype float64; convert it with .astype\('float32'\)"),
    ],
)
def test_parameters_that_do_not_fit_are_refused_and_none_is_loaded(trainer, change, kind, message):
    before = trainer.export_params()
    given = {name: np.full_like(array, 5) for name, array in before.items()}
    change(given)
    with pytest.raises(kind, match=message):
        trainer.load_params(given)
    for name, value in trainer.export_params().items():
        np.testing.assert_array_equal(value, before[name])


def test_lists_of_the_wrong_kind_or_length_are_refused(trainer):
    arrays = list(trainer.export_params().values())
    with pytest.raises(InvalidValueError, match=r"^load_params takes 6 parameters \(w0, b0, w1, b1, w2, b2\), got 5"):
        trainer.load_params(arrays[:5])
    with pytest.raises(
        TypeRuleError, match=r"^load_params: parameters must be a list or a dict of arrays, got ndarray"
    ):
        trainer.load_params(arrays[0])
    with pytest.raises(InvalidValueError, match=r"^load_states takes 0 states"):
        trainer.load_states([arrays[0]])
    with pytest.raises(
        NameLookupError, match=r"^load_optimizer_state: optimizer states must be given by exactly their"
    ):
        trainer.load_optimizer_state({})
    with pytest.raises(NameLookupError, match="optimizer states must be given by exactly their names"):
        trainer.load_optimizer_state({})


def test_xavier_uniform_fills_its_range(module):
    trainer = Trainer(module, seed=5)
    trainer.init_parameters("xavier_uniform")
    params = trainer.export_params()
    for i, (fan_in, fan_out) in enumerate(pairwise(SIZES)):
        bound = np.sqrt(6 / (fan_in + fan_out))
        assert np.abs(params[f"w{i}"]).max() <= bound
        assert np.abs(params[f"w{i}"]).max() > 0.8 * bound
        assert np.all(params[f"b{i}"] == 0)
    variance = 2 / (SIZES[0] + SIZES[1])
    assert 0.7 * variance < params["w0"].var() < 1.3 * variance
    trainer.init_parameters("zeros")
    assert all(np.all(a == 0) for a in trainer.export_params().values())
    with pytest.raises(InvalidValueError, match=r"one of xavier_uniform, kaiming_normal, zeros, .*, got 'ones'; use"):
        trainer.init_parameters("ones")


def test_seeds_decide_the_parameters(module):
    def initial(seed):
        trainer = Trainer(module, seed=seed)
        trainer.init_parameters()
        return trainer.export_params()["w1"]

    np.testing.assert_array_equal(initial(1), initial(1))
    assert not np.array_equal(initial(1), initial(2))
    with pytest.raises(InvalidValueError, match="seed must be an integer of at least 0, got -1"):
        Trainer(module, seed=-1)


def test_arrays_stay_where_they_are_and_are_aligned(trainer):
    arrays = trainer._resident()
    assert set(arrays) >= {*PARAMS, "lr", "w0_momentum_buffer"}
    assert all(a.ctypes.data % 64 == 0 and a.flags.c_contiguous for a in arrays.values())
    addresses = [a.ctypes.data for a in arrays.values()]
    (x, y), *_ = batches(1)
    trainer.update(x, y)
    trainer.load_params(trainer.export_params())
    trainer.hyper["lr"] = 0.2
    assert [a.ctypes.data for a in trainer._resident().values()] == addresses
