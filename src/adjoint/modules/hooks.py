"""Functions that a module calls before and after its `forward`, and in backward passes through it."""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from adjoint.errors import TypeRuleError, described, plural
from adjoint.tensor.autograd import is_grad_enabled
from adjoint.tensor.hooks import SAME, checked_gradient, hook_together
from adjoint.tensor.record import record
from adjoint.tensor.tensor import Tensor

__all__ = ["Hooks", "RemovableHandle"]

#: Tells hooks apart, in every module.
_numbers = count()


class RemovableHandle:
    """Removes a hook: ``handle.remove()``, or the end of a ``with`` block.

    Parameters
    ----------
    hooks : dict
        The hooks of a module, by number.
    number : int
        The number of the hook.
    """

    def __init__(self, hooks: dict[int, Any], number: int) -> None:
        self._hooks = hooks
        self.id = number

    def remove(self) -> None:
        """Remove the hook, if it has not been removed yet."""
        self._hooks.pop(self.id, None)

    def __enter__(self) -> "RemovableHandle":
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


class Hooks:
    """The hooks of one module, in the order in which they are called."""

    def __init__(self) -> None:
        self.before: dict[int, tuple[Callable[..., Any], bool]] = {}
        self.after: dict[int, tuple[Callable[..., Any], bool, bool]] = {}
        self.backward_before: dict[int, Callable[..., Any]] = {}
        self.backward_after: dict[int, Callable[..., Any]] = {}

    def add_before(self, hook: Callable[..., Any], prepend: bool, with_kwargs: bool) -> RemovableHandle:
        """Add a hook that is called before `forward`."""
        return _added(self.before, (hook, with_kwargs), prepend)

    def add_after(
        self, hook: Callable[..., Any], prepend: bool, with_kwargs: bool, always_call: bool
    ) -> RemovableHandle:
        """Add a hook that is called after `forward`."""
        return _added(self.after, (hook, with_kwargs, always_call), prepend)

    def add_backward(self, hook: Callable[..., Any], prepend: bool, before: bool) -> RemovableHandle:
        """Add a hook that is called in backward passes, `before` the gradients of the inputs are computed or after."""
        return _added(self.backward_before if before else self.backward_after, hook, prepend)

    def call(self, module: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Call the module's `forward` between the hooks."""
        for hook, with_kwargs in list(self.before.values()):
            found = hook(module, args, keywords) if with_kwargs else hook(module, args)
            if found is None:
                continue
            if with_kwargs:
                args, keywords = found
            else:
                args = found if isinstance(found, tuple) else (found,)
        called = set()
        boundary = None
        if (self.backward_before or self.backward_after) and is_grad_enabled():
            boundary = _Boundary(module, self)
            args = boundary.inputs(args)
        try:
            result = module.forward(*args, **keywords)
            for number, (after, with_kwargs, _) in list(self.after.items()):
                called.add(number)
                found = after(module, args, keywords, result) if with_kwargs else after(module, args, result)
                result = result if found is None else found
        except BaseException:
            for number, (after, with_kwargs, always) in list(self.after.items()):
                if always and number not in called:
                    after(module, args, keywords, None) if with_kwargs else after(module, args, None)
            raise
        return result if boundary is None else boundary.outputs(result)


class _Boundary:
    """One call of a module, of whose inputs and results hooks see the gradients.

    The inputs and the results are made tensors of their own, so that gradients which flow past the module do not count.

    Parameters
    ----------
    module : Module
        The module.
    hooks : Hooks
        Its hooks.
    """

    def __init__(self, module: Any, hooks: Hooks) -> None:
        self._module, self._hooks = module, hooks
        #: The positions of the inputs and of the results that have gradients, and how many there are of both.
        self._ins: list[int] = []
        self._outs: list[int] = []
        self._count = self._made = 0
        #: The gradients of the results, after the hooks.
        self._flowing: tuple[Any, ...] = ()

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The positional arguments of the call."""
        self._count = len(args)
        new, self._ins = _apart(args, self._inputs_reached)
        return new

    def outputs(self, result: Any) -> Any:
        """The result of the call."""
        several = type(result) is tuple
        given = result if several else (result,)
        self._made = len(given)
        new, self._outs = _apart(given, self._outputs_reached)
        return new if several else new[0]

    def _outputs_reached(self, gradients: list[Any]) -> Sequence[Any]:
        flowing = _spread(gradients, self._outs, self._made)
        for hook in list(self._hooks.backward_before.values()):
            found = hook(self._module, flowing)
            flowing = flowing if found is None else self._replaced("grad_output", found, flowing)
        self._flowing = flowing
        if not self._ins:
            for hook in list(self._hooks.backward_after.values()):
                found = hook(self._module, (None,) * self._count, flowing)
                if found is not None and any(one is not None for one in _as_tuple(found)):
                    raise TypeRuleError(
                        f"a backward hook can replace gradients only of inputs that require one, got a result for "
                        f"{type(self._module).__name__}, which has no such input; return None"
                    )
        return [flowing[n] for n in self._outs]

    def _inputs_reached(self, gradients: list[Any]) -> Sequence[Any]:
        into = _spread(gradients, self._ins, self._count)
        for hook in list(self._hooks.backward_after.values()):
            found = hook(self._module, into, self._flowing)
            into = into if found is None else self._replaced("grad_input", found, into)
        return [into[n] for n in self._ins]

    def _replaced(self, what: str, found: Any, before: tuple[Any, ...]) -> tuple[Any, ...]:
        """What a hook returned in place of the gradients."""
        new = _as_tuple(found)
        if len(new) != len(before):
            raise TypeRuleError(
                f"a backward hook must return as many gradients as {what} has, {len(before)}, got "
                f"{plural(len(new), 'gradient')} for {type(self._module).__name__}; return a tuple"
            )
        for old, one in zip(before, new, strict=True):
            if old is None and one is not None:
                raise TypeRuleError(
                    f"a backward hook must return None where {what} is None, got {described(one)} for "
                    f"{type(self._module).__name__}; keep the None"
                )
        return tuple(None if old is None else checked_gradient(one, old) for old, one in zip(before, new, strict=True))


def _apart(given: tuple[Any, ...], hook: Callable[[list[Any]], Sequence[Any]]) -> tuple[tuple[Any, ...], list[int]]:
    """The tensors that require gradients as tensors of their own, whose gradients a hook sees, and their positions."""
    places = [n for n, one in enumerate(given) if isinstance(one, Tensor) and one.requires_grad]
    if not places:
        return given, places
    new = record(SAME, [given[n] for n in places])
    hook_together(new, hook)
    found = dict(zip(places, new, strict=True))
    return tuple(found.get(n, one) for n, one in enumerate(given)), places


def _spread(gradients: Sequence[Any], places: Sequence[int], count: int) -> tuple[Any, ...]:
    """Gradients at their positions among all inputs or results, and None at others."""
    found = dict(zip(places, gradients, strict=True))
    return tuple(found.get(n) for n in range(count))


def _as_tuple(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def _added(hooks: dict[int, Any], entry: Any, first: bool) -> RemovableHandle:
    number = next(_numbers)
    others = dict(hooks) if first else {}
    if first:
        hooks.clear()
    hooks[number] = entry
    hooks.update(others)
    return RemovableHandle(hooks, number)
