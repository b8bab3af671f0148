"""`GradientTape`, `custom_gradient` and `stop_gradient`."""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from adjoint import autograd
from adjoint.compat.uncovered import uncovered
from adjoint.errors import InvalidValueError, TypeRuleError, kind_of
from adjoint.func.derivatives import stop_gradient
from adjoint.func.tree import tree_flatten, tree_unflatten
from adjoint.tensor.autograd import enable_grad
from adjoint.tensor.tensor import Tensor

__all__ = ["GradientTape", "UnconnectedGradients", "stop_gradient"]
__getattr__ = uncovered(__name__, {"custom_gradient": "use adjoint.custom_vjp"}, "adjoint.autograd")


class UnconnectedGradients:
    """What gradients of what a target does not depend on are."""

    NONE = "none"
    ZERO = "zero"


class Recording:
    """A block in which layers record operations for gradients."""

    _open: ClassVar[int] = 0

    def __enter__(self) -> None:
        Recording._open += 1

    def __exit__(self, *error: object) -> None:
        Recording._open -= 1

    @staticmethod
    def on() -> bool:
        """Whether there is such a block around the call."""
        return Recording._open > 0


class GradientTape:
    """Records operations, and differentiates them.

    Parameters
    ----------
    persistent : bool, default False
        Whether `gradient` may be called several times.
    watch_accessed_variables : bool, default True
        Whether trainable variables are watched without being told.
    """

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        self._persistent, self._all = persistent, watch_accessed_variables
        self._watched: set[int] = set()
        self._used = False
        self._grad: Any = None
        self._recording = Recording()

    def __enter__(self) -> Self:
        self._grad = enable_grad()
        self._grad.__enter__()
        self._recording.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._recording.__exit__()
        self._grad.__exit__(*error)

    def watch(self, tensor: Any) -> None:
        """Differentiate with respect to tensors that are no variables."""
        for one in tree_flatten(tensor)[0]:
            if not isinstance(one, Tensor) or not one.is_floating_point():
                raise TypeRuleError(f"watch takes float tensors, got {kind_of(one)}; convert it with tf.cast")
            if not one.requires_grad:
                one.requires_grad_()
            self._watched.add(id(one))

    def gradient(
        self, target: Any, sources: Any, output_gradients: Any = None, unconnected_gradients: str = "none"
    ) -> Any:
        """The derivatives of the sum of a target with respect to sources, in the structure of the sources."""
        self._use()
        leaves, structure = tree_flatten(sources)
        found = self._derivatives(_tensors(target), leaves, output_gradients)
        if unconnected_gradients == UnconnectedGradients.ZERO:
            found = [
                one.new_zeros(one.shape) if grad is None else grad for one, grad in zip(leaves, found, strict=True)
            ]
        return tree_unflatten(structure, found)

    def _derivatives(self, targets: list[Tensor], leaves: Sequence[Any], cotangents: Any) -> list[Any]:
        wanted = [n for n, one in enumerate(leaves) if self._watches(one)]
        found: list[Any] = [None] * len(leaves)
        connected = [one for one in targets if one.requires_grad]
        if not wanted or not connected:
            return found
        seeds = [one.new_ones(one.shape) for one in connected]
        if cotangents is not None:
            seeds = [seed for one, seed in zip(targets, _tensors(cotangents), strict=True) if one.requires_grad]
        grads = autograd.grad(
            connected, [leaves[n] for n in wanted], seeds, retain_graph=self._persistent or Recording.on(),
            create_graph=Recording.on(), allow_unused=True,
        )  # fmt: skip
        for n, grad in zip(wanted, grads, strict=True):
            found[n] = grad
        return found

    def _watches(self, one: Any) -> bool:
        return isinstance(one, Tensor) and one.requires_grad and (self._all or id(one) in self._watched)

    def _use(self) -> None:
        if self._used and not self._persistent:
            raise InvalidValueError(
                "GradientTape.gradient can be called once, got a second call; write tf.GradientTape(persistent=True)"
            )
        self._used = True

    def jacobian(self, target: Tensor, sources: Any) -> Any:
        """The derivatives of each element of a target."""
        self._use()
        self._persistent = True
        leaves, structure = tree_flatten(sources)
        rows: list[list[Any]] = []
        for n in range(target.numel()):
            seed = target.new_zeros(target.numel())
            seed[n] = 1.0
            rows.append(self._derivatives([target], leaves, seed.reshape(target.shape)))
        made = [
            None if rows[0][n] is None else _stacked([row[n] for row in rows], (*target.shape, *one.shape))
            for n, one in enumerate(leaves)
        ]
        return tree_unflatten(structure, made)

    def watched_variables(self) -> tuple[Any, ...]:
        """Refused."""
        raise InvalidValueError("watched_variables is not recorded, got a call; use model.trainable_variables")

    def stop_recording(self) -> Any:
        """A block whose operations are not differentiated."""
        return autograd.no_grad()

    def reset(self) -> None:
        """Begin anew."""
        self._used = False


def _tensors(given: Any) -> list[Tensor]:
    return [one for one in tree_flatten(given)[0] if isinstance(one, Tensor)]


def _stacked(rows: list[Tensor], shape: Sequence[int]) -> Any:
    first = rows[0]
    made = first.new_zeros((len(rows), *first.shape))
    for n, row in enumerate(rows):
        made[n] = row
    return made.reshape(tuple(shape))
