"""Running compiled code: arguments, results, arrays that stay, refusals, threads."""

import threading

import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import CompileOptions, compile
from adjoint.errors import InvalidValueError, NameLookupError, TypeRuleError, plural
from adjoint.ir import Function, IRModule, param
from adjoint.runtime.report import KernelInfo

OPTIONS = CompileOptions(cache=False, threads=1)


def mlp_step():
    """A step of a small network: loss, and weights updated in place."""
    x, y = param("x", (64, 96)), param("y", (64,), "i64")
    w0, w1, lr = param("w0", (96, 80)), param("w1", (80, 10)), param("lr", ())
    labels = ops.check_range(y, 0, 10)
    h = ops.relu(ops.matmul(x, w0))
    p = ops.softmax(ops.matmul(h, w1))
    loss = ops.negative(ops.sum(ops.log(ops.sum(ops.multiply(p, ops.one_hot(labels, 10)), axis=1))))
    d = ops.subtract(p, ops.one_hot(labels, 10))
    g1 = ops.matmul(h, d, transpose_a=True)
    dh = ops.where(ops.greater(h, 0.0), ops.matmul(d, w1, transpose_b=True), ops.full(0.0, (64, 80)))
    g0 = ops.matmul(x, dh, transpose_a=True)
    results = (loss, ops.subtract(w0, ops.multiply(g0, lr)), ops.subtract(w1, ops.multiply(g1, lr)))
    return Function("step", (x, y, w0, w1, lr), results, {"donate": (("w0", 1), ("w1", 2))})


def data(seed=0):
    rng = np.random.default_rng(seed)
    return (
        rng.standard_normal((64, 96)).astype("f4"),
        rng.integers(0, 10, 64),
        {
            "w0": (0.1 * rng.standard_normal((96, 80))).astype("f4"),
            "w1": (0.1 * rng.standard_normal((80, 10))).astype("f4"),
            "lr": np.array(0.01, "f4"),
        },
    )


@pytest.fixture(scope="module")
def step():
    return compile(mlp_step(), options=OPTIONS)["step"]


def reference(x, y, kept, steps):
    """The same in float64 NumPy."""
    w0, w1, lr = (kept[n].astype("f8") for n in ("w0", "w1", "lr"))
    losses = []
    for _ in range(steps):
        h = np.maximum(x @ w0, 0)
        z = h @ w1
        p = np.exp(z - z.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        losses.append(-np.log(p[np.arange(64), y]).sum())
        d = p - np.eye(10)[y]
        g1, g0 = h.T @ d, x.T @ ((d @ w1.T) * (h > 0))
        w0, w1 = w0 - lr * g0, w1 - lr * g1
    return losses, w0, w1


def test_training_agrees_with_float64(step):
    x, y, kept = data()
    losses, w0, w1 = reference(x.astype("f8"), y, kept, 20)
    bound = step.bind(kept)
    np.testing.assert_allclose([bound(x, y) for _ in range(20)], losses, rtol=1e-4)
    np.testing.assert_allclose(kept["w0"], w0, atol=1e-4)
    np.testing.assert_allclose(kept["w1"], w1, atol=1e-4)


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_the_bits_do_not_depend_on_threads(step, threads):
    outcomes = []
    for count in (1, threads):
        x, y, kept = data()
        bound = step.bind(kept, threads=count)
        losses = [bound(x, y) for _ in range(10)]
        outcomes.append((losses, kept["w0"].tobytes(), kept["w1"].tobytes()))
    assert outcomes[0] == outcomes[1]


def test_calling_with_everything_changes_nothing_of_the_callers(step):
    x, y, kept = data()
    before = kept["w0"].copy()
    loss, w0, _ = step(x, y, kept["w0"], kept["w1"], kept["lr"])
    np.testing.assert_array_equal(kept["w0"], before)
    assert loss.shape == ()
    assert not np.array_equal(w0, before)


def test_hyperparameters_are_read_at_each_step(step):
    x, y, kept = data()
    kept["lr"][...] = 0
    before = kept["w0"].copy()
    step.bind(kept)(x, y)
    np.testing.assert_array_equal(kept["w0"], before)


def test_arguments_of_other_layouts_are_copied(step):
    x, y, kept = data()
    first = step.bind({k: v.copy() for k, v in kept.items()})(x, y)
    fortran = np.asfortranarray(x)
    assert step.bind({k: v.copy() for k, v in kept.items()})(fortran, y.tolist()) == first


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            lambda x, y: (x[:3], y),
            TypeRuleError,
            r"step: x must have shape \(64, 96\), got \(3, 96\); pass 64 rows at a time",
        ),
        (lambda x, y: (x.astype("f8"), y), TypeRuleError, r"x must be float32, got float64; convert it with"),
        (lambda x, y: (x,), TypeRuleError, r"step takes 2 arguments \(x, y\), got 1"),  # noqa: ARG005
        (lambda x, y: (x, y + 5), InvalidValueError, r"y must be in \[0, 10\), got 1\d at \d+; nothing was updated"),
        (lambda x, y: (x, y - 100), InvalidValueError, r"y must be in \[0, 10\), got -\d+ at 0"),
    ],
)
def test_refusals_leave_parameters_alone(step, change, error, message):
    x, y, kept = data()
    before = {k: v.copy() for k, v in kept.items()}
    bound = step.bind(kept)
    with pytest.raises(error, match=message):
        bound(*change(x, y))
    for name, array in kept.items():
        np.testing.assert_array_equal(array, before[name])


