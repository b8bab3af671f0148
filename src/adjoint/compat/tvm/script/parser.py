"""TVMScript: classes and functions are read from their source, and nothing in their bodies is executed.

Names in them are those of the script: variables of the function, functions of the module, and what the module and the
functions around the script define, such as ``batch_size``. Calls are of operators, ``R.*``, and of functions of the
module.
"""

import ast
import inspect
import linecache
import re
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from adjoint import ops
from adjoint.compat.tvm.relax.expr import Call, Expr, Tuple, Var, as_expr
from adjoint.compat.tvm.relax.function import Function, nested
from adjoint.compat.tvm.relax.module import IRModule
from adjoint.compat.uncovered import uncovered
from adjoint.errors import ParseError, located
from adjoint.ir import Value

__all__ = ["parse_function", "parse_module"]
__getattr__ = uncovered(__name__, {}, "adjoint.ops.parse")

#: Operators of Python in scripts.
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b, ast.FloorDiv: lambda a, b: a // b, ast.Pow: lambda a, b: a**b,
}  # fmt: skip


def parse_module(cls: type, names: Mapping[str, Any]) -> IRModule:
    """The module that a class describes.

    Parameters
    ----------
    cls : type
        The class; its methods are functions, and ``I.module_attrs({...})`` in it sets attributes.
    names : mapping
        What names outside of it mean.
    """
    tree, file = _tree(cls)
    assert isinstance(tree, ast.ClassDef)
    module = IRModule()
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            found = _Script(file, {**names, "cls": module, tree.name: module}).function(statement)
            module[statement.name] = found
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            call = statement.value
            if not (isinstance(call.func, ast.Attribute) and call.func.attr == "module_attrs" and len(call.args) == 1):
                _refuse(file, statement, "a module has functions and I.module_attrs({...})")
            module.attrs |= _Script(file, names).constant(call.args[0])
        elif not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):  # a docstring
            _refuse(file, statement, "a module has functions and I.module_attrs({...})")
    return module


def parse_function(function: Callable[..., Any], names: Mapping[str, Any]) -> Function:
    """The function that a Python function describes."""
    tree, file = _tree(function)
    assert isinstance(tree, ast.FunctionDef)
    return _Script(file, names).function(tree)


def parse_text(text: str, names: Mapping[str, Any]) -> Any:
    """The module or function in a text."""
    tree = ast.parse(text).body[-1]
    if isinstance(tree, ast.FunctionDef):
        return _Script("text", names).function(tree)
    assert isinstance(tree, ast.ClassDef)
    module = IRModule()
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            module[statement.name] = _Script("text", {**names, "cls": module, tree.name: module}).function(statement)
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            module.attrs |= _Script("text", names).constant(statement.value.args[0])
    return module


def _tree(given: Any) -> tuple[ast.stmt, str]:
    """The syntax tree of a class or function, with the lines of its file."""
    lines, first = _source(given)
    tree = ast.parse(textwrap.dedent("".join(lines))).body[0]
    ast.increment_lineno(tree, first - 1)
    methods = [one for one in vars(given).values() if inspect.isfunction(one)] if isinstance(given, type) else [given]
    return tree, methods[0].__code__.co_filename if methods else "script"


def _source(given: Any) -> tuple[list[str], int]:
    """The lines of a class or function, and the number of the first one.

    A class is found by its first method, because `inspect` finds no class outside of files, as in notebooks.
    """
    methods = [one for one in vars(given).values() if inspect.isfunction(one)] if isinstance(given, type) else []
    if not methods:
        return inspect.getsourcelines(given)
    code = methods[0].__code__
    lines = linecache.getlines(code.co_filename)
    starts = [n for n in range(min(code.co_firstlineno, len(lines))) if _begins(given.__name__, lines[n])]
    if not starts:
        raise ParseError(
            f"the source of a script must be in a file or notebook, got {given.__name__} without one; save it"
        )
    return inspect.getblock(lines[starts[-1] :]), starts[-1] + 1


def _begins(name: str, line: str) -> bool:
    return re.match(rf"\s*class {name}\b", line) is not None


def _refuse(file: str, node: ast.AST, rule: str) -> NoReturn:
    text = ast.unparse(node).splitlines()[0]
    with located(f"{file}:{getattr(node, 'lineno', 0)}"):
        raise ParseError(f"{rule}, got {text!r}; see docs/coming-from-tvm.md")


