"""A module with the parameters and buffers of one of PyTorch, that computes what its graphs say."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.func.tree import register_tree, tree_leaves
from adjoint.importers.torch_export.evaluate import evaluate
from adjoint.importers.torch_export.graph import Graph, Outputs
from adjoint.modules import Module
from adjoint.tensor.making import from_array
from adjoint.tensor.tensor import Parameter, Tensor

__all__ = ["ImportedModule", "LossOf", "OwnLoss", "fill"]

register_tree(
    Outputs,
    lambda tree: (tree.values(), tuple(tree)),
    lambda keys, items: Outputs(zip(keys, items, strict=True)),  # type: ignore[call-overload]
)


class Part(Module):
    """A submodule of a module that was imported: a place for its parameters and buffers."""


class ImportedModule(Part):
    """What computes a graph of ATen operators, and holds its parameters and buffers under their dotted names.

    Parameters
    ----------
    graph_for : callable
        Takes whether the module is in training mode, the shapes, and the dtypes of the arguments, and returns the
        `Graph`.
    """

    def __init__(self, graph_for: Callable[[bool, Sequence[tuple[int, ...]], Sequence[np.dtype]], Graph]) -> None:
        super().__init__()
        self._graph_for = graph_for

    def forward(self, *arguments: Any) -> Any:
        """What the module of PyTorch returns for these tensors, in the order of the example."""
        shapes = [tuple(one.shape) for one in arguments]
        graph = self._graph_for(self.training, shapes, [one.dtype for one in arguments])
        return evaluate(graph, self.named_tensors(), arguments)

    def named_tensors(self) -> dict[str, Tensor]:
        """The parameters and buffers under all their names."""
        parameters = self.named_parameters(remove_duplicate=False)
        return {**dict(parameters), **dict(self.named_buffers(remove_duplicate=False))}


class OwnLoss(Module):
    """A network that returns its loss: alone, as ``loss`` of its outputs, or as the first of them.

    Parameters
    ----------
    network : Module
        The network.
    """

    def __init__(self, network: Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, *inputs: Any) -> Any:
        """The loss of a batch."""
        found = self.network(*inputs)
        if isinstance(found, dict) and "loss" in found:
            return found["loss"]
        return found[0] if isinstance(found, tuple | list) else found


class LossOf(Module):
    """A loss of PyTorch, of what a network returns and a target.

    Parameters
    ----------
    loss : ImportedModule
        Takes the tensors of the result, and the target.
    """

    def __init__(self, loss: ImportedModule) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, outputs: Any, target: Any) -> Any:
        """The loss."""
        return self.loss(*(one for one in tree_leaves(outputs) if isinstance(one, Tensor)), target)


def fill(module: Module, source: Any, array_of: Callable[[Any], np.ndarray], seen: dict[int, Any]) -> dict[int, Any]:
    """Give a module the parameters, buffers and submodules of one of PyTorch, tied ones tied.

    Parameters
    ----------
    module : Module
        An empty module.
    source : torch.nn.Module
        Where they are from.
    array_of : callable
        The elements of a tensor as an array.
    seen : dict
        What has been made, by the id of what it was made from; it is extended.

    Returns
    -------
    dict
        `seen`.
    """
    stack = [(module, source)]
    while stack:
        own, theirs = stack.pop()
        seen[id(theirs)] = own
        for name, one in theirs._parameters.items():
            if one is not None:
                if id(one) not in seen:
                    seen[id(one)] = Parameter(from_array(array_of(one)), bool(one.requires_grad))
                own._put(name, seen[id(one)], "_parameters")
        for name, one in theirs._buffers.items():
            if one is not None:
                if id(one) not in seen:
                    seen[id(one)] = from_array(array_of(one))
                own._put(name, seen[id(one)], "_buffers")
        own.__dict__["_transient"] = frozenset(theirs._non_persistent_buffers_set)
        for name, one in theirs._modules.items():
            if one is not None:
                known = seen.get(id(one))
                if known is None:
                    known = Part()
                    stack.append((known, one))
                    seen[id(one)] = known
                own._put(name, known, "_modules")
    return seen
