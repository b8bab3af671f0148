"""How parameters and states begin: what a module says of them, and the rule for the rest."""
# ruff: noqa: ARG005

import numpy as np
import pytest

from adjoint import ops
from adjoint.errors import AdjointError, InvalidValueError, NameLookupError
from adjoint.ir import Function, IRModule, TensorType, param
from adjoint.losses import MSELoss
from adjoint.optim import SGD
from adjoint.training import AppendLoss, SetupTrainer, Trainer
from adjoint.training.initialize import Start, initial_params, initial_states
from tests.training.models import batch_normalised

SETUP = SetupTrainer(MSELoss(), SGD(0.1), [TensorType((8, 2))] * 2)

#: Large enough for moments of random numbers to show within some percent.
LINEAR, CONVOLUTION = TensorType((200, 50)), TensorType((60, 30, 3, 3))


def drawn(kind, *numbers, type_=LINEAR, seed=0):
    return initial_params({"w": type_}, {"w": Start(kind, numbers)}, seed)["w"]


def test_constants_are_what_they_are_called():
    for kind, value in (("zeros", 0), ("ones", 1)):
        for dtype in ("f32", "f64", "i64"):
            array = drawn(kind, type_=TensorType((3, 2), dtype))
            assert array.dtype == TensorType((), dtype).dtype
            np.testing.assert_array_equal(array, np.full((3, 2), value))


def test_normal_and_uniform_have_their_moments():
    normal = drawn("normal", 0.02)
    assert normal.dtype == np.float32
    assert abs(normal.mean()) < 0.02 / 30
    np.testing.assert_allclose(normal.std(), 0.02, rtol=0.03)
    np.testing.assert_allclose((np.abs(normal) < 0.02).mean(), 0.6827, atol=0.02)  # as of the normal distribution
    uniform = drawn("uniform", -1.0, 3.0)
    assert -1 <= uniform.min() < -0.99
    assert 2.99 < uniform.max() <= 3
    np.testing.assert_allclose([uniform.mean(), uniform.std()], [1, 4 / np.sqrt(12)], rtol=0.05)


@pytest.mark.parametrize(("type_", "fan_in", "fan_out"), [(LINEAR, 200, 50), (CONVOLUTION, 30 * 9, 60 * 9)])
def test_fans_are_those_of_linear_layers_and_convolutions(type_, fan_in, fan_out):
    xavier = drawn("xavier_uniform", type_=type_)
    bound = np.sqrt(6 / (fan_in + fan_out))
    assert 0.99 * bound < np.abs(xavier).max() <= bound
    np.testing.assert_allclose(xavier.std(), bound / np.sqrt(3), rtol=0.03)
    kaiming = drawn("kaiming_normal", type_=type_)
    assert abs(kaiming.mean()) < kaiming.std() / 30
    np.testing.assert_allclose(kaiming.std(), np.sqrt(2 / fan_in), rtol=0.03)


def test_kaiming_keeps_the_size_of_what_goes_through_relus():
    """What it is for (He et al. 2015): after many layers the mean square is still what it was."""
    types = {f"w{i}": TensorType((256, 256)) for i in range(20)}
    x = start = np.random.default_rng(1).standard_normal((64, 256))
    for weight in initial_params(types, {}, 0, "kaiming_normal").values():
        x = np.maximum(x @ weight, 0)
    assert 1 / 3 < (x**2).sum() / (start**2).sum() < 3


def test_each_name_draws_its_own_numbers_and_the_seed_decides_them():
    params, states = {"a": LINEAR, "b": LINEAR}, {"s": LINEAR}
    starts = {name: Start("normal", (1.0,)) for name in "abs"}
    first, again, other = (
        initial_params(params, starts, seed) | initial_states(params, states, starts, seed) for seed in (1, 1, 2)
    )
    for name, array in first.items():
        np.testing.assert_array_equal(array, again[name])
        assert not np.array_equal(array, other[name])
        assert all(np.array_equal(array, first[n]) == (n == name) for n in first)
    # What a module says of one parameter moves no other.
    np.testing.assert_array_equal(initial_params(params, starts | {"a": Start("ones")}, 1)["b"], first["b"])


