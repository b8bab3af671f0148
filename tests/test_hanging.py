"""Tests that hang are ended, wherever they do."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[1]
HANGS = {
    "in Python": "while True: pass",
    "waiting for a thread": "import threading; threading.Event().wait()",
    "in native code": "import ctypes; ctypes.CDLL(None).sleep(1000)",
    "in native code that holds Python's lock": "import ctypes; ctypes.PyDLL(None).usleep(1_000_000_000)",
}


@pytest.mark.skipif(os.name != "posix", reason="the sleeps are of POSIX's library")
@pytest.mark.parametrize("where", HANGS)
def test_a_test_that_hangs_is_ended(where, tmp_path):
    (tmp_path / "conftest.py").write_text("from tests.hanging import pytest_configure, pytest_runtest_protocol\n")
    body = f"def test_it():\n    {HANGS[where]}\n"
    (tmp_path / "test_hang.py").write_text(textwrap.dedent(body))
    (tmp_path / "pytest.ini").write_text("[pytest]\ntimeout = 1\n")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(HOUSE / "src"), str(HOUSE)))}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-c",
        str(tmp_path / "pytest.ini"),
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "Timeout" in done.stdout + done.stderr
    assert "test_it" in done.stdout + done.stderr
