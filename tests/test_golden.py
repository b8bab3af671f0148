"""Every pass on the programs of ``tests/golden/<pass>``: the text that it makes, and that it means the same."""

from pathlib import Path

import numpy as np
import pytest

from adjoint import ops
from adjoint.ir import is_float, verify
from adjoint.kernel.parser import parse_kernels
from adjoint.kernel.printer import print_kernels
from adjoint.kernel.races import verify_barriers
from adjoint.kernel.verifier import verify_kernel
from adjoint.lower.fusion.groups import fuse
from adjoint.ops.base import Elementwise
from adjoint.pipeline import PASSES as PIPELINE
from adjoint.testing.interpreter import interpret
from tests.golden.passes import (
    CASES,
    PASSES,
    halves,
    made,
    pass_of,
    program_of,
    read,
    updated,
    without_remarks,
)
from tests.golden.running import arena_of, by_dependences, in_order, parameters

#: Passes that only a memory budget adds.
FOR_A_BUDGET = ("rematerialize", "shorten_lifetimes")


def of_kind(*kinds, without=()):
    """The cases of passes of some kinds."""
    return [case for case in CASES if pass_of(case).kind in kinds and Path(case).parent.name not in without]


def test_every_pass_has_golden_texts():
    assert {Path(case).parent.name for case in CASES} == set(PASSES)
    assert {*PIPELINE, *FOR_A_BUDGET} <= set(PASSES)


@pytest.mark.parametrize("name", [*PIPELINE, *FOR_A_BUDGET])
def test_cases_show_what_a_pass_does_and_what_it_leaves_alone(name):
    cases = [halves(case) for case in CASES if Path(case).parent.name == name]
    assert len(cases) >= 2
    if PASSES[name].kind in ("graph", "kernels"):
        assert {after == without_remarks(before) for before, after in cases} == {True, False}


@pytest.mark.parametrize("case", CASES)
def test_golden(case):
    before, after = halves(case)
    assert made(Path(case).parent.name, before) == after


@pytest.mark.parametrize("case", of_kind("graph"))
def test_graphs_read_back(case):
    function = ops.parse_function(halves(case)[1])
    verify(function)
    assert str(function) == halves(case)[1]


@pytest.mark.parametrize("case", of_kind("kernels", "build", "plan"))
def test_kernels_read_back(case):
    texts = halves(case)
    wanted = {"kernels": texts, "build": texts[1:], "plan": texts[:1]}[pass_of(case).kind]
    for text in map(without_remarks, wanted):
        kernels = parse_kernels(text)
        assert print_kernels(kernels) == text
        for kernel in kernels:
            verify_kernel(kernel)


#: Passes that change what is computed: they add results or parameters, join functions, or change shapes.
ADDS = ("differentiate", "jvp", "vectorize", "append_loss", "prune_params", "mask_batch", "resize_batch")

#: Passes that change the order of additions.
REORDERS = ("fuse_cross_entropy",)


def results(case):
    """A graph's results before and after a pass, in pairs, for two draws of ordinary and two of special numbers."""
    before, after = (read(half, "graph")["main"] for half in halves(case))
    rng = np.random.default_rng(0)
    special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40, 3.0])
    for trial in range(4):
        arrays = []
        for p in before.params:
            drawn = rng.normal(size=p.shape) if trial < 2 else rng.choice(special, p.shape)
            arrays.append(drawn.astype(p.dtype) if is_float(p.dtype) else rng.integers(0, 2, p.shape).astype(p.dtype))
        yield from zip(interpret(before, *arrays), interpret(after, *arrays), strict=True)


@pytest.mark.parametrize("case", of_kind("graph", without=(*ADDS, *REORDERS)))
def test_the_results_of_graphs_are_the_same_bits(case):
    for one, other in results(case):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(np.signbit(one[one == one]), np.signbit(other[other == other]))


#: Terms of the longest sum in those cases: each may be rounded once more.
TERMS = 2048