class _Script:
    """Reads one function.

    Parameters
    ----------
    file : str
        Where the script is.
    names : mapping
        What names outside of the function mean.
    """

    def __init__(self, file: str, names: Mapping[str, Any]) -> None:
        self._file, self._outside = file, names
        self._variables: dict[str, Any] = {}

    def function(self, tree: ast.FunctionDef) -> Function:
        """The function of a definition."""
        params = []
        for arg in tree.args.args:
            if arg.annotation is None:
                self.refuse(arg, "a parameter has a struct info such as R.Tensor((64, 10), 'float32')")
            with located(self._where(arg)):
                params.append(Var(arg.arg, self.value(arg.annotation)))
            self._variables[arg.arg] = params[-1]
        found = self._body(tree.body)
        if found is None:
            self.refuse(tree, "a function ends with return")
        with located(self._where(tree)):
            return Function(params, found, tree.name)

    def _body(self, statements: list[ast.stmt]) -> Expr | None:
        for statement in statements:
            if isinstance(statement, ast.With):
                self._body(statement.body)
            elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                self._assign(statement.targets[0], statement.value)
            elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
                self._assign(statement.target, statement.value)
            elif isinstance(statement, ast.Return) and statement.value is not None:
                return as_expr(self.value(statement.value))
            elif not self._says_nothing(statement):
                self.refuse(statement, "a function has assignments, with R.dataflow(), R.output and return")
        return None

    def _says_nothing(self, statement: ast.stmt) -> bool:
        """Whether it is R.output, R.func_attr, a docstring or pass."""
        if isinstance(statement, ast.Pass):
            return True
        if not isinstance(statement, ast.Expr):
            return False
        call = statement.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            return call.func.attr in ("output", "func_attr")
        return isinstance(call, ast.Constant)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        found = self.value(value)
        if isinstance(target, ast.Name):
            if isinstance(found, Call) and isinstance(found.value, Value) and not found.value.label:
                found.value = found.value.named(target.id)
            self._variables[target.id] = found
        elif isinstance(target, ast.Tuple) and all(isinstance(one, ast.Name) for one in target.elts):
            for name, item in zip(target.elts, as_expr(found), strict=True):
                self._variables[name.id] = item  # type: ignore[attr-defined]
        else:
            self.refuse(target, "a value is assigned to a name")

    def constant(self, node: ast.expr) -> Any:
        """A literal, in which names of the script's surroundings may occur."""
        if isinstance(node, ast.Dict):
            keys = [self.value(key) for key in node.keys if key is not None]
            return dict(zip(keys, map(self.constant, node.values), strict=True))
        return self.value(node)

    def value(self, node: ast.expr) -> Any:
        """What an expression of the script means."""
        with located(self._where(node)):
            return self._value(node)

    def _value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self._named(node)
        if isinstance(node, ast.Tuple | ast.List):
            items = [self.value(item) for item in node.elts]
            if any(isinstance(item, Expr) for item in items):
                return Tuple(items)
            return items if isinstance(node, ast.List) else tuple(items)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self.value(node.operand)
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            return _BINARY[type(node.op)](self.value(node.left), self.value(node.right))
        if isinstance(node, ast.Attribute):
            return getattr(self.value(node.value), node.attr)
        if isinstance(node, ast.Subscript):
            return self.value(node.value)[self.value(node.slice)]
        if isinstance(node, ast.Call):
            return self._called(node)
        return self.refuse(node, "an expression is a call of an operator, a name, a tuple or a number")

    def _named(self, node: ast.Name) -> Any:
        for names in (self._variables, self._outside):
            if node.id in names:
                return names[node.id]
        return self.refuse(node, "a name must be defined before it is used")

    def _called(self, node: ast.Call) -> Any:
        function = node.func
        if isinstance(function, ast.Attribute):
            owner = self.value(function.value)
            if isinstance(owner, IRModule):
                return self._call_of(owner[function.attr], [self.value(arg) for arg in node.args])
        called = self.value(function)
        if not getattr(called, "__module__", "").startswith("adjoint.compat.tvm"):
            self.refuse(node, "calls in a script are of operators, R.*, and of functions of the module")
        keywords = {keyword.arg: self.value(keyword.value) for keyword in node.keywords if keyword.arg}
        return called(*[self.value(arg) for arg in node.args], **keywords)

    def _call_of(self, function: Function, args: list[Any]) -> Expr:
        leaves = [leaf for arg in args for leaf in _leaves(as_expr(arg))]

        def made(*values: Any) -> Any:
            found = ops.call(function.native, *values)
            items = found if isinstance(found, tuple) else (found,)
            return nested(function.outputs, items)

        return Call(function.name, made, leaves, {})

    def refuse(self, node: ast.AST, rule: str) -> NoReturn:
        """Raise an error at the line of a node."""
        _refuse(self._file, node, rule)

    def _where(self, node: ast.AST) -> str:
        return f"{self._file}:{getattr(node, 'lineno', 0)}"


def _leaves(expr: Expr) -> list[Expr]:
    if isinstance(expr.value, tuple):
        return [leaf for index in range(len(expr)) for leaf in _leaves(expr[index])]
    return [expr]
