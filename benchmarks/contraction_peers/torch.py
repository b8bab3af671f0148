"""PyTorch: products by MKL and by oneDNN, convolutions by oneDNN in both memory formats of images, and attention.

Products of MKL are written to a resident tensor. Everything else returns a new tensor; with the environment set by
`benchmarks.contractions`, the allocator reuses the same memory each time.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch.nn import functional

from benchmarks.contraction_cases import Case

MODES = ("plain", "channels_last", "onednn")

Prepared = tuple[Callable[[], object], Callable[[], np.ndarray]]


def prepare(case: Case, mode: str, threads: int, left: np.ndarray, right: np.ndarray) -> Prepared | None:
    """A function that runs the contraction once, and one that returns its result; None for 16 bits, and for what a mode
    does not apply to."""
    if case.dtype != "f32":
        return None
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    a, b = torch.from_numpy(left), torch.from_numpy(right)
    if case.kind.startswith("matmul"):
        return _product(case, mode, a, b)
    if case.kind.startswith("attention"):
        return _attention(case, a, b) if mode == "plain" else None
    if mode == "onednn":  # as are the other two
        return None
    if mode == "channels_last":
        a, b = (tensor.contiguous(memory_format=torch.channels_last) for tensor in (a, b))
    run = _convolution(case, a, b, torch.channels_last if mode == "channels_last" else torch.contiguous_format)
    return run, lambda: run().contiguous().numpy()


def _product(case: Case, mode: str, a: torch.Tensor, b: torch.Tensor) -> Prepared | None:
    a, b = (x.mT if turned else x for x, turned in zip((a, b), case.transposed, strict=True))
    if mode == "plain":
        made = torch.empty(case.result)
        return lambda: torch.matmul(a, b, out=made), made.numpy
    if mode == "channels_last" or a.ndim > 2:
        return None
    # What inductor calls for linear layers: the weights are [out, in].
    weight, linear = b.T, torch.ops.mkldnn._linear_pointwise.default
    return lambda: linear(a, weight, None, "none", [], ""), lambda: linear(a, weight, None, "none", [], "").numpy()


def _attention(case: Case, qkv: torch.Tensor, ct: torch.Tensor) -> Prepared:
    inputs = [x.requires_grad_(case.kind == "attention_gradient") for x in qkv.unbind()]

    def forward() -> torch.Tensor:
        return functional.scaled_dot_product_attention(*inputs, is_causal=case.causal)

    def gradient() -> tuple[torch.Tensor, ...]:
        with torch.enable_grad():
            return torch.autograd.grad(forward(), inputs, ct)

    if case.kind == "attention":
        return forward, lambda: forward().numpy()
    return gradient, lambda: torch.stack(gradient()).numpy()


def _convolution(
    case: Case, a: torch.Tensor, b: torch.Tensor, layout: torch.memory_format
) -> Callable[[], torch.Tensor]:
    how = ([case.stride] * 2, [case.padding] * 2, [1, 1], False, [0, 0], case.groups)
    if case.kind == "forward":
        return lambda: torch.ops.aten.convolution(a, b, None, *how)
    # Of the missing operand, only type and layout are used.
    absent = torch.empty(case.result).contiguous(memory_format=layout)
    backward = torch.ops.aten.convolution_backward
    if case.kind == "data":
        return lambda: backward(a, absent, b, None, *how, [True, False, False])[0]
    return lambda: backward(b, a, absent, None, *how, [False, True, False])[1]
