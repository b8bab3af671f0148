"""PyTorch: products by MKL, convolutions and their gradients by oneDNN, in both memory formats of images.

Products are written to a resident tensor. Convolutions return a new tensor; with the environment set by
`benchmarks.contractions`, the allocator reuses the same memory each time.
"""

from collections.abc import Callable

import numpy as np
import torch

from benchmarks.contraction_cases import Case

MODES = ("plain", "channels_last")


def prepare(
    case: Case, mode: str, threads: int, left: np.ndarray, right: np.ndarray
) -> tuple[Callable[[], object], Callable[[], np.ndarray]] | None:
    """A function that runs the contraction once, and one that returns its result; None for 16 bits, and for a
    product in channels_last."""
    if case.dtype != "f32":
        return None
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    a, b = torch.from_numpy(left), torch.from_numpy(right)
    if case.kind.startswith("matmul"):
        if mode == "channels_last":
            return None
        made = torch.empty(case.result)
        a = a.T if case.kind == "matmul_ta" else a
        return lambda: torch.mm(a, b, out=made), made.numpy
    if mode == "channels_last":
        a, b = (tensor.contiguous(memory_format=torch.channels_last) for tensor in (a, b))
    run = _convolution(case, a, b, torch.channels_last if mode == "channels_last" else torch.contiguous_format)
    return run, lambda: run().contiguous().numpy()


def _convolution(
    case: Case, a: torch.Tensor, b: torch.Tensor, layout: torch.memory_format
) -> Callable[[], torch.Tensor]:
    how = ([case.stride] * 2, [case.padding] * 2, [1, 1], False, [0, 0], 1)
    if case.kind == "forward":
        return lambda: torch.ops.aten.convolution(a, b, None, *how)
    # Of the missing operand, only type and layout are used.
    absent = torch.empty(case.result).contiguous(memory_format=layout)
    backward = torch.ops.aten.convolution_backward
    if case.kind == "data":
        return lambda: backward(a, absent, b, None, *how, [True, False, False])[0]
    return lambda: backward(b, a, absent, None, *how, [False, True, False])[1]
