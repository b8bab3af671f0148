"""Views: tensors that share elements with the tensor that they were made from, as in PyTorch.

The tensors that share elements form a group: a base, and views, which know the steps that lead to them from the base.
Nothing shares memory. When one of a group is changed in place, the others are given their new values: the base gets the
changed part, and the other views are taken from it again. So operations that are no views cost nothing, and no tensor
of a group keeps old values. What is not in use any more is neither updated nor kept: groups hold weak references.
"""

from collections.abc import Callable, Iterable, Sequence
from math import prod
from sys import getrefcount
from typing import Any
from weakref import ref

import numpy as np

from adjoint.errors import InvalidValueError
from adjoint.ir import Value
from adjoint.tensor.making import from_array
from adjoint.tensor.record import extended, operands, record, replace
from adjoint.tensor.storage import COUNTED_BY_CALL
from adjoint.tensor.structure import Operation
from adjoint.tensor.trace import Recorded, Trace, state

__all__ = ["Alias", "View", "contiguous_strides", "join", "leave_group", "refresh_views", "viewed"]

#: References to a view that is not in use any more while it is examined: by a variable, and by the call of getrefcount.
_UNUSED = 1 + COUNTED_BY_CALL

#: A part with at most one of so many elements of a tensor is copied rather than selected by a program.
_SMALL_PART = 8

Strides = tuple[int, ...]


class View:
    """A function whose result shares its elements with its operand.

    Parameters
    ----------
    function : callable
        Builds the graph value from an operand and one static argument.
    put : callable or None
        Takes the operand, a new value of the view and the static argument: the operand with that part replaced. None
        if the view cannot be written to.
    layout : callable
        Takes the shape and strides of the operand in PyTorch's memory, and the static argument: the shape of the view,
        and its strides there, or None if PyTorch would copy.
    scatters : bool, default True
        Whether the elements of the view may be apart in that memory although those of the operand are not.
    detaches : bool, default False
        Whether no gradient flows through it.
    select : callable, optional
        Takes an array and the static argument: the elements of the view. Given for views whose argument often varies.
    """

    __slots__ = ("detaches", "entry", "function", "layout", "name", "put", "scatters", "select")

    def __init__(
        self,
        function: Callable[[Value, Any], Value],
        put: Callable[[Value, Value, Any], Value] | None,
        layout: Callable[[Sequence[int], Strides, Any], tuple[Sequence[int], Strides | None]],
        scatters: bool = True,
        detaches: bool = False,
        select: Callable[[np.ndarray, Any], np.ndarray] | None = None,
    ) -> None:
        self.function = function
        self.entry = Operation(function, numbers=False)
        self.name = self.entry.name
        self.put = None if put is None else Operation(put, numbers=False)
        self.layout = layout
        self.scatters = scatters
        self.detaches = detaches
        self.select = select

    def __str__(self) -> str:
        return self.entry.name


class _Group:
    """Tensors that share elements.

    Attributes
    ----------
    base : weakref to Tensor
        The tensor that the views were made from.
    shape, strides : tuple of int
        Its shape, and the strides that it has in PyTorch's memory, in elements.
    history : tuple
        Its trace, weakly, and its node when the last view was made, to make it again if it is not in use any more.
    views : list of weakref to Tensor
        The views.
    """

    __slots__ = ("_strides", "base", "history", "limit", "shape", "views")

    def __init__(self, base: Recorded, strides: Strides | None = None) -> None:
        self.base: Callable[[], Any] = ref(base)
        self.shape = base._spec.type.shape
        self._strides = strides
        self.views: list[ref[Recorded]] = []
        #: Number of views from which references to those that are gone are removed.
        self.limit = 16
        self.history: tuple[Any, Any] = (None, None)

    @property
    def strides(self) -> Strides:
        """The strides of the base in PyTorch's memory."""
        return contiguous_strides(self.shape) if self._strides is None else self._strides

    def add(self, view: Recorded) -> None:
        views = self.views
        if len(views) >= self.limit:
            views[:] = [one for one in views if one() is not None]
            self.limit = 2 * len(views) + 16
        views.append(ref(view))

    def remember(self, base: Recorded) -> None:
        """Note where the base is recorded."""
        owner = base._trace
        self.history = (ref(owner), base._node) if base._storage is None and isinstance(owner, Trace) else (None, None)

    def alive(self, besides: Recorded) -> list[Recorded]:
        """The views in use other than one tensor."""
        found: list[Recorded] = []
        for one in self.views:
            view = one()
            if view is None or view is besides:
                continue
            # A pending tensor is also among those that its trace has made, and one with elements may have entered one.
            owner = view._trace
            listed = view._storage is None or (isinstance(owner, Trace) and not owner.done)
            if getrefcount(view) > _UNUSED + listed:
                found.append(view)
        return found


