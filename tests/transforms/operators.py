"""Operators that a catalogue would not take: without a vjp, or with one that is wrong."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from adjoint import ops
from adjoint.ir import apply
from adjoint.ops.base import Operator


@dataclass(frozen=True, slots=True)
class Plain(Operator):
    """An identity; the class for all below."""

    name: ClassVar[str] = "plain"

    def infer(self, x):
        return x

    def reference(self, x):
        return np.asarray(x)


@dataclass(frozen=True, slots=True)
class NoRule(Plain):
    name: ClassVar[str] = "no_rule"


@dataclass(frozen=True, slots=True)
class NoRuleEither(Plain):
    name: ClassVar[str] = "no_rule_either"


@dataclass(frozen=True, slots=True)
class Explosive(Plain):
    """Its vjp must never be asked."""

    name: ClassVar[str] = "explosive"

    def vjp(self, _ct, _out, x):
        raise AssertionError(f"the vjp of {x!r} was asked for")


@dataclass(frozen=True, slots=True)
class TooMany(Plain):
    name: ClassVar[str] = "too_many"

    def vjp(self, ct, _out, _x):
        return (ct, ct)


@dataclass(frozen=True, slots=True)
class WrongType(Plain):
    name: ClassVar[str] = "wrong_type"

    def vjp(self, ct, _out, _x):
        return (ops.sum(ct),)


def through(cls, x, label=""):
    return apply(cls(), x, label=label)


@dataclass(frozen=True, slots=True)
class NotMapped(Plain):
    name: ClassVar[str] = "not_mapped"

    def vectorize(self, _mapped, x):
        return ops.sum(x, 0)


@dataclass(frozen=True, slots=True)
class NoValue(Plain):
    name: ClassVar[str] = "no_value"

    def vectorize(self, _mapped, _x):
        return None
