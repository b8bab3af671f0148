"""Software prefetch: every cache line once, a few in each step."""

import math

import numpy as np
import pytest

from adjoint.costs import MODEL, l2_bytes, prefetched_bytes
from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Buffer, For, Prefetch, Stmt, When
from adjoint.lower.context import Context
from adjoint.lower.contractions.prefetch import Region, prefetch_slots, region, spread_prefetches
from adjoint.lower.fusion.groups import Group

F32 = np.dtype(np.float32)
ELEMENTS = MODEL.line_bytes // 4
IMAGES, CHANNELS, ROWS, COLUMNS = 8, 16, 64, 64
X = Buffer("x", F32, IMAGES * CHANNELS * ROWS * COLUMNS, "arena")
N, C, Y, D, S = Var("n", IMAGES), Var("c", CHANNELS), Var("y", ROWS - 2), Var("r", 3), Var("x", COLUMNS)
PLACE = ((as_index(N) * CHANNELS + as_index(C)) * ROWS + as_index(Y) + as_index(D)) * COLUMNS + as_index(S)
GROUP = Group(None, (), 0)
CONTEXT = Context(MODEL, {}, {}, {})
ZERO = {v: as_index(0) for v in (N, C, Y, D, S)}


def prefetched(body: tuple[Stmt, ...], at: dict[Var, Index]) -> list[int]:
    """The elements that statements prefetch, by running them."""
    found: list[int] = []
    for statement in body:
        if isinstance(statement, Prefetch):
            place = statement.index.substitute(at)
            assert not place.terms
            found.append(place.constant)
        elif isinstance(statement, When):
            inside = statement.low <= statement.index.substitute(at).constant < statement.high
            found += prefetched(statement.then if inside else statement.other, at)
        else:
            assert isinstance(statement, For)
            for n in range(statement.var.extent):
                found += prefetched(statement.body, {**at, statement.var: as_index(n)})
    return found


def in_steps(regions: list[Region], steps: int) -> list[list[int]]:
    step = Var("step", steps)
    body = spread_prefetches(regions, as_index(step), steps)
    return [prefetched(body, {step: as_index(n)}) for n in range(steps)]


def elements(box: dict[Var, int], start: dict[Var, int]) -> set[int]:
    """The elements of a box, by NumPy."""
    every = np.arange(X.size).reshape(IMAGES, CHANNELS, ROWS, COLUMNS)
    first = [start.get(v, 0) for v in (N, C, Y, S)]
    size = [box.get(v, 1) for v in (N, C, Y, S)]
    size[2] += box.get(D, 1) - 1
    return set(every[tuple(slice(f, f + n) for f, n in zip(first, size, strict=True))].ravel().tolist())


