"""Every rule of kernel IR, kept and broken."""

import random
from itertools import product

import numpy as np
import pytest

import adjoint
from adjoint import ops
from adjoint.compiler import host
from adjoint.errors import VerifyError
from adjoint.ir import param
from adjoint.kernel.index import Dynamic, Var, as_index
from adjoint.kernel.interpreter import evaluate
from adjoint.kernel.ir import Across, Apply, Buffer, Const, Coordinate, Expr, For, Kernel, Load, Prefetch, Store, When
from adjoint.kernel.parser import parse_kernel
from adjoint.kernel.verifier import verify_kernel
from adjoint.pipeline import finish_program, lower_function

F32, F64, I32, I64, BOOL = (np.dtype(t) for t in (np.float32, np.float64, np.int32, np.int64, np.bool_))

X, Y = Buffer("x", F32, 8, "external"), Buffer("y", F32, 8, "arena")
ACC = Buffer("acc", F32, 4, "register")
ZERO = Const(0.0, F32)
R, J = Var("i", 8), Var("j", 4)


def at(index):
    return as_index(index)


def store(index, value=ZERO, buffer=Y):
    return Store(((buffer, as_index(index), value),))


def kernel(*body):
    return Kernel("k", Var("u", 2), body)


def verify(*body):
    verify_kernel(kernel(*body))


def refused(message, *body):
    with pytest.raises(VerifyError) as caught:
        verify(*body)
    assert caught.value.message.startswith(f"kernel k: {message}"), caught.value.message


def test_lowered_graphs_keep_the_rules():
    px, pw, ids = param("x", (120, 130), "f32"), param("w", (130, 140), "f32"), param("ids", (90,), "i64")
    hidden = ops.relu(ops.matmul(px, pw))
    results = (
        ops.softmax(hidden),
        ops.take(pw, ids),
        ops.argmax(hidden, axis=1),
        ops.erf(ops.pad(px, (1, 0), (2, 3))),
    )
    program = lower_function(adjoint.Function("f", (px, pw, ids), results), host())
    kernels = [*program.kernels, *finish_program(program).kernels]
    assert len(kernels) > 8
    for made in kernels:
        verify_kernel(made)


