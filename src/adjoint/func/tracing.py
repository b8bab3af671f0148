"""Tracing of a Python function once, with tensors that have a type and no elements.

`Tracing` is a trace inside another one. Its arguments are examples; other tensors that the function uses enter it as
captured tensors. What the function changes is noted and undone, so that the caller can make it part of the program.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from adjoint.errors import TypeRuleError
from adjoint.ir import Function, TensorType, Value, rebuild
from adjoint.tensor.autograd import set_grad_enabled
from adjoint.tensor.plan import program
from adjoint.tensor.record import rebind, record
from adjoint.tensor.structure import Node, Operation, spec_of
from adjoint.tensor.tensor import Tensor
from adjoint.tensor.trace import NOTHING, Recorded, Trace, fresh_trace, state

__all__ = [
    "Tracing",
    "applied",
    "carry_out",
    "function_of",
    "refuse_changed_examples",
    "refuse_changes",
    "refuse_gradients",
    "sources",
    "traced",
]

#: What a trace changes in tensors.
_STATE = ("_storage", "_trace", "_node", "_spec", "_alias", "_grad")


class Tracing(Trace):
    """A trace of a function that is called while another trace is recorded.

    Parameters
    ----------
    root : Node
        Where the program begins.
    compiled : bool, default False
        Whether the program takes the place of the function, so that nothing may be read while it is traced.

    Attributes
    ----------
    lifts : bool
        The same; `compiled` is also true for a trace inside such a trace.
    captured : list of (Tensor, dict)
        The tensors that entered, except examples, and their state before.
    examples : list of Tensor
        What `example` has made.
    first : dict of int to Node
        By id, the nodes with which examples entered.
    prints : list of (str, list of Node)
        What is to be printed in every call (`adjoint.debug_print`).
    """

    def __init__(self, root: Node, compiled: bool = False) -> None:
        super().__init__(root, state.grad)
        self.outer = state.trace
        self.lifts = compiled
        self.compiled = compiled or state.trace.compiled
        self.captured: list[tuple[Tensor, dict[str, Any]]] = []
        self.examples: list[Tensor] = []
        self.first: dict[int, Node] = {}
        self.prints: list[tuple[str, list[Node]]] = []

    def operand(self, tensor: Recorded) -> Any:
        """The node of a tensor in this trace, which it enters if needed; None if it must be settled first."""
        count = len(self.entered)
        node = super().operand(tensor)
        if len(self.entered) > count:
            own = tensor.__dict__
            self.captured.append((tensor, {name: own[name] for name in _STATE if name in own}))  # type: ignore[arg-type]
        return node

    def example(self, type_: TensorType, requires_grad: bool = False, leaf: bool = True, label: str = "") -> Tensor:
        """A tensor without elements that enters the program."""
        tensor = Tensor.__new__(Tensor)
        tensor._spec = spec_of(type_, requires_grad, leaf)
        tensor._label = label
        tensor._trace = self.outer  # which is what an operand of a traced function has
        tensor._node = self.first[id(tensor)] = super().operand(tensor)
        tensor._trace = self
        self.examples.append(tensor)
        return tensor

    def changed(self) -> list[Tensor]:
        """The captured tensors whose value has been changed in place."""
        mine = (self, self.rebound) if self.rebound is not NOTHING else (self,)
        return [tensor for tensor, _ in self.captured if any(tensor._trace is trace for trace in mine)]

    def with_new_grad(self) -> list[Tensor]:
        """The captured tensors whose `grad` is another one than before."""
        return [tensor for tensor, before in self.captured if tensor._grad is not before.get("_grad")]

    def undo(self) -> None:
        """Give captured tensors their state back."""
        for tensor, before in self.captured:
            for name in _STATE:
                if name in before:
                    tensor.__dict__[name] = before[name]
                else:
                    tensor.__dict__.pop(name, None)


@contextmanager
def traced(trace: Tracing) -> Iterator[Tracing]:
    """Let the thread record in a trace, and restore everything afterwards."""
    kept, grad = state.trace, state.grad
    state.trace = trace
    try:
        yield trace
    finally:
        state.trace, state.grad = kept, grad
        if kept.done:
            fresh_trace()
        state.trace.grad = grad
        trace.undo()


def function_of(trace: Tracing, wanted: Sequence[Node], name: str) -> tuple[Function, list[int]]:
    """The function of a trace that computes the values of nodes.

    Returns
    -------
    function : Function
        Without attributes.
    places : list of int
        For each of its parameters, the position among ``trace.entered``.
    """
    made, places = program(trace.node, tuple(dict.fromkeys(wanted)), name=name)
    position = {node: n for n, node in enumerate(dict.fromkeys(wanted))}
    results = tuple(made.results[position[node]] for node in wanted)
    return Function(name, made.params, results), [places[p] for p in made.params]


def applied(function: Function) -> Callable[..., tuple[Value, ...]]:
    """The graph function that takes values in place of the parameters of a function; returns a tuple."""

    def build(*values: Value) -> tuple[Value, ...]:
        known = dict(zip(function.params, values, strict=True))
        return tuple(rebuild(function.results, lambda _value, _inputs: None, known))

    build.__name__ = function.name
    return build


def sources(trace: Tracing, places: Iterable[int], examples: dict[int, Any]) -> list[Any]:
    """For positions among the tensors that entered a trace, the tensors of the outer trace that stand there.

    Parameters
    ----------
    trace : Tracing
        The trace.
    places : iterable of int
        Positions.
    examples : dict of int to Tensor
        By the id of an example, the argument in its place.
    """
    entered = [trace.entered[place] for place in places]
    return [examples.get(id(tensor), tensor) for tensor in entered]


def refuse_changes(caller: str, trace: Tracing) -> None:
    """Raise if a function has changed a tensor that it has not made, or has called ``backward()``."""
    for tensor in trace.changed():
        raise TypeRuleError(
            f"{caller}: the function must not change tensors in place, got a change of one of type "
            f"{tensor._spec.type}; return the new value"
        )
    refuse_changed_examples(caller, trace)
    refuse_gradients(caller, trace)


def refuse_gradients(caller: str, trace: Tracing) -> None:
    """Raise if a function has called ``backward()``."""
    for tensor in trace.with_new_grad():
        raise TypeRuleError(
            f"{caller}: the function must not call backward(), got a new grad of a tensor of type {tensor._spec.type}; "
            "use adjoint.grad inside it"
        )


def refuse_changed_examples(caller: str, trace: Tracing) -> None:
    """Raise if a function has changed one of its arguments in place."""
    for example in trace.examples:
        if example._node is not trace.first[id(example)]:
            raise TypeRuleError(
                f"{caller}: the function must not change its arguments in place, got a change of one of type "
                f"{example._spec.type}; return the new value"
            )


def carry_out(changed: Iterable[tuple[Tensor, Node]], made: Iterable[Tensor]) -> None:
    """Give tensors that a traced function has changed in place the values that its call has computed.

    Parameters
    ----------
    changed : iterable of (Tensor, Node)
        Tensors, and the nodes of their new values in the trace of the function.
    made : iterable of Tensor
        The results of the call in their place.
    """
    for (tensor, node), new in zip(changed, made, strict=True):
        spec: Any = node.spec
        with set_grad_enabled(state.grad and spec.requires_grad):
            rebind(tensor, record(_AGAIN, (new,)))


def _again(new: Value) -> Value:
    return new


#: Without gradients, the result of this is one that requires none.
_AGAIN = Operation(_again)