@pytest.mark.parametrize(
    ("box", "start", "runs"),
    [
        ({N: 2, C: CHANNELS, Y: ROWS - 2, D: 3, S: COLUMNS}, {N: 3}, 1),
        ({C: CHANNELS, Y: 4, D: 3, S: COLUMNS}, {N: 1, Y: 8}, CHANNELS),
        ({N: 2, C: 4, Y: 8, S: COLUMNS}, {C: 8}, 8),
        ({S: COLUMNS, C: 4, Y: 2}, {C: 4, Y: 7}, 4),
    ],
)
@pytest.mark.parametrize("steps", [1, 37, 512, 4096])
def test_every_line_of_a_box_is_prefetched_once(box, start, runs, steps):
    found = region(CONTEXT, GROUP, X, PLACE, box, {**ZERO, **{v: as_index(n) for v, n in start.items()}})
    assert found is not None
    assert np.prod([count for count, _ in found.runs], initial=1) == runs
    lines = [place // ELEMENTS for step in in_steps([found], steps) for place in step]
    wanted = {element // ELEMENTS for element in elements(box, start)}
    each = -(-len(wanted) // steps)
    # The last step may prefetch past the end.
    assert set(lines[: len(wanted)]) == wanted
    assert len(lines) < len(wanted) + each


def test_columns_that_padding_leaves_out_do_not_break_a_run():
    whole = {Y: 8, S: COLUMNS - 2}
    found = region(CONTEXT, GROUP, X, PLACE, {**whole, C: 2}, ZERO)
    assert found is not None
    assert found.runs == ((2, ROWS * COLUMNS),)
    lines = {place // ELEMENTS for step in in_steps([found], 16) for place in step}
    assert {element // ELEMENTS for element in elements({**whole, C: 2}, {})} <= lines


def test_runs_that_do_not_begin_with_a_line_reach_into_one_more():
    rows = Var("k", 100)
    found = region(
        CONTEXT, GROUP, X, as_index(rows) * 529 + as_index(S), {rows: 100, S: 32}, {rows: as_index(0), S: as_index(3)}
    )
    assert found is not None
    lines = {place // ELEMENTS for step in in_steps([found], 16) for place in step}
    assert {(row * 529 + column + 3) // ELEMENTS for row in range(100) for column in range(32)} <= lines


def test_runs_at_even_distances_are_one_axis():
    every_second = as_index(N) * CHANNELS * ROWS * COLUMNS + as_index(C) * ROWS * COLUMNS + as_index(Y) * 4 * COLUMNS
    found = region(CONTEXT, GROUP, X, every_second + as_index(S) * 2, {N: IMAGES, C: CHANNELS, Y: 16, S: 32}, ZERO)
    assert found is not None
    assert found.runs == ((IMAGES * CHANNELS * 16, 4 * COLUMNS),)
    lines = [place for step in in_steps([found], 512) for place in step]
    assert lines == [row * 4 * COLUMNS + n * ELEMENTS for row in range(IMAGES * CHANNELS * 16) for n in range(4)]


def test_steps_prefetch_as_many_lines_each():
    first = region(CONTEXT, GROUP, X, PLACE, {C: 2, Y: 4, S: COLUMNS}, ZERO)
    second = region(CONTEXT, GROUP, X, PLACE, {C: 3, Y: 4, S: COLUMNS}, {**ZERO, N: as_index(4)}, write=True)
    assert first is not None
    assert second is not None
    assert [len(step) for step in in_steps([first, second], 20)] == [4] * 20
    assert [len(step) for step in in_steps([first, second], 100)] == [1] * 80 + [0] * 20
    # A step prefetches from one region, so a single one does so from the first.
    assert [len(step) for step in in_steps([first, second], 1)] == [first.lines]


def test_turns_share_the_lines_of_a_region():
    found = region(CONTEXT, GROUP, X, PLACE, {Y: 4, S: COLUMNS}, ZERO)
    assert found is not None
    turn = Var("turn", 4)
    body = spread_prefetches([found.share(as_index(turn), 4)], as_index(0), 1)
    each = [prefetched(body, {turn: as_index(n)}) for n in range(4)]
    assert [place for lines in each for place in lines] == [n * ELEMENTS for n in range(16)]


def test_what_is_near_is_not_prefetched():
    small, tiny = (Buffer("x", F32, size(MODEL) // 4 - 1, "arena") for size in (l2_bytes, prefetched_bytes))

    def is_prefetched(buffer: Buffer, far: frozenset[Buffer]) -> bool:
        context = Context(MODEL, {}, {}, {}, far={GROUP: far})
        return region(context, GROUP, buffer, as_index(S), {S: COLUMNS}, ZERO) is not None

    assert not is_prefetched(small, frozenset())
    assert is_prefetched(small, frozenset((small,)))
    assert not is_prefetched(tiny, frozenset((tiny,)))


def test_what_is_not_affine_is_not_prefetched():
    assert region(CONTEXT, GROUP, X, as_index(S) % 3 * 64, {S: COLUMNS}, ZERO) is None


def test_nothing_is_prefetched_where_there_is_no_region():
    assert spread_prefetches([], as_index(0), 4) == ()


@pytest.mark.parametrize(
    ("extents", "lines", "times", "around", "after"),
    [
        ((256,), 10, 1, 16, (16,)),
        ((64, 3, 3), 10, 1, 32, (2, 3, 3)),
        ((64, 3, 3), 100, 1, 64, (3, 3)),
        ((64, 3, 3), 300, 1, 192, (3,)),
        ((64, 3, 3), 300, 4, 64, (3, 3)),
        ((64, 3, 3), 5000, 1, 64 * 9, ()),
        ((97,), 2, 1, 1, (97,)),
        ((97,), 3, 1, 97, ()),
        ((5,), 1, 1, 1, (5,)),
    ],
)
def test_many_steps_follow_a_prefetch_if_that_makes_no_bursts(extents, lines, times, around, after):
    """16 steps or more if two lines at a time are enough; before each step if not even two steps may follow."""
    steps = [Var(f"k{n}", extent) for n, extent in enumerate(extents)]
    one = Region(X, as_index(0), (), lines, MODEL.line_bytes, False, as_index(0), lines)
    outer, inner, at = prefetch_slots([one], steps, times)
    assert math.prod(v.extent for v in outer) == around
    assert tuple(v.extent for v in inner) == after
    walk = [*outer, *inner]
    places = [
        tuple(
            at[step].substitute({v: as_index(n) for v, n in zip(walk, place, strict=True)}).constant for step in steps
        )
        for place in np.ndindex(*(v.extent for v in walk))
    ]
    assert places == list(np.ndindex(*extents))
