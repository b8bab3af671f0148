"""The docstring of every pass has a picture of what the pass does, in the pass's own text."""

from pathlib import Path

import pytest

from adjoint import transforms
from adjoint.ir import verify
from adjoint.kernel.verifier import verify_kernel
from tests.golden.passes import PASSES, made, read
from tests.golden.pictures import picture


@pytest.mark.parametrize("name", PASSES)
def test_the_docstring_shows_what_the_pass_does(name):
    before, after = picture(name)
    program = read(before, PASSES[name].kind)
    if isinstance(program, list):
        for kernel in program:
            verify_kernel(kernel)
    else:
        verify(program)
    assert made(name, before) == after
    assert before != after


#: Files of `transforms` that are no pass: analyses, and the rules of some passes, and what changes bits.
NOT_PASSES = {
    "__init__", "activity", "batch_axis", "column_blocks", "forward_mode", "liveness", "loop_gradients",
    "mixed_precision", "observing", "rewrites", "softmax_of_product", "vectorized_loops",
}  # fmt: skip


def test_every_file_of_transforms_is_a_pass_with_a_picture():
    files = {path.stem for path in Path(transforms.__file__).parent.glob("*.py")}
    shown = {each.function.__module__.rpartition(".")[2] for each in PASSES.values() if each.kind == "graph"}
    assert files == shown | NOT_PASSES
