"""Making tensors: from data, filled, counted.

Outside of traced functions, the elements are there at once, made by NumPy. In a traced function, what has no data is
recorded, so that it becomes part of the compiled function.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import DTYPES, TensorType, as_dtype, dtype_name, is_float
from adjoint.tensor.elementwise import cast
from adjoint.tensor.environment import check_device, dtype_of, get_default_dtype
from adjoint.tensor.making import from_array
from adjoint.tensor.reading import Reading
from adjoint.tensor.record import entry_of, operation, record
from adjoint.tensor.shapes import sizes_of
from adjoint.tensor.trace import state

__all__ = [
    "arange",
    "as_tensor",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "fill",
    "from_numpy",
    "full",
    "full_like",
    "linspace",
    "logspace",
    "ones",
    "ones_like",
    "scalar_tensor",
    "tensor",
    "tril_indices",
    "triu_indices",
    "zeros",
    "zeros_like",
]

_I64 = DTYPES["i64"]
_CAST = entry_of(cast)


def _elements(data: Any, dtype: Any) -> np.ndarray:
    """Data as an array, of the dtype that PyTorch gives it unless one is given."""
    wanted = dtype_of(dtype)
    if isinstance(data, Reading):
        array = data.elements().array
    elif isinstance(data, np.ndarray | np.generic):
        array = np.asarray(data)
    else:
        try:
            array = np.asarray(_read(data))
        except ValueError:
            array = np.empty(0, object)
        if wanted is None and (array.dtype == np.float64 or (not array.size and array.dtype != object)):
            array = array.astype(get_default_dtype())
    if array.dtype == object or (array.dtype.kind not in "biuf" and array.dtype not in DTYPES.values()):
        raise TypeRuleError(
            f"tensor: the data must be numbers, or nested lists of them of equal lengths, got {_described(data)}; "
            "pad lists of different lengths"
        )
    return array if wanted is None else array.astype(wanted)


def _described(data: Any) -> str:
    text = repr(data)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _read(data: Any) -> Any:
    """Nested sequences with their tensors replaced by arrays."""
    if isinstance(data, Reading):
        return data.elements().array
    if isinstance(data, list | tuple):
        return [_read(item) for item in data] if any(isinstance(one, Reading | list | tuple) for one in data) else data
    return data


def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Any:
    """A tensor with a copy of data.

    Parameters
    ----------
    data : number, nested lists, numpy.ndarray or Tensor
        The elements.
    dtype : dtype, optional
        Default: that of the data; i64 for Python integers, `get_default_dtype` for floats.
    device : str, optional
        ``"cpu"``.
    requires_grad : bool, default False
        Whether gradients flow to it.
    pin_memory : bool, default False
        Without effect: there is no other device to copy to.
    """
    del pin_memory
    check_device(device)
    return _made(_elements(data, dtype), requires_grad)


def _made(array: np.ndarray, requires_grad: bool) -> Any:
    as_dtype(array.dtype)
    if requires_grad and not is_float(array.dtype):
        raise TypeRuleError(
            f"only tensors of a float dtype can require gradients, got {dtype_name(array.dtype)}; pass dtype=float32"
        )
    return from_array(array, requires_grad=requires_grad)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Any:
    """A tensor of data, without a copy if it is a tensor, or an array whose memory can be shared, of the dtype."""
    check_device(device)
    wanted = dtype_of(dtype)
    if isinstance(data, Reading):
        return data if wanted in (None, data._spec.type.dtype) else record(_CAST, (data, wanted))
    if isinstance(data, np.ndarray) and (wanted is None or data.dtype == wanted):
        return from_numpy(data)
    return tensor(data, dtype=dtype)


def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> Any:
    """`as_tensor`, or `tensor` if a copy is wanted."""
    made = tensor(obj, dtype=dtype, device=device) if copy else as_tensor(obj, dtype, device)
    return made.requires_grad_() if requires_grad else made


def from_numpy(ndarray: np.ndarray) -> Any:
    """A tensor that shares the memory of an array: changing one in place changes the other.

    Arrays that are not C-contiguous or not writeable are copied.
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeRuleError(f"from_numpy: the argument must be a NumPy array, got {_described(ndarray)}; use tensor()")
    as_dtype(ndarray.dtype)
    return from_array(ndarray, copy=False)


