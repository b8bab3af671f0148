"""Fixtures that tests of several packages share."""

import gc
import os
import secrets
import signal

import pytest

# Processes that run tests share the cores, and threads of NumPy's BLAS would spin while they wait for each other.
# OpenBLAS reads this when NumPy is imported, which the imports below do.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# The compiler reads this when it is imported.
os.environ.setdefault("ADJOINT_VERIFY_EACH", "1")

from adjoint.data import fashion_mnist
from adjoint.errors import DataError
from adjoint.paths import cache_dir
from tests.hanging import pytest_configure, pytest_runtest_protocol  # noqa: F401
from tests.hardware import pytest_terminal_summary  # noqa: F401

#: The user's own cache: the dataset in it outlives a test run, compiled code need not.
OWN_CACHE = cache_dir()

#: Objects, and collections of each generation, after which the next older one is collected; Python's: 700, 10, 10.
_COLLECT_AFTER = (20_000, 20, 50)


def pytest_addoption(parser):
    parser.addoption(
        "--fuzz-seed",
        type=lambda text: secrets.randbelow(10**9) if text == "random" else int(text),
        default=285,
        metavar="N|random",
        help="the first random program of tests/testing/test_programs.py",
    )
    parser.addoption("--fuzz-count", type=int, default=41, metavar="N", help="how many random programs follow")


def pytest_collection_finish():
    """Thousands of collected tests stay until the end: garbage collections need not visit them again and again.

    Compilations make millions of objects, few of them in cycles: with Python's own thresholds, searches for cycles take
    a twentieth of the time of the tests. What depends on a collection asks for it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)


@pytest.fixture(scope="module", autouse=True)
def collected():
    """What a file of tests leaves behind is collected once: no later collection visits it again.

    So a test that asks for a collection waits for its own objects only, and not for those of all tests before it.
    """
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def compile_cache(tmp_path_factory, pytestconfig):
    """Compiled code of the tests goes to a directory of their own, and is compiled at least once a run.

    All processes of pytest-xdist share it; the directory of each is in one of the run.
    """
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if hasattr(pytestconfig, "workerinput") else own) / "adjoint-cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ADJOINT_CACHE", str(folder))
        yield


@pytest.fixture(scope="session", autouse=True)
def interruptible():
    """Ctrl-C interrupts tests, and what they start, in a background job too: a shell has it ignored there."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def real():
    """The real dataset, where this machine has it or can fetch it."""
    try:
        return fashion_mnist(OWN_CACHE / "fashion-mnist")
    except DataError as error:
        pytest.skip(error.message)
