"""Worker processes: how arrays arrive, and what happens to workers that die, hang, or lose their parent."""

import faulthandler
import gc
import mmap
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from multiprocessing import resource_tracker
from pathlib import Path

import numpy as np
import pytest

import adjoint
from adjoint.data.workers import WorkerPool
from adjoint.data.workers.memory import AVAILABLE, rounded
from adjoint.errors import InvalidValueError, WorkerError

pytestmark = pytest.mark.skipif(not AVAILABLE or not hasattr(os, "fork"), reason="this system has no fork")


@pytest.fixture(autouse=True)
def nothing_is_left():
    resource_tracker.ensure_running()  # of multiprocessing: the first "spawn" starts it, and it stays
    files = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    yield
    assert multiprocessing.active_children() == []
    gc.collect()
    if files:
        assert len(os.listdir("/proc/self/fd")) <= files


@dataclass
class Sample:
    """What a function may return: an object of its own."""

    image: np.ndarray
    label: int


class UnfitError(Exception):
    """An exception that cannot be made from its pickle."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


def filled(number):
    return {
        "large": np.full((50, 30), number, np.float32),
        "columns": np.asfortranarray(np.full((50, 30), number, np.int64)),
        "rows": np.full((2000, 2), number)[:, 0],
        "small": [np.array([number]), (number, "text")],
        "object": Sample(np.full(3000, number, np.uint8), number),
    }


def test_arrays_arrive_in_shared_memory():
    with WorkerPool(filled, 2) as pool:
        for number, found in enumerate(pool.imap(range(4))):
            large, columns, sample = found["large"], found["columns"], found["object"]
            assert (large == number).all()
            assert (columns == number).all()
            assert (found["rows"] == number).all()
            assert found["small"] == [np.array([number]), (number, "text")]
            assert (sample.image == number).all()
            assert sample.label == number
            assert large.flags.carray
            assert large.ctypes.data % 64 == 0
            assert columns.flags.f_contiguous
            assert not large.flags.owndata
            large += 1  # it is the consumer's


def test_memory_is_used_again_when_nothing_refers_to_it():
    def addresses(kept):
        with WorkerPool(lambda n: np.full(5000, n), 1) as pool:
            held = []
            for number, array in enumerate(pool.imap(range(40))):
                held.append(array[::2] if kept else None)
                assert array[-1] == number
                yield array.ctypes.data
            assert not kept or [part[0] for part in held] == list(range(40))

    assert len(set(addresses(kept=True))) == 40
    assert len(set(addresses(kept=False))) <= 4


def test_results_that_are_kept_are_copied_when_there_are_many():
    with WorkerPool(lambda n: np.full(600, n), 1, depth=4) as pool:
        files = len(os.listdir("/dev/fd"))
        found = list(pool.imap(range(40)))
        assert len(os.listdir("/dev/fd")) <= files + 16 + 4 + 1  # kept, under way, and for the stack
    assert [array[0] for array in found] == list(range(40))
    # The first ones are parts of a file, which begin with a page of memory; the last one is in private memory.
    assert {array.ctypes.data % mmap.PAGESIZE for array in found[:16]} == {0}
    assert found[0].base.base is not None
    assert found[-1].base.base is None


def test_batches_of_growing_size_and_large_results_without_arrays():
    sizes = [0, 900, 100_000, 7, 400_000]
    with WorkerPool(lambda n: (np.arange(n), "x" * n), 2) as pool:
        for size, (array, text) in zip(sizes, pool.imap(sizes), strict=True):
            assert (array == np.arange(size)).all()
            assert len(text) == size


def test_large_items_and_results_at_once():
    text = "y" * 300_000
    with WorkerPool(str.upper, 1, depth=4) as pool:
        assert list(pool.imap([text] * 6)) == [text.upper()] * 6


def test_sizes_of_segments():
    assert [rounded(size) for size in (1, 4096, 5000, 70_000, 2**20 + 1)] == [4096, 4096, 8192, 73_728, 1_179_648]


def crash():
    faulthandler.disable()  # which would write to the terminal
    os.kill(os.getpid(), signal.SIGSEGV)


def ending(action):
    with WorkerPool(lambda number: action() if number == 1 else number, 2) as pool:
        start = time.monotonic()
        with pytest.raises(WorkerError) as caught:
            list(pool.imap(range(5)))
        assert time.monotonic() - start < 10
        assert pool.closed
    return re.sub(r"process \d+", "process N", caught.value.message)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (
            lambda: os._exit(4),
            "ended with exit status 4 while it worked on item 1, 1; do not end the process in the function",
        ),
        (
            lambda: sys.exit(0),
            "ended with exit status 0 while it worked on item 1, 1; do not end the process in the function",
        ),
        (
            lambda: os.kill(os.getpid(), signal.SIGKILL),
            "was ended by SIGKILL while it worked on item 1, 1; use fewer workers if the system ran out of memory",
        ),
        (
            crash,
            "was ended by SIGSEGV while it worked on item 1, 1; look for a fault in a native library that the function "
            "calls",
        ),
        (
            lambda: os.kill(os.getpid(), signal.SIGTERM),
            "was ended by SIGTERM while it worked on item 1, 1; find out what sent the signal",
        ),
    ],
)
def test_a_worker_that_dies_is_noticed(action, message):
    assert ending(action) == f"WorkerPool: worker 1 (process N) {message}"


def test_a_worker_that_dies_between_items():
    with WorkerPool(abs, 1) as pool:
        assert list(pool.imap([-1])) == [1]
        (child,) = multiprocessing.active_children()
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        with pytest.raises(WorkerError, match=r"worker 0 \(process \d+\) was ended by SIGKILL while it"):
            list(pool.imap([-1]))


def test_a_worker_that_hangs():
    def waiting(_):
        time.sleep(100)

    start = time.monotonic()
    with WorkerPool(waiting, 1, timeout=0.05) as pool, pytest.raises(WorkerError) as caught:
        next(pool.imap(["a"]))
    assert time.monotonic() - start < 10
    assert re.fullmatch(
        r"WorkerPool: worker 0 \(process \d+\) has not finished within the timeout of 0.05 seconds, while it worked on "
        r"item 0, 'a' at .*test_processes.py:\d+; find out why it hangs, or allow more time",
        caught.value.message,
    )
    assert re.match(
        r"the stack of the worker:\nStack \(most recent call first\):\n.*test_processes.py\", line \d+ in waiting\n",
        caught.value.__notes__[0],
    )


def test_an_exception_that_cannot_be_sent():
    def raising(_):
        raise UnfitError(1, 2)

    with WorkerPool(raising, 1) as pool, pytest.raises(WorkerError) as caught:
        next(pool.imap(["a"]))
    assert re.fullmatch(
        r"WorkerPool: worker 0 \(process \d+\) raised an exception that cannot be pickled, UnfitError, while it worked "
        r"on item 0, 'a'; see its traceback below",
        caught.value.message,
    )
    assert "UnfitError: 1 and 2" in caught.value.__notes__[0]


def test_network_errors_of_the_function_are_not_those_of_the_connection():
    def raising(_):
        raise ConnectionResetError("by the server")

    with WorkerPool(raising, 1) as pool, pytest.raises(ConnectionResetError, match="by the server"):
        next(pool.imap(["a"]))


def test_a_result_that_cannot_be_pickled():
    with WorkerPool(lambda _: lambda: None, 1) as pool:
        with pytest.raises((AttributeError, TypeError), match="lambda") as caught:
            next(pool.imap([1]))
        assert "while it worked on item 0, 1:" in caught.value.__notes__[0]


def test_a_new_interpreter():
    with WorkerPool(np.square, 1, context="spawn") as pool:
        assert [found.tolist() for found in pool.imap([np.full(600, 2.0), 3])] == [[4.0] * 600, 9]


def test_a_script_without_a_guard(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from adjoint.data.workers import WorkerPool\nnext(WorkerPool(abs, 1, context='spawn').imap([1]))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)
    assert re.search(
        r"WorkerError: WorkerPool: worker 0 \(process \d+\) ended with exit status 1 while it worked on item 0, 1; "
        r"guard the script with if __name__ == '__main__', because new interpreters import it \[at ",
        done.stderr,
    )


def test_workers_have_no_workers():
    def nested(_):
        WorkerPool(abs, 1)

    with WorkerPool(nested, 1) as pool, pytest.raises(InvalidValueError) as caught:
        next(pool.imap([1]))
    assert caught.value.message == (
        "WorkerPool: a worker process cannot start worker processes; use threads or no workers in it"
    )


def test_compiled_code_in_workers_is_correct():
    x = adjoint.tensor(np.arange(40.0).reshape(8, 5))

    def product(factor):
        return (x * factor @ x.T).numpy()

    expected = [product(factor) for factor in (1.0, 2.0)]  # the parent has run it, on its threads
    with WorkerPool(product, 2) as pool:
        found = list(pool.imap([1.0, 2.0]))
    assert all((a == b).all() for a, b in zip(found, expected, strict=True))


_SCRIPT = """
import multiprocessing, os, sys, time
from adjoint.data.workers import WorkerPool
if __name__ == "__main__":
    with WorkerPool(lambda n: time.sleep(100 * (n == 1)), 2) as pool:
        results = pool.imap(range(9))
        next(results)
        other = WorkerPool(abs, 2)
        print(*(child.pid for child in multiprocessing.active_children()), flush=True)
        for _ in results:
            pass
"""


def runs(pid):
    """Whether a process runs; one that nobody waits for may still be listed."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system has no /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_when_the_parent_is_interrupted_or_killed(number):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    before = set(os.listdir("/dev/shm"))
    with subprocess.Popen(
        [sys.executable, "-c", _SCRIPT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    ) as script:
        children = [int(pid) for pid in script.stdout.readline().split()]
        assert len(children) == 4
        if number == signal.SIGINT:
            os.killpg(script.pid, number)  # as a terminal does, to all processes
        else:
            script.kill()
        error = script.stderr.read() if number == signal.SIGINT else ""
        script.wait(20)
    assert error.count("Traceback") == (number == signal.SIGINT), error
    end = time.monotonic() + 20
    while any(map(runs, children)):  # one is asleep in the function
        assert time.monotonic() < end, "workers are left"
        time.sleep(0.001)
    assert set(os.listdir("/dev/shm")) == before
