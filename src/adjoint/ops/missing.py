"""Functions that NumPy and PyTorch have and `adjoint.ops` does not, with what to use instead."""

from collections.abc import Sequence
from difflib import get_close_matches

from adjoint.errors import MissingAttributeError

__all__ = ["MISSING", "missing_function"]

#: What to do instead, by name.
MISSING = {
    "rand": "use random.uniform",
    "randn": "use random.normal",
    "randint": "use random.randint",
    "randperm": "use random.permutation",
    "bernoulli": "use random.bernoulli",
    "view": "use reshape",
    "ravel": "use flatten",
    "cat": "use concat",
    "concatenate": "use concat",
    "hstack": "use concat",
    "vstack": "use concat",
    "split": "use slices, as in x[:, :2]",
    "unsqueeze": "use expand_dims",
    "moveaxis": "use permute",
    "arange": "use iota, or constant with a NumPy array",
    "array": "use constant",
    "tensor": "use constant",
    "zeros": "use full",
    "ones": "use full",
    "zeros_like": "use full_like",
    "ones_like": "use full_like",
    "mm": "use matmul",
    "bmm": "use matmul",
    "dot": "use matmul",
    "clamp": "use clip",
    "pow": "use power",
    "var": "use variance",
    "std": "use variance and sqrt",
    "detach": "use stop_gradient",
    "cross_entropy": "use adjoint.losses",
    "mse_loss": "use adjoint.losses",
}


def missing_function(name: str, known: Sequence[str]) -> MissingAttributeError:
    """The error for a function that does not exist, with what to use instead or the most similar name.

    Parameters
    ----------
    name : str
        The name.
    known : sequence of str
        The functions that there are.
    """
    similar = get_close_matches(name, known, 1)
    fix = MISSING.get(name) or (f"use {similar[0]}" if similar else "`adjoint ops` lists the functions")
    return MissingAttributeError(f"adjoint.ops has no function {name}; {fix}")
