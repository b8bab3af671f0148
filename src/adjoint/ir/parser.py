"""Parse graph text: the inverse of `adjoint.ir.printer`, also suitable for graphs written by hand.

The type of every line is inferred and compared with the declared one, so text that parses is a well-typed graph. ``#``
starts a comment, and a line break is whitespace. Attributes with a default may be omitted. Lines that no result depends
on are parsed, checked and dropped.
"""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, ClassVar

from adjoint.errors import AdjointError, located
from adjoint.ir.function import Attribute, Function, IRModule
from adjoint.ir.literals import attribute_hints, convert, hint_text, literal, unquote
from adjoint.ir.tokens import Token, Tokens
from adjoint.ir.types import DTYPES, TensorType, TupleType
from adjoint.ir.value import Op, Value, infer_type, param

__all__ = ["parse", "parse_function"]

#: Key of a value inside a function: its label or its number. ``%"0"`` is not ``%0``.
_Key = str | int

#: Maximum nesting depth of tuples in a literal.
_MAX_DEPTH = 100

_WORDS: dict[str, Any] = {"True": True, "False": False, "None": None, **DTYPES}


def parse(text: str, operators: Mapping[str, type[Op]], file: str = "text") -> IRModule:
    """Parse a module, or functions without an enclosing module.

    Parameters
    ----------
    text : str
        The ``str`` of an `IRModule` or `Function`, or text written by hand in that form.
    operators : mapping of str to type
        The operators that may occur; `adjoint.ops.parse` passes all of adjoint's.
    file : str, default "text"
        Where the text is from. The line of each value is ``<file>:<line>``.

    Returns
    -------
    IRModule
        With ``parse(str(module), operators) == module``. Values keep their numbers, so it also prints the same text.

    Raises
    ------
    ParseError
        If the text is not a valid graph, with the line, the column, the line's text and the fix.
    """
    return _Parser(text, operators, file).module()


def parse_function(text: str, operators: Mapping[str, type[Op]], file: str = "text") -> Function:
    """Parse functions and return the last one, which may call those before it.

    Parameters
    ----------
    text : str
        One function, preceded by the functions that it calls.
    operators : mapping of str to type
        The operators that may occur.
    file : str, default "text"
        As for `parse`.

    Raises
    ------
    ParseError
        As for `parse`; also if there is no function.
    """
    parser = _Parser(text, operators, file)
    functions = parser.module().functions
    if not functions:
        raise parser.tokens.error("expected a function, got none; write func @name(...) -> type { ... }")
    return functions[-1]


def _near(name: str, known: Mapping[str, Any], what: str) -> str:
    """A suggested fix for an unknown name."""
    close = get_close_matches(name, known, n=1)
    if close:
        return f"did you mean {close[0]}?"
    some = ", ".join(list(known)[:20])
    return f"known {what}: {some}" if known else f"there are no {what} before it"


