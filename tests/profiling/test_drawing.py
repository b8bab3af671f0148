"""Where kernels stand in the drawing."""

from hypothesis import given
from hypothesis import strategies as st

from adjoint.profiling.drawing import place_kernels
from adjoint.profiling.places import Edge
from adjoint.training.parts import BACKWARD, BACKWARD_UPDATE, FORWARD, PARTS


def edge(source, target):
    return Edge(source, target, ("b",), 4)


def test_forward_goes_down_and_backward_up_beside_what_it_reads():
    parts = [FORWARD] * 3 + [BACKWARD] * 2 + [BACKWARD_UPDATE] * 2
    edges = [edge(0, 1), edge(1, 2), edge(2, 3), edge(1, 4), edge(3, 4), edge(3, 5), edge(4, 6)]
    boxes = place_kernels(parts, edges)
    assert boxes[0].y < boxes[1].y < boxes[2].y
    assert len({box.x for box in boxes[:3]}) == 1
    assert boxes[3].y == boxes[2].y
    assert boxes[4].y == boxes[1].y
    assert (boxes[5].y, boxes[6].y) == (boxes[3].y, boxes[4].y)
    assert boxes[0].x < boxes[3].x < boxes[5].x


def test_what_reads_nothing_stands_right_before_its_reader():
    boxes = place_kernels([FORWARD] * 4, [edge(0, 1), edge(1, 3), edge(2, 3)])
    assert boxes[2].y == boxes[1].y
    assert boxes[1].x < boxes[2].x


def test_nothing_is_placed_where_there_is_nothing():
    assert place_kernels([], []) == []


@st.composite
def programs(draw):
    count = draw(st.integers(1, 25))
    parts = draw(st.lists(st.sampled_from(PARTS), min_size=count, max_size=count))
    pairs = draw(st.sets(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=60))
    return parts, [edge(*pair) for pair in sorted(pairs, key=lambda p: (p[1], p[0])) if pair[0] < pair[1]]


@given(programs())
def test_boxes_never_cover_each_other(program):
    boxes = place_kernels(*program)
    assert len({(box.x, box.y) for box in boxes}) == len(boxes)
    assert all(box.x > 0 and box.y > 0 for box in boxes)
    for lane, other in ((0, 1), (1, 2), (0, 2)):
        left = max((box.x for box in boxes if box.lane == lane), default=0)
        right = min((box.x for box in boxes if box.lane == other), default=1e9)
        assert left < right
