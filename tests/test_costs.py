"""Planning numbers: where they are, and what follows from them."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

import adjoint
from adjoint import Function, costs, ops, param
from adjoint.codegen.targets import target_for
from adjoint.ir import apply
from adjoint.ir.printer import value_names
from adjoint.kernel.target import Cache
from adjoint.lower.contractions.gemm_plan import Form, gemm_plans
from adjoint.lower.contractions.inner_product_plan import InnerProductPlan
from adjoint.lower.contractions.kn2row_plan import Kn2RowPlan
from adjoint.lower.contractions.traffic import Reads
from adjoint.lower.program import contractions_of
from adjoint.lower.winograd.plan import WinogradPlan
from adjoint.ops.convolution import Conv2dWeightGradient
from adjoint.pipeline import lower_function
from tests.hardware import KINDS

ROOT = Path(adjoint.__file__).parent

#: Numbers that are mathematics: coefficients of polynomials, points of Winograd's algorithm, the rounds of a generator,
#: the sweeps of rotations, the bits of random numbers, ranges of exponentials.
MATHEMATICS = (
    *("lower/vector_math/", "lower/winograd/algorithm.py", "ops/gaussian.py", "ops/threefry.py"),
    "ops/random_distributions.py",
    "ops/attention_dropout.py",
    "ops/decompositions.py",
    "ops/gamma_samples.py",
    "ops/resize.py",
    *("ops/transcendental.py", "ops/trigonometric.py", "ops/special.py", "ops/activations.py"),
)


def test_no_module_assigns_a_name_twice():
    """The second of two planning numbers with one name would replace the first one."""
    for path in sorted(ROOT.rglob("*.py")):
        assigned = [
            target.id
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.Assign | ast.AnnAssign)
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Name) and target.id != "_"
        ]
        assert len(set(assigned)) == len(assigned), path


def numbers_of(tree):
    """Names that a module assigns a number, or a product of numbers, at its top."""
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        inner = list(ast.walk(node.value))
        allowed = ast.Constant | ast.BinOp | ast.UnaryOp | ast.Tuple | ast.operator | ast.unaryop | ast.expr_context
        is_number = all(isinstance(n, allowed) for n in inner)
        if is_number and any(isinstance(n, ast.Constant) and isinstance(n.value, int | float) for n in inner):
            yield ast.unparse(node)


def test_the_numbers_of_a_module_are_found():
    tree = ast.parse("A = 4 * 1024\nB, C = 1.5, -2\nD = 'text'\nE = f(3)\nF: int = 7")
    assert list(numbers_of(tree)) == ["A = 4 * 1024", "B, C = (1.5, -2)", "F: int = 7"]


@pytest.mark.parametrize("package", ["lower", "ops", "transforms"])
def test_planning_numbers_are_in_one_file(package):
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(MATHEMATICS) and (numbers := list(numbers_of(ast.parse(path.read_text())))):
            found[name] = numbers
    assert found == {}, "a planning number belongs in costs.py"


def product(m, k, n):
    x, w = param("x", (m, k)), param("w", (k, n))
    return Function("f", (x, w), (ops.matmul(x, w),))


def weight_gradient():
    x, ct = param("x", (64, 16, 34, 34)), param("ct", (64, 32, 32, 32))
    op = Conv2dWeightGradient((1, 1), (0, 0), (1, 1), 1, (3, 3))
    return Function("f", (x, ct), (apply(op, x, ct),))


def only(function, target):
    (found,) = contractions_of(function, target, value_names(function))[1].values()
    return found


def plan_of(function, target):
    return only(function, target).plan


def with_caches(l1, l2, ways=8):
    return replace(target_for("avx512"), caches=(Cache(1, l1 << 10, ways), Cache(2, l2 << 10, 16)))


def test_panels_follow_the_second_level_cache():
    """What is larger than an eighth of the cache is walked in blocks."""
    for size in (1024, 256):
        target = with_caches(32, size)
        plans = gemm_plans(target, only(product(256, 4096, 512), target).contraction, streams=0, most=1)
        plan = next(plan for plan in plans if plan.form == Form(right="panels") and not plan.chunks)
        panel = plan.columns * 4
        assert plan.block * panel <= (size << 10) // 8 < 2 * plan.block * panel


def test_streaming_from_memory_depends_on_the_caches():
    """16 MB stream from memory beside 1 MiB, and 4 MB do beside 512 KiB."""
    large, small = (only(product(128, depth, 2048), costs.MODEL).contraction for depth in (2048, 512))

    def wide(c, target):
        plans = gemm_plans(target, c, streams=0, most=1)
        return next(plan.wide for plan in plans if plan.form == Form(right="panels") and not plan.chunks)

    assert wide(large, with_caches(48, 1024)) == 4
    assert wide(small, with_caches(48, 1024)) == 1
    assert wide(small, with_caches(48, 512)) == 4


@pytest.mark.parametrize(
    ("work", "share"),
    [([1, 1, 1, 1], 1.0), ([2, 1], 4 / 3), ([2, 2, 1], 6 / 5), ([1], 2.0)],
    ids=["even", "a small last unit", "an odd number", "a core without any"],
)
def test_the_largest_share_is_that_of_the_core_with_most_work(work, share):
    assert costs.largest_share(replace(costs.MODEL, cores=2), work) == pytest.approx(share)


def test_only_several_cores_exchange_lines():
    assert costs.exchange_cycles(replace(costs.MODEL, cores=1), 1 << 16) == 0
    assert costs.exchange_cycles(replace(costs.MODEL, cores=2), 1 << 16) == 1024 * costs.COHERENCE_MISS_CYCLES


def test_more_cores_get_more_units():
    function = product(1024, 2048, 512)
    for cores in (2, 64):
        *_, kernel = lower_function(function, replace(target_for("avx512"), cores=cores)).kernels
        assert kernel.unit.extent >= 2 * cores


@pytest.mark.parametrize(
    "target",
    [*map(target_for, ("avx512", "avx2", "neon", "cortex-a72", "rvv")), KINDS["avx512 on a mesh"]],
    ids=["avx512", "avx2", "neon", "cortex-a72", "rvv", "mesh"],
)
@pytest.mark.parametrize("cores", [1, 2, 64])
@pytest.mark.parametrize("caches", [(32, 256), (48, 1024), (128, 4096)])
def test_the_order_of_additions_follows_from_shapes_alone(target, cores, caches):
    """Splits of k, partial sums in lanes and the units of Winograd's algorithm are those of the model."""
    some = replace(target, caches=with_caches(*caches).caches, cores=cores)
    x, w = param("x", (64, 16, 34, 34)), param("w", (16, 16, 3, 3))
    function = Function("f", (x, w), (ops.conv2d(x, w),))
    y, v = param("y", (16, 256, 15, 15)), param("v", (2, 256, 3, 3))
    few = Function("f", (y, v), (ops.conv2d(y, v),))
    vector = Function("f", (m := param("m", (300, 512)), v := param("v", (512, 1))), (ops.matmul(m, v),))
    for made in (function, few, product(64, 784, 128), weight_gradient(), vector):
        plan, model = plan_of(made, some), plan_of(made, costs.MODEL)
        assert type(plan) is type(model)
        assert made is not few or isinstance(plan, Kn2RowPlan)
        decided = {WinogradPlan: ("images", "rows"), InnerProductPlan: ("lanes",)}.get(type(plan), ())
        for name in (*decided, "parts"):
            assert getattr(plan, name, None) == getattr(model, name, None)


