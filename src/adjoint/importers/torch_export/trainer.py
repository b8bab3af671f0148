"""`from_torch`: a module of PyTorch as something that adjoint trains."""

from collections.abc import Iterator, Mapping
from inspect import Parameter, signature
from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError, kind_of, listed, plural
from adjoint.func.tree import tree_leaves
from adjoint.importers.torch_export.arrays import as_array, as_tensor, as_torch, require_torch
from adjoint.importers.torch_export.export import Exports, LossExports, example_leaves, outputs_to_loss
from adjoint.importers.torch_export.module import ImportedModule, LossOf, OwnLoss, fill
from adjoint.importers.torch_export.optimizers import Following, bound_optimizer, state_for_torch
from adjoint.modules import Module
from adjoint.optim import Optimizer
from adjoint.tensor.tensor import Tensor
from adjoint.training.model import Model

__all__ = ["TorchTrainer", "from_torch"]


def from_torch(module: Any, loss: Any = None, optimizer: Any = None, example_inputs: Any = ()) -> "TorchTrainer":
    """A module of PyTorch as a trainer: its whole training step is compiled by adjoint.

    The module is exported in training mode with ``torch.export``, without decomposing layers, and again in evaluation
    mode when it is first used for prediction. The number of rows of a batch may vary. The trainer has copies of its
    parameters and buffers; `TorchTrainer.sync` writes them back.

    Parameters
    ----------
    module : torch.nn.Module
        The module. Parameters that require no gradient are not trained; parts in evaluation mode of a module in
        training mode stay so.
    loss : callable, optional
        Takes what the module returns and a target: a module of adjoint, or a module or function of PyTorch, which is
        exported too. Default: the module returns its loss, alone, as ``loss`` of what it returns, or as the first item.
    optimizer : Optimizer or torch.optim.Optimizer, optional
        One of adjoint, or one of PyTorch for the module's parameters, whose settings, groups and state are taken over.
        Without, the trainer only predicts.
    example_inputs : Tensor, tuple or dict
        Arguments of the module, by position or by name; tensors are examples, everything else is fixed.

    Returns
    -------
    TorchTrainer
        The trainer.

    Raises
    ------
    MissingAttributeError
        If PyTorch is not installed.
    TypeRuleError
        If an argument is of another kind, or there is no such optimizer.
    InvalidValueError
        If ``torch.export`` fails, or there are operators that adjoint does not have: the message lists all.

    Examples
    --------
    >>> trainer = from_torch(module, torch.nn.CrossEntropyLoss(), torch.optim.AdamW(module.parameters()), images)
    >>> for x, y in loader:
    ...     loss = trainer.update(x, y)
    >>> trainer.sync()
    """
    torch = require_torch("from_torch")
    module = getattr(module, "_orig_mod", module)  # of what torch.compile returns
    if not isinstance(module, torch.nn.Module):
        raise TypeRuleError(f"from_torch takes a torch.nn.Module, got {kind_of(module)}; pass the module")
    args, keywords = _arguments(torch, example_inputs)
    exports = Exports(module, args, keywords)
    network = ImportedModule(exports.graph)
    known = fill(network, module, as_array, {})
    for _ in (*network.named_parameters(), *network.named_buffers()):
        pass  # which names the tensors in printed graphs
    examples = example_leaves(torch, args, keywords)
    if not examples:
        raise InvalidValueError("from_torch: example_inputs must have at least one tensor, got none; pass a batch")
    names = _names(torch, module, args, keywords)
    arrays = [as_array(one) for one in examples]
    exports.graph(optimizer is not None, [one.shape for one in arrays], [one.dtype for one in arrays])
    bound = None if optimizer is None else bound_optimizer(optimizer, network, known)
    return TorchTrainer(module, network, _loss(torch, loss, exports), bound, names, optimizer)


