"""Parsing of graph text with adjoint's operators, which `adjoint.ir` itself does not know."""

from adjoint import ir
from adjoint.ops.catalogue import OPERATORS

__all__ = ["parse", "parse_function"]


def parse(text: str, file: str = "text") -> ir.IRModule:
    """Parse a module; ``parse(str(module)) == module``.

    Parameters
    ----------
    text : str
        The text.
    file : str, default "text"
        Where it is from: values have the lines ``<file>:<line>``.

    Raises
    ------
    ParseError
        If the text is not graph IR, with line and column.
    """
    return ir.parse(text, OPERATORS, file)


def parse_function(text: str) -> ir.Function:
    """Parse functions and return the last one, preceded by those it calls; ``parse_function(str(f)) == f``.

    Raises
    ------
    ParseError
        If the text is not graph IR, with line and column.
    """
    return ir.parse_function(text, OPERATORS)
