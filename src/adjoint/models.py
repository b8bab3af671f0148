"""Small models as graph IR modules: ``backbone``, and ``backbone_inference`` if prediction differs from training.

The attribute ``init`` specifies the initializers that differ from the default: zeros for vectors, Xavier uniform
otherwise.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt

from adjoint import ops
from adjoint.errors import InvalidValueError
from adjoint.ir import Attribute, Function, IRModule, Value, param

__all__ = ["gpt", "lenet", "linreg", "mlp", "resnet20"]


def mlp(sizes: Sequence[int] = (784, 128, 128, 10), batch_size: int = 64) -> IRModule:
    """A multilayer perceptron: ``x @ w + b`` per layer, with relu between layers.

    Parameters
    ----------
    sizes : sequence of int, default (784, 128, 128, 10)
        Number of features of the input, each hidden layer, and the output.
    batch_size : int, default 64
        Batch size.

    Returns
    -------
    IRModule
        ``backbone(x: f32[batch, sizes[0]], w0, b0, w1, b1, ...) -> logits: f32[batch, sizes[-1]]`` with
        ``wi: f32[sizes[i], sizes[i + 1]]`` and ``bi: f32[sizes[i + 1]]``.

    Raises
    ------
    InvalidValueError
        If there are fewer than two sizes, or a size or the batch size is below 1.
    """
    if len(sizes) < 2 or min(*sizes, batch_size) < 1:
        raise InvalidValueError(
            f"mlp: sizes must be two or more integers, and all sizes and batch_size at least 1, got {tuple(sizes)} "
            f"and {batch_size}"
        )
    x = param("x", (batch_size, sizes[0]))
    params: list[Value] = []
    out = x
    for i, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        weight, bias = param(f"w{i}", (fan_in, fan_out)), param(f"b{i}", (fan_out,))
        params += [weight, bias]
        out = out @ weight + bias
        if i < len(sizes) - 2:
            out = out.relu()
    return _module(x, params, out.named("logits"))


def linreg(features: int = 2, batch_size: int = 4) -> IRModule:
    """Linear regression without a bias: ``x @ w``.

    Parameters
    ----------
    features : int, default 2
        Columns of the input.
    batch_size : int, default 4
        Batch size.

    Returns
    -------
    IRModule
        ``backbone(x: f32[batch, features], w: f32[features, 1]) -> predictions: f32[batch, 1]``.

    Raises
    ------
    InvalidValueError
        If a size is below 1.
    """
    if min(features, batch_size) < 1:
        raise InvalidValueError(f"linreg: features and batch_size must be at least 1, got {features} and {batch_size}")
    x, weight = param("x", (batch_size, features)), param("w", (features, 1))
    return _module(x, [weight], (x @ weight).named("predictions"))


def lenet(batch_size: int = 32) -> IRModule:
    """LeNet-5 with relu and max pooling: two convolutions and three linear layers, for images of 32x32.

    LeCun et al., "Gradient-Based Learning Applied to Document Recognition", 1998.

    Parameters
    ----------
    batch_size : int, default 32
        Batch size.

    Returns
    -------
    IRModule
        ``backbone(x: f32[batch, 1, 32, 32], c0, cb0, c1, cb1, w0, b0, w1, b1, w2, b2) -> logits: f32[batch, 10]``
        with convolutions ``c`` of 6 and 16 channels by 5x5 and their biases ``cb``.

    Raises
    ------
    InvalidValueError
        If the batch size is below 1.
    """
    _from_one("lenet", batch_size=batch_size)
    net = _Network()
    out = x = param("x", (batch_size, 1, 32, 32))
    for i, (fan_in, channels) in enumerate(pairwise((1, 6, 16))):
        weight, bias = net.weight(f"c{i}", channels, fan_in, 5, 5), net.weight(f"cb{i}", channels)
        out = ops.max_pool2d(ops.conv2d(out, weight, bias).relu(), 2)
    out = out.flatten(1)
    for i, (fan_in, width) in enumerate(pairwise((400, 120, 84, 10))):
        out = out @ net.weight(f"w{i}", fan_in, width) + net.weight(f"b{i}", width)
        out = out.relu() if i < 2 else out
    return net.module(x, out)


def resnet20(batch_size: int = 64, size: int = 32, classes: int = 10) -> IRModule:
    """ResNet-20 for small images: three stages of three blocks, with a 1x1 convolution where a block changes shape.

    He et al., "Deep Residual Learning for Image Recognition", 2015, section 4.2.

    Parameters
    ----------
    batch_size : int, default 64
        Batch size.
    size : int, default 32
        Rows and columns of an image.
    classes : int, default 10
        Columns of the logits.

    Returns
    -------
    IRModule
        ``backbone(x: f32[batch, 3, size, size], stem, stem_g, stem_b, s0b0_c1, ..., w, b, stem_mean, stem_var, ...)
        -> (logits: f32[batch, classes], updated states...)``: each convolution has a weight, and a scale ``_g``, a
        shift ``_b`` and two states of its batch normalization. ``backbone_inference`` has the same parameters,
        normalizes by the states and returns the logits. Weights of convolutions are initialized Kaiming normal as in
        the paper, scales and variances as ones.

    Raises
    ------
    InvalidValueError
        If a size is below 1.
    """
    _from_one("resnet20", batch_size=batch_size, size=size, classes=classes)
    return _residual_network((batch_size, 3, size, size), classes, 3)


def _residual_network(shape: Sequence[int], classes: int, blocks: int) -> IRModule:
    """The network of the paper with ``6 * blocks + 2`` layers, for training and for inference."""
    training, inference = _Network(), _Network(training=False)
    module = training.module(*_residual(training, shape, classes, blocks))
    return module.with_function(inference.function("backbone_inference", *_residual(inference, shape, classes, blocks)))


def _residual(net: "_Network", shape: Sequence[int], classes: int, blocks: int) -> tuple[Value, Value]:
    """Images and logits, with parameters and states created by `net`."""
    x = param("x", shape)
    out = net.normalized(x, "stem", 16, 3, 1).relu()
    for stage, channels in enumerate((16, 32, 64)):
        for block in range(blocks):
            name, stride = f"s{stage}b{block}", 2 if stage and not block else 1
            inner = net.normalized(out, f"{name}_c1", channels, 3, stride).relu()
            inner = net.normalized(inner, f"{name}_c2", channels, 3, 1)
            if out.shape != inner.shape:
                out = net.normalized(out, f"{name}_cs", channels, 1, stride)
            out = (inner + out).relu()
    return x, out.mean((2, 3)) @ net.weight("w", 64, classes) + net.weight("b", classes)


def gpt(
    layers: int = 4, heads: int = 4, width: int = 128, length: int = 64, batch_size: int = 12, vocabulary: int = 65
) -> IRModule:
    """A small GPT: a decoder with learned positions, layer norm before each part, and no biases.

    Radford et al., "Language Models are Unsupervised Multitask Learners", 2019; sizes of nanoGPT's smallest example.

    Parameters
    ----------
    layers, heads, width : int, default 4, 4, 128
        Blocks; attention heads of each, which divide the width; elements of a token's vector.
    length, batch_size : int, default 64, 12
        Tokens per sequence, and sequences per batch.
    vocabulary : int, default 65
        Number of distinct tokens.

    Returns
    -------
    IRModule
        ``backbone(ids: i64[batch, length], wte, wpe, lnf, l0_ln1, l0_qkv, l0_proj, l0_ln2, l0_fc, l0_out, ...) ->
        logits: f32[batch * length, vocabulary]``. ``wte`` is both the token embedding and, transposed, the last layer.
        The initializers are those of the paper: scales of layer norm are ones, the others normal with standard
        deviation 0.02, divided by ``sqrt(2 * layers)`` for the weights ``proj`` and ``out``, whose products are added
        to the residual stream.

    Raises
    ------
    InvalidValueError
        If a size is below 1, or `heads` does not divide `width`.
    """
    _from_one("gpt", layers=layers, heads=heads, width=width, length=length, batch_size=batch_size)
    _from_one("gpt", vocabulary=vocabulary)
    if width % heads:
        raise InvalidValueError(f"gpt: heads must divide width, got {heads} and {width}; change one")
    net = _Network()
    small, smaller = ("normal", 0.02), ("normal", 0.02 / sqrt(2 * layers))
    ids = param("ids", (batch_size, length), "i64")
    table = net.weight("wte", vocabulary, width, init=small)
    positions, last = net.weight("wpe", length, width, init=small), net.weight("lnf", width, init=("ones",))
    x = ops.embedding(table, ids) + positions
    for i in range(layers):
        inner = ops.layer_norm(x, net.weight(f"l{i}_ln1", width, init=("ones",)))
        seen = _attention(inner @ net.weight(f"l{i}_qkv", width, 3 * width, init=small), heads)
        x = x + seen @ net.weight(f"l{i}_proj", width, width, init=smaller)
        inner = ops.layer_norm(x, net.weight(f"l{i}_ln2", width, init=("ones",)))
        inner = ops.gelu(inner @ net.weight(f"l{i}_fc", width, 4 * width, init=small))
        x = x + inner @ net.weight(f"l{i}_out", 4 * width, width, init=smaller)
    logits = ops.matmul(ops.layer_norm(x, last), table, transpose_b=True)
    return net.module(ids, logits.reshape(batch_size * length, vocabulary))


def _attention(joined: Value, heads: int) -> Value:
    """Causal attention of queries, keys and values concatenated along the last axis, ``[B, T, 3 * D] -> [B, T, D]``."""
    batch, length, width = joined.shape[0], joined.shape[1], joined.shape[2] // 3
    parts = [joined[..., n * width : (n + 1) * width] for n in range(3)]
    q, k, v = (part.reshape(batch, length, heads, width // heads).permute(0, 2, 1, 3) for part in parts)
    seen = ops.scaled_dot_product_attention(q, k, v, causal=True)
    return seen.permute(0, 2, 1, 3).reshape(batch, length, width)


class _Network:
    """Parameters and states of a module under construction, in order of creation.

    Without `training`, batch normalization is in inference mode and no state is updated.
    """

    def __init__(self, training: bool = True) -> None:
        self.training = training
        self.params: list[Value] = []
        self.states: list[Value] = []
        self.updated: list[Value] = []
        self.init: list[tuple[Attribute, ...]] = []

    def weight(self, name: str, *shape: int, init: tuple[Attribute, ...] = ()) -> Value:
        """Create a parameter, with its initializer if that differs from the default."""
        self.params.append(self._begun(name, shape, init))
        return self.params[-1]

    def normalized(self, x: Value, name: str, channels: int, window: int, stride: int) -> Value:
        """A convolution that divides the image size by its stride, and batch normalization with its states."""
        weight = self.weight(name, channels, x.shape[1], window, window, init=("kaiming_normal",))
        scale, shift = self.weight(f"{name}_g", channels, init=("ones",)), self.weight(f"{name}_b", channels)
        mean, var = self._begun(f"{name}_mean", (channels,)), self._begun(f"{name}_var", (channels,), ("ones",))
        self.states += [mean, var]
        out = ops.conv2d(x, weight, stride=stride, padding=window // 2)
        if not self.training:
            return ops.batch_norm_inference(out, mean, var, scale, shift)
        out, new_mean, new_var = ops.batch_norm(out, mean, var, scale, shift)
        self.updated += [new_mean, new_var]
        return out

    def function(self, name: str, x: Value, result: Value) -> Function:
        """``name(x, params..., states...) -> (result, updated states...)``."""
        return Function(name, (x, *self.params, *self.states), (result.named("logits"), *self.updated))

    def module(self, x: Value, result: Value) -> IRModule:
        """The module with the function as its ``backbone``."""
        attrs: dict[str, Attribute] = {"param_num": len(self.params), "state_num": len(self.states)}
        if self.init:
            attrs["init"] = tuple(self.init)
        return IRModule((self.function("backbone", x, result),), attrs)

    def _begun(self, name: str, shape: Sequence[int], init: tuple[Attribute, ...] = ()) -> Value:
        if init:
            self.init.append((name, *init))
        return param(name, shape)


def _from_one(name: str, **sizes: int) -> None:
    for size, given in sizes.items():
        if given < 1:
            raise InvalidValueError(f"{name}: {size} must be at least 1, got {given}; increase it")


def _module(x: Value, params: Sequence[Value], result: Value) -> IRModule:
    backbone = Function("backbone", (x, *params), (result,))
    return IRModule((backbone,), {"param_num": len(params), "state_num": 0})
