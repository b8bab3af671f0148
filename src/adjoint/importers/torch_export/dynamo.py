"""``torch.compile(backend="adjoint")``: the graphs that PyTorch's compiler captures, as programs of adjoint.

A captured graph becomes one compiled program, and its gradients, by adjoint's rules, another, which computes what it
needs of the results again: so nothing but inputs and results passes through PyTorch. The optimizer stays PyTorch's:
`adjoint.from_torch` compiles the whole step instead. Random numbers, as of dropout, are adjoint's.
"""

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.func.derivatives import vjp
from adjoint.func.jit import jit
from adjoint.importers.torch_export.arrays import as_array, as_torch, require_torch
from adjoint.importers.torch_export.decompose import decompose
from adjoint.importers.torch_export.evaluate import evaluate, missing_operators, refuse_missing
from adjoint.importers.torch_export.graph import Graph, Input, Ref
from adjoint.importers.torch_export.reading import read_nodes
from adjoint.ir import is_float
from adjoint.tensor.autograd import no_grad
from adjoint.tensor.generator import get_rng_state, set_rng_state
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
            ctx.program, ctx.random = program, get_rng_state()
            made = program.run(tensors)
            # The caller writes the new values of those that change into them before the backward pass.
            ctx.save_for_backward(*(x.clone() if n in program.changed else x for n, x in enumerate(tensors)))
            ctx.mark_non_differentiable(*(made[n] for n in range(len(made)) if n not in program.floats))
            return made

        @staticmethod
        @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
        def backward(ctx: Any, *cotangents: Any) -> Any:
            return None, *ctx.program.gradients(ctx.saved_tensors, cotangents, ctx.random)

    def call(*given: Any) -> tuple[Any, ...]:
        key = tuple((tuple(x.shape), x.dtype, x.requires_grad) if isinstance(x, torch.Tensor) else x for x in given)
        program = programs.get(key)
        if program is None:
            program = programs[key] = _Program(torch, module, given)
        tensors = [one for one in given if isinstance(one, torch.Tensor)]
        if torch.is_grad_enabled() and any(one.requires_grad for one in tensors):
            results: Any = Differentiable.apply(program, *tensors)
        else:
            results = program.run(tensors)
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
    floats : list of int
        The numbers of the results that have gradients; known after the first run.
    """

    def __init__(self, torch: Any, module: Any, given: tuple[Any, ...]) -> None:
        self.changed: list[int] = []
        self.floats: list[int] = []
        self._graph = _captured(torch, module, given)
        self._places = [n for n, one in enumerate(self._graph.outputs) if isinstance(one, Ref)]
        self._wanted = [n for n, one in enumerate(x for x in given if isinstance(x, torch.Tensor)) if one.requires_grad]
        self._forward, self._backward = jit(self._computed), jit(self._pulled_back)

    def _leaves(self, tensors: Sequence[Any]) -> list[Any]:
        """The results that are tensors, and the new values of inputs."""
        before = [one._node for one in tensors]
        leaves = evaluate(self._graph, {}, tensors)
        now = enumerate(zip(tensors, before, strict=True))
        self.changed[:] = [n for n, (one, node) in now if one._node is not node]
        return [*(leaves[n] for n in self._places), *(tensors[n] for n in self.changed)]

    def _computed(self, *tensors: Any) -> tuple[Any, ...]:
        found = self._leaves([one.clone() for one in tensors])
        self.floats[:] = [n for n in range(len(self._places)) if is_float(found[n].dtype)]
        return tuple(found)

    def _pulled_back(self, *given: Any) -> Any:
        """The gradients of the inputs that need one, given inputs and those of results, which are computed again."""
        count = len(given) - len(self.floats)
        tensors, cotangents = given[:count], list(given[count:])

        def results(*wanted: Any) -> list[Any]:
            own = [one.clone() for one in tensors]
            for place, one in zip(self._wanted, wanted, strict=True):
                own[place] = one
            found = self._leaves(own)
            return [found[n] for n in self.floats]

        _, pull = vjp(results, *(tensors[n] for n in self._wanted))
        return pull(cotangents)

    def run(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        """The results, followed by the new values of inputs."""
        with no_grad():
            found = self._forward(*_shared(tensors))
        return tuple(as_torch(one) for one in found)

    def gradients(self, tensors: Sequence[Any], cotangents: Sequence[Any], random: Any) -> list[Any]:
        """The gradients of the inputs, None for those that need none, given those of the results."""
        now = get_rng_state()
        set_rng_state(random)  # so that the same elements are dropped
        found = self._backward(*_shared([*tensors, *(cotangents[n] for n in self.floats)]))
        set_rng_state(now)
        made: list[Any] = [None] * len(tensors)
        for place, one in zip(self._wanted, found, strict=True):
            made[place] = as_torch(one)
        return made

    def arranged(self, results: Sequence[Any]) -> tuple[Any, ...]:
        """The results with the numbers and None among them."""
        rest = iter(results)
        return tuple(next(rest) if isinstance(one, Ref) else one for one in self._graph.outputs)


def _shared(tensors: Sequence[Any]) -> list[Any]:
    """Tensors of adjoint in the memory of PyTorch's."""
    return [from_array(as_array(one), copy=False) for one in tensors]


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
