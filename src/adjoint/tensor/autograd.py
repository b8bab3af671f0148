"""Gradients of recorded programs: ``backward()``, `grad`, `no_grad`.

Both are entries of the program. The first time, the graph of the values is differentiated (`adjoint.transforms`);
afterwards, the entry is found by its key, like any operation.
"""

from collections.abc import Callable, Hashable, Iterable
from contextlib import ContextDecorator
from typing import Any, Self

from adjoint import ops
from adjoint.errors import InvalidValueError
from adjoint.lazy_dataclass import dataclass
from adjoint.tensor.hooks import apply_hooks, differentiated, hooked_gradients
from adjoint.tensor.plan import FREED, run_trace
from adjoint.tensor.record import record_in_place, settled
from adjoint.tensor.resuming import has_histories, resume
from adjoint.tensor.structure import Node, Operation
from adjoint.tensor.trace import Recorded, Trace, growing, lock, state

__all__ = ["backward", "enable_grad", "grad", "inference_mode", "is_grad_enabled", "no_grad", "set_grad_enabled"]


@dataclass(frozen=True, slots=True, eq=False)
class _Backward:
    """What the structure says of a backward pass.

    Attributes
    ----------
    leaves : tuple of (int, Node)
        The index of each leaf that it reaches, and the node of its gradient.
    passed : frozenset of Node
        The nodes that it passes, which it uses up.
    """

    leaves: tuple[tuple[int, Node], ...]
    passed: frozenset[Node]


_add = Operation(ops.add)


def backward(tensor: Recorded, gradient: Any = None, retain_graph: bool = False) -> None:
    """Add the derivatives of a tensor to the ``grad`` of all leaves that it depends on.

    Parameters
    ----------
    tensor : Tensor
        The tensor to differentiate; without a `gradient`, a scalar.
    gradient : Tensor, optional
        The cotangent, of the shape of the tensor.
    retain_graph : bool, default False
        Whether another backward pass may follow.

    Raises
    ------
    InvalidValueError
        If the tensor does not require a gradient, is not a scalar although there is no `gradient`, or its graph has
        been used up by an earlier backward pass.
    """
    trace = state.trace
    if tensor._trace is not trace or gradient is not None or not tensor._spec.can_start or trace.joins:
        trace = _differentiable(tensor, gradient)
    loss = tensor._node if tensor._trace is trace else trace.operand(tensor)
    seed = None if gradient is None else trace.operand(gradient)
    key: tuple[Hashable, ...] = ("backward", loss, seed, retain_graph)
    node = trace.node.children.get(key)
    if node is None:
        node = _made_backward(trace, key, loss, seed)
    found: _Backward = node.made
    tensors, news = trace.entered, None
    if trace.freed is None and trace.resumed is None and trace.hooked is None:
        trace.freed = [] if retain_graph else [found.passed]
        trace.node = node
    else:
        _require_unused(trace, found.passed)
        if trace.hooked is None:
            trace.node = node
        else:
            trace, news = _hooked(trace, loss, seed, found)
        _use_up(trace, found.passed, retain_graph)
    for n, (place, item) in enumerate(found.leaves):
        into = tensors[place]
        if not into._spec.requires_grad:  # it has been frozen since
            continue
        new = trace.result(item) if news is None else news[n]
        if into._hooks is not None:
            if news is None:  # a hook may read a gradient, which ends the trace
                news = [new if k == n else trace.result(one) for k, (_, one) in enumerate(found.leaves)]
            new = _recorded_in(trace, apply_hooks, into, new)
        if into._grad is None:
            new._deferrable = True
            into._grad = new
        else:
            _recorded_in(trace, record_in_place, _add, into._grad, new)
    if trace is state.trace and trace.outer is None:
        state.trace = Trace(growing.root, trace.grad)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool = False,
) -> tuple[Any, ...]:
    """The derivatives of the sum of outputs with respect to inputs, as new tensors; nothing is accumulated.

    Parameters
    ----------
    outputs : Tensor or sequence of Tensor
        What to differentiate; scalars, unless `grad_outputs` are given.
    inputs : Tensor or sequence of Tensor
        Leaves or results that require gradients.
    grad_outputs : Tensor or sequence of Tensor or None, optional
        The cotangents of the outputs.
    retain_graph : bool, optional
        Whether the graph will be differentiated again; default: `create_graph`.
    create_graph : bool, default False
        Whether the derivatives can be differentiated themselves.
    only_inputs : bool, default True
        Only True is accepted: gradients of other leaves are not accumulated.
    allow_unused : bool, default False
        Whether an input may have no influence on the outputs; its derivative is then None.

    Raises
    ------
    InvalidValueError
        If an input does not require a gradient, or has no influence on the outputs, if `only_inputs` is False, and for
        the reasons of `backward`.
    """
    if not only_inputs:
        raise InvalidValueError(
            "grad: gradients are returned for the inputs only, got only_inputs=False; call backward() to "
            "accumulate them in all leaves"
        )
    outs, ins = _as_tuple(outputs), _as_tuple(inputs)
    seeds = (None,) * len(outs) if grad_outputs is None else _as_tuple(grad_outputs)
    for one in ins:
        if not one._spec.requires_grad:
            raise InvalidValueError(
                f"grad: every input must require a gradient, got {one._spec.type} that does not; set requires_grad=True"
            )
    trace = state.trace
    for out, seed in zip(outs, seeds, strict=True):
        trace = _differentiable(out, seed)
    given = [t for t in (*outs, *seeds, *ins) if t is not None]
    if any(trace.operand(t) is None for t in given):
        trace = settled(given)
    pairs: list[Any] = [
        (trace.operand(o), None if s is None else trace.operand(s)) for o, s in zip(outs, seeds, strict=True)
    ]
    wanted: list[Any] = [trace.operand(t) for t in ins]
    retains = create_graph if retain_graph is None else retain_graph
    key = ("grad", *(n for pair in pairs for n in pair), "inputs", *wanted, create_graph, retains)
    node = trace.node.children.get(key)
    if node is None:
        with lock:
            node = differentiated(trace.node, pairs, wanted, create_graph)
            inner = frozenset(n for n in _passed([o for o, _ in pairs]) if n.index < 0)
            node.made = _Backward((), inner)
            growing.count_node()
            node = trace.node.child(key, node)
    unused = next((one for item, one in zip(node.items, ins, strict=True) if item.made == "unused"), None)
    if unused is not None and not allow_unused:
        raise InvalidValueError(
            f"grad: an input of type {unused._spec.type} has no influence on the outputs; leave it out, or pass "
            "allow_unused=True to get None for it"
        )
    _require_unused(trace, node.made.passed)
    _use_up(trace, node.made.passed, retains)
    trace.node = node
    return tuple([None if item.made == "unused" else trace.result(item) for item in node.items])