def test_without_fused_multiply_adds_the_order_is_the_targets_own():
    assert costs.order_target(target_for("sse2")) == target_for("sse2")
    assert costs.order_target(target_for("avx2")) is costs.MODEL


def test_an_element_that_is_broadcast_takes_one_pass_through_the_units_however_wide_the_vector():
    model = costs.MODEL
    narrow = replace(model, load_units=1, datapath_bytes=32)
    assert costs.load_cycles(model, 2, 6) == costs.load_cycles(model, 8)
    assert costs.load_cycles(narrow, 0, 6) == costs.load_cycles(narrow, 3)
    # A multiply-add with an element in memory is split where schedulers are small.
    mesh = replace(model, scheduler_entries=48, l3_latency=70)
    assert costs.load_cycles(mesh, 1, 12, folded=True) == pytest.approx(costs.load_cycles(mesh, 1, 16))
    assert costs.load_cycles(model, 1, 12, folded=True) == costs.load_cycles(model, 1, 12)
    # Of vectors as wide as the units, twice as many are loaded.
    assert costs.load_cycles(narrow.narrowed(32), 0, 6) == costs.load_cycles(narrow, 0, 6)


def test_broadcasts_to_upper_registers_delay_vectors_that_are_as_wide_as_the_units():
    """Of AVX-512 on units of 256 bits alone: not if vectors take two cycles, nor if few sums leave lower registers."""
    halves = replace(target_for("avx512"), fma_units=1, load_units=1, datapath_bytes=32)
    assert costs.broadcast_cycles(halves.narrowed(32), 14, 2) == pytest.approx(14 * costs.UPPER_BROADCAST_CYCLES)
    for target, rows, vectors in (
        (halves, 14, 2),
        (halves.narrowed(32), 4, 3),
        (halves.narrowed(32), 16, 1),
        (costs.MODEL, 14, 2),
        (costs.NARROW_MODEL, 6, 2),
        (target_for("neon"), 14, 2),
    ):
        assert costs.broadcast_cycles(target, rows, vectors) == 0.0


@pytest.mark.parametrize(("nbytes", "rate"), [(1 << 18, 32.0), (1 << 22, 16.0), (1 << 26, 8.0)])
def test_copies_are_as_fast_as_the_cache_that_they_stay_in(nbytes, rate):
    assert costs.copy_bytes_per_cycle(costs.MODEL, nbytes) == rate


def test_a_matrix_beyond_the_caches_meets_a_vector_row_by_row():
    """One stream is read faster than several; nearer, several rows at once hide the latency of additions."""
    for rows, at_once in ((3000, False), (200, True)):
        a, b = param("a", (rows, 2400)), param("b", (1, 2400))
        plan = plan_of(Function("f", (a, b), (ops.matmul(a, b, transpose_b=True),)), costs.MODEL)
        assert isinstance(plan, InnerProductPlan)
        assert (plan.rows * plan.columns > 1) is at_once


def test_single_lines_of_distant_rows_take_longer():
    b = Reads(4, 400, 100, 4000, 4, 1 << 23)
    line = costs.MODEL.line_bytes // 4
    assert b.first(costs.MODEL, line) > b.first(costs.MODEL, 2 * line) / 2
