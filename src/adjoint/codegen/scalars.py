"""The scalar functions of kernel IR as LLVM instructions, for scalars and vectors.

Every entry takes a `Writer`, the operands' texts, their dtype and the number of lanes, and returns the text of the
result. Transcendental functions are missing, because they have been expanded to arithmetic before.
"""

from collections.abc import Callable

import numpy as np

from adjoint.codegen.types import BFLOAT16, constant, is_signed, splat, value_type, vector
from adjoint.codegen.writer import Writer

__all__ = ["INSTRUCTIONS", "Emitter", "cast", "vscalef"]

F16, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)

Emitter = Callable[[Writer, list[str], np.dtype, int], str]

_SUFFIX = {"float": "f32", "double": "f64", "half": "f16"}


def _type(dtype: np.dtype, lanes: int) -> str:
    return vector(value_type(dtype), lanes)


def _suffix(dtype: np.dtype, lanes: int) -> str:
    name = value_type(dtype)
    return ("" if lanes == 1 else f"v{lanes}") + _SUFFIX.get(name, name)


def _binary(floating: str, signed: str, unsigned: str = "") -> Emitter:
    def emit(w: Writer, args: list[str], dtype: np.dtype, lanes: int) -> str:
        op = floating if dtype.kind == "f" else signed if is_signed(dtype) or not unsigned else unsigned
        return w.pure(f"{op} {_type(dtype, lanes)} {args[0]}, {args[1]}")

    return emit


def _compare(floating: str, signed: str, unsigned: str) -> Emitter:
    def emit(w: Writer, args: list[str], dtype: np.dtype, lanes: int) -> str:
        if dtype.kind == "f":
            return w.pure(f"fcmp {floating} {_type(dtype, lanes)} {args[0]}, {args[1]}")
        predicate = signed if is_signed(dtype) else unsigned
        return w.pure(f"icmp {predicate} {_type(dtype, lanes)} {args[0]}, {args[1]}")

    return emit


def _intrinsic(floating: str, signed: str = "", unsigned: str = "") -> Emitter:
    def emit(w: Writer, args: list[str], dtype: np.dtype, lanes: int) -> str:
        name = floating if dtype.kind == "f" else signed if is_signed(dtype) else unsigned
        return w.intrinsic(
            f"{name}.{_suffix(dtype, lanes)}", _type(dtype, lanes), [_type(dtype, lanes)] * len(args), args
        )

    return emit


def _extreme(floating: str, signed: str, unsigned: str) -> Emitter:
    """Maximum or minimum; NaN if either is NaN. Of 0.0 and -0.0 it may be either, which halves the cost."""
    whole = _intrinsic("", signed, unsigned)

    def emit(w: Writer, args: list[str], dtype: np.dtype, lanes: int) -> str:
        if dtype.kind != "f":
            return whole(w, args, dtype, lanes)
        type_ = _type(dtype, lanes)
        call = w.call_text(f"{floating}.{_suffix(dtype, lanes)}", type_, [type_] * 2, args)
        return w.pure(call.replace("call ", "call nsz ", 1))

    return emit


def _negative(w: Writer, args: list[str], dtype: np.dtype, lanes: int) -> str:
    type_ = _type(dtype, lanes)
    if dtype.kind == "f":
        return w.pure(f"fneg {type_} {args[0]}")
    return w.pure(f"sub {type_} {splat('0', value_type(dtype), lanes)}, {args[0]}")


def _absolute(w: Writer, args: list[str], dtype: np.dtype, lanes: int) -> str:
    type_ = _type(dtype, lanes)
    if dtype.kind == "f":
        return _intrinsic("llvm.fabs")(w, args, dtype, lanes)
    if not is_signed(dtype):
        return args[0]
    return w.intrinsic(f"llvm.abs.{_suffix(dtype, lanes)}", type_, [type_, "i1"], [args[0], "false"])


def _not(w: Writer, args: list[str], dtype: np.dtype, lanes: int) -> str:
    ones = "true" if dtype.kind == "b" else "-1"
    return w.pure(f"xor {_type(dtype, lanes)} {args[0]}, {splat(ones, value_type(dtype), lanes)}")


