"""A small step measured once for all tests, against peaks that are made up."""

import pytest

from adjoint.compiler import CompileOptions
from adjoint.profiling.step import profile_module
from tests.profiling.steps import PEAKS, mlp_step


@pytest.fixture(scope="session")
def module():
    return mlp_step()


@pytest.fixture(scope="session", params=[1, 2], ids=["one thread", "two threads"])
def profile(request, module):
    return profile_module(module, "small <mlp> & co", CompileOptions(threads=request.param), runs=7, peaks=PEAKS)
