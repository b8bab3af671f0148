"""Golden texts of the passes: a program, and what the pass makes of it.

``<pass>/<case>.txt`` holds both, with a line ``=== after`` in between. Where the pass leaves the program unchanged, the
file ends with ``=== unchanged`` instead. Graph passes go from graphs to graphs and kernel passes from kernels to
kernels; `fuse` and `build_kernels` go from a graph to groups and to kernels, `plan_memory` from kernels to the plan.
Lines in front of the program that begin with ``#`` say what the case shows.

Kernels say nothing of parameters: external buffers called ``result...`` are results, and any other external buffer that
is written is a parameter updated in place. For `bound_rows`, buffers whose names begin with x hold eight rows.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from adjoint import ops, transforms
from adjoint.codegen.targets import target_for
from adjoint.ir.printer import value_names
from adjoint.kernel.ir import Buffer
from adjoint.kernel.parser import parse_kernels
from adjoint.kernel.printer import print_kernels, print_program
from adjoint.kernel.program import Program
from adjoint.lower.build_kernels import build_kernels
from adjoint.lower.expand import expand_math
from adjoint.lower.fusion.compute_at import compute_at
from adjoint.lower.fusion.groups import fuse, print_groups
from adjoint.lower.fusion.horizontal import fuse_horizontally
from adjoint.lower.fusion.producer_consumer import fuse_producers
from adjoint.lower.interleave import interleave
from adjoint.lower.passes import KERNEL_PASSES, PassContext, name_kernels
from adjoint.lower.program import lower
from adjoint.lower.schedule.bound_rows import bound_rows
from adjoint.lower.schedule.coalescing import coalesce_serial
from adjoint.lower.schedule.dead_kernels import eliminate_dead_kernels
from adjoint.lower.schedule.lifetimes import shorten_lifetimes
from adjoint.lower.schedule.memory import plan_arena
from adjoint.lower.schedule.order import barriers, order_kernels
from adjoint.lower.schedule.rows import Batch, RowLayout
from adjoint.lower.schedule.serialize_small import serialize_small
from adjoint.lower.schedule.unroll_and_jam import unroll_and_jam
from adjoint.transforms.batch_axis import batch_inputs
from adjoint.transforms.fuse_cross_entropy import fuse_cross_entropy
from adjoint.transforms.keep_padded import keep_padded
from adjoint.transforms.mask_batch import mask_batch
from adjoint.transforms.merge_loops import merge_loops
from adjoint.transforms.polyphase import polyphase
from adjoint.transforms.rematerialize import rematerialize
from adjoint.transforms.resize_batch import resize_batch
from adjoint.transforms.separate_results import separate_results

FOLDER = Path(__file__).parent
AFTER, UNCHANGED = "=== after", "=== unchanged"

#: The CPU of all golden texts, whatever machine they are made on.
TARGET = target_for("avx2")


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass with golden texts.

    Parameters
    ----------
    function : callable
        What implements it: its docstring, or that of its module, has the picture.
    kind : str
        ``graph`` and ``kernels`` for passes from and to those; ``groups``, ``build`` and ``plan`` for those in between.
    made : callable
        From an IRModule or a list of kernels to the text that the pass makes of it.
    """

    function: Callable
    kind: str
    made: Callable


def updated(kernels):
    """The parameters that kernels update in place."""
    return frozenset(b for k in kernels for b in k.writes if b.space == "external" and not b.name.startswith("result"))


def program_of(kernels):
    """A program of kernels in order, with its arena planned."""
    offsets, arena, bound = plan_arena(kernels)
    slots = dict.fromkeys(b for k in kernels for b in (*k.reads, *k.writes) if b.space == "external")
    waits = barriers(kernels, offsets)
    return Program("main", (), (), tuple(slots), tuple(kernels), waits, offsets, arena, bound, {})


def built(function):
    """The kernels that a graph becomes, before any kernel pass."""
    seen = {}
    lower(function, TARGET, value_names(function), after=seen.__setitem__)
    return seen["build_kernels"]


def examples(function):
    """The axes that golden texts map: the first one of each parameter whose name begins with x."""
    return [0 if p.label.startswith("x") else None for p in function.params]


def _graph(function, made):
    return Pass(function, "graph", lambda module: str(made(module)))


def _kernels(name, function):
    def made(kernels):
        return print_kernels(KERNEL_PASSES[name](kernels, PassContext(TARGET, updated(kernels))))

    return Pass(function, "kernels", made)