def _as_tuple(given: Any) -> tuple[Any, ...]:
    return (given,) if isinstance(given, Recorded) else tuple(given)


def _require_unused(trace: Trace, passed: frozenset[Node]) -> None:
    """Raise if a backward pass has used up what another one passes."""
    if trace.freed is None:
        trace.freed = []
    elif any(not passed.isdisjoint(used) for used in trace.freed):
        raise _used_up()


def _use_up(trace: Trace, passed: frozenset[Node], retain_graph: bool) -> None:
    """Note what a backward pass uses up."""
    if retain_graph:
        return
    freed = trace.freed = [] if trace.freed is None else trace.freed
    freed.append(passed)
    for joined, moved in (trace.resumed or {}).items():
        if moved:
            used = frozenset(old for old, new in moved.items() if new in passed)
            joined.freed = [*(joined.freed or ()), used]


def _hooked(trace: Trace, loss: Node, seed: Node | None, found: _Backward) -> tuple[Trace, list[Any]]:
    """The gradients of the leaves, after the hooks of the results of operations on the way, and their trace.

    It is another one, which continues the given one, if a hook has read a value.
    """
    leaves = [trace.operand(trace.entered[place]) for place, _ in found.leaves]
    made: tuple[Trace, list[Any]] = _recorded_in(trace, hooked_gradients, trace, loss, seed, found.passed, leaves)
    after = made[0]
    if after is not trace:
        after.grad = state.grad
        if state.trace is trace:
            state.trace = after
    return made