class TorchTrainer:
    """A module of PyTorch that adjoint trains; `from_torch` makes it.

    Attributes
    ----------
    network : Module
        The module's computation, with parameters and buffers of its own under the module's names.
    model : Model
        What trains, evaluates and uses the network.
    optimizer : Optimizer or None
        Bound to the network's parameters.
    """

    def __init__(
        self, module: Any, network: ImportedModule, loss: Module | None, optimizer: Any, names: list[str], theirs: Any
    ) -> None:
        self.module, self.network, self.optimizer = module, network, optimizer
        self._names, self._theirs, self._loss = names, theirs, loss
        own = optimizer is None or isinstance(theirs, Optimizer)
        self._following = None if own else Following(optimizer, theirs)
        trained = OwnLoss(network) if loss is None else network
        self.model = Model(trained, loss, optimizer, metrics={"loss"})
        self._predictor = self.model if loss is not None else Model(network)
        self.network.train()

    def __repr__(self) -> str:
        return f"<TorchTrainer: {type(self.module).__name__}, {type(self.optimizer).__name__}>"

    def update(self, *batch: Any, **named: Any) -> Tensor:
        """Make one training step.

        Parameters
        ----------
        *batch : Tensor, torch.Tensor or numpy.ndarray
            The inputs in the order of the example, and the target if there is a loss. A single dict is the same as
            `named`.
        **named
            Inputs by name, and then the target by position; a name that is no input is the target.

        Returns
        -------
        Tensor
            The loss before the step, a number.
        """
        if self._following is not None:
            self._following.update()
        step = self.model.train_step
        if not (step.training and self.network.training):
            step.train()
        found: Tensor = self.model.compiled_step(*self._ordered(batch, named, self._loss is not None))
        return found

    def predict(self, *inputs: Any, **named: Any) -> Any:
        """What the module returns for a batch, in evaluation mode.

        Parameters
        ----------
        *inputs, **named
            The inputs, as for `update`.

        Returns
        -------
        tree of Tensor
            An object with named fields becomes a dict whose entries are attributes too.
        """
        return self._predictor.predict(*self._ordered(inputs, named, False))

    def train(self, dataset: Any, epochs: int = 1, valid_dataset: Any = None, callbacks: Any = None) -> Any:
        """Train for some epochs; see `adjoint.Model.fit`.

        Parameters
        ----------
        dataset : iterable
            Batches of the inputs and the target: adjoint's datasets and loaders, or a ``torch.utils.data.DataLoader``,
            also of dicts.
        epochs : int, default 1
            Number of epochs.
        valid_dataset : iterable, optional
            What the model is evaluated on after each.
        callbacks : Callback or iterable of Callback, optional
            As for `adjoint.Model.fit`.

        Returns
        -------
        Run
            The run.
        """
        if self._following is not None:
            self._following.update()
        valid = None if valid_dataset is None else self._batches(valid_dataset)
        return self.model.fit(epochs, self._batches(dataset), valid, callbacks=callbacks)

    def sync(self) -> Any:
        """Write the weights and buffers back into PyTorch's module, and the state into its optimizer; returns it."""
        torch = require_torch("from_torch")
        own = self.network.named_tensors()
        theirs = dict(self.module.named_parameters(remove_duplicate=False))
        theirs |= dict(self.module.named_buffers(remove_duplicate=False))
        with torch.no_grad():
            for name, tensor in own.items():
                theirs[name].copy_(as_torch(tensor))
        if isinstance(self._theirs, torch.optim.Optimizer):
            state = state_for_torch(self.optimizer)
            if state["state"]:
                self._theirs.load_state_dict(state)
        return self.module

    def state_dict(self) -> Mapping[str, Tensor]:
        """The parameters and buffers by the names that they have in PyTorch's module."""
        return self.network.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> Any:
        """Copy tensors of adjoint or PyTorch, or arrays, into the parameters and buffers of the same names."""
        return self.network.load_state_dict(as_tensor(state_dict), strict)

    def show(self, stage: str = "graph") -> Any:
        """The text of a stage of compilation of the training step, after the first `update`; see `Module.show`."""
        return self.model.show(stage)

    def profile(self, *batch: Any, runs: int = 50, **named: Any) -> Any:
        """Measure the training step kernel by kernel, without training; see `Model.profile`."""
        return self.model.profile(*self._ordered(batch, named, self._loss is not None), runs=runs)

    def _batches(self, dataset: Any) -> Any:
        """A dataset with batches of adjoint's tensors: itself, unless it is one of PyTorch."""
        if type(dataset).__module__.startswith("adjoint."):
            return dataset
        return _Converted(dataset, self)

    def _ordered(self, batch: tuple[Any, ...], named: Mapping[str, Any], with_target: bool) -> list[Any]:
        """The tensors of a batch in the order of the example, and the target."""
        first = batch[0] if len(batch) == 1 else None
        if isinstance(first, Mapping):
            batch, named = (), {**first, **named}
        places = {name: n for n, name in enumerate(self._names)}
        found: list[Any] = [None] * len(places)
        rest = list(batch)
        others = [name for name in named if name not in places]
        for name, one in named.items():
            if name in places:
                found[places[name]] = one
            else:
                rest.append(one)
        leaves = [leaf for one in rest for leaf in _leaves(one)]
        missing = [n for n, one in enumerate(found) if one is None]
        if len(leaves) != len(missing) + with_target or len(others) > with_target:
            target = " and a target" if with_target else ""
            count = plural(len(leaves) + len(found) - len(missing), "array")
            extra = f" with the names {listed(others)} among them" if others else ""
            raise InvalidValueError(
                f"from_torch: a batch must have the inputs {listed(self._names, 9)}{target}, got {count}{extra}; pass "
                "them as in example_inputs"
            )
        for place, one in zip(missing, leaves, strict=False):
            found[place] = one
        return [self._tensor(one) for one in (*found, *leaves[len(missing) :])]

    def _tensor(self, given: Any) -> Any:
        """A tensor or array of a batch for the step: arrays of float64 in float32, unless a parameter is float64."""
        if isinstance(given, np.ndarray) and given.dtype == np.float64 and not self.model.is_wide:
            return given.astype(np.float32)
        return as_tensor(given)


