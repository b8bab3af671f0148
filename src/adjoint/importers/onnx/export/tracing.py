"""What is exported: a function with graph inputs, and arrays for its other parameters."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import Parameter as Argument
from inspect import signature
from typing import Any

import numpy as np

from adjoint.errors import AdjointError, InvalidValueError, NameLookupError, TypeRuleError, kind_of, listed
from adjoint.func.jit import jit
from adjoint.func.tree import tree_leaves
from adjoint.importers.onnx.export.operators import WRITTEN
from adjoint.importers.onnx.export.sizes import Sizes, sizes_of
from adjoint.importers.onnx.module import OnnxModule
from adjoint.ir import Function, Value
from adjoint.lazy_dataclass import dataclass
from adjoint.modules import Module
from adjoint.tensor.autograd import set_grad_enabled
from adjoint.tensor.making import from_array
from adjoint.tensor.tensor import Tensor
from adjoint.transforms.batch_axis import batch_inputs
from adjoint.transforms.inline_calls import inline_calls
from adjoint.transforms.resize_batch import resize_batch

__all__ = ["Exported", "of_function", "of_module"]


@dataclass
class Exported:
    """What is written.

    Parameters
    ----------
    function : Function
        The graph, without calls.
    inputs : dict of Value to str
        The parameters that a caller of the model passes, and their names.
    stored : dict of Value to (str, numpy.ndarray)
        The others: names and elements.
    batch : Sizes or None
        Which sizes depend on that of the batch, if it may vary.
    """

    function: Function
    inputs: dict[Value, str]
    stored: dict[Value, tuple[str, np.ndarray]]
    batch: Sizes | None = None


def of_function(function: Function, weights: Mapping[str, Any], dynamic: bool | None) -> Exported:
    """A graph: parameters that are among the weights are stored, the others are inputs."""
    for name in weights:
        if all(p.label != name for p in function.params):
            raise NameLookupError(
                f"to_onnx: weights must name parameters of the function, got {name!r}; there are "
                f"{listed([p.label for p in function.params])}"
            )
    flat = inline_calls(function)
    _check_operators(flat)
    stored = {}
    for p in flat.params:
        if p.label in weights:
            given = weights[p.label]
            array = np.asarray(given.elements().array if isinstance(given, Tensor) else given)
            if array.shape != p.shape:
                raise TypeRuleError(
                    f"to_onnx: the weight {p.label!r} must have the shape {list(p.shape)}, got {list(array.shape)}; "
                    "reshape it"
                )
            stored[p] = (p.label, array.astype(p.dtype, copy=False))
    exported = Exported(flat, {p: p.label for p in flat.params if p not in stored}, stored)
    if dynamic is False or not exported.inputs:
        return exported
    axes = batch_inputs(flat, list(exported.inputs))
    try:
        larger = resize_batch(flat, axes, axes.rows + 1)
        exported.batch = sizes_of((flat, larger), (axes.rows, axes.rows + 1))
    except AdjointError as error:
        if dynamic:
            raise _fixed(error) from error
    return exported


def of_module(module: Any, examples: Sequence[Any], dynamic: bool | None) -> Exported:
    """A module in evaluation mode, or a function of tensors, traced with examples of its arguments.

    For a dynamic batch it is traced twice, for batches of two sizes: what differs between the graphs depends on the
    size of the batch.
    """
    given = [_as_tensor(one) for one in examples]
    if dynamic is not False and given and given[0].shape:
        try:
            return _with_any_batch(module, given)
        except AdjointError as error:
            if dynamic:
                raise _fixed(error) from error
    elif dynamic:
        raise InvalidValueError("to_onnx: a dynamic batch needs inputs with an axis, got none; leave dynamic_batch out")
    return _traced(module, given)


def _fixed(error: AdjointError) -> InvalidValueError:
    return InvalidValueError(
        "to_onnx: with a dynamic batch, the model must compute the same for batches of every size, got this for "
        f"another size: {error.message}; leave dynamic_batch out"
    )


def _with_any_batch(module: Any, examples: Sequence[Tensor]) -> Exported:
    """The graph for a batch, and which of its sizes depend on that of the batch.

    A batch of one row is not traced: in its graph, axes of size 1 would not be told from those that broadcast.
    """
    rows = examples[0].shape[0]
    counts = (max(rows, 2), max(rows, 2) + 1)
    made, other = (_traced(module, [_resized(x, n) if x.shape[:1] == (rows,) else x for x in examples]) for n in counts)
    for (_, one), (_, two) in zip(made.stored.values(), other.stored.values(), strict=False):
        if one is not two and (one.shape != two.shape or one.tobytes() != two.tobytes()):
            raise InvalidValueError("it makes a constant that depends on the size of the batch")
    made.batch = sizes_of((made.function, other.function), counts)
    return made


def _resized(x: Tensor, rows: int) -> Tensor:
    """Zeros of the same type with another number of rows."""
    return from_array(np.zeros((rows, *x.shape[1:]), x.dtype), copy=False)


def _as_tensor(given: Any) -> Tensor:
    if isinstance(given, np.ndarray):
        return from_array(given, copy=True)
    if not isinstance(given, Tensor):
        raise TypeRuleError(f"to_onnx: example inputs must be tensors or arrays, got {kind_of(given)}; convert them")
    return given


def _traced(module: Any, examples: Sequence[Tensor]) -> Exported:
    names = {}
    if isinstance(module, Module):
        named = [*module.named_parameters(), *module.named_buffers()]
        names = {id(one): name for name, one in named}
    with _evaluating(module), set_grad_enabled(False):
        counts = [0]

        def called(*args: Any) -> Any:
            made = module(*args)
            counts[0] = len(tree_leaves(made))
            return made

        function, operands = jit(called).lowered(*examples)
    if function is None or len(function.results) != counts[0]:
        raise TypeRuleError(
            f"to_onnx: what is exported must return tensors that it computes, and change none, got "
            f"{counts[0]} results and {0 if function is None else len(function.results)} in its graph; return new "
            "tensors only"
        )
    flat = inline_calls(function)
    _check_operators(flat)
    position = {id(x): n for n, x in enumerate(examples)}
    labels = _argument_names(module, len(examples))
    inputs: dict[Value, str] = {}
    stored: dict[Value, tuple[str, np.ndarray]] = {}
    for param, one in zip(flat.params, operands, strict=True):
        if id(one) in position:
            inputs[param] = labels[position[id(one)]]
        else:
            stored[param] = (names.get(id(one), param.label), one.elements().array)
    return Exported(flat, inputs, stored)


@contextmanager
def _evaluating(module: Any) -> Iterator[None]:
    """A context in which a module, with all its submodules, is in evaluation mode."""
    if not isinstance(module, Module):
        yield
        return
    before = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in before:
            object.__setattr__(part, "training", training)


def _argument_names(module: Any, count: int) -> list[str]:
    """The names of the positional arguments, numbered where the function does not name them."""
    if isinstance(module, OnnxModule):
        return list(module.input_names)
    function = module.forward if isinstance(module, Module) else module
    kinds = (Argument.POSITIONAL_ONLY, Argument.POSITIONAL_OR_KEYWORD)
    try:
        found = [p.name for p in signature(function).parameters.values() if p.kind in kinds]
    except (TypeError, ValueError):
        found = []
    return [found[n] if n < len(found) else f"input_{n}" for n in range(count)]


def _check_operators(function: Function) -> None:
    """Raise unless all operators can be written, with the complete list of the others."""
    used = {value.op.name for value in function.values() if value not in function.params}
    missing = sorted(used - WRITTEN.keys())
    if missing:
        raise InvalidValueError(
            f"to_onnx: operators must be among the {len(WRITTEN)} that can be written in ONNX, got "
            f"{', '.join(missing)}; export the part of the model without them"
        )