def _recorded_in(trace: Trace, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function that records operations, without gradients, in a trace."""
    kept = state.trace, state.grad
    state.trace, state.grad, trace.grad = trace, False, False
    try:
        return function(*args)
    finally:
        state.trace, state.grad = kept
        trace.grad = state.grad


def _differentiable(tensor: Recorded, gradient: Any) -> Trace:
    """The trace in which a tensor can be differentiated; the thread continues with it."""
    if not tensor._spec.requires_grad:
        raise InvalidValueError(
            f"backward: the tensor must depend on one that requires a gradient, got {tensor._spec.type} that does not; "
            "set requires_grad=True on a leaf, and compute outside of no_grad()"
        )
    shape = tensor._spec.type.shape
    if gradient is None and shape and tensor._spec.type.size != 1:
        raise InvalidValueError(
            f"backward: without a gradient the tensor must be a scalar, got {tensor._spec.type}; reduce it, as in "
            "loss.mean().backward(), or pass a gradient of its shape"
        )
    if gradient is not None and gradient._spec.type.shape != shape:
        raise InvalidValueError(
            f"backward: the gradient must have the shape of the tensor, {shape}, got {gradient._spec.type.shape}; "
            "reshape it"
        )
    owner = tensor._trace
    if owner is FREED:
        raise _used_up()
    trace = state.trace
    if not tensor._spec.leaf and isinstance(owner, Trace):
        if not owner.done and owner.outer is None and has_histories(owner):
            run_trace(owner)
        if owner.done and not (trace.resumed is not None and owner in trace.resumed):
            if trace.node.parent is not None:
                run_trace(trace)
            return resume(owner)
    return settled([t for t in (tensor, gradient) if t is not None])


def _used_up() -> InvalidValueError:
    return InvalidValueError(
        "backward: the graph of this tensor has been used up by an earlier backward pass; pass retain_graph=True to "
        "the first one, or compute the tensor again"
    )


def _made_backward(trace: Trace, key: Hashable, loss: Node, seed: Node | None) -> Node:
    with lock:
        passed = _passed([loss])
        leaves = sorted((n for n in passed if n.index >= 0 and n.spec is not None and n.spec.leaf), key=_index)
        node = differentiated(trace.node, [(loss, seed)], leaves, False)
        inner = frozenset(n for n in passed if n.index < 0)
        node.made = _Backward(tuple((leaf.index, item) for leaf, item in zip(leaves, node.items, strict=True)), inner)
        growing.count_node()
        return trace.node.child(key, node)


def _passed(results: Iterable[Node]) -> dict[Node, None]:
    """The nodes that require gradients among those that some results depend on."""
    passed: dict[Node, None] = {}
    stack = list(results)
    while stack:
        node = stack.pop()
        if node in passed or (node.spec is not None and not node.spec.requires_grad):
            continue
        passed[node] = None
        stack.extend(node.operands)
    return passed


def _index(node: Node) -> int:
    return node.index


class _GradMode(ContextDecorator):
    """Turns the recording of gradients on or off, as a context manager or a decorator."""

    enabled = True

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> Self:
        self._before.append(state.grad)
        _set(self.enabled)
        return self

    def __exit__(self, *error: object) -> None:
        _set(self._before.pop())


def _set(enabled: bool) -> None:
    state.grad = enabled
    state.trace.grad = enabled


class no_grad(_GradMode):  # noqa: N801
    """Within it, operations are not recorded for differentiation: ``with no_grad():``, ``@no_grad()`` or ``@no_grad``.

    Parameters
    ----------
    function : callable, optional
        A function to call within it, for the decorator without parentheses.
    """

    enabled = False

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        """The context, or the decorated function."""
        made = super().__new__(cls)
        if function is None:
            return made
        made.__init__()  # type: ignore[misc]
        return made(function)


class inference_mode(_GradMode):  # noqa: N801
    """`no_grad`, by the name of PyTorch's mode for prediction.

    Parameters
    ----------
    mode : bool, default True
        Whether it has an effect.
    """

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self.enabled = not mode and state.grad


class enable_grad(_GradMode):  # noqa: N801
    """Within it, operations are recorded for differentiation, also inside `no_grad`."""


class set_grad_enabled(_GradMode):  # noqa: N801
    """Turn the recording of gradients on or off, at once and until the end of a ``with`` block.

    Parameters
    ----------
    mode : bool
        Whether it is on.
    """

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self.enabled = bool(mode)
        self._first = state.grad
        _set(self.enabled)

    def __enter__(self) -> Self:
        self._before.append(self._first)
        return self


def is_grad_enabled() -> bool:
    """Whether operations are recorded for differentiation."""
    return state.grad