class _Converted:
    """The batches of a dataset that is not adjoint's, as tuples of tensors in the order of the example."""

    def __init__(self, dataset: Any, trainer: TorchTrainer) -> None:
        self._dataset, self._trainer = dataset, trainer

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for batch in self._dataset:
            given = tuple(batch) if isinstance(batch, tuple | list) else (batch,)
            yield tuple(self._trainer._ordered(given, {}, self._trainer._loss is not None))

    def __len__(self) -> int:
        return len(self._dataset)


def _leaves(given: Any) -> list[Any]:
    """The tensors and arrays in an argument."""
    return [one for one in tree_leaves(given) if hasattr(one, "shape") or isinstance(one, np.generic)]


def _arguments(torch: Any, given: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(given, torch.Tensor):
        return (given,), {}
    if isinstance(given, Mapping):
        return (), dict(given)
    if isinstance(given, tuple | list):
        items = tuple(given)
        if len(items) == 2 and isinstance(items[0], tuple) and isinstance(items[1], dict):
            return items[0], dict(items[1])  # positional and by name
        return items, {}
    raise TypeRuleError(
        f"from_torch: example_inputs must be a tensor of PyTorch, a tuple or a dict, got {kind_of(given)}; pass a batch"
    )


def _names(torch: Any, module: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> list[str]:
    """A name for each tensor of the example: that of the argument, or its position."""
    kinds = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    known = [one.name for one in signature(module.forward).parameters.values() if one.kind in kinds]
    known += [str(n) for n in range(len(known), len(args))]
    found: list[str] = []
    for name, one in (*zip(known, args, strict=False), *keywords.items()):
        count = len(example_leaves(torch, one, {}))
        found += [name] if count == 1 else [f"{name}.{n}" for n in range(count)]
    return found


def _loss(torch: Any, given: Any, exports: Exports) -> Module | None:
    """A loss as a module of adjoint."""
    if given is None or isinstance(given, Module):
        return given
    if not callable(given) or isinstance(given, type):
        raise TypeRuleError(
            f"from_torch: the loss must be a module of adjoint, or a module or function of PyTorch, got "
            f"{kind_of(given)}; pass torch.nn.CrossEntropyLoss()"
        )
    if (getattr(given, "__module__", "") or "").startswith("adjoint."):
        return _Called(given)
    theirs = outputs_to_loss(torch, given, exports)
    imported = ImportedModule(LossExports(theirs, (), {}).graph)
    fill(imported, theirs, as_array, {})
    return LossOf(imported)


class _Called(Module):
    """A function of adjoint as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: Any) -> Any:
        """What the function returns."""
        return self._function(*args)
