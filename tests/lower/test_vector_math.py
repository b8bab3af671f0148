"""Expansions against mpmath and wider floats: over all binades, at the special values, with and without fma."""

import importlib.util
import math
import sys
from pathlib import Path

import mpmath
import numpy as np
import pytest

import adjoint
from adjoint import ops
from adjoint.errors import VerifyError
from adjoint.ir import param
from adjoint.kernel.index import Var, as_index
from adjoint.kernel.interpreter import evaluate
from adjoint.kernel.ir import Apply, Buffer, Const, Kernel, Load, Store, postorder
from adjoint.kernel.scalars import SCALARS
from adjoint.kernel.verifier import verify_kernel
from adjoint.lower.vector_math import (
    EXPANSIONS,
    error_function,
    expand,
    exponential,
    gamma,
    logarithm,
    power,
    trigonometric,
)
from adjoint.lower.vector_math.terms import FORMATS

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
DTYPES = pytest.mark.parametrize("dtype", [F32, F64], ids=["f32", "f64"])
UNARY = [name for name in EXPANSIONS if name != "pow"]

#: Largest error in ulp with fma, as the docstrings state it.
BOUNDS = {
    "exp": 1,
    "expm1": 1.8,
    "log": 1,
    "log1p": 1.5,
    "tanh": 1.7,
    "sigmoid": 2,
    "sin": 2,
    "cos": 2,
    "erf": 1.9,
    "pow": 1.5,
    "exp2": 1,
    "log2": 2,
    "atan": 2,
    "erfc": 5,
    "erfinv": 4,
    "lgamma": 5,
}

#: Instructions: everything but constants and looking at the same bits as another type.
COSTS = {
    "exp": (15, 20),
    "expm1": (22, 27),
    "log": (33, 36),
    "log1p": (34, 37),
    "tanh": (29, 39),
    "sigmoid": (22, 27),
    "sin": (20, 23),
    "cos": (21, 24),
    "erf": (30, 51),
    "pow": (112, 122),
    "exp2": (14, 20),
    "log2": (34, 37),
    "atan": (19, 30),
    "erfc": (58, 84),
    "erfinv": (67, 105),
    "lgamma": (164, 188),
}

#: Functions of which the truth is computed by Python, element by element.
SLOW = {"erf", "erfc", "erfinv", "lgamma"}

#: Beyond, sin and cos lose exactness.
FARTHEST = {F32: 1e5, F64: 1e8}

#: NumPy's widest float tells the truth about float64 where it has more bits, which not every platform gives it.
WIDE = pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="long double is no wider than float64 here")


@pytest.fixture(autouse=True)
def _quiet():
    """NaNs and overflows are what is tested, and NumPy warns of each."""
    with np.errstate(all="ignore"):
        yield


def fused(x, y, z):
    """``x*y + z`` in a wider float, so that it is rounded once, but for one case in 2**29 (f32) or 2**11 (f64)."""
    wide = np.float64 if np.asarray(x).dtype == F32 else np.longdouble
    return (np.asarray(x).astype(wide) * y + np.asarray(z).astype(wide)).astype(np.asarray(x).dtype)


def operand(name, dtype):
    return Load(Buffer(name, dtype, 1, "external"), as_index(0))


def operands(function, dtype):
    return tuple(operand(name, dtype) for name in "xyz"[: SCALARS[function].arity])


def apply(function, *arrays, fma=True, flush=False):
    """A function of arrays by its expansion."""
    args = operands(function, arrays[0].dtype)
    expr = expand(function, args, arrays[0].dtype)
    return evaluate(expr, dict(zip(args, arrays, strict=True)), {"fma": fused} if fma else None, flush)


def ulps(got, truth):
    """Distance from the truth in units of its last place; 0 for the right infinity and for NaN where that is due."""
    nearest = truth.astype(got.dtype)
    step = np.spacing(np.abs(np.where(np.isfinite(nearest), nearest, np.finfo(got.dtype).max)))
    error = np.abs(got.astype(truth.dtype) - truth) / step
    same = (got == nearest) | (np.isnan(got) & np.isnan(nearest))
    return np.where(same, 0, np.where(np.isnan(error), np.inf, error)).astype(np.float64)