def test_a_trainer_begins_as_its_module_says():
    trainer = Trainer(SETUP(batch_normalised()), seed=1)
    np.testing.assert_array_equal(trainer.export_states()["var"], np.ones(4))  # also for those who load parameters
    trainer.load_states({"mean": np.full(4, 5, np.float32), "var": np.full(4, 6, np.float32)})
    trainer.init_parameters()
    np.testing.assert_array_equal(trainer.export_states()["mean"], np.zeros(4))
    np.testing.assert_array_equal(trainer.export_states()["var"], np.ones(4))
    params = trainer.export_params()
    np.testing.assert_array_equal(params["scale"], np.ones(4))
    np.testing.assert_array_equal(params["shift"], np.zeros(4))
    assert 0 < np.abs(params["w"]).max() <= np.sqrt(6 / 7)
    trainer.init_parameters("zeros")  # for those of which the module says nothing
    zeros = trainer.export_params()
    assert not zeros["w"].any()
    for name in ("scale", "v"):
        np.testing.assert_array_equal(zeros[name], params[name])


def test_what_a_module_says_travels_with_it():
    module = batch_normalised()
    init = module.attrs["init"]
    loss = MSELoss().function(*[TensorType((8, 2))] * 2)
    for made in (SETUP(module), AppendLoss("backbone", loss)(module), ops.parse(str(module))):
        assert made.attrs["init"] == init
        assert ops.parse(str(made)) == made
    one, other = (Trainer(m, seed=2) for m in (SETUP(module), ops.parse(str(SETUP(ops.parse(str(module)))))))
    for trainer in (one, other):
        trainer.init_parameters()
    for name, array in one.export_params().items():
        np.testing.assert_array_equal(array, other.export_params()[name])