def test_variables_are_bound_by_a_loop_around_their_use():
    verify(For(R, (store(R, Load(X, at(R))),)))
    refused("a variable is bound by a loop around its use, but i in i is not", store(R))
    refused("a variable is bound by a loop around its use, but i", store(0, Load(X, at(R))))
    refused(
        "a variable is bound by a loop around its use, but i", store(0, Apply("cast", (Coordinate(at(R), I64),), F32))
    )
    refused("a variable is bound by a loop around its use, but i", store(0, Load(X, at(R) * 3 // 5)))
    refused("a variable is bound by a loop around its use, but i", For(R, (store(0),)), store(R))
    refused("a variable is bound by a loop around its use, but i", When(at(R), 0, 1, (store(0),)))


def test_a_variable_is_bound_once():
    refused(
        "a variable is bound by one loop, but i is bound again inside its own; use a new one", For(R, (For(R, ()),))
    )
    verify(For(R, (store(R),)), For(R, (store(R),)))


@pytest.mark.parametrize(
    ("index", "low", "high"),
    [(at(R) + 1, 1, 8), (at(R) - 1, -1, 6), (at(R) * 2, 0, 14), (at(J) * 3 - at(R) + 7, 0, 16)],
)
def test_accesses_are_inside_their_buffers(index, low, high):
    where = f"of 8 elements reaches from {low} to {high}; guard it"
    refused(f"an access is inside its buffer, but y[{index}] {where}", For(R, (For(J, (store(index),)),)))
    refused(f"an access is inside its buffer, but x[{index}] {where}", For(R, (For(J, (store(0, Load(X, index)),)),)))


def test_a_guarded_load_looks_after_itself():
    where = at(R) + 4
    guard = Apply("lt", (Coordinate(where, I64), Const(8, I64)), BOOL)
    verify(For(R, (store(R, Load(X, where, guard)),)))
    refused("a guard is bool, got float32 for x; compare it with 0", For(R, (store(R, Load(X, at(R), ZERO)),)))


def test_conditions_narrow_what_they_are_about():
    n = Var("n", 5)
    index = at(n) * 2 + at(J)

    def loops(*body):
        return For(n, (For(J, body),))

    refused("an access is inside its buffer, but y", loops(store(index)))
    verify(loops(When(index, 0, 8, (store(index),))))
    verify(loops(When(index, 0, 8, (store(index),), (store(index - 8),))))
    verify(loops(When(index, 8, 99, (), (store(index),))))
    verify(loops(When(index, -5, 4, (store(index),), (store(index - 4),))))
    verify(loops(When(at(n), 0, 3, (store(index),))))
    verify(loops(When(at(n), 1, 3, (When(at(J), 0, 2, (store(at(n) * 4 - at(J) - 3),)),))))
    # Of r*2 + n, the part (r % 4)*2 + n is known, and that r // 4 * 8 is left.
    wide, row = Buffer("wide", F32, 16, "arena"), at(R) % 4 * 2 + at(n)
    refused("an access is inside its buffer, but wide", For(R, (For(n, (store(at(R) * 2 + at(n), buffer=wide),)),)))
    verify(For(R, (For(n, (When(row, 0, 8, (store(at(R) * 2 + at(n), buffer=wide),)),)),)))
    refused(
        "an access is inside its buffer, but wide",
        For(R, (For(n, (When(row, 0, 9, (store(at(R) * 2 + at(n), buffer=wide),)),)),)),
    )
    # What is divided is known whichever condition was met first.
    half = at(n) * 2 + at(J) // 2 + 1
    refused("an access is inside its buffer, but y", loops(When(at(n), 0, 4, (store(half),))))
    verify(loops(When(at(n), 0, 4, (When(at(J), 0, 2, (store(half),)),))))
    verify(loops(When(at(J), 0, 2, (When(at(n), 0, 4, (store(half),)),))))
    verify(loops(When(-at(n), -2, 1, (store(index),))))
    refused("an access is inside its buffer", loops(When(index, 0, 9, (store(index),))))
    refused("an access is inside its buffer", loops(When(index, 0, 8, (store(index + 1),))))
    refused("an access is inside its buffer", loops(When(index, 0, 8, (), (store(index),))))
    refused("an access is inside its buffer", loops(When(at(n), 0, 3, (store(index),), (store(index),))))
    refused("an access is inside its buffer", loops(When(index, 2, 4, (), (store(index),))))


def test_a_condition_on_a_remainder_bounds_what_is_divided():
    """Of 0..9, those whose remainder by 4 is 0 or at least 2: the largest is 8, or 7 of those with 2 or 3."""
    big, place = Var("b", 10), Buffer("place", F32, 9, "arena")
    small = When(at(big) % 4, 0, 1, (store(at(big), buffer=place),))
    verify(For(big, (small,)))
    verify(For(big, (When(at(big) % 4, 2, 4, (store(at(big) + 1, buffer=place),)),)))
    refused("an access is inside", For(big, (When(at(big) % 4, 1, 4, (store(at(big), buffer=place),)),)))


def test_what_never_runs_is_not_looked_at():
    verify(For(Var("none", 0), (store(99),)))
    verify(For(R, (When(at(R), 8, 20, (store(99),)),)))
    verify(For(R, (When(at(R), 0, 8, (store(R),), (store(99),)),)))


def test_numbers_from_memory_are_in_their_range():
    ids = Buffer("ids", I64, 4, "external")
    row = Load(ids, at(J))
    verify(For(J, (store(J, Load(X, at(Dynamic(row, 4)) * 2 + 1)),)))
    refused("an access is inside its buffer, but x", For(J, (store(J, Load(X, at(Dynamic(row, 5)) * 2)),)))
    refused("an access is inside its buffer, but ids", For(R, (store(at(Dynamic(Load(ids, at(R)), 8))),)))
    refused("a coordinate is an integer, got float32", store(at(Dynamic(Load(X, at(0)), 8))))


def test_vector_loops_hold_stores_alone():
    verify(For(R, (store(R), store(R)), "vector"))
    refused(
        "a vector loop holds stores alone, but that over i holds loops or conditions", For(R, (For(J, ()),), "vector")
    )
    refused("a vector loop holds stores alone", For(R, (When(at(R), 0, 2, (store(R),)),), "vector"))
    refused("a loop is serial, unroll, vector or interleave, got 'parallel'", For(R, (), "parallel"))


def test_interleave_loops_hold_one_loop():
    vector = For(J, (store(at(J) + 4),), "vector")
    verify(For(R, (vector,), "interleave"))
    text = "an interleave loop holds one vector or interleave loop, but that over i holds something else"
    refused(text, For(R, (store(R),), "interleave"))
    refused(text, For(R, (vector, vector), "interleave"))
    refused(text, For(R, (For(J, (store(J),)),), "interleave"))


def test_lanes_store_to_places_of_their_own():
    refused("lanes store to places of their own, but all of i store to y[0]", For(R, (store(0),), "vector"))
    refused("lanes store to places of their own, but all of j", For(R, (For(J, (store(R),), "vector"),)))
    verify(For(Var("l", 1), (store(0),), "vector"))


def test_registers_are_indexed_by_what_is_unrolled():
    verify(For(J, (store(J, buffer=ACC),), "vector"), For(J, (store(J, Load(ACC, at(J)), ACC),), "unroll"))
    verify(store(3, Load(ACC, at(0)), ACC))
    loops = "unroll, vector and interleave loops"
    text = f"registers are indexed by constants and variables of {loops}, got acc[j]; unroll the loop"
    refused(text, For(J, (store(J, buffer=ACC),)))
    refused(text, For(J, (store(0, Load(ACC, at(J))),)))
    number = Const(1, I64)
    refused("registers are indexed by constants", store(at(Dynamic(number, 4)), buffer=ACC))


def test_lanes_combine_registers():
    verify(store(0, Across("add", ACC, 3, 4)))
    refused("across combines registers, but x is in space external", store(0, Across("add", X, 8, 8)))
    refused("across has a power of two lanes, got 6 for acc", store(0, Across("add", ACC, 4, 6)))
    refused(
        "across combines elements that are there, got 5 of acc with 4 in 8 lanes", store(0, Across("add", ACC, 5, 8))
    )
    refused("across combines elements that are there, got 4", store(0, Across("add", ACC, 4, 2)))
    refused("across combines by add, mul, max, min, and, or, xor, got sub", store(0, Across("sub", ACC, 4, 4)))


def test_what_is_stored_has_the_dtype_of_its_buffer():
    refused("y holds float32 and is given float64; cast the value", store(0, Const(1.0, F64)))
    literal = Buffer("table", F32, 4, "literal")
    refused("a literal is never written, but table is stored to; copy it first", store(0, buffer=literal))


def test_a_statement_stores_each_place_once():
    refused("one statement stores each place once, but y[0] twice", Store(((Y, at(0), ZERO), (Y, at(0), ZERO))))
    verify(Store(((Y, at(0), ZERO), (Y, at(1), ZERO))))


ONE, YES, N = Const(1.0, F64), Const(True, BOOL), Const(1, I32)


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        (
            Apply("add", (ZERO, ONE), F32),
            "add takes 2 values of one dtype of kind f or i or u, got add(float32, float64)",
        ),
        (Apply("add", (ZERO,), F32), "add takes 2 values"),
        (
            Apply("add", (ZERO, ZERO), F64),
            "add takes 2 values of one dtype of kind f or i or u, got add(float32, float32) to",
        ),
        (Apply("add", (YES, YES), BOOL), "add takes 2 values of one dtype of kind f or i or u, got add(bool, bool)"),
        (Apply("exp", (N,), I32), "exp takes 1 values of one dtype of kind f, got exp(int32)"),
        (Apply("lt", (ZERO, ZERO), F32), "lt takes 2 values"),
        (Apply("shl", (ZERO, ZERO), F32), "shl takes 2 values of one dtype of kind i or u"),
        (Apply("not", (N,), I32), "not takes 1 values of one dtype of kind b"),
        (Apply("fma", (), F32), "fma takes 3 values"),
        (
            Apply("select", (ZERO, ZERO, ZERO), F32),
            "select takes a bool and two values of the result's dtype, got select",
        ),
        (Apply("select", (YES, ZERO, ONE), F32), "select takes a bool"),
        (Apply("select", (YES, ZERO), F32), "select takes a bool"),
        (Apply("select", (YES, ONE, ONE), F32), "select takes a bool"),
        (Apply("cast", (ZERO, ZERO), F32), "cast takes one value, got cast(float32, float32) to float32"),
        (Apply("bitcast", (ONE,), I32), "bitcast takes one value of the result's size, got bitcast(float64) to int32"),
        (Apply("gamma", (ZERO,), F32), "gamma is no scalar function; adjoint.kernel.scalars lists those there are"),
        (Expr(), "kernel IR has no expression Expr"),
    ],
)
def test_functions_get_what_they_take(expr, message):
    refused(message, store(0, expr))


def test_functions_that_get_what_they_take_pass():
    compared = Apply("and", (Apply("lt", (ZERO, ZERO), BOOL), Apply("not", (YES,), BOOL)), BOOL)
    bits = Apply("shl", (Apply("bitcast", (ZERO,), I32), N), I32)
    verify(store(0, Apply("select", (compared, Apply("bitcast", (bits,), F32), Apply("cast", (N,), F32)), F32)))


def test_what_is_asked_for_may_lie_beyond_its_buffer():
    verify(For(R, (Prefetch(X, at(R) + 8),)), store(0))


def test_what_is_asked_for_has_a_place():
    refused("a variable is bound by a loop around its use, but i in i is not", Prefetch(X, at(R)))


def places(scopes, variables):
    """Every assignment of variables for which all conditions hold."""
    for values in product(*(range(v.extent) for v in variables)):
        env = dict(zip(variables, values, strict=True))
        if all(low <= int(evaluate(Coordinate(i, I64), env)) < high for i, low, high in scopes):
            yield env


def random_index(rng, variables, depth=2):
    """Sums of variables, and of quotients and remainders of such sums."""
    made = as_index(rng.randint(-4, 4))
    for var in variables:
        made += as_index(var) * rng.randint(-3, 6)
    if depth:
        inner, by = random_index(rng, variables, depth - 1), rng.randint(2, 5)
        made += rng.choice((inner // by, inner % by, inner)) * rng.randint(-3, 3)
    return made


@pytest.mark.parametrize("seed", range(200))
def test_an_access_that_is_let_through_is_inside(seed):
    """Whatever is divided, put together and compared: no rule about conditions concludes too much."""
    rng = random.Random(seed)
    variables = [Var(name, extent) for name, extent in zip("abc", (7, 4, 3), strict=True)]
    address = random_index(rng, variables)
    scopes = []
    for _ in range(rng.randint(1, 3)):
        other = random_index(rng, variables, 1)
        about = rng.choice((other, address - other, as_index(variables[0]) % 3))
        low = rng.randint(about.low, about.high)
        scopes.append((about, low, rng.randint(low + 1, about.high + 1)))
    found = [int(evaluate(Coordinate(address, I64), env)) for env in places(scopes, variables)]
    if not found:
        return
    # Moved so that the least is at the start, into a buffer that is an element too short for the greatest.
    body = store(address - min(found), buffer=Buffer("short", F32, max(found) - min(found), "arena"))
    for about, low, high in scopes:
        body = When(about, low, high, (body,))
    for var in variables:
        body = For(var, (body,))
    refused("an access is inside its buffer", body)


def test_a_unit_keeps_to_its_tile():
    text = (
        "kernel f\n  4 units, shared by threads; 0 flops, 0 bytes\n"
        "  reads x f32[16] by 4; writes y f32[16] by 4\n  for u in 0..4 units:\n    for l in 0..4 vector:\n"
        "      y[u*4 + l] = x[u*4 + l]"
    )
    kernel = parse_kernel(text)
    verify_kernel(kernel)
    assert dict(kernel.tiles) == {kernel.reads[0]: 4, kernel.writes[0]: 4}
    with pytest.raises(
        VerifyError, match=r"a unit accesses its own tile, but y\[.*\] reaches from 0 to 3 in a tile of 2"
    ):
        verify_kernel(
            parse_kernel(text.replace("writes y f32[16] by 4", "writes y f32[16] by 2").replace("y[u*4", "y[u*2"))
        )
    with pytest.raises(VerifyError, match="a unit accesses its own tile, but x"):
        verify_kernel(parse_kernel(text.replace("= x[u*4 + l]", "= x[u*4 + l - 1 + 1 - u*4]")))


def test_only_a_serial_loop_ends_at_run_time_and_by_what_is_known_before_it():
    u, body = Var("u", 2), (store(R),)
    verify(For(R, body, until=at(3)))
    refused("only a serial loop ends at run time, but that over i is unroll", For(R, body, "unroll", at(3)))
    refused("a variable is bound by a loop around its use, but i in i is not", For(R, body, until=at(R)))
    with pytest.raises(VerifyError, match="kernel k: a variable is bound by a loop around its use, but u in u is not"):
        verify_kernel(Kernel("k", u, (store(0),), until=at(u)))