class Alias:
    """The place of a tensor in its group.

    Attributes
    ----------
    group : Group
        The group.
    steps : tuple of (View, argument)
        How it is made from the base; empty for the base itself.
    plain : bool
        Whether all steps keep the elements next to each other, so that it is contiguous in PyTorch's memory.
    """

    __slots__ = ("group", "plain", "steps")

    def __init__(self, group: _Group, steps: tuple[tuple[View, Any], ...], plain: bool) -> None:
        self.group = group
        self.steps = steps
        self.plain = plain

    def strides(self) -> Strides:
        """The strides that the tensor has in PyTorch's memory, in elements."""
        shape: Sequence[int] = self.group.shape
        strides = self.group.strides
        for view, argument in self.steps:
            shape, found = view.layout(shape, strides, argument)
            strides = contiguous_strides(shape) if found is None else found
        return strides

    def base(self) -> Any:
        """The base, made again from the history of its trace if it is not in use any more; None if that is gone."""
        group = self.group
        base = group.base()
        if base is None:
            owner, node = group.history
            trace = None if owner is None else owner()
            if trace is not None and not trace.done:
                base = trace.result(node)
                base._alias = Alias(group, (), True)
                group.base = ref(base)
        return base

    def adopt_base(self, tensor: Recorded) -> None:
        """Where the base is gone for good, let the view that all other views in use were made from take its place.

        As in ``x = arange(12.).view(3, 4)``, of which parts are changed: all of them are parts of `x`.

        Parameters
        ----------
        tensor : Tensor
            The tensor whose place this is.
        """
        views = [*self.group.alive(tensor), tensor]
        first = min(views, key=lambda view: len(view._alias.steps))
        steps = first._alias.steps
        depth = len(steps)
        rest = [view for view in views if view is not first]
        if any(view._alias.steps[:depth] != steps or len(view._alias.steps) == depth for view in rest):
            return
        if any(view.put is None or view.detaches for view, _ in steps):
            return
        plain = first._alias.plain
        group = _Group(first, first._alias.strides())
        for view in rest:
            alias = view._alias
            view._alias = Alias(group, alias.steps[depth:], alias.plain)
            group.add(view)
        first._alias = Alias(group, (), plain)

    def require_writable(self, name: str, tensor: Recorded) -> None:
        """Raise unless the tensor can be changed in place together with the group."""
        if not self.steps:
            return
        given = tensor._spec.type
        if any(view.put is None for view, _ in self.steps):
            raise InvalidValueError(
                f"{name}: an expanded tensor cannot be changed in place, because several of its elements are one, got "
                f"{given}; clone() it first"
            )
        base = self.base()
        if base is None and self.group.alive(tensor):
            self.adopt_base(tensor)
            adopted = tensor._alias
            if adopted is not self:
                adopted.require_writable(name, tensor)
                return
        if base is None:
            if self.group.alive(tensor):
                raise InvalidValueError(
                    f"{name}: a view of a tensor that is not in use any more cannot be changed in place while other "
                    f"views of it are, got {given}; keep the tensor, or clone() the view"
                )
            return
        spec = base._spec
        if not spec.requires_grad:
            return
        detached = any(view.detaches for view, _ in self.steps)
        if spec.leaf and state.grad and not detached:
            raise InvalidValueError(
                f"{name}: a view of a leaf that requires a gradient cannot be changed in place, got a view of "
                f"{spec.type}; do it within no_grad(), or compute a new tensor"
            )
        if detached and not spec.leaf:
            raise InvalidValueError(
                f"{name}: a detached view of a result that requires a gradient cannot be changed in place, got a view "
                f"of {spec.type}; clone() it first"
            )

    def changed(self, tensor: Recorded) -> None:
        """Give the other tensors of the group the values that follow from a change of one of them."""
        base = self.base() if self.steps else tensor
        if base is None:
            tensor._alias = None
            return
        spec, kept = base._spec, state.grad
        protected = spec.leaf and spec.requires_grad
        try:
            if base is not tensor:
                _set_grad(kept and not protected)
                replace(base, self._replaced(base, tensor))
            self.group.remember(base)
            for view in self.group.alive(tensor):
                _set_grad(view._spec.requires_grad if protected else kept)
                replace(view, _taken(base, view._alias.steps))
        finally:
            _set_grad(kept)

    def _replaced(self, base: Recorded, tensor: Recorded) -> Recorded:
        """The base with the part that a view shows replaced by the view's new value."""
        shown: list[Any] = [base]
        for step in self.steps[:-1]:
            shown.append(_taken(shown[-1], (step,)))
        new: Any = tensor
        for part, (view, argument) in zip(reversed(shown), reversed(self.steps), strict=True):
            new = record(view.put, (part, new, argument))
        return new  # type: ignore[no-any-return]


