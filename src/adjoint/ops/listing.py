"""A list of all operators and of the functions composed of them, for `adjoint ops` and `docs/operators.md`.

Everything in it is read from the code: summaries from docstrings, signatures from functions, and why an operator has no
gradient from the docstring of its `vjp`, which then begins with ``None:``.
"""

import inspect
from collections.abc import Callable
from typing import Any

from adjoint import ops
from adjoint.ir.methods import Methods
from adjoint.lazy_dataclass import dataclass
from adjoint.ops import random
from adjoint.ops.calls import Call, CustomCall
from adjoint.ops.catalogue import FAMILIES
from adjoint.ops.control import Branch, Scan, While

__all__ = ["Listed", "listed_operators"]

#: What is public in `adjoint.ops` and does not build graphs: functions that read graph text or return arrays, and the
#: module whose functions are listed by their full names.
_NOT_OPERATORS = {"parse", "parse_function", "random", "random.key_array", "random.permutation_array"}

#: The families of functions that are no operators of the catalogue, by the file that they are in. They are named after
#: what a model uses them for, with the terms of the literature.
_FAMILY_OF_FILE = {
    "activations": "activation",
    "calls": "control flow",
    "composites": "activation",
    "control": "control flow",
    "control_flow": "control flow",
    "convolve": "convolution",
    "create": "creation",
    "diagonals": "shape",
    "dynamic": "indexing",
    "einsum": "contraction",
    "elementary": "arithmetic",
    "gathering": "indexing",
    "grid_sampling": "resizing",
    "group_normalization": "normalization",
    "index": "indexing",
    "indexing": "indexing",
    "linalg": "linear algebra",
    "norms": "reduction",
    "padding": "shape",
    "pool": "pooling",
    "random_distributions": "random",
    "random_floats": "random",
    "random_keys": "random",
    "reduce": "reduction",
    "resize": "resizing",
    "slicing": "shape",
    "views": "shape",
}

#: The families of functions that are not those of their file.
_FAMILY = {
    name: family
    for family, names in {
        "rounding": ("ceil", "frac", "trunc"),
        "exponential": ("log10", "logaddexp", "logaddexp2", "logit", "xlogy"),
        "trigonometric": ("deg2rad", "rad2deg", "sinc"),
        "comparison": ("isfinite", "isinf", "isnan", "isneginf", "isposinf", "signbit"),
        "arithmetic": ("diff",),
        "creation": ("eye", "full_like"),
        "shape": ("broadcast",),
        "reduction": ("all", "any", "logsumexp", "variance"),
        "contraction": ("linear",),
        "indexing": ("embedding",),
        "random": ("dropout",),
    }.items()
    for name in names
}

#: Functions of operators outside of the catalogue, which hold other functions.
_HOLDING = frozenset((Call.name, CustomCall.name, Scan.name, Branch.name, While.name))

#: Functions without a gradient, and why.
_CONSTANT = {
    "eye": "the result does not depend on anything",
    "floor_divide": "integers have no gradient",
    "full_like": "the result does not depend on the elements",
    "all": "a bool is not differentiable",
    "any": "a bool is not differentiable",
    "count_nonzero": "integers have no gradient",
    "heaviside": "the gradient is 0",
    "random.bernoulli": "a bool is not differentiable",
    **dict.fromkeys(("ceil", "trunc"), "the gradient is 0"),
    **dict.fromkeys(("isfinite", "isinf", "isnan", "isneginf", "isposinf", "signbit"), "a bool is not differentiable"),
    "while_loop": "the number of iterations is not known before they run; there are forward derivatives",
} | {
    f"random.{name}": reason
    for reason, names in (
        ("integers have no gradient", ("bits", "categorical", "fold_in", "key", "poisson", "randint", "split")),
        ("the result depends on the key only", ("cauchy", "exponential", "gumbel", "laplace", "normal")),
        ("the parameters of the distribution have none", ("truncated_normal",)),
        ("the result is piecewise constant", ("geometric",)),
    )
    for name in names
}

