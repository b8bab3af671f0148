"""Functions of Relax: parameters, a graph of adjoint, and the tuples that its results form."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from adjoint.compat.tvm.printing import function_text
from adjoint.compat.tvm.relax.expr import Expr, Var, info_of
from adjoint.compat.uncovered import uncovered
from adjoint.ir import Function as Graph
from adjoint.ir import Value

__all__ = ["Function"]
__getattr__ = uncovered(__name__, {}, "adjoint.ir.Function")

#: The numbers of results of a graph, nested as the tuples that a function returns.
Outputs = int | tuple[Any, ...]


class Function:
    """A function.

    Parameters
    ----------
    params : sequence of Var
        The parameters.
    body : Expr
        What it returns.
    name : str
        Its name.
    attrs : mapping, optional
        Attributes.
    """

    def __init__(self, params: Sequence[Var], body: Expr, name: str = "main", attrs: Mapping[str, Any] | None = None):
        leaves: list[Value] = []
        self.params, self.attrs = tuple(params), dict(attrs or {})
        self._body: Expr | None = body
        self._outputs = _numbered(body, leaves)
        inputs = tuple(leaf for one in self.params for leaf in one.leaves)
        self.native = Graph(name, inputs, tuple(leaves))

    @classmethod
    def of(cls, graph: Graph, params: Sequence[Var] | None = None, outputs: Outputs | None = None) -> "Function":
        """A graph of adjoint as a function; its results are one value or a tuple unless `outputs` nests them."""
        made = cls.__new__(cls)
        made.params = tuple(map(variable, graph.params)) if params is None else tuple(params)
        made.attrs, made._body, made.native = {}, None, graph
        plain = 0 if len(graph.results) == 1 else tuple(range(len(graph.results)))
        made._outputs = plain if outputs is None else outputs
        return made

    @property
    def name(self) -> str:
        """Its name in a module."""
        return self.native.name

    @property
    def outputs(self) -> Outputs:
        """How its results form tuples."""
        return self._outputs

    @property
    def ret_struct_info(self) -> Any:
        """Shape and dtype of what it returns."""
        infos = [info_of(result.type) for result in self.native.results]
        return infos[0] if len(infos) == 1 else infos

    def renamed(self, name: str) -> "Function":
        """The same function under another name."""
        made = Function.of(self.native.renamed(name), self.params, self._outputs)
        made.attrs, made._body = dict(self.attrs), self._body
        return made

    def with_attr(self, key: str, value: Any) -> "Function":
        """The same function with an attribute."""
        made = self.renamed(self.name)
        made.attrs[key] = value
        return made

    def in_inference(self) -> "Function | None":
        """The function as inference computes it; None if that is the same, or how it was computed is not known."""
        if self._body is None or not any(getattr(one, "inference", None) for one in _walk(self._body)):
            return None
        known: dict[Expr, Expr] = {}
        for one in _walk(self._body):
            known[one] = one.again(known)
        return Function(self.params, known[self._body], self.name, self.attrs)

    def show(self) -> None:
        """Print it, in adjoint's form and in TVMScript."""
        print(f"{self}\n{self.script()}")

    def script(self) -> str:
        """Its text in TVMScript."""
        return function_text(self.native, nested(self._outputs, range(len(self.native.results))))

    def __str__(self) -> str:
        return str(self.native)


def variable(value: Value) -> Var:
    """A parameter of a graph as a variable."""
    made = Var.__new__(Var)
    made.name_hint, made.value = value.label, value
    return made


def nested(outputs: Outputs, items: Sequence[Any], make: Any = tuple) -> Any:
    """Results as tuples."""
    return items[outputs] if isinstance(outputs, int) else make([nested(one, items, make) for one in outputs])


def _numbered(body: Expr, leaves: list[Value]) -> Outputs:
    if isinstance(body.value, tuple):
        return tuple(_numbered(item, leaves) for item in body.value)
    leaves.append(body.value)
    return len(leaves) - 1


def _walk(body: Expr) -> Iterator[Expr]:
    """All expressions, operands first, each once. Iterative."""
    seen: set[Expr] = set()
    stack: list[tuple[Expr, bool]] = [(body, False)]
    while stack:
        one, done = stack.pop()
        if done:
            yield one
        elif one not in seen:
            seen.add(one)
            stack.append((one, True))
            stack.extend((operand, False) for operand in one.operands())
