"""Which array of another program's file is which of a network: a proposal that can be read, and refuses to guess."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError, NameLookupError, listed
from adjoint.lazy_dataclass import dataclass

__all__ = ["NameMapping", "map_names"]

#: What the last part of a name is called here.
_ROLES = {
    "kernel": "weight",
    "gamma": "weight",
    "embedding_table": "weight",
    "embeddings": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
    "moving_var": "running_var",
}

#: What a network has that other programs do not save.
_OPTIONAL = "num_batches_tracked"

#: The axes of a kernel, by its rank, in the order that PyTorch has: Keras's kernels have the outputs last.
_KERAS_AXES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 2, 0, 1), 5: (4, 3, 0, 1, 2)}


@dataclass(frozen=True)
class NameMapping:
    """Names of a network, and of the arrays that belong there. Printed, it is a table.

    Attributes
    ----------
    names : dict of str to str
        The other program's name by the name in the network.
    axes : dict of str to tuple of int
        How an array is transposed, by the name in the network, where it is.
    unused : tuple of str
        Names of the other program that belong nowhere, such as those of an optimizer.
    """

    names: dict[str, str]
    axes: dict[str, tuple[int, ...]]
    unused: tuple[str, ...]
    _kept: dict[str, Any] = field(repr=False)
    _shapes: dict[str, tuple[int, ...]] = field(repr=False)

    def __str__(self) -> str:
        width = max(map(len, self.names), default=0)
        rows = []
        for name, other in self.names.items():
            turned = f", transposed {self.axes[name]}" if name in self.axes else ""
            rows.append(f"{name:<{width}}  <-  {other} {list(self._shapes[name])}{turned}")
        return "\n".join([*rows, *(f"{'(unused)':<{width}}      {name}" for name in self.unused)])

    def apply(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """The arrays with the names and the layout of the network, for its ``load_state_dict``.

        Parameters
        ----------
        arrays : mapping of str to numpy.ndarray
            The arrays of the other program.
        """
        found = {name: np.asarray(arrays[other]) for name, other in self.names.items()}
        turned = {name: found[name].transpose(axes) for name, axes in self.axes.items()}
        return {**self._kept, **found, **turned}


@dataclass(frozen=True)
class _Layer:
    """The arrays of a layer: their names by their roles."""

    members: dict[str, str]
    signature: frozenset[tuple[str, tuple[int, ...]]]


def map_names(
    theirs: Mapping[str, Any],
    ours: Mapping[str, Any],
    *,
    layout: str = "pytorch",
    names: Mapping[str, str] | None = None,
) -> NameMapping:
    """Propose which array of another program's file belongs where in a network.

    Equal names belong together, also where only their last parts are called differently: ``gamma`` and ``beta`` are
    ``weight`` and ``bias``, ``moving_mean`` and ``moving_variance`` are ``running_mean`` and ``running_var``. Other
    layers belong together if they have the same roles and shapes, in the order of both sides. Print the result before
    you rely on it.

    Parameters
    ----------
    theirs : mapping of str to numpy.ndarray
        The arrays of the file, from `read_mindspore`, `read_keras` or `read_arrays`.
    ours : mapping of str to Tensor or numpy.ndarray
        The ``state_dict`` of the network.
    layout : {"pytorch", "keras"}, default "pytorch"
        The axes of kernels: PyTorch's and MindSpore's have the outputs first, Keras's have them last, and are
        transposed.
    names : mapping of str to str, optional
        Names in the network by names in the file, of those that are known.

    Raises
    ------
    InvalidValueError
        If a layer has several candidates or none, with the names of both sides.
    NameLookupError
        If `names` has a name that does not exist.
    """
    if layout not in ("pytorch", "keras"):
        raise InvalidValueError(f"map_names: layout must be 'pytorch' or 'keras', got {layout!r}")
    plain = {name: np.asarray(array) for name, array in theirs.items() if not isinstance(array, str)}
    axes = {name: _axes(name, array.ndim, layout) for name, array in plain.items()}
    shapes = {name: tuple(array.shape[i] for i in axes[name]) for name, array in plain.items()}
    targets = {name: tuple(one.shape) for name, one in ours.items()}
    found = {own: other for other, own in (names or {}).items()}
    for own, other in found.items():
        if own not in targets or other not in plain:
            missing, where = (own, "the network") if own not in targets else (other, "the file")
            raise NameLookupError(
                f"map_names: names must be those of both sides, got {missing!r}, which is not in {where}; correct it"
            )
    for name, shape in shapes.items():
        own = _renamed(name)
        if own not in found and name not in found.values() and targets.get(own) == shape:
            found[own] = name
    rest = {name: shape for name, shape in targets.items() if name not in found and not name.endswith(_OPTIONAL)}
    used = set(found.values())
    if rest:
        found |= _by_shape({name: shape for name, shape in shapes.items() if name not in used}, rest)
    for own, other in found.items():
        if shapes[other] != targets[own]:
            raise InvalidValueError(
                f"map_names: {other!r} must have the shape of {own!r}, {list(targets[own])}, got "
                f"{list(shapes[other])}; choose another name or layout"
            )
    return NameMapping(
        {name: found[name] for name in targets if name in found},
        {own: axes[other] for own, other in found.items() if axes[other] != tuple(range(len(axes[other])))},
        tuple(name for name in theirs if name not in found.values()),
        {name: ours[name] for name in targets if name not in found},
        {own: targets[own] for own in found},
    )


def _axes(name: str, rank: int, layout: str) -> tuple[int, ...]:
    turned = layout == "keras" and _parts(name)[1].endswith("kernel")
    return _KERAS_AXES.get(rank, tuple(range(rank))) if turned else tuple(range(rank))


def _parts(name: str) -> tuple[str, str]:
    """The layer and the role of a name, whose parts are separated by dots or slashes."""
    layer, _, role = name.replace("/", ".").rpartition(".")
    return layer, role


def _renamed(name: str) -> str:
    layer, role = _parts(name)
    return f"{layer}.{_ROLES.get(role, role)}" if layer else _ROLES.get(role, role)


def _layers(shapes: Mapping[str, tuple[int, ...]]) -> list[_Layer]:
    """The layers in the order of their first arrays."""
    layers: dict[str, dict[str, str]] = {}
    for name in shapes:
        layer, role = _parts(_renamed(name))
        layers.setdefault(layer, {})[role] = name
    return [_Layer(m, frozenset((role, shapes[name]) for role, name in m.items())) for m in layers.values()]


def _by_shape(theirs: Mapping[str, tuple[int, ...]], ours: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """Layers of the same roles and shapes, in the order of both sides."""
    others = _layers(theirs)
    found: dict[str, str] = {}
    kinds: dict[frozenset[tuple[str, tuple[int, ...]]], list[_Layer]] = {}
    for layer in _layers(ours):
        kinds.setdefault(layer.signature, []).append(layer)
    for signature, own in kinds.items():
        same = [layer for layer in others if layer.signature == signature]
        if len(same) != len(own):
            what = "no candidate" if not same else "another number of candidates"
            raise InvalidValueError(
                f"map_names: each layer must have one counterpart, got {what} for {_shown(own)}"
                + (f": {_shown(same)}" if same else f" among {_shown(others)}")
                + "; pass names={'name in the file': 'name in the network'}, or another layout"
            )
        for mine, other in zip(own, same, strict=True):
            found |= {mine.members[role]: other.members[role] for role in mine.members}
    return found


def _shown(layers: Sequence[_Layer]) -> str:
    return listed([next(iter(layer.members.values())) for layer in layers]) or "nothing"
