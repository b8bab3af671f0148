"""Random tensors: `rand`, `randn`, `bernoulli` and the like, and elements drawn in place.

A draw is recorded like any operation: a pure function of a key, which is made of the generator's key and of the number
of draws before (`adjoint.ops.random`). That number is a tensor, and each draw rebinds it. So a compiled program draws
other numbers every time it runs, and a traced function has the generator among its state. The numbers depend on the
seed and the order of the draws alone, not on threads, machines, or whether a function is traced.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from adjoint import ops
from adjoint.compiler import Executable
from adjoint.compiler import compile as compile_function
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import DTYPES, Function, Value, dtype_name, is_float, param
from adjoint.tensor.environment import check_device, dtype_of, get_default_dtype
from adjoint.tensor.generator import Generator, as_generator, host_permutation
from adjoint.tensor.making import from_array
from adjoint.tensor.record import entry_of, operation, rebind, record
from adjoint.tensor.shapes import sizes_of
from adjoint.tensor.trace import Recorded, state

__all__ = [
    "bernoulli",
    "host_normal",
    "host_uniform",
    "multinomial",
    "next_key",
    "normal",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
]

_F32, _F64, _I64 = DTYPES["f32"], DTYPES["f64"], DTYPES["i64"]


@operation
def _drawn_key(key: Value, draws: Value) -> tuple[Value, Value]:
    return ops.random.fold_in(key, draws), draws + 1


@operation
def _uniform(key: Value, shape: tuple[int, ...], dtype: np.dtype, low: float = 0.0, high: float = 1.0) -> Value:
    return ops.random.uniform(key, shape, dtype, low, high)


@operation
def _normal(key: Value, mean: Value | float, std: Value | float, shape: tuple[int, ...], dtype: np.dtype) -> Value:
    drawn = ops.random.normal(key, shape, dtype)
    return ops.add(ops.multiply(drawn, std), mean)


@operation
def _standard_normal(key: Value, shape: tuple[int, ...], dtype: np.dtype) -> Value:
    return ops.random.normal(key, shape, dtype)


@operation
def _randint(key: Value, shape: tuple[int, ...], low: int, high: int, dtype: np.dtype) -> Value:
    drawn = ops.random.randint(key, shape, low, high, _I64 if is_float(dtype) else dtype)
    return ops.cast(drawn, dtype)


@operation
def _bernoulli(key: Value, p: Value) -> Value:
    return ops.cast(ops.random.bernoulli(key, ops.cast(p, _F32), p.shape), p.dtype)


@operation
def _bernoulli_of(key: Value, p: float, shape: tuple[int, ...], dtype: np.dtype) -> Value:
    return ops.cast(ops.random.bernoulli(key, p, shape), dtype)


@operation
def _exponential(key: Value, rate: float, shape: tuple[int, ...], dtype: np.dtype) -> Value:
    return ops.multiply(ops.random.exponential(key, shape, dtype), 1.0 / rate)


@operation
def _multinomial(key: Value, weights: Value, count: int, replacement: bool) -> Value:
    """Indices drawn with probabilities in proportion to weights: the largest of log(weight) plus Gumbel noise.

    E. Gumbel's distribution makes the index of the maximum a draw (J. Yellott, "The relationship between Luce's choice
    axiom...", 1977); without replacement, the indices of the largest ones are one draw after the other.
    """
    logits = ops.log(ops.cast(weights, _F32))
    lead, size = logits.shape[:-1], logits.shape[-1]
    rows = (*lead, count, size) if replacement else (*lead, size)
    noise = ops.random.gumbel(key, rows)
    if replacement:
        return ops.argmax(ops.add(ops.expand_dims(logits, -2), noise), -1)
    scores = ops.add(logits, noise)
    found = []
    for _ in range(count):
        found.append(ops.argmax(scores, -1))
        taken = ops.equal(ops.iota(scores.shape, -1, "i64"), ops.expand_dims(found[-1], -1))
        scores = ops.where(taken, float("-inf"), scores)
    return ops.stack(found, -1)


_DRAWN_KEY, _UNIFORM, _NORMAL, _STANDARD_NORMAL, _RANDINT = (
    entry_of(f) for f in (_drawn_key, _uniform, _normal, _standard_normal, _randint)
)
_BERNOULLI, _BERNOULLI_OF, _EXPONENTIAL, _MULTINOMIAL = (
    entry_of(f) for f in (_bernoulli, _bernoulli_of, _exponential, _multinomial)
)


def next_key(generator: Generator | None = None) -> Any:
    """A key, u32[2], for one draw; the generator advances.

    Parameters
    ----------
    generator : Generator, optional
        Default: the one that `manual_seed` seeds.
    """
    source = as_generator(generator, "random")
    key, count = source.recorded()
    drawn, counted = record(_DRAWN_KEY, (key, count))
    rebind(count, counted)
    return drawn


def _float(dtype: Any, device: Any) -> np.dtype:
    check_device(device)
    found = dtype_of(dtype)
    if found is not None and not is_float(found):
        raise TypeRuleError(
            f"floats are drawn from this distribution, got the dtype {dtype_name(found)}; use randint or bernoulli"
        )
    return found or get_default_dtype()


def _leaf(tensor: Any, requires_grad: bool) -> Any:
    if requires_grad:
        tensor.requires_grad = True
    return tensor


def rand(
    *size: int | Sequence[int],
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """Random floats, evenly distributed in [0, 1).

    Parameters
    ----------
    *size : int or sequence of int
        The shape.
    generator : Generator, optional
        Default: the one that `manual_seed` seeds.
    dtype : dtype, optional
        A float dtype; default: that of `get_default_dtype`.
    device : object, optional
        Only the CPU.
    requires_grad : bool, default False
        Whether gradients flow to it.
    """
    drawn = record(_UNIFORM, (next_key(generator), sizes_of(size), _float(dtype, device)))
    return _leaf(drawn, requires_grad)


def randn(
    *size: int | Sequence[int],
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """Random floats of the standard normal distribution; the parameters are those of `rand`."""
    drawn = record(_STANDARD_NORMAL, (next_key(generator), sizes_of(size), _float(dtype, device)))
    return _leaf(drawn, requires_grad)


def rand_like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """`rand` with the shape and dtype of a tensor."""
    return rand(input.shape, dtype=dtype or input.dtype, device=device, requires_grad=requires_grad)


def randn_like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """`randn` with the shape and dtype of a tensor."""
    return randn(input.shape, dtype=dtype or input.dtype, device=device, requires_grad=requires_grad)


def randint(
    low: int,
    high: Any = None,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
) -> Any:
    """Random integers, evenly distributed in ``[low, high)``: ``randint(high, size)`` or ``randint(low, high, size)``.

    Parameters
    ----------
    low : int
        The smallest number; 0 if it is omitted.
    high : int
        One more than the largest number.
    size : sequence of int
        The shape.
    generator : Generator, optional
        Default: the one that `manual_seed` seeds.
    dtype : dtype, default i64
        Of the result.
    device : object, optional
        Only the CPU.
    """
    if size is None:
        low, high, size = 0, low, high
    check_device(device)
    shape = sizes_of((size,) if not isinstance(size, int) else ((size,),))
    return record(_RANDINT, (next_key(generator), shape, int(low), int(high), dtype_of(dtype) or _I64))


def randint_like(input: Any, low: int, high: int | None = None, *, dtype: Any = None, device: Any = None) -> Any:
    """`randint` with the shape and dtype of a tensor."""
    first, last = (0, low) if high is None else (low, high)
    return randint(first, last, tuple(input.shape), dtype=dtype or input.dtype, device=device)


def randperm(n: int, *, generator: Generator | None = None, dtype: Any = None, device: Any = None) -> Any:
    """The numbers below `n` in random order, i64.

    In a traced function all pairs of numbers are compared, so `n` is limited (`adjoint.ops.random.permutation`);
    elsewhere they are sorted, and drawn from the numbers that a DataLoader shuffles with.
    """
    check_device(device)
    to = dtype_of(dtype) or _I64
    if state.trace.outer is None:
        return from_array(host_permutation(n, as_generator(generator, "randperm")).astype(to))
    return record(_PERMUTATION, (next_key(generator), n, to))


@operation
def _permutation(key: Value, n: int, dtype: np.dtype) -> Value:
    return ops.cast(ops.random.permutation(key, n), dtype)


_PERMUTATION = entry_of(_permutation)


def bernoulli(input: Any, *, generator: Generator | None = None) -> Any:
    """1 with the probability that each element states, otherwise 0, in the tensor's dtype."""
    return record(_BERNOULLI, (next_key(generator), input))


