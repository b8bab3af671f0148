"""Functions that a module calls before and after its `forward`."""

from collections.abc import Callable
from itertools import count
from typing import Any

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

    def add_before(self, hook: Callable[..., Any], prepend: bool, with_kwargs: bool) -> RemovableHandle:
        """Add a hook that is called before `forward`."""
        return _added(self.before, (hook, with_kwargs), prepend)

    def add_after(
        self, hook: Callable[..., Any], prepend: bool, with_kwargs: bool, always_call: bool
    ) -> RemovableHandle:
        """Add a hook that is called after `forward`."""
        return _added(self.after, (hook, with_kwargs, always_call), prepend)

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
        return result


def _added(hooks: dict[int, Any], entry: tuple[Any, ...], first: bool) -> RemovableHandle:
    number = next(_numbers)
    others = dict(hooks) if first else {}
    if first:
        hooks.clear()
    hooks[number] = entry
    hooks.update(others)
    return RemovableHandle(hooks, number)
