"""The graph verifier: all rules of the IR that types and constructors cannot enforce by themselves."""

from adjoint.errors import AdjointError, VerifyError, located
from adjoint.ir.function import Function, IRModule, callees, closure, is_param
from adjoint.ir.printer import value_names
from adjoint.ir.types import TensorType
from adjoint.ir.value import Value, infer_type

__all__ = ["verify"]


def verify(program: Function | IRModule) -> None:
    """Reject a function or module that violates a rule of the IR.

    The rules: parameters are created with `param` (`Function` itself requires that all those that the results depend on
    are declared); each value has the type that its op infers; results are tensors; each ``donate`` pair names a
    parameter and a result of equal type, each at most once; a called function precedes its callers in the module; a
    name refers to one function only.

    Parameters
    ----------
    program : Function or IRModule
        A function is verified together with everything it calls.

    Raises
    ------
    VerifyError
        With the function, the value and the fix.
    """
    if isinstance(program, Function):
        functions = closure((program,))
        _one_meaning_each(functions)
    else:
        functions = list(program.functions)
        _called_before(functions)
    for function in functions:
        _Verifier(function).run()


def _one_meaning_each(functions: list[Function]) -> None:
    seen: dict[str, Function] = {}
    for function in functions:
        if seen.setdefault(function.name, function) is not function:
            raise VerifyError(
                f"function names must be unique, got calls to two functions named @{function.name}; rename one"
            )


def _called_before(functions: list[Function]) -> None:
    seen: dict[str, Function] = {}
    for function in functions:
        for callee in callees(function):
            known = seen.get(callee.name)
            if known is None:
                raise VerifyError(
                    f"@{function.name} calls @{callee.name}, which does not precede it in the module; move it there"
                )
            if known != callee:
                raise VerifyError(
                    f"@{function.name} calls a different @{callee.name} than the module's; rename one, or call the "
                    "module's"
                )
        seen[function.name] = function


class _Verifier:
    """The rules for one function."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.names = value_names(function)

    def error(self, value: Value, text: str) -> VerifyError:
        with located(value.line):
            return VerifyError(f"{self.names[value]} in @{self.function.name}: {text}")

    def run(self) -> None:
        self._params()
        for value in self.names:
            self._type(value)
        for result in self.function.results:
            if not isinstance(result.type, TensorType):
                raise self.error(
                    result, f"results must be tensors, got {result.type}; extract its items with tuple_get"
                )
        self._donate()

    def _params(self) -> None:
        declared = set(self.function.params)
        for value in self.names:
            if value in declared and not is_param(value):
                raise self.error(value, f"is a parameter, but computed by {value.op.name}; create it with param")

    def _type(self, value: Value) -> None:
        try:
            inferred = infer_type(value.op, tuple(v.type for v in value.inputs))
        except AdjointError as error:
            raise self.error(value, error.message) from error
        if inferred != value.type:
            raise self.error(
                value, f"has type {value.type}, but {value.op.name} returns {inferred}; create values with apply"
            )

    def _donate(self) -> None:
        function = self.function
        params = {p.label: p for p in function.params}
        seen: set[str | int] = set()
        for name, index in _donations(function):
            if name not in params:
                raise VerifyError(
                    f"@{function.name}: donate names the unknown parameter {name!r}; known parameters: "
                    f"{', '.join(params) or 'none'}"
                )
            if not 0 <= index < len(function.results):
                last = len(function.results) - 1
                raise VerifyError(
                    f"@{function.name}: donate maps %{name} to result {index}; use a result index from 0 to {last}"
                )
            result, given = function.results[index], params[name].type
            if result.type != given:
                raise self.error(
                    result, f"cannot reuse the buffer of %{name}: {given} is not {result.type}; remove the pair"
                )
            if name in seen or index in seen:
                raise VerifyError(f"@{function.name}: donate uses %{name} or result {index} twice; remove one pair")
            seen |= {name, index}


def _donations(function: Function) -> list[tuple[str, int]]:
    """The pairs of ``donate``, each checked to be a name and an index."""
    given = function.attrs.get("donate", ())
    pairs: list[tuple[str, int]] = []
    for pair in given if isinstance(given, tuple) else (given,):
        match pair:
            case (str(name), int(index)) if not isinstance(index, bool):
                pairs.append((name, index))
            case _:
                raise VerifyError(
                    f"@{function.name}: donate must be a tuple of pairs (parameter name, result index), got "
                    f"{given!r}; pass pairs"
                )
    return pairs
