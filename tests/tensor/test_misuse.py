"""Calls with arguments of a wrong kind: one sentence, not an error of Python from inside."""

import pytest

import adjoint
from adjoint import tensor
from adjoint.errors import AdjointError, TypeRuleError
from adjoint.nn import functional

X = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
REFUSED = {
    "log: input must be a tensor, got 2.5; convert it with adjoint.tensor": lambda: adjoint.log(2.5),
    "cumsum: input must be a tensor, got a list; convert it with adjoint.tensor": lambda: adjoint.cumsum([1.0], 0),
    "linear: weight must be a tensor, got None; convert it with adjoint.tensor": lambda: functional.linear(X, None),
    "nll_loss: target must be a tensor, got a tuple; convert it with adjoint.tensor": lambda: functional.nll_loss(
        X, (0, 1)
    ),
    "float_power: the arguments must be of the kinds and sizes that its documentation says, got f32[2,3], None "
    "(TypeError: float() argument must be a string or a real number, not 'NoneType'); see help(adjoint.float_power)": (
        lambda: adjoint.float_power(X, None)
    ),
    "masked_select: the mask must broadcast with the input, got (2,) for (2, 3); reshape it": (
        lambda: adjoint.masked_select(X, tensor([True, False]))
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_the_sentence(sentence):
    with pytest.raises(AdjointError) as error:
        REFUSED[sentence]()
    assert error.value.message == sentence


def test_a_wrong_number_of_arguments_is_pythons_error_and_the_cause_is_kept():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'dim'"):
        adjoint.cumsum(X)
    with pytest.raises(TypeRuleError) as error:
        adjoint.float_power(X, None)
    assert isinstance(error.value.__cause__, TypeError)


def test_what_failed_is_not_recorded():
    with pytest.raises(TypeRuleError):
        adjoint.float_power(X, None)
    assert adjoint.float_power(X, 2.0)[0, 1].item() == 4.0
