"""Cases for the contraction benchmarks: matrix products, convolutions and attention, the two with their gradients."""

from dataclasses import asdict, dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

__all__ = ["CASES", "Case", "attention", "convolution", "expected", "operands", "product"]


@dataclass(frozen=True, slots=True)
class Case:
    """A contraction of two arrays.

    Parameters
    ----------
    name : str
        A unique description.
    kind : str
        ``matmul``: left @ right, perhaps with batch axes before the last two. ``matmul_ta``, ``matmul_tb`` and
        ``matmul_tab``: the same with the left, the right or both operands stored transposed. For a convolution of an
        image x [N, C, H, W] with weights w [O, C / groups, K, K] that gives y: ``forward`` maps x and w to y; ``data``
        maps the cotangent of y and w to that of x; ``weight`` maps x and the cotangent of y to that of w. Of
        attention, the left operand is q, k and v, [3, B, H, T, D], and the right one the cotangent of the output.
        ``attention`` gives the output [B, H, T, D], and ``attention_gradient`` the cotangents of q, k and v, for which
        the output is computed too.
    left, right, result : tuple of int
        Shapes.
    flops : int
        Two per product in the sum; for all three kinds of a convolution including those with the padding. Of
        attention, those of its two products, and of five more for its gradient; half of them if it is causal.
    stride, padding : int
        Of a convolution; equal for rows and columns.
    groups : int, default 1
        Of a convolution.
    causal : bool, default False
        Whether a position of attention attends only to itself and those before it.
    dtype : str, default "f32"
        Dtype of both operands and of the result: ``f32``, ``bf16`` or ``f16``.
    """

    name: str
    kind: str
    left: tuple[int, ...]
    right: tuple[int, ...]
    result: tuple[int, ...]
    flops: int
    stride: int = 1
    padding: int = 0
    dtype: str = "f32"
    groups: int = 1
    causal: bool = False

    @property
    def transposed(self) -> tuple[bool, bool]:
        """Whether the operands of a product are stored transposed."""
        return {"matmul_ta": (True, False), "matmul_tb": (False, True), "matmul_tab": (True, True)}.get(
            self.kind, (False, False)
        )

    def with_dtype(self, dtype: str) -> "Case":
        """The same contraction in another dtype, which becomes the first word of its name."""
        return self if dtype == self.dtype else replace(self, name=f"{dtype} {self.name}", dtype=dtype)

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Case":
        """The inverse of `as_dict`."""
        shapes = {name: tuple(data[name]) for name in ("left", "right", "result")}
        return cls(**(data | shapes))


def product(m: int, k: int, n: int, transposed: bool = False, right_transposed: bool = False, batch: int = 0) -> Case:
    """The product of [m, k] and [k, n], stored as [k, m] and [n, k] if transposed; or of a batch of such pairs."""
    left, right = (k, m) if transposed else (m, k), (n, k) if right_transposed else (k, n)
    name = " @ ".join(
        f"({rows}x{columns})T" if turned else f"{rows}x{columns}"
        for (rows, columns), turned in ((left, transposed), (right, right_transposed))
    )
    kind = "matmul" + ("_t" if transposed or right_transposed else "") + "a" * transposed + "b" * right_transposed
    lead = (batch,) if batch else ()
    flops = 2 * m * k * n * max(batch, 1)
    return Case(f"{batch} of {name}" if batch else name, kind, lead + left, lead + right, (*lead, m, n), flops)


def convolution(
    network: str, batch: int, channels: int, outputs: int, size: int, window: int = 3, stride: int = 1, groups: int = 1
) -> list[Case]:
    """A convolution that divides the image size by its stride, and its gradients: three cases."""
    padding = window // 2
    rows = (size + 2 * padding - window) // stride + 1
    each = channels // groups
    x, w, y = (batch, channels, size, size), (outputs, each, window, window), (batch, outputs, rows, rows)
    flops = 2 * prod(y) * each * window * window
    name = (
        f"{network} {channels}->{outputs}@{size} {window}x{window}{f'/{stride}' if stride > 1 else ''}"
        f"{f' {groups} groups' if groups > 1 else ''}"
    )
    shapes = {"forward": (x, w, y), "data": (y, w, x), "weight": (x, y, w)}
    return [
        Case(f"{name} {kind}", kind, *three, flops, stride, padding, groups=groups) for kind, three in shapes.items()
    ]


def attention(batch: int, heads: int, tokens: int, width: int, causal: bool) -> list[Case]:
    """Attention of sequences to themselves, and its gradient: two cases."""
    one = (batch, heads, tokens, width)
    flops = 2 * batch * heads * tokens * tokens * width // (2 if causal else 1)
    name = f"{batch}x{heads} heads of {tokens}x{width}{', causal' if causal else ''}"
    return [
        Case(f"{name} forward", "attention", (3, *one), one, one, 2 * flops, causal=causal),
        Case(f"{name} gradient", "attention_gradient", (3, *one), one, (3, *one), 7 * flops, causal=causal),
    ]


