"""Hypothesis strategies for the random functions of `adjoint.testing.grown`. They require the ``test`` extra.

::

    @given(functions())
    def test_text_reads_back(function):
        assert parse_function(str(function)) == function
"""

from collections.abc import Callable, Sequence
from typing import Any

import hypothesis.strategies as st

from adjoint.ir import Function
from adjoint.testing.control_recipes import CALL
from adjoint.testing.growing import Growing
from adjoint.testing.grown import arguments, function_of, grown, loss_of
from adjoint.testing.recipes import RECIPES

__all__ = ["NAMES", "arguments", "functions", "losses"]

#: The `draw` function of a composite strategy.
Draw = Callable[[st.SearchStrategy[Any]], Any]

#: Names of the operators that have a recipe.
NAMES = tuple(RECIPES)


@st.composite
def functions(
    draw: Draw,
    max_ops: int = 10,
    names: Sequence[str] = NAMES,
    calls: bool = False,
    smooth: bool = False,
) -> Function:
    """Random valid functions.

    Parameters
    ----------
    draw : callable
        Passed by Hypothesis.
    max_ops : int, default 10
        Maximum number of operators; some add helpers, such as a scaling.
    names : sequence of str, default all
        The operators to use.
    calls : bool, default False
        Whether to include calls of other functions.
    smooth : bool, default False
        Whether operators with kinks are applied only to values without rounding errors, so that gradients can be
        compared.
    """
    return function_of(_grown(draw, max_ops, names, calls, smooth))


@st.composite
def losses(
    draw: Draw, max_ops: int = 8, names: Sequence[str] = NAMES, calls: bool = False, smooth: bool = True
) -> Function:
    """Random functions with at least one float parameter and an f32 or f64 scalar result, for differentiation.

    Parameters as for `functions`; `smooth` is True by default.
    """
    return loss_of(_grown(draw, max_ops, names, calls, smooth))


def _grown(draw: Draw, max_ops: int, names: Sequence[str], calls: bool, smooth: bool) -> Growing:
    recipes = [*(RECIPES[name] for name in names), *([CALL] if calls else [])]
    return grown(lambda options: draw(st.sampled_from(options)), draw(st.integers(1, max_ops)), recipes, smooth)
