"""From a module of PyTorch to a `Graph`: ``torch.export`` in a mode and for shapes, undecomposed."""

import inspect
import warnings
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from adjoint.errors import AdjointError, InvalidValueError
from adjoint.importers.torch_export.arrays import require_torch
from adjoint.importers.torch_export.decompose import decompose
from adjoint.importers.torch_export.evaluate import missing_operators, refuse_missing
from adjoint.importers.torch_export.graph import Graph
from adjoint.importers.torch_export.reading import read
from adjoint.lazy_dataclass import dataclass

__all__ = ["Exports", "LossExports", "example_leaves", "outputs_to_loss"]


@dataclass
class Exports:
    """The graphs of a module of PyTorch, made when they are needed and then kept.

    Parameters
    ----------
    module : torch.nn.Module
        The module.
    args, keywords : tuple, dict
        Examples of its arguments; what is not a tensor in them is the same in every call.
    """

    module: Any
    args: tuple[Any, ...]
    keywords: dict[str, Any]
    _made: dict[bool, list[Graph]] = field(default_factory=dict)

    def graph(self, training: bool, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[np.dtype]) -> Graph:
        """The graph for arguments of these shapes and dtypes.

        Parameters
        ----------
        training : bool
            Whether the module is in training mode.
        shapes, dtypes : sequence
            Of the tensors among the arguments, in their order.

        Raises
        ------
        InvalidValueError
            If PyTorch cannot export the module.
        TypeRuleError
            If there are operators that adjoint does not have.
        """
        known = self._made.setdefault(training, [])
        for graph in known:
            if graph.accepts(shapes, dtypes):
                return graph
        made = self._export(training, shapes, dtypes)
        known.append(made)
        return made

    def latest(self) -> Graph:
        """A graph that has been made: that of training, if there is one."""
        return next(graphs[-1] for graphs in (self._made.get(True), self._made.get(False)) if graphs)

    def _export(self, training: bool, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[np.dtype]) -> Graph:
        torch = require_torch("from_torch")
        args, keywords = self._examples(torch, shapes, dtypes)
        modes = [(one, one.training) for one in self.module.modules()]
        # A module in training mode may have parts that are not, such as frozen normalization.
        if training != self.module.training:
            self.module.train(training)
        try:
            for dynamic in (True, False):
                program = _exported(torch, self.module, args, keywords, dynamic)
                if program is None:
                    continue
                graph = read(torch, program)
                missing = missing_operators(graph)
                if missing and dynamic and _has_sizes(graph):
                    continue  # operators are decomposed for numbers as sizes
                return graph if not missing else self._decomposed(torch, program, graph)
        finally:
            for one, mode in modes:
                one.training = mode
        raise AssertionError("the last export returns or raises")

    def _decomposed(self, torch: Any, program: Any, graph: Graph) -> Graph:
        whole = decompose(torch, program.graph, graph)
        refuse_missing("from_torch", whole)
        return whole

    def _examples(self, torch: Any, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[np.dtype]) -> tuple[Any, Any]:
        """The examples, with tensors of these shapes and dtypes in place of those of others."""
        leaves, structure = torch.utils._pytree.tree_flatten((self.args, self.keywords))
        places = [n for n, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        if len(places) != len(shapes):
            raise InvalidValueError(
                f"from_torch: the module is called with as many tensors as in example_inputs, {len(places)}, got "
                f"{len(shapes)}; pass them in that order"
            )
        for place, shape, dtype in zip(places, shapes, dtypes, strict=True):
            leaf = leaves[place]
            wanted = getattr(torch, np.dtype(dtype).name)
            if tuple(leaf.shape) != tuple(shape) or leaf.dtype != wanted:
                leaves[place] = torch.zeros(tuple(shape), dtype=wanted)
        args, keywords = torch.utils._pytree.tree_unflatten(leaves, structure)
        return args, keywords


class LossExports(Exports):
    """The graphs of a loss, whose arguments are tensors by position."""

    def _examples(self, torch: Any, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[np.dtype]) -> tuple[Any, Any]:
        types = [getattr(torch, np.dtype(dtype).name) for dtype in dtypes]
        return tuple(torch.zeros(shape, dtype=one) for shape, one in zip(shapes, types, strict=True)), {}


def outputs_to_loss(torch: Any, loss: Any, exports: Exports) -> Any:
    """A module of PyTorch that calls a loss with the result of a module, which it takes as tensors, and the target."""

    class OutputsToLoss(torch.nn.Module):  # type: ignore[misc]
        """The loss, of the tensors of the result and the target."""

        def __init__(self) -> None:
            super().__init__()
            self.loss = loss

        def forward(self, *given: Any) -> Any:
            structure, computed, numbers = exports.latest().structure
            tensors = iter(given[:-1])
            pairs = zip(computed, numbers, strict=True)
            leaves = [next(tensors) if ref and number is None else number for ref, number in pairs]
            return self.loss(torch.utils._pytree.tree_unflatten(leaves, structure), given[-1])

    return OutputsToLoss()


def example_leaves(torch: Any, args: Any, keywords: Any) -> list[Any]:
    """The tensors of PyTorch among example arguments, in their order."""
    leaves, _ = torch.utils._pytree.tree_flatten((args, keywords))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _has_sizes(graph: Graph) -> bool:
    return any(isinstance(size, str) for one in graph.inputs for size in one.shape)


def _exported(torch: Any, module: Any, args: Any, keywords: Any, dynamic: bool) -> Any:
    """The exported program; None if sizes that vary are the reason why there is none."""
    automatic = torch.export.Dim.AUTO

    def sizes(leaf: Any) -> Any:
        return {0: automatic} if isinstance(leaf, torch.Tensor) and leaf.dim() and leaf.shape[0] > 1 else None

    mapped: Callable[..., Any] = torch.utils._pytree.tree_map
    given = (tuple(mapped(sizes, one) for one in args), {name: mapped(sizes, one) for name, one in keywords.items()})
    # What is given by name may come in another order than that of the signature.
    variadic = any(p.kind is p.VAR_POSITIONAL for p in inspect.signature(module.forward).parameters.values())
    shapes = _by_name(module, *given) if keywords else (given[0],) if variadic else given[0]
    try:
        with torch.enable_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.export.export(module, args, keywords, dynamic_shapes=shapes if dynamic else None)
    except AdjointError:
        raise
    except Exception as error:
        if dynamic:
            return None
        first = str(error).strip().split("\n")[0].rstrip(".")
        raise InvalidValueError(
            f"from_torch: torch.export must be able to export the module, got {type(error).__name__}: {first}; change "
            "the forward method, or export a part of the model"
        ) from error


def _by_name(module: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """The sizes that vary, by the names of arguments."""
    names = list(inspect.signature(module.forward).parameters)
    return {**dict(zip(names, args, strict=False)), **keywords}
