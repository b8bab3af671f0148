"""Graphs of ATen operators written by hand, as `torch.export` makes them, for tests without PyTorch."""

import numpy as np

from adjoint.importers.torch_export.graph import Graph, Input, Node, Ref

F32, I64 = np.dtype(np.float32), np.dtype(np.int64)


def program(nodes, arguments, outputs=None, **settings):
    """A graph of (op, arguments, keywords) by name; strings that begin with % are references."""
    made = [Node(name, op, *_references((args, *rest))) for name, (op, args, *rest) in nodes.items()]
    inputs = [*(Input(name) for name in arguments), *settings.pop("inputs", ())]
    last = [f"%{made[-1].name}"] if outputs is None else outputs
    build = settings.pop("build", (lambda leaves: leaves[0]) if outputs is None else tuple)
    return Graph(tuple(inputs), tuple(made), tuple(_references(last)), build, **settings)


def _references(given):
    if isinstance(given, str) and given.startswith("%"):
        return Ref(given[1:])
    if isinstance(given, list | tuple):
        return type(given)(_references(one) for one in given)
    return {key: _references(one) for key, one in given.items()} if isinstance(given, dict) else given