def normal(
    mean: Any,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
) -> Any:
    """Random floats of a normal distribution.

    Parameters
    ----------
    mean, std : Tensor or float
        Mean and standard deviation, of each element if they are tensors.
    size : sequence of int, optional
        The shape, if both are numbers.
    generator : Generator, optional
        Default: the one that `manual_seed` seeds.
    dtype : dtype, optional
        A float dtype; default: that of the tensors, or of `get_default_dtype`.
    device : str, optional
        ``"cpu"``.
    """
    check_device(device)
    tensors = [t for t in (mean, std) if isinstance(t, Recorded)]
    if size is None and not tensors:
        raise InvalidValueError("normal: numbers as mean and std need a size, got none; pass size=(...)")
    shape = sizes_of((size,)) if size is not None else np.broadcast_shapes(*(t._spec.type.shape for t in tensors))
    to = dtype_of(dtype) or (tensors[0]._spec.type.dtype if tensors else get_default_dtype())
    return record(_NORMAL, (next_key(generator), mean, std, shape, to))


def multinomial(input: Any, num_samples: int, replacement: bool = False, *, generator: Generator | None = None) -> Any:
    """Indices along the last axis, drawn with probabilities in proportion to the elements, i64[..., num_samples].

    Parameters
    ----------
    input : Tensor
        Weights of at least 0, which need not add up to 1.
    num_samples : int
        How many indices of each row.
    replacement : bool, default False
        Whether an index may be drawn several times.
    generator : Generator, optional
        Default: the one that `manual_seed` seeds.
    """
    size = input.shape[-1]
    if num_samples < 1 or (not replacement and num_samples > size):
        raise InvalidValueError(
            f"multinomial: the number of samples must be from 1 to {size} without replacement, got {num_samples}; pass "
            "replacement=True, or draw fewer"
        )
    return record(_MULTINOMIAL, (next_key(generator), input, num_samples, replacement))