#: Python's syntax, and methods and properties of another name than the function's.
_PYTHON = {
    "abs": ("abs(x)",),
    "add": ("x + y",),
    "cast": ("x.astype()",),
    "expand_dims": ("x.unsqueeze()",),
    "floor_divide": ("x // y",),
    "getitem": ("x[...]",),
    "greater": ("x > y",),
    "greater_equal": ("x >= y",),
    "less": ("x < y",),
    "less_equal": ("x <= y",),
    "logical_and": ("x & y",),
    "logical_not": ("~x",),
    "logical_or": ("x | y",),
    "logical_xor": ("x ^ y",),
    "matmul": ("x @ y",),
    "multiply": ("x * y",),
    "negative": ("-x",),
    "power": ("x ** y",),
    "subtract": ("x - y",),
    "swapaxes": ("x.mT",),
    "transpose": ("x.T",),
    "true_divide": ("x / y",),
    "variance": ("x.var()",),
}


@dataclass(frozen=True, slots=True)
class Listed:
    """An operator or a composite.

    Parameters
    ----------
    name : str
        The name of the operator in graph text, and of its function.
    family : str
        Its family.
    summary : str
        The first line of its docstring.
    signature : str or None
        How its function is called; None if it has no function, because only composites, gradients and passes create it.
    python : tuple of str
        Python's syntax for it, and the methods and properties of a value that call it.
    reason : str
        Why it has no gradient; empty if it has one.
    composite : bool
        Whether it is built from other operators; if so, graphs contain those instead.
    """

    name: str
    family: str
    summary: str
    signature: str | None
    python: tuple[str, ...]
    reason: str
    composite: bool

    @property
    def gradient(self) -> bool:
        """Whether it has a gradient."""
        return not self.reason


def listed_operators() -> list[Listed]:
    """All operators and composites: family by family, in each the operators in the order of the catalogue first."""
    public = {name: getattr(ops, name) for name in ops.__all__}
    public |= {f"random.{name}": getattr(random, name) for name in random.__all__}
    functions = {name: function for name, function in public.items() if name not in _NOT_OPERATORS}
    found = {}
    for family, classes in FAMILIES.items():
        for op in classes:
            function = functions.pop(op.name, None)
            found[op.name] = _listed(op.name, family, function, op, _reason(op.vjp), composite=False)
    for name, function in functions.items():
        file = function.__module__.rpartition(".")[2]
        family = _FAMILY.get(name, _FAMILY_OF_FILE.get(file, file))
        found[name] = _listed(name, family, function, None, _CONSTANT.get(name, ""), composite=name not in _HOLDING)
    order = list(dict.fromkeys([*FAMILIES, *(each.family for each in found.values())]))
    return sorted(found.values(), key=lambda each: order.index(each.family))


def _listed(
    name: str, family: str, function: Callable[..., Any] | None, op: object, reason: str, *, composite: bool
) -> Listed:
    python = (f"x.{name}()",) if hasattr(Methods, name) else ()
    return Listed(
        name,
        family,
        _first_line(function or op),
        _signature(name, function) if function else None,
        (*_PYTHON.get(name, ()), *python) if function else (),
        reason,
        composite,
    )


def _signature(name: str, function: Callable[..., Any]) -> str:
    """The call of a function, with its defaults but without the types."""
    signature = inspect.signature(function)
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    return f"{name}{signature.replace(parameters=bare, return_annotation=inspect.Signature.empty)}"


def _first_line(documented: object) -> str:
    return (inspect.getdoc(documented) or "").partition("\n")[0]


def _reason(vjp: object) -> str:
    """Why there is no gradient, as the docstring of a `vjp` says."""
    rule, _, reason = _first_line(vjp).partition(": ")
    return reason.removesuffix(".") if rule == "None" else ""
