"""``tf.nn``: functions of networks, with channels last."""

from collections.abc import Sequence
from typing import Any

from adjoint.compat.tensorflow.mathematics import sigmoid, softplus, tanh
from adjoint.compat.tensorflow.variables import tensor_of
from adjoint.compat.uncovered import uncovered
from adjoint.errors import InvalidValueError
from adjoint.ir import as_dtype
from adjoint.nn import functional
from adjoint.tensor.tensor import Tensor

__all__ = [
    "avg_pool2d", "bias_add", "conv2d", "dropout", "elu", "embedding_lookup", "gelu", "leaky_relu", "log_softmax",
    "max_pool2d", "relu", "relu6", "selu", "sigmoid", "sigmoid_cross_entropy_with_logits", "silu", "softmax",
    "softmax_cross_entropy_with_logits", "softplus", "sparse_softmax_cross_entropy_with_logits", "swish", "tanh",
]  # fmt: skip
__getattr__ = uncovered(__name__, {}, "adjoint.nn.functional")

_Sizes = int | Sequence[int]


def relu(features: Any) -> Any:
    """``max(x, 0)``."""
    return functional.relu(tensor_of(features))


def relu6(features: Any) -> Any:
    """``min(max(x, 0), 6)``."""
    return functional.relu6(tensor_of(features))


def elu(features: Any) -> Any:
    """``x`` where it is positive, ``exp(x) - 1`` elsewhere."""
    return functional.elu(tensor_of(features))


def selu(features: Any) -> Any:
    """ELU with the factors of self-normalizing networks."""
    return functional.selu(tensor_of(features))


def silu(features: Any, beta: float = 1.0) -> Any:
    """``x * sigmoid(beta * x)``."""
    x = tensor_of(features)
    return functional.silu(x) if beta == 1.0 else x * (x * beta).sigmoid()


swish = silu


def gelu(features: Any, approximate: bool = False) -> Any:
    """``x`` times the normal distribution function at ``x``."""
    return functional.gelu(tensor_of(features), approximate="tanh" if approximate else "none")


def leaky_relu(features: Any, alpha: float = 0.2) -> Any:
    """``x`` where it is positive, ``alpha * x`` elsewhere."""
    return functional.leaky_relu(tensor_of(features), alpha)


def softmax(logits: Any, axis: int = -1) -> Any:
    """Softmax along an axis."""
    return functional.softmax(tensor_of(logits), axis)


def log_softmax(logits: Any, axis: int = -1) -> Any:
    """The logarithm of softmax along an axis."""
    return functional.log_softmax(tensor_of(logits), axis)


def dropout(x: Any, rate: float, seed: Any = None) -> Any:
    """Zeros in place of some elements; the others are divided by ``1 - rate``."""
    del seed
    return functional.dropout(tensor_of(x), rate, training=True)


def bias_add(value: Any, bias: Any) -> Any:
    """The sum with a vector along the last axis."""
    return tensor_of(value) + tensor_of(bias)


def embedding_lookup(params: Any, ids: Any) -> Any:
    """The rows of a table with these numbers."""
    return functional.embedding(tensor_of(ids).to(as_dtype("int64")), tensor_of(params))


def softmax_cross_entropy_with_logits(labels: Any, logits: Any, axis: int = -1) -> Any:
    """The cross entropy of each row of scores with a row of probabilities."""
    return -(tensor_of(labels) * functional.log_softmax(tensor_of(logits), axis)).sum(axis)


def sparse_softmax_cross_entropy_with_logits(labels: Any, logits: Any) -> Any:
    """The cross entropy of each row of scores with a class index."""
    scores = tensor_of(logits)
    ids = tensor_of(labels).to(as_dtype("int64"))
    found = functional.cross_entropy(scores.reshape((-1, scores.shape[-1])), ids.reshape((-1,)), reduction="none")
    return found.reshape(tuple(ids.shape))


