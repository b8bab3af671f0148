"""`constraints-minimum.txt` has the least that pyproject.toml allows: `make test-minimum` runs the tests with it."""

import re
import tomllib
from pathlib import Path

HOUSE = Path(__file__).parents[1]


def padded(version):
    """1.26 as 1.26.0."""
    parts = version.split(".")
    return ".".join(parts + ["0"] * (3 - len(parts)))


def test_minimum_versions_are_the_lower_bounds():
    project = tomllib.loads((HOUSE / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    requirements = [requirement for group in groups for requirement in group if not requirement.startswith("adjoint[")]
    bounds = dict(requirement.split(",")[0].split(">=") for requirement in requirements)
    text = (HOUSE / "constraints-minimum.txt").read_text()
    pinned = dict(re.findall(r"^([\w-]+)==([\d.]+)$", text, re.MULTILINE))
    assert len(pinned) == len([line for line in text.splitlines() if line and not line.startswith("#")])
    assert pinned == {name: padded(bound) for name, bound in bounds.items()}
