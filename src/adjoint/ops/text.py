"""Parsing of graph text with adjoint's operators, which `adjoint.ir` itself does not know."""

from adjoint import ir
from adjoint.ops.catalogue import OPERATORS

__all__ = ["parse", "parse_function"]


def parse(text: str) -> ir.IRModule:
    """Parse a module; ``parse(str(module)) == module``.

    Raises
    ------
    ParseError
        If the text is not graph IR, with line and column.
    """
    return ir.parse(text, OPERATORS)


def parse_function(text: str) -> ir.Function:
    """Parse functions and return the last one, preceded by those it calls; ``parse_function(str(f)) == f``.

    Raises
    ------
    ParseError
        If the text is not graph IR, with line and column.
    """
    return ir.parse_function(text, OPERATORS)
