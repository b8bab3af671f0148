"""The function that checks a program's arguments before it runs, as LLVM text."""

import math

import numpy as np

from adjoint.codegen.types import memory_type, vector
from adjoint.kernel.program import Program, RangeCheck

__all__ = ["check_text"]

#: Elements that are compared at a time where they are neighbours: one vector of i64 with AVX-512, two with AVX2.
_LANES = 8


def check_text(program: Program, declarations: dict[str, str]) -> str:
    """The definition of the check function, which returns 0, or 1 + the index of the first check that fails.

    The intrinsics that it needs are added to the declarations of its module, by name.
    """
    lines = [f"define i64 @{program.check_symbol}(ptr %slots) #1 {{", "  br label %check0"]
    for number, check in enumerate(program.checks):
        lines.extend(_one_check(number, check, program.slots[check.slot].dtype, declarations))
    return "\n".join([*lines, f"check{len(program.checks)}:", "  ret i64 0", "}"])


def _one_check(n: int, check: RangeCheck, dtype: np.dtype, declarations: dict[str, str]) -> list[str]:
    """Blocks that go on to the next check, or return ``n + 1``: rows of neighbours in vectors, others one at a time."""
    lines = [
        f"check{n}:",
        f"  %at{n} = getelementptr ptr, ptr %slots, i64 {check.slot}",
        f"  %data{n} = load ptr, ptr %at{n}",
        f"  br label %head{n}.0",
    ]
    parts = _parts(check)
    for k, (first, count, lanes) in enumerate(parts):
        following = f"head{n}.{k + 1}" if k + 1 < len(parts) else f"check{n + 1}"
        lines += _loop(f"{n}.{k}", check, dtype, (first, count, lanes), (following, f"fail{n}"))
        if dtype.kind == "f":
            (memory, wide, _), name = _types(dtype, lanes), _truncation(dtype, lanes)
            declarations[name] = f"declare {wide} @{name}({memory})"
    return [*lines, f"fail{n}:", f"  ret i64 {n + 1}"]


def _parts(check: RangeCheck) -> list[tuple[int, int, int]]:
    """First element, number of iterations and lanes of each loop over the elements of a check."""
    neighbours = len(check.axes) == 1 and check.axes[0][1] == 1
    blocks, rest = divmod(check.count, _LANES) if neighbours else (0, check.count)
    parts = [(0, blocks, _LANES), (blocks * _LANES, rest, 1)]
    return [part for part in parts if part[1]]


def _loop(
    name: str, check: RangeCheck, dtype: np.dtype, part: tuple[int, int, int], exits: tuple[str, str]
) -> list[str]:
    """One loop, which leaves for the second exit at the first element out of range, and otherwise for the first."""
    first, count, lanes = part
    type_, *_ = _types(dtype, lanes)
    return [
        f"head{name}:",
        f"  br label %loop{name}",
        f"loop{name}:",
        f"  %i{name} = phi i64 [ 0, %head{name} ], [ %next{name}, %fine{name} ]",
        f"  %n{name} = mul i64 %i{name}, {lanes}",
        f"  %e{name} = add i64 %n{name}, {first}",
        *_position(name, check),
        f"  %p{name} = getelementptr {memory_type(dtype)}, ptr %data{name.partition('.')[0]}, i64 %position{name}",
        f"  %x{name} = load {type_}, ptr %p{name}, align {dtype.itemsize}",
        *_outside(name, check, dtype, lanes),
        f"  br i1 %bad{name}, label %{exits[1]}, label %fine{name}",
        f"fine{name}:",
        f"  %next{name} = add i64 %i{name}, 1",
        f"  %go{name} = icmp ult i64 %next{name}, {count}",
        f"  br i1 %go{name}, label %loop{name}, label %{exits[0]}",
    ]


def _position(name: str, check: RangeCheck) -> list[str]:
    """``%position``, the row-major position in the argument of element ``%e`` of those that are checked."""
    lines, inner, sums = [], math.prod(count for count, _ in check.axes), [str(check.start)]
    for axis, (count, stride) in enumerate(check.axes):
        inner //= count
        lines += [
            f"  %quotient{name}.{axis} = udiv i64 %e{name}, {inner}",
            f"  %coordinate{name}.{axis} = urem i64 %quotient{name}.{axis}, {count}",
            f"  %offset{name}.{axis} = mul i64 %coordinate{name}.{axis}, {stride}",
            f"  %sum{name}.{axis} = add i64 {sums[-1]}, %offset{name}.{axis}",
        ]
        sums.append(f"%sum{name}.{axis}")
    return [*lines, f"  %position{name} = add i64 {sums[-1]}, 0"]


def _types(dtype: np.dtype, lanes: int) -> tuple[str, str, str]:
    """LLVM types of the elements, of the same as i64, and of the results of comparisons."""
    memory, wide, flags = (vector(t, lanes) for t in (memory_type(dtype), "i64", "i1"))
    return memory, wide, flags


def _truncation(dtype: np.dtype, lanes: int) -> str:
    """The intrinsic that truncates floats to i64, limited to its range and with NaN as 0."""
    suffix = "" if lanes == 1 else f"v{lanes}"
    return f"llvm.fptosi.sat.{suffix}i64.{suffix}f{8 * dtype.itemsize}"


def _outside(name: str, check: RangeCheck, dtype: np.dtype, lanes: int) -> list[str]:
    """``%bad``, whether an element of ``%x`` is out of range."""
    memory, wide, flags = _types(dtype, lanes)

    def every(number: int) -> str:
        number = (number + 2**63) % 2**64 - 2**63  # the same bits as a signed number, which LLVM's text has
        return str(number) if lanes == 1 else f"<{', '.join([f'i64 {number}'] * lanes)}>"

    if dtype.kind == "f":
        lines = [f"  %wide{name} = call {wide} @{_truncation(dtype, lanes)}({memory} %x{name})"]
    elif dtype.itemsize < 8:
        extend = "zext" if dtype.kind in "ub" else "sext"
        lines = [f"  %wide{name} = {extend} {memory} %x{name} to {wide}"]
    else:
        lines = [f"  %wide{name} = add {wide} %x{name}, {every(0)}"]
    # One unsigned comparison checks both bounds. Bounds that the dtype cannot reach could exceed 64 bits.
    limits = np.iinfo(dtype if dtype.kind in "iu" else np.int64)
    low, high = max(check.low, int(limits.min)), min(check.high, int(limits.max) + 1)
    lines += [
        f"  %above{name} = sub {wide} %wide{name}, {every(low)}",
        f"  %out{name} = icmp uge {wide} %above{name}, {every(high - low)}",
    ]
    bad = f"%out{name}"
    if check.allow is not None:
        lines += [
            f"  %other{name} = icmp ne {wide} %wide{name}, {every(check.allow)}",
            f"  %both{name} = and {flags} %out{name}, %other{name}",
        ]
        bad = f"%both{name}"
    if lanes == 1:
        return [*lines, f"  %bad{name} = and i1 {bad}, true"]
    return [
        *lines,
        f"  %bits{name} = bitcast {flags} {bad} to i{lanes}",
        f"  %bad{name} = icmp ne i{lanes} %bits{name}, 0",
    ]