def sigmoid_cross_entropy_with_logits(labels: Any, logits: Any) -> Any:
    """The binary cross entropy of each score with a probability."""
    return functional.binary_cross_entropy_with_logits(tensor_of(logits), tensor_of(labels), reduction="none")


def conv2d(
    input: Any, filters: Any, strides: _Sizes, padding: str, data_format: str = "NHWC", dilations: _Sizes = 1
) -> Any:
    """A convolution of images [N, H, W, C] with filters [H, W, I, O]."""
    if data_format != "NHWC":
        raise InvalidValueError(f"conv2d: data_format must be 'NHWC', got {data_format!r}; transpose the images")
    return convolved(tensor_of(input), tensor_of(filters), pair(strides), padding, pair(dilations))


def convolved(
    x: Tensor, w: Tensor, strides: tuple[int, int], padding: str, dilations: tuple[int, int] = (1, 1), groups: int = 1
) -> Any:
    """A convolution with channels last, padded as TensorFlow's ``same`` or ``valid``."""
    image, window = x.permute((0, 3, 1, 2)), w.permute((3, 2, 0, 1))
    image, pads = padded(image, (w.shape[0], w.shape[1]), strides, padding, dilations, 0.0)
    made = functional.conv2d(image, window, stride=strides, padding=pads, dilation=dilations, groups=groups)
    return made.permute((0, 2, 3, 1))


def padded(
    image: Tensor, window: tuple[int, int], strides: tuple[int, int], padding: str, dilations: tuple[int, int],
    value: float,
) -> tuple[Tensor, tuple[int, int]]:  # fmt: skip
    """An image [N, C, H, W] padded where the two ends differ, and the padding that remains for the operator."""
    if padding.lower() == "valid":
        return image, (0, 0)
    if padding.lower() != "same":
        raise InvalidValueError(f"padding must be 'same' or 'valid', got {padding!r}; choose one")
    ends = []
    for extent, size, stride, dilation in zip(image.shape[2:], window, strides, dilations, strict=True):
        reach = (size - 1) * dilation + 1
        total = max((-(-extent // stride) - 1) * stride + reach - extent, 0)
        ends.append((total // 2, total - total // 2))
    if all(low == high for low, high in ends) and value == 0.0:
        return image, (ends[0][0], ends[1][0])
    (top, bottom), (left, right) = ends
    return functional.pad(image, (left, right, top, bottom), value=value), (0, 0)


def pair(sizes: _Sizes) -> tuple[int, int]:
    """Two sizes, of height and width."""
    if isinstance(sizes, int):
        return sizes, sizes
    found = list(sizes)
    found = found[1:3] if len(found) == 4 else found * 2 if len(found) == 1 else found
    return found[0], found[1]


def max_pool2d(input: Any, ksize: _Sizes, strides: _Sizes, padding: str) -> Any:
    """The maximum of windows of images [N, H, W, C]."""
    size, step = pair(ksize), pair(strides)
    image, _ = padded(tensor_of(input).permute((0, 3, 1, 2)), size, step, padding, (1, 1), float("-inf"))
    return functional.max_pool2d(image, size, step).permute((0, 2, 3, 1))


def avg_pool2d(input: Any, ksize: _Sizes, strides: _Sizes, padding: str) -> Any:
    """The mean of windows of images [N, H, W, C]; padding does not count."""
    size, step = pair(ksize), pair(strides)
    image, pads = padded(tensor_of(input).permute((0, 3, 1, 2)), size, step, padding, (1, 1), 0.0)
    if padding.lower() == "same" and pads == (0, 0) and any(n > 1 for n in size):
        ones = image.new_ones((1, 1, *tensor_of(input).shape[1:3]))
        counts, _ = padded(ones, size, step, padding, (1, 1), 0.0)
        share = functional.avg_pool2d(counts, size, step)
        return (functional.avg_pool2d(image, size, step) / share).permute((0, 2, 3, 1))
    made = functional.avg_pool2d(image, size, step, padding=pads, count_include_pad=False)
    return made.permute((0, 2, 3, 1))
