"""Scratch buffers are told apart by what fills them, and only where a fill replaces all that is read next."""

import pytest

from adjoint.kernel.parser import parse_kernel
from adjoint.kernel.printer import print_kernel
from adjoint.lower.schedule import webs
from adjoint.lower.schedule.row_layouts import places
from adjoint.lower.schedule.webs import joined_webs, separate_webs
from tests.golden.pictures import programs

KERNEL = """\
kernel y: computes %y
  2 units, on one thread; 0 flops, 0 bytes
  reads x f32[64]; writes y f32[2]; scratch panel f32[4]
  for u in 0..2 units:
"""


def separated(kernel):
    return separate_webs(kernel, places(kernel), kernel.scratch)


def count(*lines):
    """The number of webs of the panel, given what a unit does."""
    body = "".join(f"    {line}\n" for line in ("y[u] = 0.0", *lines))
    found, _ = separated(parse_kernel(KERNEL + body))
    return len(found.scratch)


def fill(at, first="0", size=4):
    return f"for l in 0..{size} vector:", f"  panel[{first} + l] = x[{at} + l]"


def use(place="0"):
    return (f"y[u] = add(y[u], panel[{place}])",)


def deeper(lines):
    return [f"  {line}" for line in lines]


def inside(var, *lines):
    return f"for {var} in 0..3:", *deeper(lines)


def test_the_picture_in_the_docstring_is_true():
    before, after = (parse_kernel(text) for text in programs(webs.__doc__))
    found, names = separated(before)
    assert print_kernel(found) == print_kernel(after)
    assert print_kernel(joined_webs(found, names)) == print_kernel(before)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((*fill("0"), *use(), *fill("8"), *use()), 2),
        ((*fill("0"), *use(), *inside("b", *fill("b*4"), *use()), *fill("8"), *use()), 3),
        ((*inside("b", *fill("b*4"), *inside("c", *use("c"))), *fill("16"), *use()), 2),
        ((*fill("0"), *use(), "if 0 <= u < 1:", *deeper(fill("8")), "else:", *deeper(fill("16")), *use()), 2),
    ],
    ids=["one after the other", "a loop in between", "a loop inside", "either way"],
)
def test_what_is_filled_anew_is_a_web_of_its_own(lines, expected):
    assert count(*lines) == expected


@pytest.mark.parametrize(
    "lines",
    [
        (*fill("0", size=2), *fill("8", "2", 2), *use(), *use("3")),
        (*fill("0"), *use(), *fill("8", size=2), *use("3")),
        (*fill("0"), *inside("b", *use(), *fill("b*4"))),
        (*fill("0"), *use(), *inside("b", *use(), *fill("b*4"))),
        (*inside("b", *fill("b*4"), *use()), *use()),
        (*fill("0"), "panel[0] = add(panel[0], 1.0)", *use()),
        (*fill("0"), *use(), "if 0 <= u < 1:", *deeper(fill("8")), *use()),
    ],
    ids=[
        "two halves",
        "the second half is of before",
        "the next iteration reads it",
        "the next iteration reads it, too",
        "read behind the loop",
        "updated",
        "filled in some units",
    ],
)
def test_what_reaches_the_same_read_is_one_web(lines):
    assert count(*lines) == 1
