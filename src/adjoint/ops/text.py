"""Graph text with every operator known: `adjoint.ir` knows none, here they are handed to it."""

from adjoint import ir
from adjoint.ops.catalogue import OPERATORS

__all__ = ["parse", "parse_function"]


def parse(text: str) -> ir.IRModule:
    """The module that `text` describes; ``parse(str(module)) == module``.

    Raises
    ------
    ParseError
        With line and column, where the text is not graph IR.
    """
    return ir.parse(text, OPERATORS)


def parse_function(text: str) -> ir.Function:
    """The last function of `text`, which holds those that it calls above it; ``parse_function(str(f)) == f``.

    Raises
    ------
    ParseError
        With line and column, where the text is not graph IR.
    """
    return ir.parse_function(text, OPERATORS)
