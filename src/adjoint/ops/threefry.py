"""Operators that make random bits: the counter-based generator Threefry-2x32, keyed by an ordinary operand.

A block cipher turns a key and a counter, each two 32-bit words, into two words that no statistical test of BigCrush
tells from random ones. There is no hidden state: an element of a random tensor is a pure function of the key and of its
own position, whichever thread computes it, as often as it is computed. `adjoint.ops.random` has the distributions.

The generator is that of J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011, with 20 rounds. The
positions are numbered as in JAX with ``jax_threefry_partitionable``, its default: so random bits, and keys that are
split and folded, are those of JAX.
"""

from itertools import product
from math import prod
from typing import Any, ClassVar

import numpy as np

from adjoint.errors import TypeRuleError
from adjoint.ir.types import DTYPES, TensorType
from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.base import Builder, Index, Operand, Operator, Sample, Scalar, same_types
from adjoint.ops.rules import operands, refused
from adjoint.ops.vectorizing import all_mapped

__all__ = ["WORD", "WORDS", "RandomBits", "Threefry", "require_key", "threefry2x32"]

_U32, _U64 = DTYPES["u32"], DTYPES["u64"]

#: Words of a key, of a counter and of a block.
WORDS = 2

#: Two to the number of bits of a word. A counter's second word numbers the elements of a random tensor.
WORD = 2**32

#: Rotations of the rounds, four at a time, and the constant in the third word of the key schedule (Salmon et al.).
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
#: Groups of four rounds, after each of which words of the key are added.
_GROUPS = 5


def threefry2x32(key: tuple[Any, Any], counter: tuple[Any, Any]) -> tuple[np.ndarray, np.ndarray]:
    """The two words of the block of a key and a counter, in NumPy.

    Parameters
    ----------
    key, counter : tuple of two uint32 arrays
        Their words, of shapes that broadcast.
    """
    first, second = (np.asarray(word, np.uint32) for word in key)
    schedule = (first, second, first ^ second ^ np.uint32(_PARITY))
    with np.errstate(over="ignore"):
        x, y = np.asarray(counter[0], np.uint32) + first, np.asarray(counter[1], np.uint32) + second
        for group in range(_GROUPS):
            for by in _ROTATIONS[group % 2]:
                x = x + y
                y = (y << np.uint32(by) | y >> np.uint32(32 - by)) ^ x
            x = x + schedule[(group + 1) % 3]
            y = y + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return np.asarray(x), np.asarray(y)


def _block(k: Builder, key: tuple[Scalar, Scalar], counter: tuple[Scalar, Scalar]) -> tuple[Scalar, Scalar]:
    """The same block of elements inside a kernel."""
    parity = k.call("xor", k.call("xor", *key), k.const(_PARITY, _U32))
    schedule = (*key, parity)
    x, y = k.call("add", counter[0], key[0]), k.call("add", counter[1], key[1])
    for group in range(_GROUPS):
        for by in _ROTATIONS[group % 2]:
            x = k.call("add", x, y)
            y = k.call("xor", k.call("rotl", y, k.const(by, _U32)), x)
        x = k.call("add", x, schedule[(group + 1) % 3])
        y = k.call("add", y, k.call("add", schedule[(group + 2) % 3], k.const(group + 1, _U32)))
    return x, y


def require_key(name: str, type_: TensorType) -> None:
    """Raise if a type is not that of keys; `name` is the function or operator, for the error."""
    if not isinstance(type_, TensorType) or type_.dtype != _U32 or type_.shape[-1:] != (WORDS,):
        raise TypeRuleError(f"{name}: a key must be u32[..., {WORDS}], got {type_}; make one with ops.random.key(seed)")