def bounded(kernels):
    """The kernels for at most eight rows, which buffers hold whose names begin with x; ``rows`` are present."""
    buffers = {b for k in kernels for b in (*k.reads, *k.writes)}
    rows = next((b for b in buffers if b.name == "rows"), Buffer("rows", np.dtype(np.int32), 1, "external"))
    layouts = {b: RowLayout(b.size // 8) for b in buffers if b.name.startswith("x")}
    return bound_rows(kernels, Batch(rows, 8, layouts)).kernels


PASSES = {
    "append_loss": _graph(transforms.append_loss, lambda m: transforms.append_loss(m["backbone"], m["loss"])),
    "differentiate": _graph(transforms.gradient, lambda m: transforms.gradient(m["main"])),
    "jvp": _graph(transforms.jvp, lambda m: transforms.jvp(m["main"])),
    "vectorize": _graph(transforms.vectorize, lambda m: transforms.vectorize(m["main"], examples(m["main"]), 5)),
    "prune_params": _graph(transforms.prune_params, lambda m: transforms.prune_params(m["main"])),
    "rematerialize": _graph(rematerialize, lambda m: rematerialize(m["main"], 0)),
    "mask_batch": _graph(mask_batch, lambda m: mask_batch(m["main"], batch_inputs(m["main"], m["main"].params))),
    "resize_batch": _graph(
        resize_batch, lambda m: resize_batch(m["main"], batch_inputs(m["main"], m["main"].params), 2)
    ),
    "inline_calls": _graph(transforms.inline_calls, lambda m: transforms.inline_calls(m["main"])),
    "polyphase": _graph(polyphase, lambda m: polyphase(m["main"])),
    "simplify": _graph(transforms.simplify, lambda m: transforms.simplify(m["main"])),
    "cse": _graph(transforms.cse, lambda m: transforms.cse(m["main"])),
    "fuse_cross_entropy": _graph(fuse_cross_entropy, lambda m: fuse_cross_entropy(m["main"])),
    "merge_loops": _graph(merge_loops, lambda m: merge_loops(m["main"])),
    "keep_padded": _graph(keep_padded, lambda m: keep_padded(m["main"])),
    "separate_results": _graph(separate_results, lambda m: separate_results(m["main"])),
    "fuse": Pass(fuse, "groups", lambda m: print_groups(fuse(m["main"]), value_names(m["main"]))),
    "build_kernels": Pass(build_kernels, "build", lambda m: print_kernels(built(m["main"]))),
    "order_kernels": _kernels("order_kernels", order_kernels),
    "eliminate_dead_kernels": _kernels("eliminate_dead_kernels", eliminate_dead_kernels),
    "compute_at": _kernels("compute_at", compute_at),
    "fuse_horizontally": _kernels("fuse_horizontally", fuse_horizontally),
    "fuse_producers": _kernels("fuse_producers", fuse_producers),
    "unroll_and_jam": _kernels("unroll_and_jam", unroll_and_jam),
    "serialize_small": _kernels("serialize_small", serialize_small),
    "coalesce_serial": _kernels("coalesce_serial", coalesce_serial),
    "name_kernels": _kernels("name_kernels", name_kernels),
    "bound_rows": Pass(bound_rows, "kernels", lambda kernels: print_kernels(bounded(kernels))),
    "shorten_lifetimes": Pass(shorten_lifetimes, "kernels", lambda kernels: print_kernels(shorten_lifetimes(kernels))),
    "plan_memory": Pass(plan_arena, "plan", lambda kernels: print_program(program_of(kernels)).partition("\n\n")[0]),
    "expand_math": Pass(expand_math, "kernels", lambda kernels: print_kernels(map(expand_math, kernels))),
    "interleave": Pass(interleave, "kernels", lambda kernels: print_kernels(map(interleave, kernels))),
}

CASES = sorted(path.relative_to(FOLDER).as_posix() for name in PASSES for path in (FOLDER / name).glob("*.txt"))


def pass_of(case):
    """The pass that a case is of."""
    return PASSES[Path(case).parent.name]


def halves(case):
    """The program, and what is recorded of it after the pass, each without blanks around it."""
    text = (FOLDER / case).read_text()
    before, mark, after = re.split(rf"^({AFTER}|{UNCHANGED})$", text, flags=re.MULTILINE)
    assert (mark == UNCHANGED) == (not after.strip()), f"{case}: {AFTER} comes before a text, {UNCHANGED} before none"
    return before.strip(), after.strip() or without_remarks(before)


def without_remarks(text):
    """A program without the lines in front of it that say what the case shows."""
    return re.sub(r"\A(#.*\n)*", "", text.strip()).strip()


def read(text, kind):
    """An IRModule, or a list of kernels, from its text."""
    return list(parse_kernels(without_remarks(text))) if kind in ("kernels", "plan") else ops.parse(text)


def made(name, before):
    """What a pass makes of a text today."""
    return PASSES[name].made(read(before, PASSES[name].kind))


def rewrite(case):
    """Write what the pass makes of a case's program anew."""
    before, _ = halves(case)
    after = made(Path(case).parent.name, before)
    same = after == without_remarks(before)
    (FOLDER / case).write_text(f"{before}\n\n{UNCHANGED}\n" if same else f"{before}\n\n{AFTER}\n\n{after}\n")
