"""Numbers agree whatever kernels NumPy's BLAS has: tolerances follow from bounds, not from one machine's sums."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.hardware import needs

HOUSE = Path(__file__).parents[1]
#: What OpenBLAS may call the kernels of a name, as some builds have one for several, and the level that they need.
CORES = {
    "Prescott": ({"Prescott", "Katmai"}, "sse2"),
    "Haswell": ({"Haswell"}, "avx2"),
    "SkylakeX": ({"SkylakeX"}, "avx512"),
}
#: Files with tests that are marked ``blas``.
FILES = [
    "lower/contractions/test_contractions.py",
    "lower/reductions/test_two_stage.py",
    "ops/test_contract.py",
    "testing/test_rounding.py",
]
RUN = "import sys, pytest; from tests.test_blas import core; print('core', core()); sys.exit(pytest.main(sys.argv[1:]))"


def core():
    """The name of the kernels that NumPy's OpenBLAS has chosen, or none where that is not what NumPy is built with."""
    folder = Path(np.__file__).parent
    for path in (*folder.parent.glob("numpy.libs/*openblas*"), *folder.glob(".dylibs/*openblas*")):
        library = ctypes.CDLL(str(path))
        for name in ("scipy_openblas_get_corename64_", "openblas_get_corename64_", "openblas_get_corename"):
            if hasattr(library, name):
                function = getattr(library, name)
                function.restype = ctypes.c_char_p
                return function().decode()
    return "none"


@pytest.mark.parametrize("name", CORES)
def test_numbers_agree_under_the_kernels_of(name):
    known, level = CORES[name]
    needs(level)
    if core() == "none":
        pytest.skip("NumPy is built with another BLAS than OpenBLAS here")
    env = {**os.environ, "OPENBLAS_CORETYPE": name, "OPENBLAS_NUM_THREADS": "1"}
    env["PYTHONPATH"] = os.pathsep.join((str(HOUSE / "src"), str(HOUSE)))
    files = [str(HOUSE / "tests" / file) for file in FILES]
    command = [sys.executable, "-c", RUN, "-m", "blas", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=HOUSE, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split()[1] in known, "OPENBLAS_CORETYPE had no effect"
    assert "skipped" not in done.stdout