@dataclass(frozen=True, slots=True)
class Threefry(Operator):
    """The block of the generator Threefry-2x32 for each key and counter, from which other keys are made.

    The last axis of the operands and of the result has the two words.
    """

    name: ClassVar[str] = "threefry"
    flops: ClassVar[float] = 80.0

    def infer(self, *inputs: TensorType) -> TensorType:
        """Keys and counters of one type, u32[..., 2], which is also the result's."""
        operands(self, inputs, 2)
        for words in inputs:
            require_key(self.name, words)
        return same_types(self, *inputs)

    def reference(self, key: np.ndarray, counter: np.ndarray) -> np.ndarray:
        """`threefry2x32` of the words."""
        return np.stack(threefry2x32((key[..., 0], key[..., 1]), (counter[..., 0], counter[..., 1])), -1)

    def vjp(self, ct: Value, out: Value, key: Value, counter: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """None: integers have no gradient."""
        return (None, None)

    def lower(self, k: Builder, index: Index, key: Operand, counter: Operand) -> Scalar:
        """One word of the block."""
        lead = index[:-1]
        first, second = _block(k, (key((*lead, 0)), key((*lead, 1))), (counter((*lead, 0)), counter((*lead, 1))))
        return k.choose(k.inside(index[-1], 0, 1), lambda: first, lambda: second)

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:
        """The same for more keys and counters."""
        return apply(self, *all_mapped(mapped, inputs))

    @classmethod
    def samples(cls) -> list[Sample]:
        """One block, blocks of several keys, none; other dtypes and sizes are rejected."""
        words = np.array([[0, 0], [2**32 - 1, 2**32 - 1], [0x13198A2E, 0x03707344]], np.uint32)
        counters = np.array([[0, 0], [2**32 - 1, 2**32 - 1], [0x243F6A88, 0x85A308D3]], np.uint32)
        key = ((2,), "u32")
        return [
            Sample(cls(), (words, counters)),
            Sample(cls(), (words[2], counters[1])),
            Sample(cls(), (words[:0], counters[:0])),
            refused(cls(), ((2,), "i32"), ((2,), "i32"), error="threefry: a key must be u32[..., 2], got i32[2]"),
            refused(cls(), key, ((3,), "u32"), error="threefry: a key must be u32[..., 2], got u32[3]"),
            refused(cls(), key, ((4, 2), "u32"), error="threefry: operands must have the same shape, got u32[2] and"),
        ]


@dataclass(frozen=True, slots=True)
class RandomBits(Operator):
    """Random integers of `width` bits, each a function of the key and of its position in `shape`.

    Position n, counted in row-major order, is the counter (0, n). Up to 32 bits are the upper ones of the exclusive or
    of the block's words, more are the upper ones of the first word followed by the second.

    Parameters
    ----------
    shape : tuple of int
        Shape of what each key draws.
    width : int, default 32
        Number of bits, 1 to 64: the result is below ``2**width``. It is u32, or u64 for more than 32 bits.
    """

    name: ClassVar[str] = "random_bits"
    flops: ClassVar[float] = 80.0
    shape: tuple[int, ...] = ()
    width: int = 32

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))

    @property
    def dtype(self) -> np.dtype:
        """Dtype of the result."""
        return _U32 if self.width <= 32 else _U64

    def infer(self, *inputs: TensorType) -> TensorType:
        """A key, u32[2], or several, u32[..., 2], each of which draws a tensor of `shape` along the last axes."""
        operands(self, inputs, 1)
        require_key(self.name, inputs[0])
        if not 1 <= self.width <= 64:
            raise TypeRuleError(f"random_bits: width must be from 1 to 64, got {self.width}; choose one of these")
        drawn = TensorType(self.shape, self.dtype)
        if drawn.size > WORD:
            raise TypeRuleError(
                f"random_bits: a key draws at most 2**32 elements, got {drawn}; split the key and draw several tensors"
            )
        return drawn.with_shape((*inputs[0].shape[:-1], *drawn.shape))

    def reference(self, key: np.ndarray) -> np.ndarray:
        """`threefry2x32` of the positions."""
        lead = key.shape[:-1]
        words = [key[..., n].reshape((*lead, *(1 for _ in self.shape))) for n in range(WORDS)]
        places = np.arange(prod(self.shape), dtype=np.uint64).astype(np.uint32).reshape(self.shape)
        first, second = threefry2x32((words[0], words[1]), (np.uint32(0), places))
        if self.width <= 32:
            return np.asarray((first ^ second) >> np.uint32(32 - self.width))
        both = first.astype(np.uint64) << np.uint64(32) | second.astype(np.uint64)
        return np.asarray(both >> np.uint64(64 - self.width))

    def vjp(self, ct: Value, out: Value, key: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """None: integers have no gradient."""
        return (None,)

    def lower(self, k: Builder, index: Index, key: Operand) -> Scalar:
        """The bits of one position."""
        rank = len(key.type.shape) - 1
        place: Any = 0
        for coordinate, size in zip(index[rank:], self.shape, strict=True):
            place = place * size + coordinate
        lead = index[:rank]
        counter = (k.const(0, _U32), k.coordinate(place, _U32))
        first, second = _block(k, (key((*lead, 0)), key((*lead, 1))), counter)
        if self.width <= 32:
            return _upper(k, k.call("xor", first, second), 32 - self.width, _U32)
        high = k.call("shl", k.cast(first, _U64), k.const(32, _U64))
        return _upper(k, k.call("or", high, k.cast(second, _U64)), 64 - self.width, _U64)

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:  # noqa: ARG002
        """The same for more keys, each of which draws what it draws alone."""
        return apply(self, *inputs)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Several widths, shapes and numbers of keys; what is no key, and widths and shapes that there are not."""
        key = np.array([0, 42], np.uint32)
        keys = np.array([[[1, 2], [3, 4], [2**32 - 1, 0]]], np.uint32)
        shapes = [(), (5,), (2, 3), (0, 4), (3, 17)]
        some = ((2,), "u32")
        return [
            *(Sample(cls(shape, width), (key,)) for shape, width in product(shapes, (32, 53))),
            *(Sample(cls((7,), width), (key,)) for width in (1, 24, 33, 64)),
            *(Sample(cls((4,), width), (keys,)) for width in (32, 64)),
            refused(cls((3,)), ((2,), "f32"), error="random_bits: a key must be u32[..., 2], got f32[2]; make one"),
            refused(cls((3,)), ((), "u32"), error="random_bits: a key must be u32[..., 2], got u32[]"),
            refused(cls((3,), 0), some, error="random_bits: width must be from 1 to 64, got 0"),
            refused(cls((2**16, 2**17)), some, error="random_bits: a key draws at most 2**32 elements, got u32["),
            refused(cls((-1,)), some, error="sizes in a shape must be integers of at least 0, got -1"),
        ]


def _upper(k: Builder, word: Scalar, drop: int, dtype: np.dtype) -> Scalar:
    """The word without its `drop` lowest bits."""
    return k.call("shr", word, k.const(drop, dtype)) if drop else word