def test_refusals_of_resident_arrays(step):
    _, _, kept = data()
    with pytest.raises(TypeRuleError, match="updates w1 in place; bind an array to each"):
        step.bind({"w0": kept["w0"]})
    with pytest.raises(NameLookupError, match="no parameter 'w9'; known parameters: x, y, w0"):
        step.bind({**kept, "w9": kept["w0"]})
    with pytest.raises(TypeRuleError, match=r"w0 is float32\[96, 80\], got float64"):
        step.bind({**kept, "w0": kept["w0"].astype("f8")})
    with pytest.raises(InvalidValueError, match="threads must be an integer from 1 to 1024, got -1"):
        step.bind(kept, threads=-1)


def test_memory_is_known_beforehand(step):
    memory = step.memory
    assert memory.donated == 4 * (96 * 80 + 80 * 10)
    assert memory.arguments == 4 * 64 * 96 + 8 * 64 + 4
    assert memory.results == 4
    assert memory.arena_bound <= memory.arena <= 1.1 * memory.arena_bound


def test_profile_times_every_kernel_and_trains_nothing(step):
    x, y, kept = data()
    before = kept["w0"].copy()
    rows = step.profile(x, y, resident=kept, runs=5)
    assert [r.kernel for r in rows] == list(step.kernels)
    assert all(r.nanoseconds >= 0 for r in rows)
    assert sum(r.nanoseconds for r in rows) > 0
    np.testing.assert_array_equal(kept["w0"], before)


def test_kernels_name_the_values_they_compute():
    x, w = param("x", (4, 8)), param("w", (8, 16))
    hidden = ops.matmul(x, w).named("hidden")
    made = compile(Function("f", (x, w), (ops.relu(hidden).named("active"),)), options=OPTIONS)
    (kernel,) = made.kernels
    assert kernel.name == "active"
    assert kernel.values == ("%hidden", "%active")
    assert repr(kernel) == (
        f"<KernelInfo active: %hidden, %active; {kernel.flops} flops, {kernel.bytes} bytes, "
        f"{plural(kernel.units, 'unit')} on one thread>"
    )
    many = KernelInfo("k", tuple(f"%{n}" for n in range(9)), 1, 2, 3, True)
    assert repr(many) == "<KernelInfo k: %0, %1, %2, %3, 5 more; 1 flop, 2 bytes, 3 units on all threads>"


def test_several_entry_points():
    x = param("x", (3,))
    module = IRModule((Function("twice", (x,), (ops.add(x, x),)), Function("square", (x,), (ops.multiply(x, x),))))
    made = compile(module, options=OPTIONS)
    assert list(made) == ["twice", "square"]
    np.testing.assert_array_equal(made["square"]([1, 2, 3]), [1, 4, 9])
    with pytest.raises(NameLookupError, match="no compiled function 'cube'; choose one of twice, square"):
        made["cube"]
    with pytest.raises(NameLookupError, match="choose one by name"):
        made([1, 2, 3])


def test_results_are_parameters_or_the_same_value_twice():
    x = param("x", (3,))
    y = ops.exp(x)
    a, b, c = compile(Function("f", (x,), (x, y, y)), options=OPTIONS)(np.arange(3, dtype="f4"))
    np.testing.assert_array_equal(a, [0, 1, 2])
    np.testing.assert_array_equal(b, c)


def test_swap_in_place():
    p, q = param("p", (5,)), param("q", (5,))
    function = Function("swap", (p, q), (ops.add(q, 1.0), ops.add(p, 2.0)), {"donate": (("p", 0), ("q", 1))})
    kept = {"p": np.zeros(5, "f4"), "q": np.full(5, 10, "f4")}
    compile(function, options=OPTIONS)["swap"].bind(kept)()
    np.testing.assert_array_equal(kept["p"], np.full(5, 11))
    np.testing.assert_array_equal(kept["q"], np.full(5, 2))


def test_steps_from_several_python_threads_take_turns(step):
    """Each thread trains its own parameters on two workers; all get what one alone gets."""
    x, y, kept = data()
    alone = step.bind({k: v.copy() for k, v in kept.items()}, threads=2)
    expected = [alone(x, y) for _ in range(30)]
    outcomes = {}

    def train(number):
        bound = step.bind({k: v.copy() for k, v in kept.items()}, threads=2)
        outcomes[number] = [bound(x, y) for _ in range(30)]

    threads = [threading.Thread(target=train, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert outcomes == dict.fromkeys(range(3), expected)
