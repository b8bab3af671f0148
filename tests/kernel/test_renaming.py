"""Copies of kernels over other buffers."""

from adjoint.compiler import host
from adjoint.kernel.ir import Buffer, postorder, roots_of, walk
from adjoint.kernel.printer import print_kernels
from adjoint.kernel.renaming import Renaming
from adjoint.kernel.structure import structure
from adjoint.pipeline import lower_function
from tests.runtime.networks import module_of


def kernels_of(name):
    """Kernels with every kind of statement: prefetches, conditions, indices from memory, ends at run time."""
    return lower_function(module_of(name)["step"], host()).kernels


def parts_of(kernel):
    """What a copy shares with no other kernel: its statements, expressions and variables."""
    statements = list(walk(kernel.body))
    exprs = [e for s in statements for e in postorder(roots_of(s)) if not hasattr(e, "value")]
    return {id(part) for part in (kernel.unit, *statements, *exprs)}


def test_a_copy_computes_the_same_over_buffers_of_its_own():
    for name in ("gpt", "resnet8"):
        kernels = kernels_of(name)
        copy = Renaming({}, lambda text: text)
        copies = [copy.kernel(kernel, kernel.values) for kernel in kernels]
        assert print_kernels(copies) == print_kernels(kernels)
        for kernel, made in zip(kernels, copies, strict=True):
            assert structure(made) == structure(kernel)
            assert parts_of(made).isdisjoint(parts_of(kernel))
            shared = {b for b in (*made.reads, *made.writes, *made.private) if b.space != "literal"}
            assert shared.isdisjoint((*kernel.reads, *kernel.writes, *kernel.private))


def test_kernels_of_a_copy_share_buffers_as_the_others_do():
    kernels = kernels_of("mlp")
    (old,) = (b for b in kernels[0].reads if b.name == "x")
    new = Buffer("input", old.dtype, old.size, "external")
    copy = Renaming({old: new}, lambda text: f"other_{text}")
    copies = [copy.kernel(kernel, ()) for kernel in kernels]
    assert new in copies[0].reads
    assert copies[0].name == f"other_{kernels[0].name}"
    made = {copy.buffer(b) for k in kernels for b in (*k.reads, *k.writes)}
    assert made == {b for k in copies for b in (*k.reads, *k.writes)}
    assert {b.name for b in made} == {"input"} | {
        f"other_{b.name}" for k in kernels for b in (*k.reads, *k.writes) if b is not old
    }