@pytest.mark.parametrize("case", [case for name in REORDERS for case in CASES if case.startswith(f"{name}/")])
def test_the_results_of_other_orders_of_additions_are_close(case):
    for one, other in results(case):
        np.testing.assert_array_equal(np.isnan(one), np.isnan(other))
        if np.isfinite(one).all():
            np.testing.assert_allclose(other, one, rtol=0, atol=TERMS * np.finfo(np.float32).eps * np.abs(one).max())


#: One of ordinary numbers and two of special ones.
TRIALS = (1, 2, 3)


@pytest.mark.parametrize("trial", TRIALS)
@pytest.mark.parametrize("case", of_kind("kernels", without=("expand_math",)))
def test_the_results_of_kernels_are_the_same_bits(case, trial):
    before, after = (read(half, "kernels") for half in halves(case))
    given = parameters(before, trial)
    # Before order_kernels, the order of kernels is not one to run them in.
    ordered = not case.startswith("order_kernels/")
    wanted = in_order(before, given) if ordered else by_dependences(before, given, updated(before))
    found = in_order(after, parameters(after, trial))
    assert {name: array.tobytes() for name, array in found.items()} == {
        name: array.tobytes() for name, array in wanted.items()
    }


#: Units in the last place by which an expansion and NumPy's function may differ: each errs by less than two.
EXPANDED_ULP = 4


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith("expand_math/")])
def test_expanded_functions_are_close(case):
    before, after = (read(half, "kernels") for half in halves(case))
    found, wanted = (in_order(kernels, parameters(kernels, 0)) for kernels in (after, before))
    for name, array in found.items():
        np.testing.assert_array_max_ulp(array[~np.isnan(array)], wanted[name][~np.isnan(wanted[name])], EXPANDED_ULP)


@pytest.mark.parametrize("trial", TRIALS)
@pytest.mark.parametrize("case", of_kind("plan"))
def test_buffers_that_share_places_hold_what_they_would_apart(case, trial):
    kernels = read(halves(case)[0], "plan")
    program = program_of(kernels)
    verify_barriers(program)
    given = parameters(kernels, trial)
    apart, together = in_order(kernels, given), in_order(kernels, given, arena_of(program))
    assert {n: a.tobytes() for n, a in together.items()} == {n: a.tobytes() for n, a in apart.items()}


@pytest.mark.parametrize("case", of_kind("build"))
def test_kernels_compute_what_the_graph_does(case):
    """On integers, of which sums are exact in any order."""
    function = read(halves(case)[0], "build")["main"]
    kernels = read(halves(case)[1], "kernels")
    rng = np.random.default_rng(0)
    arrays = {p.label: rng.integers(-8, 8, p.shape).astype(p.dtype) for p in function.params}
    given = parameters(kernels, 0) | {b: arrays[b.name].ravel() for b in parameters(kernels, 0) if b.name in arrays}
    found = by_dependences(kernels, given, updated(kernels))
    place = {index: name for name, index in function.attrs.get("donate", ())}
    for number, wanted in enumerate(interpret(function, *arrays.values())):
        np.testing.assert_array_equal(found[place.get(number, f"result{number}")], wanted.ravel())


@pytest.mark.parametrize("case", of_kind("groups", "build"))
def test_groups_can_be_computed_level_by_level(case):
    """From parameters, what lower levels store, and what costs no reduction: that computes results and members."""
    function = read(halves(case)[0], "groups")["main"]
    fusion = fuse(function)
    stored = {v: group.level for group in fusion.groups for v in group.outputs}
    assert set(function.results) <= set(stored)
    for group in fusion.groups:
        todo, seen = list(group.outputs), set()
        while todo:
            value = todo.pop()
            own = value in group.members
            if value in seen or value in function.params or (not own and stored.get(value, group.level) < group.level):
                continue
            seen.add(value)
            assert own or value not in fusion.group_of or isinstance(value.op, Elementwise), value
            todo.extend(value.inputs)
        assert group.root is None or group.root in seen