#: Numbers that are drawn together on the host, and how many such blocks a long array takes at once.
_BLOCK, _BLOCKS = 1024, 64


@cache
def _blocks(dtype: str, count: int) -> Executable:
    """Compiled: ``count`` blocks of normal numbers, from a key and the number of the first block."""
    key, first = param("key", (2,), "u32"), param("first", (), "i64")
    numbers = ops.add(ops.iota((count,), 0, "i64"), first)
    keys = ops.random.fold_in(ops.broadcast_to(key, (count, 2)), numbers)
    return compile_function(Function("normal", (key, first), (ops.random.normal(keys, (_BLOCK,), dtype),)), threads=1)


def host_normal(
    shape: tuple[int, ...], mean: float, std: float, dtype: np.dtype, generator: Generator | None = None
) -> np.ndarray:
    """An array of normal numbers, there at once; the numbers are computed by compiled code, the same everywhere."""
    source = as_generator(generator, "normal")
    key = source.words(1).view(np.uint32)
    count = int(np.prod(shape, dtype=np.int64))
    name = "f64" if dtype == _F64 else "f32"
    parts, made = [], 0
    while made < count:
        blocks = _BLOCKS if count - made > _BLOCK else 1
        parts.append(_blocks(name, blocks)(key, np.int64(made // _BLOCK)).reshape(-1))
        made += blocks * _BLOCK
    drawn = np.concatenate(parts)[:count] if parts else np.empty(0, DTYPES[name])
    array: np.ndarray = (drawn * drawn.dtype.type(std) + drawn.dtype.type(mean)).astype(dtype).reshape(shape)
    return array


def host_uniform(
    shape: tuple[int, ...], low: float, high: float, dtype: np.dtype, generator: Generator | None = None
) -> np.ndarray:
    """An array of numbers from ``[low, high)``, evenly distributed, there at once."""
    source = as_generator(generator, "uniform")
    count = int(np.prod(shape, dtype=np.int64))
    drawn: np.ndarray = low + source.uniforms(count) * (high - low)
    array = drawn.astype(dtype).reshape(shape)
    return np.where(array < high, array, np.asarray(low, dtype))


class RandomMethods(Recorded):
    """The part of `Tensor` that draws elements in place."""

    def _drawn(self, drawn: Any) -> Any:
        spec = self._spec
        if spec.requires_grad and spec.leaf and state.grad:
            raise InvalidValueError(
                f"a leaf that requires a gradient cannot be changed in place, got {spec.type}; do it within no_grad()"
            )
        return self.copy_(drawn)  # type: ignore[attr-defined]

    def uniform_(self, low: float = 0.0, high: float = 1.0, *, generator: Generator | None = None) -> Any:
        """Replace the elements by floats from ``[low, high)``, evenly distributed."""
        type_ = self._spec.type
        return self._drawn(record(_UNIFORM, (next_key(generator), type_.shape, type_.dtype, float(low), float(high))))

    def normal_(self, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Any:
        """Replace the elements by floats of a normal distribution."""
        type_ = self._spec.type
        args = (next_key(generator), float(mean), float(std), type_.shape, type_.dtype)
        return self._drawn(record(_NORMAL, args))

    def bernoulli_(self, p: Any = 0.5, *, generator: Generator | None = None) -> Any:
        """Replace the elements by 1 with probability `p`, a number or a tensor, otherwise by 0."""
        type_ = self._spec.type
        if isinstance(p, Recorded):
            return self._drawn(record(_BERNOULLI, (next_key(generator), p)))
        return self._drawn(record(_BERNOULLI_OF, (next_key(generator), float(p), type_.shape, type_.dtype)))

    def random_(self, from_: int = 0, to: int | None = None, *, generator: Generator | None = None) -> Any:
        """Replace the elements by integers from ``[from_, to)``; with one argument, from ``[0, from_)``."""
        low, high = (0, from_) if to is None else (from_, to)
        type_ = self._spec.type
        if high <= low:
            high = 2**24 if is_float(type_.dtype) else int(np.iinfo(type_.dtype).max)
        return self._drawn(record(_RANDINT, (next_key(generator), type_.shape, int(low), int(high), type_.dtype)))

    def exponential_(self, lambd: float = 1.0, *, generator: Generator | None = None) -> Any:
        """Replace the elements by floats of the exponential distribution with this rate."""
        type_ = self._spec.type
        return self._drawn(record(_EXPONENTIAL, (next_key(generator), float(lambd), type_.shape, type_.dtype)))

    def multinomial(self, num_samples: int, replacement: bool = False, *, generator: Generator | None = None) -> Any:
        """Indices drawn with probabilities in proportion to the elements: see `adjoint.multinomial`."""
        return multinomial(self, num_samples, replacement, generator=generator)
