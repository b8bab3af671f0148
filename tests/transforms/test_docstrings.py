"""The picture in the docstring of every pass is what the pass does."""

import re
import textwrap
from importlib import import_module
from pathlib import Path

import pytest

from adjoint import ops, transforms
from adjoint.ir import verify
from adjoint.transforms.keep_padded import keep_padded
from adjoint.transforms.rematerialize import rematerialize
from adjoint.transforms.separate_results import separate_results

PASSES = {
    "append_loss": lambda m: transforms.append_loss(m["backbone"], m["loss"]),
    "cse": lambda m: transforms.cse(m["main"]),
    "differentiate": lambda m: transforms.gradient(m["f"], wrt=["w"]),
    "inline_calls": lambda m: transforms.inline_calls(m["main"]),
    "keep_padded": lambda m: keep_padded(m["f"]),
    "prune": lambda m: transforms.prune_params(m["main"]),
    "rematerialize": lambda m: rematerialize(m["f"], 256),
    "separate_results": lambda m: separate_results(m["f"]),
    "simplify": lambda m: transforms.simplify(m["main"]),
}

#: Files that are no pass: two analyses, and the rules of one.
NOT_PASSES = {"__init__", "activity", "liveness", "rewrites"}


def pictures(docstring):
    """The indented blocks that follow ``Before...::`` and ``After...::``."""
    blocks = re.findall(r"^(?:Before|After)[^\n]*::\n\n((?:    [^\n]*\n|\n)+)", docstring, re.MULTILINE)
    return [textwrap.dedent(block).strip() for block in blocks]


@pytest.mark.parametrize("name", PASSES)
def test_the_docstring_shows_what_the_pass_does(name):
    before, after = pictures(import_module(f"adjoint.transforms.{name}").__doc__)
    module = ops.parse(before)
    verify(module)
    made = PASSES[name](module)
    assert str(made) == after
    verify(made)


def test_every_pass_has_a_picture():
    files = {path.stem for path in Path(transforms.__file__).parent.glob("*.py")}
    assert files == set(PASSES) | NOT_PASSES
