"""Operators with every kind of attribute, to print and parse: the IR itself knows none."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import DTYPES, Function, Op, TensorType, TupleType


@dataclass(frozen=True, slots=True)
class Join(Op):
    name: ClassVar[str] = "join"

    def infer(self, *inputs):
        if not inputs or any(x != inputs[0] for x in inputs):
            raise TypeRuleError(f"join: operands need one type, got {', '.join(map(str, inputs))}; cast one")
        return inputs[0]


@dataclass(frozen=True, slots=True)
class Unary(Op):
    name: ClassVar[str] = "unary"

    def infer(self, x):
        return TensorType(x.shape, x.dtype)


@dataclass(frozen=True, slots=True)
class Attributes(Op):
    name: ClassVar[str] = "attributes"
    number: float = 1.0
    count: int = 0
    flag: bool = False
    text: str = ""
    data: bytes = b""
    axes: tuple[int, ...] = ()
    pair: tuple[str, float] = ("", 0.0)
    dtype: np.dtype = DTYPES["f32"]
    type: TensorType = TensorType(())  # noqa: RUF009
    maybe: int | None = None
    scalar: float | int | bool = 0
    mode: Literal["up", "down"] = "up"
    anything: Any = None

    def infer(self, x):
        return x


@dataclass(frozen=True, slots=True)
class Needs(Op):
    name: ClassVar[str] = "needs"
    size: int

    def __post_init__(self):
        if self.size < 1:
            raise InvalidValueError(f"needs: size is at least 1, got {self.size}; raise it")

    def infer(self):
        return TensorType((self.size,))


@dataclass(frozen=True, slots=True)
class Apply(Op):
    name: ClassVar[str] = "apply"
    body: Function
    others: tuple[Function, ...] = ()

    def infer(self, *_inputs):
        return self.body.type


@dataclass(frozen=True, slots=True)
class Split(Op):
    name: ClassVar[str] = "split"

    def infer(self, x):
        return TupleType((x, x))


@dataclass(frozen=True, slots=True)
class Item(Op):
    name: ClassVar[str] = "item"

    def infer(self, x):
        return x.items[0]


OPERATORS = {cls.name: cls for cls in (Join, Unary, Attributes, Needs, Apply, Split, Item)}
