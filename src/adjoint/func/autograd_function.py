"""`Function`: an operation with a derivative of its own, as ``torch.autograd.Function``."""

from collections.abc import Sequence
from typing import Any

from adjoint.errors import InvalidValueError, TypeRuleError, described, plural
from adjoint.func.ruled import Pull, call_with_rule
from adjoint.func.variables import is_differentiable
from adjoint.tensor.tensor import Tensor

__all__ = ["Function", "FunctionContext"]


class FunctionContext:
    """What `Function.forward` and `Function.backward` share; any attribute can be set on it.

    Attributes
    ----------
    needs_input_grad : tuple of bool
        For each argument whether a derivative flows to it.
    saved_tensors : tuple of Tensor
        What `save_for_backward` was given.
    """

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self.saved_tensors: tuple[Tensor | None, ...] = ()
        self._constants: tuple[Tensor, ...] = ()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for `Function.backward`, where they are `saved_tensors`."""
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *results: Tensor) -> None:
        """Say that no derivative flows to some results."""
        self._constants = results

    def set_materialize_grads(self, value: bool) -> None:
        """Nothing: the cotangents of results that are not used are zeros, because the rule is traced in advance."""

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Refused: a traced function returns new values.

        Raises
        ------
        InvalidValueError
            Always.
        """
        raise InvalidValueError(
            f"mark_dirty: a Function must not change its arguments in place, got {plural(len(tensors), 'tensor')}; "
            "return new tensors"
        )


class Function:
    """An operation whose derivative is given by a method, called as ``Name.apply(...)``.

    A subclass defines two static methods::

        class Exp(Function):
            @staticmethod
            def forward(ctx, x):
                y = x.exp()
                ctx.save_for_backward(y)
                return y

            @staticmethod
            def backward(ctx, grad):
                (y,) = ctx.saved_tensors
                return grad * y

    or ``forward(x)`` without the context, and ``setup_context(ctx, inputs, output)``. Both methods are traced in every
    call of `apply` and compiled into the program, with the rest of the step. So `backward` runs in Python before the
    backward pass: it must not read elements, nor depend on other state than its context. A derivative of the
    derivative is that of what `backward` computes.
    """

    @staticmethod
    def forward(*args: Any) -> Any:  # noqa: ARG004
        """The results: a tensor, or a tuple of them. Takes a context first, unless `setup_context` is defined."""
        raise InvalidValueError("Function: a subclass must define forward(ctx, ...), got none; add a static method")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:  # noqa: ARG004
        """The cotangent of each argument of `forward`, or None, given those of the results, None for integers."""
        raise InvalidValueError("Function: a subclass must define backward(ctx, ...), got none; add a static method")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save what `backward` needs, for a `forward` that takes no context."""

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Call `forward` with a context and these arguments.

        Parameters
        ----------
        *args : object
            Derivatives flow to the tensors among them.

        Returns
        -------
        Tensor or tuple of Tensor
            What `forward` returns.

        Raises
        ------
        InvalidValueError
            If a method is missing, or `backward` returns another number of cotangents than there are arguments.
        TypeRuleError
            If `forward` returns something else than tensors, or changes one, or a cotangent does not fit its argument.
        """
        tensors = [arg for arg in args if isinstance(arg, Tensor)]
        needs = tuple(isinstance(arg, Tensor) and arg._spec.requires_grad for arg in args)
        ctx = FunctionContext(needs)
        single: list[bool] = []

        def run(examples: list[Tensor]) -> tuple[Sequence[Any], Pull]:
            rest = iter(examples)
            given = tuple(next(rest) if isinstance(arg, Tensor) else arg for arg in args)
            if cls.setup_context is Function.setup_context:
                output = cls.forward(ctx, *given)
            else:
                output = cls.forward(*given)
                cls.setup_context(ctx, given, output)
            single.append(not isinstance(output, tuple))
            outs = output if isinstance(output, tuple) else (output,)
            return outs, lambda cts: _of_tensors(cls, args, cls._cotangents(ctx, outs, cts))

        made = call_with_rule(
            cls.__name__, cls.__name__, tensors, run, lambda out: any(out is one for one in ctx._constants)
        )
        return made[0] if single[0] else made

    @classmethod
    def _cotangents(cls, ctx: FunctionContext, outs: Sequence[Any], cts: list[Tensor]) -> Any:
        """What `backward` returns, given a cotangent for each result, None for those that are not floats."""
        rest = iter(cts)
        return cls.backward(ctx, *(next(rest) if is_differentiable(out) else None for out in outs))


def _of_tensors(cls: type[Function], args: tuple[Any, ...], found: Any) -> list[Any]:
    """The cotangents of the tensors among the arguments."""
    given = found if isinstance(found, tuple) else (found,)
    if len(given) < len(args) or any(ct is not None for ct in given[len(args) :]):
        raise InvalidValueError(
            f"{cls.__name__}: backward must return a cotangent or None for each of {plural(len(args), 'argument')}, "
            f"got {len(given)}; return one for each"
        )
    for arg, ct in zip(args, given, strict=False):
        if ct is not None and not isinstance(arg, Tensor):
            raise TypeRuleError(
                f"{cls.__name__}: backward must return None for an argument that is not a tensor, got {described(ct)}; "
                "return None"
            )
    return [ct for arg, ct in zip(args, given, strict=False) if isinstance(arg, Tensor)]
