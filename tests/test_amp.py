"""`adjoint.amp` has the names of `torch.amp`."""

import pytest

import adjoint as torch
from adjoint import optim
from adjoint.errors import InvalidValueError


def test_a_context_that_is_off_has_no_effect():
    with torch.amp.autocast("cpu", enabled=False), torch.autocast("cuda", dtype=torch.float16):
        assert (torch.ones(2) * 2).dtype == torch.float32
    assert torch.amp.GradScaler is optim.GradScaler


def test_on_the_cpu_it_is_refused():
    with pytest.raises(InvalidValueError) as error:
        torch.autocast(device_type="cpu", dtype=torch.bfloat16)
    assert error.value.message == (
        "autocast: operations keep the dtypes of their operands, got enabled=True for the CPU; call "
        "model.to(torch.bfloat16) and convert the inputs, or pass enabled=False"
    )