@pytest.mark.parametrize(
    ("init", "error", "message"),
    [
        ((("gamma", "ones"),), NameLookupError, "those of parameters and states, got 'gamma'; the names are w, v, "),
        ((("scal", "ones"),), NameLookupError, "got 'scal'; did you mean 'scale'\\?"),
        ((("x", "ones"),), NameLookupError, "got 'x'; the names are w, v, scale, shift, mean, var"),
        ((("scale", "one"),), InvalidValueError, "kaiming_normal, key, got 'one' for 'scale'; did you mean 'ones'\\?"),
        (
            (("scale", "7"),),
            InvalidValueError,
            "the kind must be one of zeros, ones, normal, uniform, xavier_uniform, kaiming_normal, key, got '7' "
            "for 'scale'; use one of them",
        ),
        (
            (("scale", "ones"), ("scale", "zeros")),
            InvalidValueError,
            "init: names must be unique, got 'scale' twice; remove one",
        ),
        ((("scale", "ones", 2.0),), InvalidValueError, "ones takes no numbers, got \\(2.0,\\) for 'scale'"),
        ((("v", "normal"),), InvalidValueError, "normal takes the finite numbers std, got \\(\\) for 'v'; correct"),
        ((("v", "normal", "0.1"),), InvalidValueError, "numbers std, got \\('0.1',\\)"),
        ((("v", "normal", True),), InvalidValueError, "numbers std, got \\(True,\\)"),
        ((("v", "normal", float("inf")),), InvalidValueError, "finite numbers std, got \\(inf,\\)"),
        ((("v", "normal", -0.1),), InvalidValueError, "normal takes a std of at least 0, got \\(-0.1,\\) for 'v'"),
        ((("v", "uniform", 2, 1),), InvalidValueError, "low that is at most high, got \\(2, 1\\) for 'v'; correct it"),
        (
            (("scale", "key"),),
            InvalidValueError,
            "key requires u32\\[2\\], got 'scale' of f32\\[4\\]; use zeros",
        ),
        ((("scale", "kaiming_normal"),), InvalidValueError, "floats of a rank from 2, got 'scale' of f32\\[4\\]; use"),
        ("ones", InvalidValueError, "tuples of a name, a kind and its numbers, .* got 'ones'; correct it"),
        (("scale", "ones"), InvalidValueError, "tuples of a name, .* got 'scale'"),
        (((1, "ones"),), InvalidValueError, "got \\(1, 'ones'\\)"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_built(init, error, message):
    with pytest.raises(error, match=message):
        SETUP(batch_normalised().with_attrs(init=init))
    with pytest.raises(error, match=message):
        Trainer(SETUP(batch_normalised()).with_attrs(init=init))


def test_random_numbers_are_for_floats():
    x, w, count = param("x", (8, 2)), param("w", (2,)), param("count", (), "i64")
    backbone = Function("backbone", (x, w, count), (ops.multiply(x, w), ops.add(count, 1)))
    module = IRModule((backbone,), {"param_num": 1, "state_num": 1, "init": (("count", "ones"),)})
    assert Trainer(SETUP(module)).export_states()["count"] == 1
    with pytest.raises(InvalidValueError, match=r"normal requires floats, got 'count' of i64\[\]; use zeros or ones"):
        SETUP(module.with_attrs(init=(("count", "normal", 1.0),)))


def fresh(cache, init=()):
    return Trainer(SETUP(batch_normalised().with_attrs(init=init)), options=cache, seed=3)


def test_an_own_initializer_is_called_for_every_parameter_that_is_not_listed(cache):
    calls = []

    def own(name, shape, rng):
        calls.append((name, shape))
        return rng.standard_normal(shape)  # float64, which is converted

    trainer = fresh(cache, init=(("scale", "ones"),))
    trainer.init_parameters(own)
    assert calls == [("w", (3, 4)), ("v", (4, 2)), ("shift", (4,))]
    params = trainer.export_params()
    assert np.array_equal(params["scale"], np.ones(4, np.float32))
    assert len({float(params[name].flat[0]) for name in ("w", "v", "shift")}) == 3
    again = fresh(cache)
    again.init_parameters(own)
    assert np.array_equal(again.export_params()["w"], params["w"])


def test_a_mapping_initializes_those_that_it_contains(cache):
    trainer, default = fresh(cache, init=(("scale", "ones"),)), fresh(cache)
    values = np.arange(8.0).reshape(4, 2)
    trainer.init_parameters(
        {"v": values, "scale": ("uniform", 2, 3), "shift": lambda name, shape, rng: np.full(shape, 7)}
    )
    default.init_parameters()
    params = trainer.export_params()
    assert np.array_equal(params["v"], values)
    assert 2 <= params["scale"].min() < params["scale"].max() <= 3
    assert np.array_equal(params["shift"], [7, 7, 7, 7])
    assert np.array_equal(params["w"], default.export_params()["w"])


WRONG_INITIALIZERS = [
    (
        "xavier",
        "init_parameters: kind must be one of xavier_uniform, kaiming_normal, zeros, a function (name, shape, rng) -> "
        "array, or a dict of names, got 'xavier'; use one of them",
    ),
    ({"scal": "ones"}, "init_parameters: names must be those of parameters, got 'scal'; did you mean 'scale'?"),
    ({"v": np.ones((2, 4))}, "init_parameters: v must be f32[4,2], got shape [2, 4]; return an array of its shape"),
    ({"v": 1.0}, "init_parameters: v must be f32[4,2], got shape []; return an array of its shape"),
    (
        lambda name, shape, rng: None,
        "init_parameters: w must be f32[3,4], got None (is a return missing?); return an array of its shape",
    ),
    (
        {"v": np.ones((4, 2), complex)},
        "init_parameters: v must be f32[4,2], got dtype complex128; return real numbers",
    ),
    ({"v": np.full((4, 2), 1e300)}, "init_parameters: v must be finite in float32; correct its values"),
    ({"v": "normal"}, "init: normal takes the finite numbers std, got () for 'v'; correct them"),
]


@pytest.mark.parametrize(("kind", "expected"), WRONG_INITIALIZERS)
def test_a_wrong_initializer_changes_nothing(kind, expected, cache):
    trainer = fresh(cache)
    with pytest.raises(AdjointError) as caught:
        trainer.init_parameters(kind)
    assert caught.value.message == expected
    assert not any(array.any() for array in trainer.export_params().values())
