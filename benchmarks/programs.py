"""What the compiler makes of each workload's step for one target: facts that do not depend on a measurement.

`publish.py` writes them to the file of results, and the tests compute them again.
"""

from dataclasses import replace
from functools import cache
from math import prod
from typing import Any

from adjoint.codegen.targets import target_for
from adjoint.kernel.program import Program
from adjoint.kernel.structure import structure
from adjoint.kernel.target import Target
from adjoint.pipeline import lower_function
from benchmarks import workloads
from benchmarks.run import PEER_FOLDER
from benchmarks.worker import load_peer

__all__ = ["TARGET", "facts", "program_facts", "program_of", "target"]

#: The target that programs are described for: the level of x86-64 that the published benchmarks ran on.
TARGET = "avx512"


def target() -> Target:
    """`TARGET`, the same on every machine that computes the facts."""
    return replace(target_for(TARGET), triple="x86_64-unknown-linux-gnu", cores=1)


@cache
def program_of(name: str) -> tuple[Program, dict[str, int]]:
    """The program of a workload's step, and the number of kernels after each pass that makes any."""
    counts: dict[str, int] = {}

    def count(pass_name: str, made: Any) -> None:
        if isinstance(made, list):
            counts[pass_name] = len(made)

    module = load_peer(PEER_FOLDER / "adjoint.py").module_of(workloads.make(name))
    return lower_function(module["step"], target(), after=count), counts


def program_facts(name: str) -> dict[str, int]:
    """Facts about the program of a workload's step.

    Parameters
    ----------
    name : str
        A key of `workloads.WORKLOADS`.

    Returns
    -------
    dict of str to int
        ``kernels`` of the program and how many of them are ``distinct``, for the others share their code;
        ``uncoalesced``, the kernels before small serial ones are fused; ``barriers``; the ``arena_bytes`` that threads
        share, and the ``scratch_bytes`` of each thread; the ``parameter_bytes`` that a step updates, optimizer state
        included.
    """
    program, counts = program_of(name)
    names = list(counts)
    donated = [argument for argument in program.arguments if argument.donated]
    return {
        "kernels": len(program.kernels),
        "distinct": len({structure(kernel) for kernel in program.kernels}),
        "uncoalesced": counts[names[names.index("coalesce_serial") - 1]],
        "barriers": len(program.barriers),
        "arena_bytes": program.arena_bytes,
        "scratch_bytes": program.scratch_bytes,
        "parameter_bytes": sum(argument.dtype.itemsize * prod(argument.shape) for argument in donated),
    }


def facts() -> dict[str, Any]:
    """The section of the file of results: the target, and the facts of every workload."""
    return {"target": TARGET, "workloads": {name: program_facts(name) for name in workloads.WORKLOADS}}
