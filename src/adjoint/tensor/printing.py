"""The text of tensors in PyTorch's layout: four digits, at most 1000 elements, the dtype if it is not the default."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.ir import DTYPES, is_float
from adjoint.tensor.environment import get_default_dtype

__all__ = ["tensor_text"]

#: Digits after the point; most elements that are all printed; elements at each end of a longer axis; most columns.
_DIGITS, _MOST, _EDGE, _COLUMNS = 4, 1000, 3, 80

#: From these ratios and sizes on, numbers are printed with exponents.
_RATIO, _LARGE, _SMALL = 1000.0, 1e8, 1e-4


def tensor_text(array: np.ndarray, gradient: str) -> str:
    """The text of a tensor with these elements, and at the end what `gradient` says, if it is not empty."""
    prefix = "tensor("
    suffixes = [f"size={array.shape}"] if not array.size and array.ndim != 1 else []
    plain = (get_default_dtype(), DTYPES["i64"], DTYPES["bool"])
    if array.dtype not in plain or (not array.size and array.dtype != plain[0]):
        suffixes.append(f"dtype={_dtype_text(array.dtype)}")
    if gradient:
        suffixes.append(gradient)
    shortened = array.size > _MOST
    shown = _ends(array) if shortened else array
    body = _body(shown, array.shape, len(prefix), _formatter(shown), shortened) if array.size else "[]"
    text = prefix + body
    for suffix in suffixes:
        last = len(text) - text.rfind("\n") - 1
        text += f",\n{' ' * len(prefix)}{suffix}" if last + len(suffix) + 3 > _COLUMNS else f", {suffix}"
    return text + ")"


def _dtype_text(dtype: np.dtype) -> str:
    return "bfloat16" if dtype == DTYPES["bf16"] else dtype.name


def _ends(array: np.ndarray) -> np.ndarray:
    """The elements that are printed of a large array."""
    for axis, size in enumerate(array.shape):
        if size > 2 * _EDGE:
            array = np.take(array, [*range(_EDGE), *range(size - _EDGE, size)], axis)
    return array


def _formatter(shown: np.ndarray) -> Callable[[Any], str]:
    """A function from an element to its text; all texts of finite numbers have the same length."""
    if not is_float(shown.dtype):
        width = max(len(str(one)) for one in shown.ravel().tolist())
        return lambda one: str(one).rjust(width)
    numbers = shown.astype(np.float64).ravel()
    sizes = np.abs(numbers[np.isfinite(numbers) & (numbers != 0)])
    if not sizes.size:
        form = _whole
    else:
        low, high = float(sizes.min()), float(sizes.max())
        whole = bool((sizes == np.ceil(sizes)).all())
        wide = high / low > _RATIO or high > _LARGE or (not whole and low < _SMALL)
        form = _scientific if wide else _whole if whole else _fixed
    width = max((len(form(float(one))) for one in numbers[np.isfinite(numbers) & (numbers != 0)]), default=1)
    return lambda one: form(float(one)).rjust(width)


def _whole(number: float) -> str:
    return f"{number:.0f}." if math.isfinite(number) else str(number)


def _fixed(number: float) -> str:
    return f"{number:.{_DIGITS}f}"


def _scientific(number: float) -> str:
    return f"{number:.{_DIGITS}e}"


def _body(shown: np.ndarray, shape: tuple[int, ...], indent: int, form: Callable[[Any], str], shortened: bool) -> str:
    """The elements in nested brackets; `shape` is that of the whole tensor."""
    if not shown.ndim:
        return form(shown.item() if not is_float(shown.dtype) else float(shown)).strip()
    cut = shortened and shape[0] > 2 * _EDGE
    if shown.ndim == 1:
        texts = [form(one) for one in (shown.astype(np.float64) if is_float(shown.dtype) else shown).tolist()]
        if cut:
            texts = [*texts[:_EDGE], " ...", *texts[_EDGE:]]
        per_line = max(1, (_COLUMNS - indent) // (len(texts[0]) + 2))
        lines = [", ".join(texts[n : n + per_line]) for n in range(0, len(texts), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    rows = [_body(row, shape[1:], indent + 1, form, shortened) for row in shown]
    if cut:
        rows = [*rows[:_EDGE], "...", *rows[_EDGE:]]
    return "[" + ("," + "\n" * (shown.ndim - 1) + " " * (indent + 1)).join(rows) + "]"