#: The products of the MLP, square ones, and one whose right side exceeds the caches; the convolutions of ResNet-20 for
#: CIFAR (batch 64), including the 1x1 shortcuts, and of ResNet-18 for ImageNet (batch 8).
CASES: tuple[Case, ...] = (
    product(64, 784, 128),
    product(64, 128, 784),
    product(128, 64, 784, transposed=True),
    product(64, 128, 10),
    product(64, 10, 128),
    product(256, 256, 256),
    product(1024, 1024, 1024),
    product(128, 4096, 4096),
    *convolution("cifar", 64, 3, 16, 32),
    *convolution("cifar", 64, 16, 16, 32),
    *convolution("cifar", 64, 16, 32, 32, stride=2),
    *convolution("cifar", 64, 16, 32, 32, window=1, stride=2),
    *convolution("cifar", 64, 32, 32, 16),
    *convolution("cifar", 64, 32, 64, 16, stride=2),
    *convolution("cifar", 64, 32, 64, 16, window=1, stride=2),
    *convolution("cifar", 64, 64, 64, 8),
    *convolution("imagenet", 8, 3, 64, 224, window=7, stride=2),
    *convolution("imagenet", 8, 64, 64, 56),
    *convolution("imagenet", 8, 64, 128, 56, stride=2),
    *convolution("imagenet", 8, 128, 128, 28),
    *convolution("imagenet", 8, 128, 256, 28, stride=2),
    *convolution("imagenet", 8, 256, 256, 14),
    *convolution("imagenet", 8, 256, 512, 14, stride=2),
    *convolution("imagenet", 8, 512, 512, 7),
)


def operands(case: Case, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Random left and right operands, f32 whatever the dtype of the case."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal(case.left, np.float32), rng.standard_normal(case.right, np.float32)


def expected(case: Case, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The result computed by NumPy, in the dtype of the operands."""
    if case.kind.startswith("matmul"):
        a, b = (x.swapaxes(-1, -2) if turned else x for x, turned in zip((left, right), case.transposed, strict=True))
        return np.asarray(a @ b)
    if case.kind.startswith("attention"):
        return _attention(case, left, right)
    if case.groups == 1:
        return _convolution(case, left, right)
    # Images are divided along axis 1, weights along axis 0.
    axes = {"forward": (1, 0, 1), "data": (1, 0, 1), "weight": (1, 1, 0)}[case.kind]
    parts = zip(np.split(left, case.groups, axes[0]), np.split(right, case.groups, axes[1]), strict=True)
    shape = list(case.result)
    shape[axes[2]] //= case.groups
    one = replace(case, result=tuple(shape), groups=1)
    return np.concatenate([_convolution(one, a, b) for a, b in parts], axes[2])


def _convolution(case: Case, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """A convolution without groups, or a gradient of it."""
    if case.kind == "data":
        return _data(case, left, right)
    window = (right if case.kind == "forward" else np.empty(case.result, bool)).shape[2:]
    images = sliding_window_view(_padded(left, case.padding), window, (2, 3))[:, :, :: case.stride, :: case.stride]
    if case.kind == "forward":
        return np.moveaxis(np.asarray(np.tensordot(images, right, ((1, 4, 5), (1, 2, 3)))), 3, 1)
    return np.asarray(np.tensordot(right, images, ((0, 2, 3), (0, 2, 3))))


def _attention(case: Case, left: np.ndarray, ct: np.ndarray) -> np.ndarray:
    """softmax(q k^T / sqrt(D)) v, or the cotangents of q, k and v."""
    q, k, v = left
    scale = 1 / np.sqrt(q.shape[-1])
    scores = q @ k.swapaxes(-1, -2) * scale
    if case.causal:
        scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    if case.kind == "attention":
        return np.asarray((weights @ v).astype(left.dtype))
    of_weights = ct @ v.swapaxes(-1, -2)
    of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdims=True)) * scale
    found = of_scores @ k, of_scores.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ ct
    return np.stack(found).astype(left.dtype)


def _padded(image: np.ndarray, by: int) -> np.ndarray:
    return np.pad(image, ((0, 0), (0, 0), (by, by), (by, by)))


def _data(case: Case, ct: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The cotangent of the image: each element of the window adds its contribution where it was read."""
    made = _padded(np.zeros(case.result, ct.dtype), case.padding)
    span_y, span_x = (case.stride * (size - 1) + 1 for size in ct.shape[2:])
    for a in range(weight.shape[2]):
        for b in range(weight.shape[3]):
            passed = np.tensordot(ct, weight[:, :, a, b], ((1,), (0,)))
            made[:, :, a : a + span_y : case.stride, b : b + span_x : case.stride] += np.moveaxis(passed, 3, 1)
    inside = slice(case.padding, -case.padding or None)
    return made[:, :, inside, inside]