def leave_group(tensor: Recorded) -> None:
    """Separate a tensor that gets other memory from those that share its elements, which keep their values."""
    alias = tensor._alias
    if alias is None:
        return
    group = alias.group
    if alias.steps:
        group.views[:] = [one for one in group.views if one() is not tensor]
    else:
        group.base, group.history = _no_base, (None, None)
    tensor._alias = None


def _no_base() -> None:
    """What stands for the reference to a base that has left its group."""


def refresh_views(tensors: Iterable[Recorded]) -> None:
    """Give the views of tensors that have been rebound, as by an optimizer, the new values."""
    for tensor in tensors:
        alias = tensor._alias
        if alias is not None:
            alias.changed(tensor)


def _set_grad(enabled: bool) -> None:
    state.grad = state.trace.grad = enabled


def _taken(x: Recorded, steps: Sequence[tuple[View, Any]]) -> Recorded:
    for view, argument in steps:
        x = record(view.entry, (x, argument))
    return x


def viewed(view: View, x: Any, argument: Any) -> Any:
    """Record a view of a tensor; with a graph value, build it.

    Parameters
    ----------
    view : View
        The function.
    x : Tensor or Value
        Its operand.
    argument : hashable
        Its static argument.
    """
    if isinstance(x, Value):
        return view.function(x, argument)
    trace = state.trace
    node = None
    if x._trace is trace and trace.grad:
        node = trace.node.children.get((view, x._node, argument))
    if node is None:
        if view.select is not None and _is_taken_at_once(trace, view, x, argument):
            result = from_array(view.select(x._storage.array, argument))
            join(x, result, view, argument)
            return result
        trace, (operand,) = operands((x,))
        key = (view, operand, argument) if trace.grad else (view, operand, argument, "no_grad")
        node = trace.node.children.get(key)
        if node is None:
            node = extended(trace, key, view.entry, (x, argument), {}, (operand,))
    trace.node = node
    result = trace.result(node)
    join(x, result, view, argument)
    return result


def _is_taken_at_once(trace: Trace, view: View, x: Recorded, argument: Any) -> bool:
    """Whether a part of a tensor with elements is selected when it is asked for, and not in a program.

    Such a part, of a data set for example, often varies, and a program would be compiled for each. This is so if the
    part is small, or if another one has been selected at the same place of a program before.
    """
    spec = x._spec
    if x._storage is None or spec.requires_grad or trace.outer is not None:
        return False
    type_ = spec.type
    shape, _ = view.layout(type_.shape, contiguous_strides(type_.shape), argument)
    if _SMALL_PART * prod(shape) <= type_.size:
        return True
    node = trace.node
    if node.varied is None:
        node.varied = set()
    place, varies = (view, spec), (view, spec, "varies")
    if varies in node.varied:
        return True
    if place not in node.varied:
        node.varied.add(place)
        return False
    entered = x._node if x._trace is trace else node.children.get(spec)
    at = node if x._trace is trace else entered
    if entered is not None and at is not None and (view, entered, argument) in at.children:
        return False
    node.varied.add(varies)
    return True


def join(x: Recorded, result: Recorded, view: View, argument: Any) -> None:
    """Put a new view into the group of its operand, unless PyTorch would have copied the elements."""
    alias = x._alias
    if alias is None:
        alias = x._alias = Alias(_Group(x), (), True)
    if not alias.plain and view.layout(x._spec.type.shape, alias.strides(), argument)[1] is None:
        return
    group = alias.group
    if not alias.steps:
        group.remember(x)
    result._alias = Alias(group, (*alias.steps, (view, argument)), alias.plain and not view.scatters)
    group.add(result)


def contiguous_strides(shape: Sequence[int]) -> Strides:
    """The strides of a contiguous tensor, in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))