def scalar_tensor(s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """A tensor without axes, of the default dtype."""
    return tensor(s, dtype=get_default_dtype() if dtype is None else dtype, device=device, requires_grad=requires_grad)


@operation
def _full(size: tuple[int, ...], fill_value: Any, dtype: Any) -> Any:
    return ops.full(fill_value, size, dtype)


def _filled(size: Sequence[int], value: Any, dtype: np.dtype, device: Any, requires_grad: bool) -> Any:
    check_device(device)
    type_ = TensorType(tuple(size), dtype)  # checks the sizes
    if state.trace.outer is not None and not requires_grad:
        kind = bool if dtype == np.bool_ else float if is_float(dtype) else int
        return _full(type_.shape, kind(value), dtype)
    return _made(np.full(type_.shape, value, dtype), requires_grad)


def full(
    size: Sequence[int], fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """A tensor filled with a number.

    Parameters
    ----------
    size : sequence of int
        The shape.
    fill_value : number
        The element.
    dtype : dtype, optional
        Default: i64 for an int, bool for a bool, `get_default_dtype` for a float.
    device : str, optional
        ``"cpu"``.
    requires_grad : bool, default False
        Whether gradients flow to it.
    """
    value = fill_value.item() if isinstance(fill_value, Reading) else fill_value
    if dtype is None and not isinstance(value, float):  # whose default dtype can be set
        dtype = type(value)
    return _filled(sizes_of((size,)), value, _dtype(dtype), device, requires_grad)


def _dtype(given: Any) -> np.dtype:
    return dtype_of(given) or get_default_dtype()


def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """A tensor of zeros, of the default dtype; parameters as in `full`."""
    return _filled(sizes_of(size), 0, _dtype(dtype), device, requires_grad)


def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """A tensor of ones, of the default dtype; parameters as in `full`."""
    return _filled(sizes_of(size), 1, _dtype(dtype), device, requires_grad)


def empty(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **_: Any) -> Any:
    """A tensor to be filled; its elements are zeros. Parameters as in `full`."""
    return _filled(sizes_of(size), 0, _dtype(dtype), device, requires_grad)


def full_like(
    input: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """A tensor filled with a number, of the shape and dtype of another one; parameters as in `full`."""
    value = fill_value.item() if isinstance(fill_value, Reading) else fill_value
    return _filled(input.shape, value, dtype_of(dtype) or input.dtype, device, requires_grad)


def fill(input: Any, value: Any) -> Any:
    """A tensor filled with a number, of the shape and dtype of another one."""
    return full_like(input, value)


def zeros_like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """A tensor of zeros, of the shape and dtype of another one."""
    return full_like(input, 0, dtype=dtype, device=device, requires_grad=requires_grad)


def ones_like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """A tensor of ones, of the shape and dtype of another one."""
    return full_like(input, 1, dtype=dtype, device=device, requires_grad=requires_grad)


def empty_like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """A tensor to be filled, of the shape and dtype of another one; its elements are zeros."""
    return zeros_like(input, dtype=dtype, device=device, requires_grad=requires_grad)


@operation
def _literal(data: bytes, shape: tuple[int, ...], dtype: Any) -> Any:
    return ops.constant(np.frombuffer(data, dtype).reshape(shape))


def _host(array: np.ndarray, device: Any, requires_grad: bool) -> Any:
    """A tensor of an array; in a traced function, a constant of the program."""
    check_device(device)
    if state.trace.outer is not None and not requires_grad:
        return _literal(array.tobytes(), array.shape, array.dtype)
    return _made(array, requires_grad)


def arange(
    start: Any = 0,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """The numbers from `start` up to, not including, `end`, in steps of `step`.

    Parameters
    ----------
    start : number, default 0
        The first number; if it is the only argument, the end.
    end : number
        The bound.
    step : number, default 1
        The distance of neighbours, not 0; it may be negative.
    dtype : dtype, optional
        Default: i64 for integers, otherwise `get_default_dtype`.
    device : str, optional
        ``"cpu"``.
    requires_grad : bool, default False
        Whether gradients flow to it.
    """
    first, last = (0, start) if end is None else (start, end)
    numbers = [one.item() if isinstance(one, Reading) else one for one in (first, last, step)]
    if not numbers[2] or (numbers[1] - numbers[0]) / numbers[2] < 0:
        raise InvalidValueError(
            f"arange: the step must not be 0 and must lead from start to end, got {numbers[0]} to {numbers[1]} in "
            f"steps of {numbers[2]}; change its sign"
        )
    whole = all(isinstance(one, int | np.integer) for one in numbers)
    found = dtype_of(dtype) or (_I64 if whole else get_default_dtype())
    if not is_float(found) and int(numbers[2]):
        whole, numbers = True, [int(one) for one in numbers]
    if whole:
        return _host(np.arange(*numbers).astype(found), device, requires_grad)
    count = int(np.ceil((numbers[1] - numbers[0]) / numbers[2]))
    return _host((numbers[0] + np.arange(count) * numbers[2]).astype(found), device, requires_grad)


def linspace(
    start: Any, end: Any, steps: int, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """`steps` numbers at equal distances from `start` to `end`, both included; integers are from integer ends."""
    return _host(_equidistant(start, end, steps, _dtype(dtype)).astype(_dtype(dtype)), device, requires_grad)


def _equidistant(start: Any, end: Any, steps: int, dtype: np.dtype) -> np.ndarray:
    """Numbers as f64 at equal distances between two ends, which are rounded towards zero for integer dtypes."""
    ends = (float(start), float(end)) if is_float(dtype) else (float(int(start)), float(int(end)))
    return np.linspace(*ends, steps)


def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """`base` to the power of the numbers of `linspace`."""
    powers = float(base) ** _equidistant(start, end, steps, _dtype(dtype))
    return _host(powers.astype(_dtype(dtype)), device, requires_grad)


def eye(n: int, m: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """The matrix of `n` rows and `m` (default `n`) columns with ones on the diagonal."""
    return _host(np.eye(n, m, dtype=_dtype(dtype)), device, requires_grad)


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Any:
    """The positions of the elements that `tril` keeps: a row of row numbers and one of column numbers."""
    found = np.stack(np.tril_indices(row, offset, col))
    return _host(found.astype(dtype_of(dtype) or _I64), device, False)


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Any:
    """The positions of the elements that `triu` keeps: a row of row numbers and one of column numbers."""
    found = np.stack(np.triu_indices(row, offset, col))
    return _host(found.astype(dtype_of(dtype) or _I64), device, False)
