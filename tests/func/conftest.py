"""Every test records a program of its own."""

import pytest

from adjoint.tensor.trace import fresh_trace


@pytest.fixture(autouse=True)
def _own_trace():
    fresh_trace()