class _Parser:
    """A recursive descent parser. Only literals nest, at most `_MAX_DEPTH` deep."""

    def __init__(self, text: str, operators: Mapping[str, type[Op]], file: str) -> None:
        self.tokens = Tokens(text)
        self.operators = operators
        self.file = file
        self.functions: dict[str, Function] = {}
        self.types: dict[str, TensorType] = {}
        self.depth = 0

    def module(self) -> IRModule:
        """Parse the whole text."""
        tokens = self.tokens
        attrs: dict[str, Attribute] = {}
        wrapped = tokens.accept("module")
        if wrapped:
            if self._attrs_follow():
                attrs = self._attrs()
            tokens.expect("{", "to open the module")
        while tokens.next.text == "func":
            function = self._function()
            self.functions[function.name] = function
        if wrapped:
            tokens.expect("}", "or func to go on with the module")
        if tokens.next.kind != "end":
            raise tokens.error(
                f"expected a function or the end of the text, got {tokens.next.text!r}; start a function with func"
            )
        return IRModule(tuple(self.functions.values()), attrs)

    def _attrs_follow(self) -> bool:
        """Whether the next ``{`` opens attributes rather than a body."""
        first, second, third = self.tokens.peek(3)
        if first.text != "{":
            return False
        return third.text == "=" or (second.text == "}" and third.text == "{")

    def _function(self) -> Function:
        tokens = self.tokens
        tokens.expect("func", "to start a function")
        at = tokens.expect_kind("symbol", "a function's name such as @main")
        name = str(self._name(at))
        if name in self.functions:
            raise tokens.error(f"two functions are named @{name}; rename one", at)
        values: dict[_Key, Value] = {}
        params = self._params(values)
        tokens.expect("->", "and the type of the result")
        declared = self._type()
        attrs = self._attrs() if self._attrs_follow() else {}
        tokens.expect("{", "to open the body")
        while tokens.next.kind == "value":
            self._line(values)
        end = tokens.expect("return", "and the results, at the end of the body")
        results = [self._result(values)]
        while tokens.accept(","):
            results.append(self._result(values))
        tokens.expect("}", "to close the function")
        function = Function(name, params, tuple(results), attrs)
        if str(function.type) != str(declared):
            raise tokens.error(
                f"@{name} is declared as {declared}, but returns {function.type}; write -> {function.type}", end
            )
        return function

    def _result(self, values: dict[_Key, Value]) -> Value:
        at = self.tokens.next
        value = self._operand(values)
        if not isinstance(value.type, TensorType):
            raise self.tokens.error(f"results must be tensors, got {at.text}: {value.type}; return its items", at)
        return value

    def _params(self, values: dict[_Key, Value]) -> tuple[Value, ...]:
        tokens = self.tokens
        params: list[Value] = []
        tokens.expect("(", "to open the parameters")
        while not tokens.accept(")"):
            if params:
                tokens.expect(",", "between parameters")
            at = tokens.expect_kind("value", "a parameter such as %x: f32[2]")
            name = self._name(at)
            if isinstance(name, int):
                raise tokens.error(f"a parameter must have a name, got {at.text}; use a name such as %x", at)
            tokens.expect(":", "and the parameter's type")
            type_ = self._type()
            if name in values:
                raise tokens.error(f"two parameters are named {at.text}; rename one", at)
            if not isinstance(type_, TensorType):
                raise tokens.error(f"a parameter must be a tensor, got {type_}; pass the items separately", at)
            try:
                with located(self._where(at)):
                    value = param(name, type_.shape, type_.dtype)
            except AdjointError as error:
                raise tokens.error(error.message, at) from error
            values[name] = value
            params.append(value)
        return tuple(params)

    def _line(self, values: dict[_Key, Value]) -> None:
        """``%name: type = op(%a, %b) {attribute = literal}``."""
        tokens = self.tokens
        at = tokens.take()
        name = self._name(at)
        if name in values:
            raise tokens.error(f"{at.text} is defined twice; rename this one", at)
        tokens.expect(":", "and the value's type")
        declared = self._type()
        tokens.expect("=", "and what computes it")
        op_token = tokens.expect_kind("name", "an operator's name")
        cls = self.operators.get(op_token.text)
        if cls is None:
            fix = _near(op_token.text, self.operators, "operators")
            raise tokens.error(f"there is no operator {op_token.text!r}; {fix}", op_token)
        tokens.expect("(", "to open the operands")
        inputs: list[Value] = []
        while not tokens.accept(")"):
            if inputs:
                tokens.expect(",", "between operands")
            inputs.append(self._operand(values))
        op = self._op(cls, op_token)
        try:
            inferred = infer_type(op, tuple(value.type for value in inputs))
        except AdjointError as error:
            raise tokens.error(error.message, op_token) from error
        if inferred != declared:
            raise tokens.error(
                f"{at.text} is declared as {declared}, but {op.name} returns {inferred}; write {at.text}: {inferred}",
                at,
            )
        label, number = (name, None) if isinstance(name, str) else ("", name)
        values[name] = Value(op, tuple(inputs), inferred, label, number, self._where(at))

    def _where(self, at: Token) -> str:
        """The line of a token, with the file."""
        return f"{self.file}:{self.tokens.line_of(at)}"

    def _op(self, cls: type[Op], at: Token) -> Op:
        """The op with the attributes that follow it."""
        tokens = self.tokens
        hints = dict(attribute_hints(cls))
        given: dict[str, Any] = {}
        if tokens.accept("{"):
            while not tokens.accept("}"):
                if given:
                    tokens.expect(",", "between attributes")
                key = self._key(given)
                if key.text not in hints:
                    fix = _near(key.text, hints, "attributes")
                    raise tokens.error(f"{cls.name} has no attribute {key.text!r}; {fix}", key)
                start = tokens.next
                value = self._literal()
                try:
                    given[key.text] = convert(value, hints[key.text])
                except ValueError as error:
                    text = f"{cls.name}: {key.text} takes {hint_text(hints[key.text])}, got {literal(value)}; write one"
                    raise tokens.error(text, start) from error
        try:
            return cls(**given)
        except AdjointError as error:
            raise tokens.error(error.message, at) from error
        except (TypeError, ValueError) as error:
            needed = ", ".join(name for name in hints if name not in given) or "none"
            raise tokens.error(f"{cls.name}: attributes are missing ({needed}) or invalid: {error}", at) from error

    def _attrs(self) -> dict[str, Attribute]:
        """Attributes of a function or module."""
        found: dict[str, Attribute] = {}
        self.tokens.expect("{", "to open the attributes")
        while not self.tokens.accept("}"):
            if found:
                self.tokens.expect(",", "between attributes")
            key = self._key(found)
            name = unquote(key.text) if key.kind == "string" else key.text
            found[name] = self._literal()
        return found

    def _key(self, found: dict[str, Any]) -> Token:
        """An attribute's name and ``=``."""
        key = self.tokens.take()
        if key.kind not in ("name", "string"):
            raise self.tokens.error(f"expected an attribute name, got {key.text!r}; write name = value", key)
        if (unquote(key.text) if key.kind == "string" else key.text) in found:
            raise self.tokens.error(f"attribute {key.text} is given twice; remove one", key)
        self.tokens.expect("=", "and the attribute's value")
        return key

    def _operand(self, values: dict[_Key, Value]) -> Value:
        at = self.tokens.expect_kind("value", "a value such as %x")
        found = values.get(self._name(at))
        if found is None:
            fix = _near(at.text, {f"%{name}": None for name in values}, "values")
            raise self.tokens.error(f"{at.text} is not defined above; {fix}", at)
        return found

    def _name(self, at: Token) -> _Key:
        """The label or number after ``%``, the name after ``@``."""
        body = at.text[1:]
        if body[0] == '"':
            return str(self._unquote(body, at))
        return int(body) if body[0] in "0123456789" else body

    def _unquote(self, token: str, at: Token) -> Any:
        try:
            return unquote(token)
        except ValueError as error:
            raise self.tokens.error(f"{at.text} is not a literal ({error}); correct its escapes", at) from error

    def _type(self) -> TensorType | TupleType:
        tokens = self.tokens
        if tokens.next.kind == "type":
            return self._tensor_type(tokens.take())
        if tokens.next.text != "(":
            raise tokens.error(f"expected a type such as f32[2,3], got {tokens.next.text!r}; write one")
        tokens.take()
        items: list[TensorType] = []
        while not tokens.accept(")"):
            if items:
                tokens.expect(",", "between types")
            items.append(self._tensor_type(tokens.expect_kind("type", "a type such as f32[2,3]")))
        return TupleType(tuple(items))

    def _tensor_type(self, at: Token) -> TensorType:
        found = self.types.get(at.text)
        if found is None:
            dtype, _, sizes = at.text.rstrip("]").partition("[")
            try:
                shape = tuple(int(size) for size in sizes.split(",")) if sizes.strip() else ()
            except ValueError as error:
                raise self.tokens.error(f"{at.text} is not a type; separate sizes by commas: f32[2,3]", at) from error
            found = self.types[at.text] = TensorType(shape, DTYPES[dtype])
        return found

    def _literal(self) -> Any:
        """One literal; its kind is determined by its first token."""
        at = self.tokens.take()
        reader = self._READERS.get(at.kind)
        if reader is not None:
            return reader(self, at)
        if at.text == "(":
            return self._tuple(at)
        raise self.tokens.error(f"expected a literal, got {at.text!r}; write a number, string, tuple or dtype", at)

    def _tuple(self, at: Token) -> tuple[Any, ...]:
        """``(1, 2)`` or ``(1,)``; a trailing comma is allowed."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self.tokens.error(f"tuples nest at most {_MAX_DEPTH} deep; flatten this one", at)
        items: list[Any] = []
        while not self.tokens.accept(")"):
            if items:
                self.tokens.expect(",", "between items")
                if self.tokens.accept(")"):
                    break
            items.append(self._literal())
        self.depth -= 1
        return tuple(items)

    def _word(self, at: Token) -> Any:
        if at.text not in _WORDS:
            fix = _near(at.text, _WORDS, "words")
            raise self.tokens.error(f"{at.text!r} is not a literal; put quotes around a string, or {fix}", at)
        return _WORDS[at.text]

    def _symbol(self, at: Token) -> Function:
        name = str(self._name(at))
        if name not in self.functions:
            fix = _near(name, self.functions, "functions")
            raise self.tokens.error(f"function {at.text} is not defined above; {fix}", at)
        return self.functions[name]

    def _number(self, at: Token) -> int | float:
        is_int = at.text.lstrip("-+").isdigit()
        try:
            return int(at.text) if is_int else float(at.text)
        except ValueError as error:  # Python reads integers of up to 4300 digits
            raise self.tokens.error(f"{at.text[:20]}... has too many digits; write a float", at) from error

    _READERS: ClassVar[dict[str, Callable[["_Parser", Token], Any]]] = {
        "name": _word,
        "symbol": _symbol,
        "number": _number,
        "type": _tensor_type,
        "string": lambda self, at: self._unquote(at.text, at),
        "bytes": lambda self, at: self._unquote(at.text, at),
    }
