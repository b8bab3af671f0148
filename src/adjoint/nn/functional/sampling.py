"""Random choices with a gradient."""

from adjoint import ops
from adjoint.errors import InvalidValueError
from adjoint.nn.functional.recording import Array
from adjoint.tensor.random import next_key
from adjoint.tensor.record import operation

__all__ = ["gumbel_softmax"]


@operation
def _gumbel_softmax(logits: Array, key: Array, tau: float, hard: bool, dim: int) -> Array:
    noise = ops.random.gumbel(key, logits.shape, logits.dtype)
    soft = ops.softmax(ops.divide(ops.add(logits, noise), tau), dim)
    if not hard:
        return soft
    chosen = ops.expand_dims(ops.argmax(ops.stop_gradient(soft), dim), dim)
    one_hot = ops.cast(ops.equal(ops.iota(soft.shape, dim, "i64"), chosen), soft.dtype)
    # The value is exactly one-hot, and the gradient that of the softmax ("straight through").
    return ops.add(one_hot, ops.subtract(soft, ops.stop_gradient(soft)))


def gumbel_softmax(logits: Array, tau: float = 1.0, hard: bool = False, dim: int = -1) -> Array:
    """A softmax of logits plus Gumbel noise: a random choice among classes that has a gradient.

    Jang, Gu and Poole, "Categorical reparameterization with Gumbel-softmax", 2017.

    Parameters
    ----------
    logits : Tensor
        Logarithms of probabilities, which need not be normalized: float.
    tau : float, default 1.0
        The temperature, by which sums are divided: the lower, the closer is the result to a choice.
    hard : bool, default False
        Whether the result is one-hot; its gradient is that of the softmax all the same.
    dim : int, default -1
        The axis of the classes.

    Raises
    ------
    InvalidValueError
        If the temperature is not positive.
    """
    if tau <= 0:
        raise InvalidValueError(f"gumbel_softmax: tau must be positive, got {tau}; use 1.0")
    return _gumbel_softmax(logits, next_key(), float(tau), hard, dim)
