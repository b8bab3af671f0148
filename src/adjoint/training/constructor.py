"""A class method that makes a trainer, and refuses to be called on one."""

from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn

from adjoint.errors import TypeRuleError

__all__ = ["constructor"]

if TYPE_CHECKING:
    constructor = classmethod
else:

    class constructor(classmethod):  # noqa: N801
        """A class method that makes a trainer from a file.

        ``trainer.load(path)`` would leave `trainer` as it is and return another one, which is hardly ever meant; so the
        method of an instance raises when it is called. It can still be read, as tools that list attributes do.
        """

        def __get__(self, instance: object, owner: type | None = None) -> Any:
            """The method of the class, or for an instance a function that raises."""
            if instance is None:
                return super().__get__(instance, owner)
            call = f"{type(instance).__name__}.{self.__func__.__name__}"

            @wraps(self.__func__)
            def refuse(*_args: object, **_options: object) -> NoReturn:
                raise TypeRuleError(f"{call} makes a new trainer, got a call on one; write trainer = {call}(path)")

            return refuse