def _divide(w: Writer, args: list[str], dtype: np.dtype, lanes: int) -> str:
    """Division; integers are rounded down, and divided by zero give 0, as in NumPy."""
    type_, element = _type(dtype, lanes), value_type(dtype)
    x, y = args
    if dtype.kind == "f":
        return w.pure(f"fdiv {type_} {x}, {y}")
    mask = vector("i1", lanes)
    zero, one = splat("0", element, lanes), splat("1", element, lanes)
    by_zero = w.pure(f"icmp eq {type_} {y}, {zero}")
    if not is_signed(dtype):
        safe = w.pure(f"select {mask} {by_zero}, {type_} {one}, {type_} {y}")
        quotient = w.pure(f"udiv {type_} {x}, {safe}")
        return w.pure(f"select {mask} {by_zero}, {type_} {zero}, {type_} {quotient}")
    # The smallest integer divided by -1 overflows and traps, so negate instead.
    by_minus = w.pure(f"icmp eq {type_} {y}, {splat('-1', element, lanes)}")
    special = w.pure(f"or {mask} {by_zero}, {by_minus}")
    safe = w.pure(f"select {mask} {special}, {type_} {one}, {type_} {y}")
    quotient = w.pure(f"sdiv {type_} {x}, {safe}")
    rest = w.pure(f"srem {type_} {x}, {safe}")
    inexact = w.pure(f"icmp ne {type_} {rest}, {zero}")
    signs = w.pure(f"xor {type_} {rest}, {safe}")
    opposite = w.pure(f"icmp slt {type_} {signs}, {zero}")
    down = w.pure(f"and {mask} {inexact}, {opposite}")
    lower = w.pure(f"sub {type_} {quotient}, {one}")
    floored = w.pure(f"select {mask} {down}, {type_} {lower}, {type_} {quotient}")
    negated = w.pure(f"sub {type_} {zero}, {x}")
    other = w.pure(f"select {mask} {by_minus}, {type_} {negated}, {type_} {floored}")
    return w.pure(f"select {mask} {by_zero}, {type_} {zero}, {type_} {other}")


def _rotate_left(w: Writer, args: list[str], dtype: np.dtype, lanes: int) -> str:
    type_ = _type(dtype, lanes)
    return w.intrinsic(f"llvm.fshl.{_suffix(dtype, lanes)}", type_, [type_] * 3, [args[0], args[0], args[1]])


def _scaleb(w: Writer, args: list[str], dtype: np.dtype, lanes: int) -> str:
    """Multiply by two powers of two of half the size each, because 2**k is beyond the format at both ends.

    Only the second product rounds.
    """
    x, shifted = args
    form = np.finfo(dtype)
    type_, element = _type(dtype, lanes), f"i{form.bits}"
    integers = vector(element, lanes)

    def power_of_two(exponent: str) -> str:
        moved = w.pure(f"shl {integers} {exponent}, {splat(str(form.nmant), element, lanes)}")
        return w.pure(f"bitcast {integers} {moved} to {type_}")

    both = w.pure(f"bitcast {type_} {shifted} to {integers}")
    half = w.pure(f"ashr {integers} {both}, {splat('1', element, lanes)}")
    rest = w.pure(f"sub {integers} {both}, {half}")
    return w.pure(f"fmul {type_} {w.pure(f'fmul {type_} {x}, {power_of_two(half)}')}, {power_of_two(rest)}")


def vscalef(w: Writer, args: list[str], dtype: np.dtype, lanes: int) -> str:
    """``scaleb`` of a vector of 64 bytes, by the instruction of AVX-512, which takes the exponent as a float."""
    x, shifted = args
    form, type_ = np.finfo(dtype), _type(dtype, lanes)
    offset = splat(constant(1.5 * 2.0**form.nmant + 2 * (form.maxexp - 1), dtype), value_type(dtype), lanes)
    exponent = w.pure(f"fsub {type_} {shifted}, {offset}")
    # No lane is masked, and 4 stands for the current rounding mode.
    return w.intrinsic(
        f"llvm.x86.avx512.mask.scalef.p{'s' if dtype == F32 else 'd'}.512",
        type_,
        [type_, type_, type_, f"i{lanes}", "i32"],
        [x, exponent, "zeroinitializer", "-1", "4"],
    )


#: LLVM instructions of every scalar function that is not expanded.
INSTRUCTIONS: dict[str, Emitter] = {
    "add": _binary("fadd", "add"),
    "sub": _binary("fsub", "sub"),
    "mul": _binary("fmul", "mul"),
    "div": _divide,
    "max": _extreme("llvm.maximum", "llvm.smax", "llvm.umax"),
    "min": _extreme("llvm.minimum", "llvm.smin", "llvm.umin"),
    "fma": _intrinsic("llvm.fmuladd"),
    "neg": _negative,
    "abs": _absolute,
    "sqrt": _intrinsic("llvm.sqrt"),
    "floor": _intrinsic("llvm.floor"),
    "rint": _intrinsic("llvm.rint"),
    "lt": _compare("olt", "slt", "ult"),
    "le": _compare("ole", "sle", "ule"),
    "gt": _compare("ogt", "sgt", "ugt"),
    "ge": _compare("oge", "sge", "uge"),
    "eq": _compare("oeq", "eq", "eq"),
    "ne": _compare("une", "ne", "ne"),
    "and": _binary("and", "and"),
    "or": _binary("or", "or"),
    "xor": _binary("xor", "xor"),
    "not": _not,
    "shl": _binary("shl", "shl"),
    "shr": _binary("ashr", "ashr", "lshr"),
    "rotl": _rotate_left,
    "scaleb": _scaleb,
}


