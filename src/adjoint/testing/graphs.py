"""Hypothesis strategies for random functions over the whole CATALOGUE. They require the ``test`` extra.

::

    @given(functions())
    def test_text_reads_back(function):
        assert parse_function(str(function)) == function

Shapes are small, with sizes 1, 7, 17 and 33 that are no multiple of a vector width; values are shared, and there are
several results. The graphs are well-conditioned, so that two correct programs for a graph agree closely: magnitudes
stay small, nothing is NaN, and discontinuous operators (a comparison, floor, argmax, a cast to integers) are applied
only to values without rounding errors.
"""

from collections.abc import Sequence

import hypothesis.strategies as st
import numpy as np

from adjoint import ops
from adjoint.errors import InvalidValueError
from adjoint.ir import DTYPES, Function, Value, apply, is_float, is_integer, toposort
from adjoint.ops.base import Operator, Sample
from adjoint.ops.catalogue import CATALOGUE
from adjoint.testing.growing import INTEGER_BOUND, Draw, Growing, Node
from adjoint.testing.recipes import CALL, RECIPES, Recipe

__all__ = ["NAMES", "arguments", "functions", "losses", "sample_recipe"]

#: Names of all operators.
NAMES = tuple(operator.name for operator in CATALOGUE)


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
    names : sequence of str, default all of CATALOGUE
        The operators to use.
    calls : bool, default False
        Whether to include calls of other functions.
    smooth : bool, default False
        Whether operators with kinks are applied only to values without rounding errors, so that gradients can be
        compared.
    """
    grown = _grown(draw, max_ops, names, calls, smooth)
    last = grown.nodes[-1].value
    used = {operand for value in toposort(node.value for node in grown.nodes) for operand in value.inputs}
    loose = [node.value for node in grown.nodes if node.value not in used and node.value is not last]
    inside = [draw(st.sampled_from(grown.nodes)).value] if draw(st.booleans()) else []
    return Function("random", tuple(grown.params), (last, *loose[-3:], *inside))


@st.composite
def losses(
    draw: Draw, max_ops: int = 8, names: Sequence[str] = NAMES, calls: bool = False, smooth: bool = True
) -> Function:
    """Random functions with at least one float parameter and an f32 or f64 scalar result, for differentiation.

    Parameters as for `functions`; `smooth` is True by default.
    """
    grown = _grown(draw, max_ops, names, calls, smooth)
    dtype = next((p.dtype for p in grown.params if is_float(p.dtype)), None)
    if dtype is None:
        dtype = grown.parameter((3,)).value.dtype
    used: list[Node] = [node for node in grown.nodes if node.kind == "float"][-3:]
    terms = [ops.cast(ops.mean(node.value), dtype) for node in used]
    total = terms[0]
    for term in terms[1:]:
        total = ops.add(total, term)
    return Function("loss", tuple(grown.params), (total,))


def _grown(draw: Draw, max_ops: int, names: Sequence[str], calls: bool, smooth: bool) -> Growing:
    growing = Growing(draw, smooth)
    growing.parameter(growing.shape())
    recipes = {name: _ALL[name] for name in names}
    if calls:
        recipes["call"] = CALL
    for _ in range(draw(st.integers(1, max_ops))):
        growing.add(recipes[draw(st.sampled_from(list(recipes)))](growing))
    return growing


def sample_recipe(operator: type[Operator]) -> Recipe:
    """A recipe for an operator that has none: apply it to the inputs of one of its samples, as constants.

    Raises
    ------
    InvalidValueError
        If every sample contains 16-bit floats, infinities or NaN.
    """
    found = [(s, s.op.reference(*s.inputs)) for s in operator.samples() if not s.error and s.gradient]
    plain = [(s, made) for s, made in found if _is_plain(s, made)]
    if not plain:
        raise InvalidValueError(f"{operator.name}: no sample is finite with plain dtypes; write a recipe for it")

    def recipe(g: Growing) -> Node:
        sample, made = g.choose(plain)
        value = apply(sample.op, *(ops.constant(x) for x in sample.inputs))
        return Node(value, float(np.max(np.abs(made.astype(np.float64)), initial=0.0)), not is_float(made.dtype))

    return recipe


def _is_plain(sample: Sample, made: np.ndarray) -> bool:
    """Whether there are results, and neither these nor the inputs are 16-bit floats, infinite or NaN."""
    half = (DTYPES["f16"], DTYPES["bf16"])
    return made.size > 0 and all(x.dtype not in half and np.isfinite(x).all() for x in (made, *sample.inputs))


_ALL: dict[str, Recipe] = {op.name: RECIPES.get(op.name) or sample_recipe(op) for op in CATALOGUE}


def arguments(function: Function, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Random arguments for a function from `functions`: floats in [-2, 2), integers in [-3, 3], bool."""
    rng = np.random.default_rng(seed)
    return tuple(_argument(p, rng) for p in function.params)


def _argument(parameter: Value, rng: np.random.Generator) -> np.ndarray:
    shape, dtype = parameter.shape, parameter.dtype
    if is_float(dtype):
        return np.asarray(rng.uniform(-2, 2, shape)).astype(dtype)
    if is_integer(dtype):
        low = 0 if dtype.kind == "u" else -int(INTEGER_BOUND)
        return np.asarray(rng.integers(low, int(INTEGER_BOUND) + 1, shape)).astype(dtype)
    return np.asarray(rng.integers(0, 2, shape)).astype(dtype)
