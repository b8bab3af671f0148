"""`to_onnx`: graphs of inference as files of ONNX."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adjoint.errors import InternalError, InvalidValueError, TypeRuleError, kind_of
from adjoint.importers.onnx.export.emitter import Emitter
from adjoint.importers.onnx.export.operators import LAZY, WRITTEN
from adjoint.importers.onnx.export.tracing import Exported, of_function, of_module
from adjoint.importers.onnx.package import require_onnx
from adjoint.importers.onnx.tensors import DTYPE_CODES
from adjoint.ir import Function, Value, dtype_name
from adjoint.paths import FilePath, write_user_file
from adjoint.version import __version__

__all__ = ["to_onnx"]

#: The version of ONNX's operators that is written by default: the first in which all reductions take their axes alike,
#: and elements can be scattered with any combination. Runtimes of 2023 have it.
_OPSET = 18

#: Most bytes of weights: what protobuf puts into a file, less room for the nodes.
_MOST_BYTES = (1 << 31) - (1 << 24)


def to_onnx(
    model: Any,
    example_inputs: Any,
    path: FilePath,
    *,
    weights: Mapping[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_batch: bool | None = None,
    opset: int = _OPSET,
) -> None:
    """Write what a model computes in evaluation mode to a file of ONNX.

    Parameters
    ----------
    model : nn.Module, Function or callable
        A module, which is traced in evaluation mode and stays as it is; a function of tensors; or a graph.
    example_inputs : Tensor, numpy.ndarray or sequence of them
        Examples of the arguments, whose shapes and dtypes the file states; None for a graph.
    path : str or os.PathLike
        The file, which is replaced as a whole once the new content is on the disk.
    weights : mapping of str to array, optional
        Of a graph, the elements of parameters that are stored in the file; the others are its inputs.
    input_names, output_names : sequence of str, optional
        The names in the file; default: those of the arguments, and ``output``, or ``output_0``, ...
    dynamic_batch : bool, optional
        Whether the first axis of the inputs may have any size, named ``batch``; that of an input whose size is not
        that of the first input stays as it is. Default: if the graph is the same for batches of two sizes.
    opset : int, default 18
        The version of ONNX's operators, at least 18.

    Raises
    ------
    InvalidValueError
        If there are operators that ONNX does not have, which are all listed; if the file would be larger than 2 GB; or
        if the batch cannot be dynamic.
    TypeRuleError
        If an argument is of the wrong kind.
    CheckpointError
        If the file cannot be written, an old one being unchanged, or the package `onnx` is not installed.
    """
    onnx = require_onnx("to_onnx")
    newest = onnx.defs.onnx_opset_version()
    if not _OPSET <= opset <= newest:
        raise InvalidValueError(f"to_onnx: opset must be from {_OPSET} to {newest}, got {opset}; pass one of them")
    if isinstance(model, Function):
        exported = of_function(model, weights or {}, dynamic_batch)
    elif not callable(model):
        raise TypeRuleError(f"to_onnx writes a module, a function or a graph, got {kind_of(model)}; pass one of them")
    elif weights is not None:
        raise TypeRuleError("to_onnx: weights are for graphs, got some for a module; a module has its own")
    else:
        examples = example_inputs if isinstance(example_inputs, tuple | list) else (example_inputs,)
        exported = of_module(model, examples, dynamic_batch)
    size = sum(array.nbytes for _, array in exported.stored.values())
    if size > _MOST_BYTES:
        raise InvalidValueError(
            f"to_onnx: a file of ONNX holds at most 2 GB, got weights of {size / 1e9:.1f} GB; convert the module with "
            "half() or save its state_dict"
        )
    made = _model(exported, onnx, input_names, output_names, opset)
    try:
        onnx.checker.check_model(made, full_check=True)
    except Exception as error:
        raise InternalError(
            f"to_onnx: the file is not valid, which is a bug in adjoint: {error}", str(model)
        ) from error
    write_user_file(path, made.SerializeToString(), "to_onnx")


def _model(
    exported: Exported, onnx: Any, input_names: Sequence[str] | None, output_names: Sequence[str] | None, opset: int
) -> Any:
    """The ``ModelProto``."""
    function, helper = exported.function, onnx.helper
    results = function.results
    default = ["output"] if len(results) == 1 else [f"output_{n}" for n in range(len(results))]
    inputs = dict(zip(exported.inputs, _given("input_names", input_names, list(exported.inputs.values())), strict=True))
    outputs = _given("output_names", output_names, default)
    emitter = _emitter(exported, onnx, inputs, outputs)
    for value in function.values():
        if value in emitter.names:
            continue
        if value.op.name in LAZY:
            emitter.narrow[value] = WRITTEN[value.op.name](emitter, value)
        else:
            emitter.names[value] = WRITTEN[value.op.name](emitter, value)
    for name, value in zip(outputs, results, strict=True):
        emitter.node("Identity", emitter.of(value), to=name)
    graph = helper.make_graph(
        emitter.nodes,
        function.name,
        [_info(emitter, value, name, helper) for value, name in inputs.items()],
        [_info(emitter, value, name, helper) for value, name in zip(results, outputs, strict=True)],
        [_stored(name, array, onnx) for name, array in emitter.stored.items()],
    )
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(
        graph,
        opset_imports=imports,
        ir_version=helper.find_min_ir_version_for(imports),
        producer_name="adjoint",
        producer_version=__version__,
    )


def _emitter(exported: Exported, onnx: Any, inputs: dict[Value, str], outputs: Sequence[str]) -> Emitter:
    """An emitter that knows the inputs, the stored values and the names of the outputs."""
    sizes = exported.batch
    batch = None
    if sizes is not None:
        batch = next(((name, sizes.factors[v].index(1)) for v, name in inputs.items() if 1 in sizes.factors[v]), None)
    emitter = Emitter(onnx, None if batch is None else sizes, batch)
    for name in (*inputs.values(), *outputs):
        if name in emitter.taken:
            raise InvalidValueError(
                f"to_onnx: inputs and outputs must have different names, got {name!r} twice; rename one"
            )
        emitter.taken.add(name)
    emitter.names.update(inputs)
    for value, (wanted, array) in exported.stored.items():
        name = emitter.names[value] = emitter.fresh(wanted)
        emitter.stored[name] = array
    return emitter


def _given(what: str, names: Sequence[str] | None, default: list[str]) -> list[str]:
    if names is None:
        return default
    if len(names) != len(default):
        raise InvalidValueError(f"to_onnx: {what} must be {len(default)} names, got {len(names)}; pass one for each")
    return list(names)


def _info(emitter: Emitter, value: Value, name: str, helper: Any) -> Any:
    """The type of an input or output, with a name in place of the size of the batch."""
    if value.dtype not in DTYPE_CODES:
        raise TypeRuleError(f"to_onnx: tensors must have a dtype of ONNX, got {dtype_name(value.dtype)}; convert it")
    names = {0: None, 1: "batch"}
    factors = emitter.factors(value)
    shape = [names.get(each, f"batch*{each}") or size for each, size in zip(factors, value.shape, strict=True)]
    return helper.make_tensor_value_info(name, DTYPE_CODES[value.dtype], shape)


def _stored(name: str, array: np.ndarray, onnx: Any) -> Any:
    """An initializer, with its elements as bytes in the order of files."""
    tensor = onnx.TensorProto(name=name, data_type=DTYPE_CODES[array.dtype], dims=array.shape)
    tensor.raw_data = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    return tensor
