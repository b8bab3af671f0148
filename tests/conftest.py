"""Fixtures that tests of several rooms share."""

import pytest

from adjoint.data import fashion_mnist
from adjoint.errors import DataError


@pytest.fixture(scope="session")
def real():
    """The real dataset, where this machine has it or can fetch it."""
    try:
        return fashion_mnist()
    except DataError as error:
        pytest.skip(error.message)
