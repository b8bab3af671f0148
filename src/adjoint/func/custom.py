"""Functions of tensors with derivatives of their own, as in JAX: `custom_vjp` and `custom_jvp`."""

from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any

from adjoint.errors import InvalidValueError, TypeRuleError, described, kind_of, plural
from adjoint.func.ruled import Pull, call_with_rule
from adjoint.func.tree import tree_flatten, tree_unflatten
from adjoint.func.variables import as_tensor, is_differentiable, pullback, variables, zeros_like
from adjoint.tensor.autograd import enable_grad
from adjoint.tensor.tensor import Tensor

__all__ = ["custom_jvp", "custom_vjp"]


class _Custom:
    """What the two decorators have in common: the function, and the arguments to which no derivative flows."""

    #: The name of the decorator, and of the method that takes the rule.
    caller, definition = "", ""

    def __init__(self, function: Callable[..., Any], nondiff_argnums: Sequence[int] = ()) -> None:
        if not callable(function):
            raise TypeRuleError(
                f"{self.caller} takes a function, got {kind_of(function)}; pass the function, not its call"
            )
        self.function = function
        self.nondiff_argnums = tuple(nondiff_argnums)
        self.name = getattr(function, "__name__", "function").strip("<>")
        update_wrapper(self, function)  # type: ignore[arg-type]

    def _split(self, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The arguments without and with derivatives."""
        count = len(args)
        for n in self.nondiff_argnums:
            if not -count <= n < count:
                raise InvalidValueError(
                    f"{self.caller}: nondiff_argnums must be positions of arguments, got {n} for "
                    f"{plural(count, 'argument')}; "
                    "correct it"
                )
        fixed = {n % count for n in self.nondiff_argnums}
        return (
            tuple(args[n] for n in self.nondiff_argnums),
            tuple(arg for n, arg in enumerate(args) if n not in fixed),
        )

    def _joined(self, fixed: tuple[Any, ...], others: Sequence[Any]) -> list[Any]:
        """All arguments in their order."""
        count = len(fixed) + len(others)
        at = {n % count: arg for n, arg in zip(self.nondiff_argnums, fixed, strict=True)}
        rest = iter(others)
        return [at[n] if n in at else next(rest) for n in range(count)]

    def _undefined(self) -> TypeRuleError:
        return TypeRuleError(
            f"{self.caller}: {self.name} must have a rule before it is called, got none; call "
            f"{self.name}.{self.definition}"
        )


class _Leaves:
    """The leaves of arguments, of which tensors are replaced by examples."""

    def __init__(self, args: Any) -> None:
        leaves, self.structure = tree_flatten(args)
        self.leaves = leaves
        self.tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]

    def with_tensors(self, tensors: Sequence[Any]) -> Any:
        """The arguments with other tensors."""
        rest = iter(tensors)
        return tree_unflatten(self.structure, [next(rest) if isinstance(x, Tensor) else x for x in self.leaves])


class custom_vjp(_Custom):  # noqa: N801
    """A function whose derivative is given by a rule of its own (reverse mode), as ``jax.custom_vjp``.

    Parameters
    ----------
    function : callable
        Takes tensors, or trees of tensors, by position; returns such.
    nondiff_argnums : sequence of int, default ()
        Positions of arguments to which no derivative flows. The rule takes them first.

    Raises
    ------
    TypeRuleError
        In a call, if there is no rule yet, or what it returns does not fit the arguments.

    Examples
    --------
    >>> import adjoint
    >>> @adjoint.custom_vjp
    ... def clipped(x):
    ...     return x * 1.0
    >>> clipped.defvjp(lambda x: (x * 1.0, None), lambda _, ct: (ct.clamp(-1.0, 1.0),))
    >>> adjoint.grad(lambda x: (5.0 * clipped(x)).sum())(adjoint.tensor([1.0, 2.0])).tolist()
    [1.0, 1.0]
    """

    caller, definition = "custom_vjp", "defvjp(forward, backward)"

    def __init__(self, function: Callable[..., Any], nondiff_argnums: Sequence[int] = ()) -> None:
        super().__init__(function, nondiff_argnums)
        self._rule: tuple[Callable[..., Any], Callable[..., Any]] | None = None

    def defvjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> None:
        """Set the rule.

        Parameters
        ----------
        forward : callable
            Takes the arguments; returns what the function returns, and a tree of residuals for `backward`. It is what
            computes the function.
        backward : callable
            Takes the `nondiff_argnums` arguments, the residuals, and the cotangent of the result, a tree like it.
            None stands there for that of an integer.
            Returns a tuple with a cotangent for each other argument, a tree like it; None stands for zeros.
        """
        self._rule = forward, backward

    def __call__(self, *args: Any) -> Any:
        """The function, whose derivative is the rule."""
        if self._rule is None:
            raise self._undefined()
        forward, backward = self._rule
        fixed, others = self._split(args)
        given = _Leaves(others)
        shown: list[Any] = []

        def run(examples: list[Tensor]) -> tuple[Sequence[Any], Pull]:
            pair = forward(*self._joined(fixed, given.with_tensors(examples)))
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise TypeRuleError(
                    f"custom_vjp: the forward rule of {self.name} must return a pair of the result and the residuals, "
                    f"got {described(pair)}; return (result, residuals)"
                )
            outs, structure = tree_flatten(pair[0])
            shown.append(structure)

            def pull(cts: list[Tensor]) -> list[Any]:
                rest = iter(cts)
                seeds = [next(rest) if is_differentiable(out) else None for out in outs]
                found = backward(*fixed, pair[1], tree_unflatten(structure, seeds))
                return self._of_tensors(others, found)

            return outs, pull

        made = call_with_rule("custom_vjp", self.name, given.tensors, run)
        return tree_unflatten(shown[0], list(made))

    def _of_tensors(self, others: tuple[Any, ...], found: Any) -> list[Any]:
        """The cotangent of each tensor among the arguments."""
        if not isinstance(found, tuple | list) or len(found) != len(others):
            raise TypeRuleError(
                f"custom_vjp: the backward rule of {self.name} must return a tuple with a cotangent for each of "
                f"{plural(len(others), 'argument')}, got {described(found)}; return None for zeros"
            )
        made: list[Any] = []
        for arg, ct in zip(others, found, strict=True):
            leaves, structure = tree_flatten(arg)
            if ct is None:
                made += [None for leaf in leaves if isinstance(leaf, Tensor)]
                continue
            cts, own = tree_flatten(ct)
            if own != structure:
                raise TypeRuleError(
                    f"custom_vjp: the backward rule of {self.name} must return cotangents of the structure of the "
                    f"arguments, {structure}, got {own}; return None for zeros"
                )
            made += [one for leaf, one in zip(leaves, cts, strict=True) if isinstance(leaf, Tensor)]
        return made


class custom_jvp(_Custom):  # noqa: N801
    """A function whose derivative is given by a rule of its own (forward mode), as ``jax.custom_jvp``.

    The rule must be linear in the tangents; its transpose is the derivative in reverse mode.

    Parameters
    ----------
    function : callable
        Takes tensors, or trees of tensors, by position; returns such.
    nondiff_argnums : sequence of int, default ()
        Positions of arguments to which no derivative flows. The rule takes them first.

    Raises
    ------
    TypeRuleError
        In a call, if there is no rule yet, or what it returns does not fit the function.
    """

    caller, definition = "custom_jvp", "defjvp(rule)"

    def __init__(self, function: Callable[..., Any], nondiff_argnums: Sequence[int] = ()) -> None:
        super().__init__(function, nondiff_argnums)
        self._rule: Callable[..., Any] | None = None

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule, and return it, so that this is a decorator.

        Parameters
        ----------
        rule : callable
            Takes the `nondiff_argnums` arguments, the other arguments and their tangents, two tuples. Returns what the
            function returns, and its tangent, a tree like it.
        """
        self._rule = rule
        return rule

    def __call__(self, *args: Any) -> Any:
        """The function, whose derivative is the rule."""
        rule = self._rule
        if rule is None:
            raise self._undefined()
        fixed, others = self._split(args)
        given = _Leaves(others)
        shown: list[Any] = []

        def run(examples: list[Tensor]) -> tuple[Sequence[Any], Pull]:
            primals = given.with_tensors(examples)
            with enable_grad():
                tangents = variables([zeros_like(e) for e in examples if is_differentiable(e)])
                rest = iter(tangents)
                along = [next(rest) if is_differentiable(e) else zeros_like(e) for e in examples]
                pair = rule(*fixed, primals, given.with_tensors(along))
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise TypeRuleError(
                    f"custom_jvp: the rule of {self.name} must return a pair of the result and its tangent, got "
                    f"{described(pair)}; return (result, tangent)"
                )
            outs, structure = tree_flatten(pair[0])
            changes, own = tree_flatten(pair[1])
            if own != structure:
                raise TypeRuleError(
                    f"custom_jvp: the tangent that the rule of {self.name} returns must have the structure of the "
                    f"result, {structure}, got {own}; return one for each"
                )
            shown.append(structure)

            def pull(cts: list[Tensor]) -> list[Any]:
                rest = iter(cts)
                pairs = [
                    (as_tensor("custom_jvp", "the tangent", change), next(rest))
                    for out, change in zip(outs, changes, strict=True)
                    if is_differentiable(out)
                ]
                found = iter(pullback([t for t, _ in pairs], tangents, [ct for _, ct in pairs]))
                return [next(found) if is_differentiable(e) else None for e in examples]

            return outs, pull

        made = call_with_rule("custom_jvp", self.name, given.tensors, run)
        return tree_unflatten(shown[0], list(made))
