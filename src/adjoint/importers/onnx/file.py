"""Reading of ONNX models: from a path, bytes, or an object of the package `onnx`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from adjoint.errors import CheckpointError, InvalidValueError, TypeRuleError, kind_of
from adjoint.importers.onnx.graph import Graph, graph_of
from adjoint.importers.onnx.package import require_onnx
from adjoint.paths import reading

__all__ = ["read_graph"]

#: Most operations of a model after its functions have been inlined; deep networks have some thousands.
_MOST_NODES = 200_000


def read_graph(source: Any) -> Graph:
    """The checked graph of a model.

    Parameters
    ----------
    source : str, os.PathLike, bytes or onnx.ModelProto
        The model.
    """
    onnx = require_onnx("from_onnx")
    folder = None
    if isinstance(source, str) or hasattr(source, "__fspath__"):
        with reading(source, "from_onnx"):
            content = Path(source).read_bytes()
        folder = Path(source).parent
        model = _parsed(content, str(source), onnx)
    elif isinstance(source, bytes | bytearray | memoryview):
        model = _parsed(bytes(source), "the model", onnx)
    elif isinstance(source, onnx.ModelProto):
        model = source
    else:
        raise TypeRuleError(
            f"from_onnx reads a path, bytes or an onnx.ModelProto, got {kind_of(source)}; pass one of them"
        )
    return graph_of(_inlined(model, onnx), onnx, folder)


def _parsed(content: bytes, what: str, onnx: Any) -> Any:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except Exception as error:  # DecodeError, of a package that is not imported here
        raise CheckpointError(
            f"from_onnx: {what} must be a model of ONNX, got {len(content)} bytes that are none; is the file complete?"
        ) from error
    return model


def _inlined(model: Any, onnx: Any) -> Any:
    """The model with the nodes of its own functions in place of their calls."""
    if not model.functions:
        return model
    _check_functions(model)
    try:
        return onnx.inliner.inline_local_functions(model)
    except Exception as error:
        raise CheckpointError(
            "from_onnx: the functions of a model must fit their calls, got some that do not; check the file with "
            "onnx.checker.check_model"
        ) from error


def _check_functions(model: Any) -> None:
    """Raise if functions call themselves, or if inlining them makes too many nodes."""
    functions = {(f.domain, f.name): f for f in model.functions}
    if len(functions) != len(model.functions):
        raise CheckpointError("from_onnx: each function must have a name of its own, got one twice; export it again")
    sizes: dict[tuple[str, str], int] = {}
    open_now: set[tuple[str, str]] = set()
    stack = list(functions)
    while stack:  # callees first, without recursion: a file may nest them deeply
        key = stack[-1]
        if key in sizes:
            stack.pop()
            continue
        calls = [(n.domain, n.op_type) for n in functions[key].node]
        waiting = [c for c in calls if c in functions and c not in sizes]
        if key in open_now and waiting:
            raise CheckpointError(f"from_onnx: functions must not call themselves, got {key[1]!r}; export it again")
        if waiting:
            open_now.add(key)
            stack.extend(waiting)
            continue
        sizes[key] = _total(calls, sizes)
        stack.pop()
    if _total([(n.domain, n.op_type) for n in model.graph.node], sizes) > _MOST_NODES:
        raise InvalidValueError(
            f"from_onnx: a model must have at most {_MOST_NODES} operations, got more after its functions are inlined; "
            "do not use this file"
        )


def _total(calls: list[tuple[str, str]], sizes: Mapping[tuple[str, str], int]) -> int:
    return min(sum(sizes.get(call, 1) for call in calls), _MOST_NODES + 1)
