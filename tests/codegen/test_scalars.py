"""Scalar functions as instructions: products with powers of two, which few CPUs have an instruction for."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.codegen.module import emit_modules
from adjoint.codegen.targets import target_for
from adjoint.compiler import CompileOptions, compile
from adjoint.ir import Function, param
from adjoint.pipeline import finish_program, lower_function
from tests.hardware import levels


def exponentials(count, dtype):
    x = param("x", (count,), dtype)
    return Function("f", (x,), (ops.exp(x), ops.exp2(x)))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(
    ("target", "flush", "has_one"), [("avx512", True, True), ("avx512", False, False), ("avx2", True, False)]
)
def test_an_instruction_where_it_does_not_wait_for_subnormal_numbers(target, flush, has_one, dtype):
    made = target_for(target)
    program = finish_program(lower_function(exponentials(256, dtype), made))
    text = "\n".join(emit_modules(program, made, flush_subnormals=flush))
    assert ("@llvm.x86.avx512.mask.scalef" in text) is has_one


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_where_results_leave_the_format_every_target_gives_the_same_bits(dtype, level):
    """Subnormal, 0, the largest numbers, infinite; masked with minus infinity; not a number."""
    lowest, highest = (-150, 129) if dtype == "f32" else (-1080, 1025)
    x = np.concatenate([np.linspace(lowest, lowest + 30, 5001), np.linspace(highest - 3, highest, 5001)])
    x = np.concatenate([x, x * np.log(2), [-np.inf, np.inf, np.nan, -1e30, 1e30]]).astype(dtype.replace("f", "float"))
    wide = compile(exponentials(x.size, dtype), level, CompileOptions(threads=1))["f"](x)
    one_by_one = compile(exponentials(1, dtype), level, CompileOptions(threads=1))["f"]
    for place in range(0, x.size, 7):
        for whole, single in zip(wide, one_by_one(x[place : place + 1]), strict=True):
            assert whole[place : place + 1].tobytes() == single.tobytes(), x[place]
