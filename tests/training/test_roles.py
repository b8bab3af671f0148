"""Which parameters are inputs, trained, or states, if the module does not say so."""

import pytest

from adjoint import models, ops
from adjoint.errors import InvalidValueError
from adjoint.ir import Function, IRModule, param
from adjoint.training.roles import with_roles

ROWS = 6


def module_of(*params, out, attrs=None):
    return IRModule((Function("backbone", params, (out,)),), attrs or {})


@pytest.mark.parametrize("model", [models.mlp, models.linreg, models.lenet, models.gpt])
def test_models_need_not_count_their_parameters(model):
    module = model(batch_size=ROWS)
    assert with_roles(IRModule(module.functions)).attrs == {
        "param_num": module.attrs["param_num"],
        "state_num": 0,
    }


def test_states_have_to_be_counted():
    module = models.resnet20(batch_size=2)
    kept = {name: value for name, value in module.attrs.items() if name != "param_num"}
    assert with_roles(IRModule(module.functions, kept)).attrs["param_num"] == module.attrs["param_num"]


def two_towers(attrs=None):
    """Two inputs that meet at the end, and weights with as many rows as a batch."""
    left, right = param("left", (ROWS, ROWS)), param("right", (ROWS, 4))
    w, v = param("w", (ROWS, 3)), param("v", (4, 3))
    out = ops.sum(ops.multiply(ops.matmul(left, w), ops.matmul(right, v)), 1)
    return module_of(left, right, w, v, out=out, attrs=attrs)


def test_inputs_are_found_where_their_rows_meet():
    assert with_roles(two_towers()).attrs["param_num"] == 2


def test_what_cannot_be_trained_is_an_input():
    x, ids, w = param("x", (ROWS, 4)), param("ids", (3,), "i64"), param("w", (5, 4))
    out = ops.add(x, ops.sum(ops.take(w, ids), 0))
    assert with_roles(module_of(x, ids, w, out=out)).attrs["param_num"] == 1


def test_a_single_row_has_one_float_input():
    x, w = param("x", (1, 4)), param("w", (4, 4))
    assert with_roles(module_of(x, w, out=ops.matmul(x, w))).attrs["param_num"] == 1


def test_an_input_is_not_trained():
    message = (
        "param_num=3 makes %right a parameter, although its rows are combined with those of %left, as those of an "
        "input are; use param_num=2, or give it an initial value in init"
    )
    with pytest.raises(InvalidValueError, match=message):
        with_roles(two_towers({"param_num": 3}))
    stated = {"param_num": 3, "init": (("right", "normal", 0.1),)}
    assert with_roles(two_towers(stated)).attrs["param_num"] == 3


@pytest.mark.parametrize("param_num", [0, 4, 5])
def test_a_model_has_inputs_and_parameters(param_num):
    with pytest.raises(
        InvalidValueError,
        match=f"it has the parameters left, right, w, v and 1 result, got param_num={param_num} and state_num=0; corr",
    ):
        with_roles(two_towers({"param_num": param_num}))


def test_a_model_of_inputs_alone_has_nothing_to_train():
    x = param("x", (ROWS, 4))
    with pytest.raises(InvalidValueError, match="it has the parameter x and 1 result, got param_num=0"):
        with_roles(module_of(x, out=ops.exp(x)))
