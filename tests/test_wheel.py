"""The wheel: built, installed where nothing else of adjoint is, used from a foreign directory."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import adjoint

HOUSE = Path(__file__).parents[1]

#: What a package is built from; it is copied, since a build leaves files beside its sources.
_SOURCES = ("pyproject.toml", "README.md", "LICENSE", "src")

#: What Windows cannot start a program without.
_NEEDED = {name: os.environ[name] for name in ("SYSTEMROOT", "TEMP") if name in os.environ}

_TRAIN = """
import numpy as np
import adjoint
from adjoint import SetupTrainer, TensorType, Trainer, losses, models, optim
from adjoint.compiler import CompileOptions
from adjoint.profiling import Peaks, page_text, profile_module
from adjoint.profiling.machine import Level

print(adjoint.__file__)
model = models.mlp((8, 16, 3), 16)
setup = SetupTrainer(losses.CrossEntropyLoss(), optim.Adam(0.05), (TensorType((16, 3)), TensorType((16,), "i64")))
module = setup(model)
trainer = Trainer(module, seed=0)
trainer.init_parameters()
rng = np.random.default_rng(0)
x = rng.standard_normal((16, 8)).astype(np.float32)
y = x[:, :3].argmax(axis=1)
told = [float(trainer.update(x, y)) for _ in range(50)]
print(told[-1] < told[0] / 4)
peaks = Peaks("made-up", 256, 1, 100.0, (Level("memory", None, 10.0),))
print("</html>" in page_text(profile_module(module, "tiny", CompileOptions(threads=1), runs=2, peaks=peaks)))
"""


def run(*words, cwd):
    """What a command prints; it knows nothing of the sources or of whatever the environment points to."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={"PATH": "", "ADJOINT_CACHE": str(cwd / "cache"), "HOME": str(cwd), **_NEEDED},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built without network: setuptools is there, and nothing is isolated from it."""
    folder = tmp_path_factory.mktemp("build")
    tree = folder / "tree"
    tree.mkdir()
    for name in _SOURCES:
        if (HOUSE / name).is_dir():
            shutil.copytree(
                HOUSE / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", ".*_cache")
            )
        else:
            shutil.copy(HOUSE / name, tree / name)
    run(
        sys.executable, "-c", "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])",
        folder, cwd=tree,
    )  # fmt: skip
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The Python of an environment that holds the wheel, and behind it what this one has installed."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    paths = {"base": str(folder / "venv"), "platbase": str(folder / "venv")}
    python = Path(sysconfig.get_path("scripts", "venv", paths)) / Path(sys.executable).name
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    run(*pip, "install", "--no-deps", "--no-index", "--no-compile", wheel, cwd=folder)
    # Installed packages are found behind the environment's own; those that are installed in place are not.
    packages = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    (Path(sysconfig.get_path("purelib", "venv", paths)) / "others.pth").write_text("\n".join(dict.fromkeys(packages)))
    return python


def test_the_wheel_holds_every_file_of_the_package_and_no_other(wheel):
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    package = HOUSE / "src" / "adjoint"
    files = {p.relative_to(package.parent).as_posix() for p in package.rglob("*") if p.is_file()}
    assert held == {name for name in files if "__pycache__" not in name}
    assert "adjoint/py.typed" in held
    assert "adjoint/profiling/templates/page.html.j2" in held
    assert "adjoint/pages/templates/base.css" in held
    assert "adjoint/training/report/templates/report.html.j2" in held


def test_the_wheel_says_what_it_is_and_needs(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        said = Parser().parsestr(archive.read(name).decode())
        assert any(name.endswith("/licenses/LICENSE") for name in archive.namelist())
    project = tomllib.loads((HOUSE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert said["Version"] == adjoint.__version__
    assert said["License-Expression"] == project["license"]
    assert said["Requires-Python"] == project["requires-python"]
    assert set(said.get_all("Provides-Extra")) == set(project["optional-dependencies"])
    hard = [need for need in said.get_all("Requires-Dist") if "extra ==" not in need]
    assert len(hard) == len(project["dependencies"])
    assert said.get_payload().startswith("# adjoint\n")


def test_it_trains_and_profiles_from_a_foreign_directory(installed, tmp_path):
    place, trained, profiled = run(installed, "-c", _TRAIN, cwd=tmp_path).splitlines()
    assert Path(place).is_relative_to(installed.parents[1])
    assert (trained, profiled) == ("True", "True")


def test_its_command_is_there_by_name_and_as_a_module(installed, tmp_path):
    command = next(path for path in installed.parent.iterdir() if path.stem == "adjoint")
    for words in ([command], [installed, "-m", "adjoint"]):
        assert run(*words, "--version", cwd=tmp_path) == f"adjoint {adjoint.__version__}\n"


def test_who_cites_it_cites_this_version():
    cited = re.findall(r"^version: (\S+)$", (HOUSE / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited == [adjoint.__version__]
