"""Random functions over the whole CATALOGUE, grown operator by operator from their recipes.

Shapes are small, with sizes 1, 7, 17 and 33 that are no multiple of a vector width; values are shared, and there are
several results. The graphs are well-conditioned, so that two correct programs for a graph agree closely: magnitudes
stay small, nothing is NaN, and discontinuous operators (a comparison, floor, argmax, a cast to integers) are applied
only to values without rounding errors.

`program` makes the one with a number, which is the same everywhere, and `adjoint.testing.graphs` those that Hypothesis
chooses and shrinks.
"""

import random
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from adjoint import ops
from adjoint.ir import Function, Value, is_float, is_integer, toposort
from adjoint.lazy_dataclass import dataclass
from adjoint.testing.composite_recipes import COMPOSITES
from adjoint.testing.control_recipes import CALL, LOOPS, WHILE
from adjoint.testing.growing import INTEGER_BOUND, Choose, Growing, Node
from adjoint.testing.operands import Recipe
from adjoint.testing.recipes import RECIPES
from adjoint.transforms.differentiate import gradient
from adjoint.transforms.jvp import jvp
from adjoint.transforms.vectorize import vectorize

__all__ = ["KINDS", "Program", "arguments", "function_of", "grown", "loss_of", "program"]


def grown(choose: Choose, count: int, recipes: Sequence[Recipe], smooth: bool) -> Growing:
    """A graph with a number of operators.

    Parameters
    ----------
    choose : callable
        Returns one of a sequence of options.
    count : int
        Number of operators; some recipes add helpers, such as a scaling.
    recipes : sequence of callable
        What to choose from.
    smooth : bool
        Whether operators with kinks are applied only to values without rounding errors, so that gradients can be
        compared.
    """
    growing = Growing(choose, smooth)
    growing.parameter(growing.shape())
    for _ in range(count):
        growing.add(choose(recipes)(growing))
    return growing


def function_of(growing: Growing) -> Function:
    """A function with several results: the last value, up to three that nothing uses, and perhaps one inside."""
    last = growing.nodes[-1].value
    used = {operand for value in toposort(node.value for node in growing.nodes) for operand in value.inputs}
    loose = [node.value for node in growing.nodes if node.value not in used and node.value is not last]
    inside = [growing.choose(growing.nodes).value] if growing.flag() else []
    return Function("random", tuple(growing.params), (last, *loose[-3:], *inside))


def loss_of(growing: Growing) -> Function:
    """A function whose result is the sum of the means of the last three floats: an f32 or f64 scalar."""
    plain = [p.dtype for p in growing.params if is_float(p.dtype) and p.dtype.itemsize > 2]
    dtype = plain[0] if plain else growing.parameter((3,)).value.dtype
    used: list[Node] = [node for node in growing.nodes if node.kind == "float"][-3:]
    terms = [ops.cast(ops.mean(node.value), dtype) for node in used]
    total = terms[0]
    for term in terms[1:]:
        total = ops.add(total, term)
    return Function("loss", tuple(growing.params), (total,))


def arguments(function: Function, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Random arguments for a random function: floats in [-2, 2), integers in [-3, 3], bool."""
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


@dataclass(frozen=True, slots=True)
class Program:
    """A random program with arguments.

    Parameters
    ----------
    number : int
        The number that identifies it.
    kind : str
        Which of `KINDS` it is.
    source : Function
        The function as it was grown.
    function : Function
        What was made of it.
    arrays : tuple of numpy.ndarray
        One argument per parameter of `function`.
    steps : tuple of str
        Names of the recipes applied, in order.
    """

    number: int
    kind: str
    source: Function
    function: Function
    arrays: tuple[np.ndarray, ...]
    steps: tuple[str, ...]


def _forward(function: Function, choose: Choose) -> Function:  # noqa: ARG001
    return function


def _gradient(function: Function, choose: Choose) -> Function:  # noqa: ARG001
    return gradient(function)


def _tangent(function: Function, choose: Choose) -> Function:  # noqa: ARG001
    return jvp(function) if any(is_float(p.dtype) for p in function.params) else function


def _second(function: Function, choose: Choose) -> Function:  # noqa: ARG001
    """The gradient, and its derivative along a direction: products with the Hessian."""
    return jvp(gradient(function))


def _mapped(function: Function, choose: Choose) -> Function:
    """Three examples, of which some parameters are common to all."""
    axes = [choose((0, None)) for _ in function.params]
    return vectorize(function, axes if 0 in axes else 0, 3)


#: What a program is, by its number: how it is made of a function, and whether that is a smooth loss.
KINDS: Mapping[str, tuple[Callable[[Function, Choose], Function], bool]] = {
    "forward": (_forward, False),
    "gradient": (_gradient, True),
    "tangent": (_tangent, True),
    "second": (_second, True),
    "mapped": (_mapped, False),
}


def program(number: int, most: int = 8) -> Program:
    """The program with a number: a random function over all operators, composites, loops, branches and calls.

    Parameters
    ----------
    number : int
        Identifies the program. Its remainder by 5 is the position of its kind in `KINDS`.
    most : int, default 8
        Maximum number of recipes. With a smaller one, the program is the beginning of the same one, which is how to
        find the smallest that fails.
    """
    kind = tuple(KINDS)[number % len(KINDS)]
    make, smooth = KINDS[kind]
    drawn = random.Random(number)
    recipes: dict[str, Recipe] = {**RECIPES, **COMPOSITES, **LOOPS, "call": CALL}
    if kind not in ("gradient", "second"):
        recipes["while_loop"] = WHILE
    steps: list[str] = []

    def choose(names: Sequence[str]) -> Recipe:
        steps.append(drawn.choice(names))
        return recipes[steps[-1]]

    growing = Growing(drawn.choice, smooth)
    growing.parameter(growing.shape())
    for _ in range(min(drawn.randint(1, 8), most)):
        # Loops and branches are few among the names, but many in what can go wrong.
        growing.add(choose(tuple(recipes) if drawn.random() < 0.85 else tuple(LOOPS))(growing))
    source = loss_of(growing) if smooth else function_of(growing)
    function = make(source, drawn.choice)
    return Program(number, kind, source, function, arguments(function, number), tuple(steps))
