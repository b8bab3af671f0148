"""`adjoint.compile` for every kind of model: graphs, modules of layers, Python functions."""

from importlib import import_module
from typing import Any

from adjoint.compiler import compile as compile_graphs
from adjoint.ir import Function, IRModule

__all__ = ["compile"]


def compile(module: Any, *args: Any, **options: Any) -> Any:
    """Compile a model or a function to native code.

    Parameters
    ----------
    module : IRModule, Function, nn.Module or callable
        Graphs, or a function of tensors.
    *args, **options
        For graphs, the arguments of `adjoint.compiler.compile`: ``target="host"``, ``options``, ``entries``,
        ``threads``, ``tune``. For a function, examples of its arguments, tensors or arrays; without any, it is compiled
        when it is called.

    Returns
    -------
    Executable or Jitted
        For graphs, the entry points by name. For a function, what `adjoint.jit` returns, compiled for the examples.

    Raises
    ------
    TypeRuleError, NameLookupError, InvalidValueError, CompileError
        As for `adjoint.compiler.compile` and `adjoint.jit`.

    Examples
    --------
    >>> from adjoint import ops, compile, param, Function
    >>> x = param("x", (3,))
    >>> double = compile(Function("double", (x,), (ops.add(x, x),)))
    >>> double([1.0, 2.0, 3.0]).tolist()
    [2.0, 4.0, 6.0]
    """
    if isinstance(module, Function | IRModule | type) or not callable(module):
        return compile_graphs(module, *args, **options)
    jitted = import_module("adjoint.func.jit").jit(module)  # which graphs do not need
    if args or options:
        jitted.lower(*args, **options)
    return jitted