def every_binade(rng, dtype, count):
    """Floats with random bits: subnormals, both signs, infinities and NaN among them."""
    bits = np.uint32 if dtype == F32 else np.uint64
    return rng.integers(0, np.iinfo(bits).max, count, dtype=bits, endpoint=True).view(dtype)


def inputs(function, dtype, count, seed=0):
    """A third from all binades, a third from where the function is neither 0 nor 1 nor infinite, a third around 0."""
    rng = np.random.default_rng(seed)
    if function == "lgamma":  # the rest is bounded by the greater of two that are subtracted
        parts = [rng.uniform(0, 4, count // 3).astype(dtype), rng.uniform(0, 30, count // 3).astype(dtype)]
        return np.abs(np.concatenate([every_binade(rng, dtype, count // 3), *parts]))
    if function == "erfinv":
        near = 1 - np.exp(rng.uniform(-16 if dtype == F32 else -36, 0, count // 2))
        x = np.concatenate([rng.uniform(-1, 1, count // 2), near]).astype(dtype)
        return x[np.abs(x) < 1]
    small = {"exp": 104, "expm1": 104, "sigmoid": 104, "tanh": 10, "erf": 4, "log": 100, "log1p": 100}
    small |= {"exp2": 150, "log2": 100, "atan": 10, "erfc": 9}
    large = {"exp": 746, "expm1": 746, "sigmoid": 746, "tanh": 20, "erf": 6, "log": 100, "log1p": 100}
    large |= {"exp2": 1070, "log2": 100, "atan": 10, "erfc": 26}
    end = (small if dtype == F32 else large).get(function, FARTHEST[dtype])
    x = np.concatenate(
        [
            every_binade(rng, dtype, count // 3),
            rng.uniform(-end, end, count // 3).astype(dtype),
            rng.uniform(-2, 2, count // 3).astype(dtype),
        ]
    )
    if function in ("sin", "cos"):
        x = x[~(np.abs(x) > FARTHEST[dtype])]
    return np.abs(x) if function in ("log", "log2") else x


def powers(dtype, count, seed=0):
    """Bases and exponents: all binades, and results spread evenly over all binades of the format."""
    rng = np.random.default_rng(seed)
    limits = (-150, 128) if dtype == F32 else (-1075, 1024)
    even = np.exp2(rng.uniform(max(limits[0] + 1, -1074), limits[1] - 1, count)).astype(dtype)
    x = np.concatenate([even, rng.uniform(0.5, 2, count).astype(dtype), rng.uniform(0.99, 1.01, count).astype(dtype)])
    y = (rng.uniform(*limits, len(x)) / np.log2(x.astype(F64))).astype(dtype)
    return np.concatenate([x, every_binade(rng, dtype, count)]), np.concatenate([y, every_binade(rng, dtype, count)])


def sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def wide(function, *arrays):
    """The truth in a wider float."""
    if function in ("erf", "erfc"):
        return np.array([getattr(math, function)(v) for v in arrays[0].tolist()])
    if function == "sigmoid":
        return sigmoid(*arrays)
    return SCALARS[function].numpy(*arrays)


def exact(function, x):
    """The truth in mpmath, as a long double or what comes nearest to it."""
    functions = {"sigmoid": lambda v: 1 / (1 + mpmath.exp(-v)), "log1p": mpmath.log1p, "expm1": mpmath.expm1}
    functions |= {"exp2": lambda v: mpmath.mpf(2) ** v, "log2": lambda v: mpmath.log(v, 2), "lgamma": mpmath.loggamma}
    made = functions.get(function) or getattr(mpmath, function)
    with mpmath.workprec(140):
        values = [made(mpmath.mpf(v)) for v in x.tolist()]
        high = np.array([float(v) for v in values])
        low = np.array([float(v - h) if math.isfinite(h) else 0.0 for v, h in zip(values, high.tolist(), strict=True)])
    return high.astype(np.longdouble) + low.astype(np.longdouble)


def assert_close(function, got, truth, bound, dtype):
    error = ulps(got, truth)
    if function in ("sin", "cos") and dtype == F32:
        error = np.where(np.abs(got - truth) < 1e-9, 0, error)
    assert error.max() <= bound, f"{error.max()} ulp in {got[error.argmax()]}, should be {truth[error.argmax()]}"


@pytest.mark.parametrize("function", EXPANSIONS)
def test_docstrings_state_the_bounds_that_are_tested(function):
    assert f"within {BOUNDS[function]} ulp" in EXPANSIONS[function].__doc__


@pytest.mark.parametrize("fma", [True, False], ids=["fma", "mul-add"])
@pytest.mark.parametrize("function", UNARY)
def test_float32_is_within_its_bound(function, fma):
    x = inputs(function, F32, 600_000 if function not in SLOW else 45_000)
    truth = wide(function, x.astype(F64))
    assert_close(function, apply(function, x, fma=fma), truth, BOUNDS[function] + (not fma), F32)


@WIDE
@pytest.mark.parametrize("fma", [True, False], ids=["fma", "mul-add"])
@pytest.mark.parametrize("function", [f for f in UNARY if f not in SLOW])
def test_float64_is_within_its_bound(function, fma):
    x = inputs(function, F64, 150_000)
    truth = wide(function, x.astype(np.longdouble))
    assert_close(function, apply(function, x, fma=fma), truth, BOUNDS[function] + (not fma), F64)


@pytest.mark.parametrize("function", UNARY)
def test_float64_agrees_with_mpmath(function):
    x = inputs(function, F64, 3_000 if function not in ("erfinv", "lgamma") else 300, seed=1)
    ends = {"exp": 709, "expm1": 709, "sigmoid": 700, "log1p": np.inf, "exp2": 1020, "erfc": 26, "lgamma": 1e300}
    x = x[np.isfinite(x) & (np.abs(x) < ends.get(function, np.inf)) & ((x > -1) | (function != "log1p"))]
    # Where mpmath gives no more than a double, half an ulp of the truth is not known.
    slack = 1 if np.finfo(np.longdouble).nmant < 60 else 0
    assert_close(function, apply(function, x, fma=False), exact(function, x), BOUNDS[function] + 1 + slack, F64)


@pytest.mark.parametrize("fma", [True, False], ids=["fma", "mul-add"])
@pytest.mark.parametrize("dtype", [F32, pytest.param(F64, marks=WIDE)], ids=["f32", "f64"])
def test_powers_are_within_their_bound(dtype, fma):
    x, y = powers(dtype, 50_000)
    wider = np.float64 if dtype == F32 else np.longdouble
    truth = wide("pow", x.astype(wider), y.astype(wider))
    assert_close("pow", apply("pow", x, y, fma=fma), truth, BOUNDS["pow"] + (not fma), dtype)


def alike(got, wanted):
    """Equal, signs of zeros included; NaN is NaN."""
    return ((got == wanted) & (np.signbit(got) == np.signbit(wanted))) | (np.isnan(got) & np.isnan(wanted))


NAN, INF = math.nan, math.inf
SPECIAL = {
    "exp": [(0, 1), (-0.0, 1), (INF, INF), (-INF, 0), (NAN, NAN), (1e5, INF), (-1e5, 0)],
    "expm1": [(0, 0), (-0.0, -0.0), (INF, INF), (-INF, -1), (NAN, NAN), (1e5, INF), (-1e5, -1)],
    "log": [(1, 0), (0, -INF), (-0.0, -INF), (-1, NAN), (-INF, NAN), (INF, INF), (NAN, NAN)],
    "log1p": [(0, 0), (-0.0, -0.0), (-1, -INF), (-2, NAN), (-INF, NAN), (INF, INF), (NAN, NAN)],
    "tanh": [(0, 0), (-0.0, -0.0), (INF, 1), (-INF, -1), (NAN, NAN), (30, 1), (-30, -1)],
    "sigmoid": [(0, 0.5), (-0.0, 0.5), (INF, 1), (-INF, 0), (NAN, NAN), (50, 1), (-1e4, 0)],
    "sin": [(0, 0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "cos": [(0, 1), (-0.0, 1), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "erf": [(0, 0), (-0.0, -0.0), (INF, 1), (-INF, -1), (NAN, NAN), (6, 1), (-6, -1)],
    "exp2": [(0, 1), (10, 1024), (-3, 0.125), (INF, INF), (-INF, 0), (NAN, NAN), (1e5, INF), (-1e5, 0)],
    "log2": [(1, 0), (8, 3), (0.25, -2), (2.0**100, 100), (0, -INF), (-1, NAN), (INF, INF), (NAN, NAN)],
    "atan": [(0, 0), (-0.0, -0.0), (INF, math.pi / 2), (-INF, -math.pi / 2), (NAN, NAN), (1e30, math.pi / 2)],
    "erfc": [(0, 1), (INF, 0), (-INF, 2), (NAN, NAN), (40, 0), (-40, 2)],
    "erfinv": [(0, 0), (-0.0, -0.0), (1, INF), (-1, -INF), (1.5, NAN), (-INF, NAN), (NAN, NAN)],
    "lgamma": [(1, 0), (2, 0), (0, INF), (-0.0, INF), (-3, INF), (INF, INF), (-INF, INF), (NAN, NAN)],
}


@DTYPES
@pytest.mark.parametrize("function", UNARY)
def test_special_values(function, dtype):
    x, wanted = (np.array(column, dtype) for column in zip(*SPECIAL[function], strict=True))
    got = apply(function, x)
    assert alike(got, wanted).all(), dict(zip(x.tolist(), got.tolist(), strict=True))


@DTYPES
def test_exponentials_of_masked_numbers_do_not_underflow(dtype):
    """Zero times something is exact; a product that is rounded to zero takes a processor a hundred cycles."""

    def product(x, y):
        with np.errstate(under="raise"):
            return np.multiply(x, y)

    def scaleb(x, shifted):
        """As processors without an instruction for it do."""
        both = shifted.view(FORMATS[dtype].integer)
        halves = (both >> 1, both - (both >> 1))
        low, high = ((half << FORMATS[dtype].mantissa).view(dtype) for half in halves)
        return product(product(x, low), high)

    def exp(*values):
        (x,) = args = operands("exp", dtype)
        known = {x: np.array(values, dtype)}
        return evaluate(expand("exp", args, dtype), known, {"scaleb": scaleb, "fma": fused}, flush_subnormals=False)

    assert not exp(-INF, -1e30, -1e5, -2000).any()
    with pytest.raises(FloatingPointError):
        exp(-103.5 if dtype == F32 else -745.0)


@DTYPES
def test_exponentials_are_subnormal_then_zero(dtype):
    x = np.linspace(-180, -85, 4001, dtype=dtype) if dtype == F32 else np.linspace(-1420, -700, 4001)
    truth = wide("exp", x.astype(np.longdouble)).astype(dtype)
    steps = np.abs(apply("exp", x) - truth) / np.finfo(dtype).smallest_subnormal
    ordinary = truth >= np.finfo(dtype).smallest_normal
    assert (steps[~ordinary] <= 1).all()
    assert (truth == 0).sum() > 1000
    np.testing.assert_allclose(apply("exp", x)[ordinary], truth[ordinary], rtol=2 * np.finfo(dtype).eps)


def flushed(x):
    return np.where(np.abs(x) < np.finfo(x.dtype).smallest_normal, np.copysign(x.dtype.type(0), x), x)


@pytest.mark.parametrize("fma", [True, False], ids=["fma", "mul-add"])
@DTYPES
@pytest.mark.parametrize("function", EXPANSIONS)
def test_flushing_changes_subnormal_numbers_alone(function, dtype, fma):
    """What is computed with flushing is what is computed without, of flushed operands and flushed itself."""
    arrays = powers(dtype, 20_000) if function == "pow" else (inputs(function, dtype, 60_000),)
    if function in ("exp", "expm1", "sigmoid"):
        # Where results go from normal to subnormal.
        arrays = (np.concatenate([*arrays, np.linspace(-90, -85, 20_000, dtype=dtype)]),)
    expected = flushed(apply(function, *map(flushed, arrays), fma=fma))
    got = apply(function, *arrays, fma=fma, flush=True)
    # At the border the last rounding may go either way.
    tiny = np.finfo(dtype).smallest_normal
    border = (np.abs(got) <= tiny) & (np.abs(expected) <= tiny)
    tiny_arguments = np.abs(arrays[0]) < tiny
    same = (got == expected) | (np.isnan(got) & np.isnan(expected)) | border
    # Some return the argument itself where it is small enough; a selection moves bits.
    assert (same | (tiny_arguments & (got == arrays[0]))).all()


@pytest.mark.parametrize("function", UNARY)
def test_every_nan_goes_through(function):
    nans = np.array([0x7FC00000, 0x7F800001, 0x7FFFFFFF, 0x7FC00155, -1, -0x400000], np.int64).astype(np.uint32)
    assert np.isnan(apply(function, nans.view(F32))).all()


@DTYPES
def test_powers_of_special_values_are_those_of_ieee_754(dtype):
    info = np.finfo(dtype)
    values = [0, 1, 2, 3, 0.5, 1.5, 1e30, INF, NAN, info.max, info.smallest_subnormal, 2.0**info.nmant, 5e-39]
    values = np.array(values + [-v for v in values] + [2.0 ** (info.nmant + 1) - 1, 1 - 2.0 ** (info.nmant + 1)], dtype)
    x, y = (a.reshape(-1) for a in np.meshgrid(values, values))
    wanted = np.power(x, y)
    got = apply("pow", x, y)
    # NumPy's own powers are off by an ulp here and there.
    near = np.abs(got / np.where(wanted == 0, 1, wanted) - 1) <= 4 * info.eps
    ordinary = np.isfinite(wanted) & (wanted != 0) & (np.abs(wanted) != 1)
    wrong = ~np.where(ordinary, near, alike(got, wanted))
    assert not wrong.any(), list(zip(x[wrong], y[wrong], got[wrong], wanted[wrong], strict=True))


@DTYPES
def test_constant_exponents_are_products_and_roots(dtype):
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.uniform(-4, 4, 2000), every_binade(rng, dtype, 2000), [0, -0.0, INF, -INF]]).astype(dtype)
    wider = np.longdouble
    for exponent, most in ((0, 1), (1, 1), (2, 1), (3, 2), (-1, 1), (0.5, 5), (-0.5, 6)):
        leaf = operand("x", dtype)
        expr = expand("pow", (leaf, Const(exponent, dtype)), dtype)
        assert sum(isinstance(e, Apply) for e in postorder([expr])) <= most
        truth = wide("pow", x.astype(wider), np.asarray(exponent, wider))
        if dtype == F32 or np.finfo(wider).nmant > 60:
            got = np.broadcast_to(evaluate(expr, {leaf: x}, flush_subnormals=False), x.shape)
            assert ulps(got, truth).max() <= BOUNDS["pow"]
            assert (np.signbit(got) == np.signbit(truth))[~np.isnan(truth)].all()


@DTYPES
@pytest.mark.parametrize("function", ["expm1", "log1p", "tanh", "sin", "erf"])
def test_tiny_arguments_keep_their_relative_precision(function, dtype):
    info = np.finfo(dtype)
    x = np.array([info.smallest_subnormal, 3 * info.smallest_subnormal, info.tiny, info.eps**2, info.eps], dtype)
    slope = 2 / math.sqrt(math.pi) if function == "erf" else 1
    for sign in (1, -1):
        expected = (x.astype(np.longdouble) * slope * sign).astype(dtype)
        got = apply(function, sign * x)
        assert np.abs(got / expected - 1).max() <= 2 * info.eps


def test_exp_reaches_down_to_the_smallest_number_and_up_to_the_largest():
    x = np.array([-103.9, -103.0, -95.0, -87.5, 88.72], F32)
    assert np.array_equal(apply("exp", x), np.exp(x.astype(F64)).astype(F32))
    assert apply("exp", np.array([88.73, -104.0], F32)).tolist() == [np.inf, 0]
    assert apply("exp", np.array([-745.13, 709.78], F64)).tolist() == [5e-324, math.exp(709.78)]
    assert apply("exp", np.array([-745.14, 709.79], F64)).tolist() == [0, np.inf]


@DTYPES
@pytest.mark.parametrize(
    ("function", "drop"), [("exp", 0), ("log", 0), ("log1p", 0), ("tanh", 0), ("sigmoid", 1), ("erf", 1), ("atan", 1)]
)
def test_results_rise_with_arguments(function, drop, dtype):
    """Neighbouring floats, around several places: no step is down by more than `drop` ulp."""
    for start in (0.01, 0.3, 0.55, 0.7, 1.0, 1.4, 2.0, 3.3):
        bits = np.asarray(start, dtype).view(f"i{dtype.itemsize}")
        x = (bits + np.arange(3000, dtype=bits.dtype)).view(dtype)
        y = apply(function, x)
        assert (np.diff(y) >= -drop * np.spacing(np.abs(y[1:]))).all()


@DTYPES
def test_results_stay_in_their_range(dtype):
    x = every_binade(np.random.default_rng(5), dtype, 60_000)
    x = np.concatenate([x[np.isfinite(x)], np.linspace(-20, 20, 60_001).astype(dtype)])
    for function in ("tanh", "erf", "sin", "cos"):
        assert np.abs(apply(function, x)).max() <= 1
    assert apply("sigmoid", x).min() >= 0
    assert apply("sigmoid", x).max() <= 1
    assert apply("expm1", x).min() >= -1
    x = x[np.abs(x) <= FARTHEST[dtype]]
    for function in ("tanh", "erf", "sin"):
        assert np.array_equal(apply(function, -x), -apply(function, x))


@DTYPES
@pytest.mark.parametrize("function", EXPANSIONS)
def test_expansions_are_arithmetic_and_share_what_is_shared(function, dtype):
    args = operands(function, dtype)
    expr = expand(function, args, dtype)
    order = postorder([expr])
    assert {id(e) for e in order if isinstance(e, Load)} == {id(a) for a in args}
    assert all(isinstance(e, Apply | Const | Load) for e in order)
    used = {e.function for e in order if isinstance(e, Apply)}
    assert not used & set(EXPANSIONS)
    assert used <= set(SCALARS) | {"select", "bitcast"}
    cost = sum(isinstance(e, Apply) and e.function != "bitcast" for e in order)
    assert cost <= COSTS[function][dtype == F64]
    unit = Var("u", 1)
    store = Store(((Buffer("out", dtype, 1, "external"), as_index(unit), expr),))
    verify_kernel(Kernel("k", unit, (store,)))


@pytest.mark.parametrize("function", [*sorted(set(SCALARS) - set(EXPANSIONS)), "select", "cast", "bitcast"])
def test_what_has_an_instruction_is_left_alone(function):
    assert expand(function, (operand("x", F32),), F32) is None


@pytest.mark.parametrize("dtype", ["int32", "float16", "bool"])
def test_other_dtypes_are_refused(dtype):
    with pytest.raises(VerifyError, match=f"exp: computes in float32 or float64, got {dtype}; cast the operands first"):
        expand("exp", (operand("x", np.dtype(dtype)),), np.dtype(dtype))


@pytest.mark.parametrize("flush", [True, False], ids=["flushed", "gradual"])
@pytest.mark.parametrize("function", UNARY)
def test_compiled_code_gives_the_same_bits(function, flush):
    x = inputs(function, F32, 6_000, seed=2)
    p = param("x", x.shape, "f32")
    function_of_x = adjoint.Function("f", (p,), (getattr(ops, function)(p),))
    run = adjoint.compile(function_of_x, options=adjoint.CompileOptions(flush_subnormals=flush))
    got = np.asarray(run(x)).reshape(-1)
    ways = [alike(got, apply(function, x, fma=fma, flush=flush)).all() for fma in (True, False)]
    assert any(ways)


def coefficients():
    """The script that computes the numbers."""
    path = Path(__file__).parents[2] / "docs" / "design" / "vector_math_coefficients.py"
    spec = importlib.util.spec_from_file_location("vector_math_coefficients", path)
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_numbers_in_the_code_are_those_that_the_script_computes():
    modules = {
        "exponential": exponential,
        "logarithm": logarithm,
        "trigonometric": trigonometric,
        "error_function": error_function,
        "gamma": gamma,
        "power": power,
    }

    def table(name, format_):
        module, attribute = name.split(".")
        found = getattr(modules[module], attribute if attribute == "LOG_2" else f"_{attribute}")
        if isinstance(found, tuple):
            return found
        return next(values for form, values in found.items() if form.dtype == (F32 if format_ == "f32" else F64))

    script = coefficients()
    slow = {f"error_function.{name}" for name in ("INVERSE", "INVERSE_TAIL", "SCALED", "RATE")}
    slow |= {"gamma.NEAR_1", "trigonometric.ATAN"}  # more than a second each
    quick = [fit for fit in script.fits() if fit.format == "f32" or fit.name == "logarithm.IN_S"]
    quick = [fit for fit in quick if fit.name not in slow]
    assert len(quick) == 7
    for fit in quick:
        assert tuple(float(c) for c in script.polynomial(fit)[0]) == table(fit.name, fit.format)
    for name, format_, values in script.sums():
        assert values == table(name, format_)
