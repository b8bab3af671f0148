"""``torch.compile(backend="adjoint")``: the graphs that PyTorch's compiler captures, as programs of adjoint.

A captured graph becomes one compiled program, and its gradients, by adjoint's rules, another. The optimizer stays
PyTorch's: `adjoint.from_torch` compiles the whole step instead. Random numbers, as of dropout, are adjoint's.
"""

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.func.jit import jit
from adjoint.importers.torch_export.arrays import as_array, as_torch, require_torch
from adjoint.importers.torch_export.decompose import decompose
from adjoint.importers.torch_export.evaluate import evaluate, missing_operators, refuse_missing
from adjoint.importers.torch_export.graph import Graph, Input
from adjoint.importers.torch_export.reading import read_nodes
from adjoint.tensor.autograd import enable_grad, grad, no_grad
from adjoint.tensor.making import from_array

__all__ = ["backend"]


def backend(module: Any, inputs: Sequence[Any], **_: Any) -> Callable[..., Any]:  # noqa: ARG001
    """The backend of ``torch.compile`` that is called "adjoint".

    Parameters
    ----------
    module : torch.fx.GraphModule
        The captured graph.
    inputs : sequence
        Examples of what it takes.

    Returns
    -------
    callable
        Takes such inputs, and returns the tuple of the results.
    """
    torch = require_torch("torch.compile")
    programs: dict[Any, _Program] = {}

    class Differentiable(torch.autograd.Function):  # type: ignore[misc, name-defined]
        """The program as an operation of PyTorch's autograd."""

        @staticmethod
        def forward(ctx: Any, program: "_Program", *tensors: Any) -> Any:
            ctx.program = program
            ctx.inputs, ctx.results = program.run(tensors, [one.requires_grad for one in tensors])
            made = tuple(as_torch(one) for one in ctx.results)
            ctx.mark_non_differentiable(*(one for one in made if not one.is_floating_point()))
            return made

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            return None, *ctx.program.gradients(ctx.inputs, ctx.results, cotangents)

    def call(*given: Any) -> tuple[Any, ...]:
        key = tuple((tuple(x.shape), x.dtype, x.requires_grad) if isinstance(x, torch.Tensor) else x for x in given)
        program = programs.get(key)
        if program is None:
            program = programs[key] = _Program(torch, module, given)
        tensors = [one for one in given if isinstance(one, torch.Tensor)]
        if torch.is_grad_enabled() and any(one.requires_grad for one in tensors):
            results: Any = Differentiable.apply(program, *tensors)
        else:
            results = tuple(as_torch(one) for one in program.run(tensors, [False] * len(tensors))[1])
        count = len(program.changed)
        with torch.no_grad():
            for place, new in zip(program.changed, results[len(results) - count :], strict=True):
                tensors[place].copy_(new)
        return program.arranged(results[: len(results) - count])

    return call


class _Program:
    """A captured graph for inputs of certain shapes.

    Parameters
    ----------
    torch : module
        PyTorch.
    module : torch.fx.GraphModule
        The captured graph.
    given : tuple
        The inputs.

    Attributes
    ----------
    changed : list of int
        The numbers of the tensors that the graph changes in place; known after the first run. Their new values follow
        the results.
    """

    def __init__(self, torch: Any, module: Any, given: tuple[Any, ...]) -> None:
        self.changed: list[int] = []
        self._graph = _captured(torch, module, given)
        self._places = [n for n, one in enumerate(self._graph.outputs) if _is_tensor(one)]
        self._compiled = jit(self._computed)

    def _computed(self, *tensors: Any) -> tuple[Any, ...]:
        own = [one if one.requires_grad else one.clone() for one in tensors]
        before = [one._node for one in own]
        leaves = evaluate(self._graph, {}, own)
        self.changed[:] = [n for n, (one, node) in enumerate(zip(own, before, strict=True)) if one._node is not node]
        return (*(leaves[n] for n in self._places), *(own[n] for n in self.changed))

    def run(self, tensors: Sequence[Any], differentiable: Sequence[bool]) -> tuple[list[Any], tuple[Any, ...]]:
        """The inputs as tensors of adjoint, and the results followed by the new values."""
        recorded = any(differentiable)
        # What is recorded for a backward pass has to keep its elements: a copy is cheaper than looking for changes.
        own = [
            from_array(as_array(one), copy=recorded, requires_grad=wanted)
            for one, wanted in zip(tensors, differentiable, strict=True)
        ]
        with enable_grad() if recorded else no_grad():
            return own, self._compiled(*own)

    def gradients(self, inputs: Sequence[Any], results: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """The gradients of the inputs, None for those that need none, given those of the results."""
        pairs = [(x, ct) for x, ct in zip(results, cotangents, strict=True) if x.requires_grad and ct is not None]
        wanted = [one for one in inputs if one.requires_grad]
        given = [from_array(as_array(ct), copy=False) for _, ct in pairs]
        found = iter(grad([x for x, _ in pairs], wanted, given, allow_unused=True))
        made = [next(found) if one.requires_grad else None for one in inputs]
        return [None if one is None else as_torch(one) for one in made]

    def arranged(self, results: Sequence[Any]) -> tuple[Any, ...]:
        """The results with the numbers and None among them."""
        rest = iter(results)
        return tuple(next(rest) if _is_tensor(one) else one for one in self._graph.outputs)


def _is_tensor(leaf: Any) -> bool:
    return hasattr(leaf, "name")


def _captured(torch: Any, module: Any, given: tuple[Any, ...]) -> Graph:
    """The graph in ATen's operators, not decomposed, with numbers as sizes."""
    trace = torch.fx.experimental.proxy_tensor.make_fx
    with torch.enable_grad() if torch.is_grad_enabled() else torch.no_grad():
        traced = trace(module, tracing_mode="fake", pre_dispatch=True)(*given)
    theirs = [node for node in traced.graph.nodes if node.op == "placeholder"]
    inputs = [Input(node.name) for node, one in zip(theirs, given, strict=True) if isinstance(one, torch.Tensor)]
    constants: dict[str, Any] = {}
    nodes, leaves = read_nodes(torch, traced, constants, inputs)
    graph = Graph(tuple(inputs), tuple(nodes), tuple(leaves), tuple, constants)
    if missing_operators(graph):
        graph = decompose(torch, traced.graph, graph)
        refuse_missing("torch.compile", graph)
    return graph