def cast(w: Writer, x: str, source: np.dtype, to: np.dtype, lanes: int) -> str:
    """Convert between dtypes: to bool by ``!= 0``, float to integer by truncation, saturating, with NaN as 0."""
    if source == to:
        return x
    if to in (F16, BFLOAT16) and source == F64:
        return cast(w, _round_to_odd(w, x, lanes), F32, to, lanes)
    if to == F16 and source.kind in "iu" and source.itemsize > 2:
        # Rounding twice is harmless here: integers beyond 2**24 are infinite in float16.
        return cast(w, cast(w, x, source, F32, lanes), F32, to, lanes)
    if source == BFLOAT16:
        wide = w.pure(f"zext {vector('i16', lanes)} {x} to {vector('i32', lanes)}")
        moved = w.pure(f"shl {vector('i32', lanes)} {wide}, {splat('16', 'i32', lanes)}")
        single = w.pure(f"bitcast {vector('i32', lanes)} {moved} to {vector('float', lanes)}")
        return cast(w, single, F32, to, lanes)
    if to == BFLOAT16:
        return _to_bfloat16(w, cast(w, x, source, F32, lanes), lanes)
    have, want = _type(source, lanes), _type(to, lanes)
    if to.kind == "b":
        zero = splat(constant(0, source), value_type(source), lanes)
        test = "fcmp une" if source.kind == "f" else "icmp ne"
        return w.pure(f"{test} {have} {x}, {zero}")
    if source.kind == "f" and to.kind == "f":
        return w.pure(f"{'fpext' if to.itemsize > source.itemsize else 'fptrunc'} {have} {x} to {want}")
    if source.kind == "f":
        name = "llvm.fptosi.sat" if is_signed(to) else "llvm.fptoui.sat"
        return w.intrinsic(f"{name}.{_suffix(to, lanes)}.{_suffix(source, lanes)}", want, [have], [x])
    if to.kind == "f":
        return w.pure(f"{'sitofp' if is_signed(source) else 'uitofp'} {have} {x} to {want}")
    if source.kind == "b" or to.itemsize > source.itemsize:
        return w.pure(f"{'sext' if is_signed(source) else 'zext'} {have} {x} to {want}")
    return x if to.itemsize == source.itemsize else w.pure(f"trunc {have} {x} to {want}")


def _round_to_odd(w: Writer, x: str, lanes: int) -> str:
    """Round a double to a float such that rounding this to a half float gives the correctly rounded double.

    Rounds toward zero and sets the last bit if the result is inexact (Boldo and Melquiond, "Emulation of FMA and
    correctly rounded sums: proved algorithms using rounding to odd", 2008).
    """
    double, single = vector("double", lanes), vector("float", lanes)
    i32, mask = vector("i32", lanes), vector("i1", lanes)
    one = splat("1", "i32", lanes)

    def magnitude(value: str) -> str:
        return w.intrinsic(f"llvm.fabs.{_suffix(F64, lanes)}", double, [double], [value])

    near = w.pure(f"fptrunc {double} {x} to {single}")
    bits = w.pure(f"bitcast {single} {near} to {i32}")
    above = w.pure(f"fcmp ogt {double} {magnitude(w.pure(f'fpext {single} {near} to {double}'))}, {magnitude(x)}")
    below = w.pure(f"sub {i32} {bits}, {one}")
    truncated = w.pure(f"select {mask} {above}, {i32} {below}, {i32} {bits}")
    back = w.pure(f"fpext {single} {w.pure(f'bitcast {i32} {truncated} to {single}')} to {double}")
    lost = w.pure(f"fcmp one {double} {back}, {x}")
    odd = w.pure(f"or {i32} {truncated}, {one}")
    chosen = w.pure(f"select {mask} {lost}, {i32} {odd}, {i32} {truncated}")
    return w.pure(f"bitcast {i32} {chosen} to {single}")


def _to_bfloat16(w: Writer, x: str, lanes: int) -> str:
    """Round to nearest even with integer operations on the bits; NaN stays NaN."""
    i32, mask = vector("i32", lanes), vector("i1", lanes)

    def number(value: int) -> str:
        return splat(str(value), "i32", lanes)

    bits = w.pure(f"bitcast {vector('float', lanes)} {x} to {i32}")
    high = w.pure(f"lshr {i32} {bits}, {number(16)}")
    odd = w.pure(f"and {i32} {high}, {number(1)}")
    half = w.pure(f"add {i32} {odd}, {number(0x7FFF)}")
    rounded = w.pure(f"lshr {i32} {w.pure(f'add {i32} {bits}, {half}')}, {number(16)}")
    nan = w.pure(f"fcmp uno {vector('float', lanes)} {x}, {x}")
    quiet = w.pure(f"or {i32} {high}, {number(64)}")
    chosen = w.pure(f"select {mask} {nan}, {i32} {quiet}, {i32} {rounded}")
    return w.pure(f"trunc {i32} {chosen} to {vector('i16', lanes)}")
