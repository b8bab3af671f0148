"""Line charts: where points and ticks are, and what long curves become."""

import re

import numpy as np
import pytest

from adjoint.training.report.charts import Series, draw_chart, number


def points(path):
    """The coordinates of a path."""
    return [tuple(map(float, pair.split())) for pair in re.split("[ML]", path.rstrip("Z"))[1:]]


def chart(y, x=None, **options):
    x = np.arange(1, len(y) + 1) if x is None else x
    return draw_chart("Loss", [Series("loss", np.array(x, np.float64), np.array(y, np.float64), **options)])


def test_points_are_between_the_ends_of_the_axes():
    found = points(chart([0.0, 1.0, 2.0]).curves[0].path)
    assert [x for x, _ in found] == [66.0, 306.0, 546.0]
    high, middle, low = (found[i][1] for i in (2, 1, 0))
    assert 12 <= high < middle < low <= 260
    assert middle == pytest.approx((high + low) / 2)


def test_ticks_are_round_numbers_at_their_places():
    drawn = chart([0.0, 1.0, 2.0], dots=True)
    places = {label.text: label.y - 4 for label in drawn.labels if label.anchor == "end" and label.text != "step"}
    assert set(places) == {"0", "0.5", "1", "1.5", "2"}
    heights = dict(zip(("0", "1", "2"), (y for _, y in points(drawn.curves[0].path)), strict=True))
    assert {text: places[text] for text in heights} == pytest.approx(heights, abs=0.01)
    assert [(dot.text, dot.y) for dot in drawn.dots] == [
        (f"loss {n}", pytest.approx(heights[str(n)], abs=0.01)) for n in (0, 1, 2)
    ]


def test_values_of_several_sizes_have_a_logarithmic_axis():
    found = [y for _, y in points(chart([1000.0, 1.0, 0.1, 0.01, 0.01]).curves[0].path)]
    assert found[2] - found[1] == pytest.approx(found[3] - found[2], abs=0.02)  # a tenth each
    assert found[1] - found[0] == pytest.approx(3 * (found[2] - found[1]), abs=0.05)  # three tenths of them


def test_long_curves_become_means_with_a_band():
    y = np.tile([0.0, 2.0], 4000)
    drawn = chart(y)
    assert len(points(drawn.curves[0].path)) == 400
    assert len({height for _, height in points(drawn.curves[0].path)}) == 1  # the mean of every part is 1
    low, high = (min(pair[i] for pair in points(drawn.bands[0].path)) for i in (0, 1))
    assert low >= 66
    assert high < points(drawn.curves[0].path)[0][1]


def test_numbers_that_are_not_finite_are_left_out():
    assert len(points(chart([1.0, np.nan, np.inf, 2.0]).curves[0].path)) == 2
    assert chart([np.nan]) is None
    assert chart([]) is None


def test_a_single_value_is_drawn():
    drawn = chart([3.0])
    assert len(drawn.dots) == 1
    assert (drawn.dots[0].x, drawn.dots[0].text) == (306.0, "loss 3")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.5, "0.5"), (0.12345, "0.1235"), (1234.5, "1,234"), (2e6, "2e6"), (1.5e-5, "1.5e-5"), (-3, "-3")],
)
def test_numbers_are_short(value, text):
    assert number(value) == text
