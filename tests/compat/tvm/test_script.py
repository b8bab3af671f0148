"""TVMScript and BlockBuilder: what is read, what it means in NumPy, and what is refused, with its line."""

# ruff: noqa: N805 - scripts are not methods

import numpy as np
import pytest

import adjoint.compat.tvm as tvm
from adjoint.compat.tvm import relax
from adjoint.compat.tvm.script import from_source
from adjoint.compat.tvm.script import ir as I
from adjoint.compat.tvm.script import relax as R
from adjoint.errors import ParseError, TypeRuleError
from adjoint.ops.calls import evaluated

RNG = np.random.default_rng(0)


def run(function, *arrays):
    return evaluated(function.native, arrays)


def test_operators_mean_what_numpy_computes():
    rows, depth = 4, 3

    @R.function
    def f(x: R.Tensor((rows, 6), "float32"), ids: R.Tensor((2,), "int64")):
        with R.dataflow():
            parts = R.split(x, 2, axis=1)
            joined = R.concat([parts[1], parts[0]], axis=1)
            turned = R.permute_dims(joined)
            hot = R.one_hot(ids, R.const(1.0), R.const(0.0), depth)
            cut = R.strided_slice(x, [0, 1], [1, 0], [4, 6], [1, 2])
            taken = R.take(x, ids, axis=0)
            spread = R.std(x, axis=1)
            clipped = R.clip(-x * 2.0 + 1.0, -0.5, 0.5)
            R.output(turned, hot, cut, taken, spread, clipped)
        return turned, hot, cut, taken, spread, clipped

    x, ids = RNG.standard_normal((4, 6)).astype("f4"), np.array([2, 0])
    found = run(f, x, ids)
    swapped = np.concatenate([x[:, 3:], x[:, :3]], 1)
    expected = swapped.T, np.eye(3)[ids], x[1:4, ::2], x[ids], x.std(1), np.clip(1 - 2 * x, -0.5, 0.5)
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)


def test_layers_mean_what_their_defaults_say():
    @R.function
    def f(x: R.Tensor((2, 3, 5, 5), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
        y = R.nn.conv2d(x, w, padding=(1, 0, 1, 0))
        z = R.nn.max_pool2d(y, (2, 2))
        m = R.nn.avg_pool2d(x, (3, 3), padding=1)
        return R.mean(z, [2, 3]), m

    x, w = RNG.standard_normal((2, 3, 5, 5)).astype("f4"), RNG.standard_normal((4, 3, 3, 3)).astype("f4")
    means, averages = run(f, x, w)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    y = np.einsum("ncijab,ocab->noij", windows, w)
    pooled = np.lib.stride_tricks.sliding_window_view(y, (2, 2), (2, 3)).max((-1, -2))
    np.testing.assert_allclose(means, pooled.mean((2, 3)), rtol=1e-4, atol=1e-5)
    # Windows move by 1, and padding does not count.
    np.testing.assert_allclose(averages[0, 0, 0, 0], x[0, 0, :2, :2].mean(), rtol=1e-5)
    assert averages.shape == (2, 3, 5, 5)


@I.ir_module
class Calls:
    """One function calls another."""

    @R.function
    def inner(x: R.Tensor((3,), "float32")) -> R.Tuple(R.Tensor((3,), "float32"), R.Tensor((3,), "float32")):
        return R.exp(x), x + 1.0

    @R.function
    def outer(x: R.Tensor((3,), "float32"), pair: R.Tuple(R.Tensor((3,), "float32"), R.Tensor((3,), "float32"))):
        both = cls.inner(x)  # noqa: F821
        again = Calls.inner(both[1])
        return both[0] + again[1] + pair[1]


def test_functions_call_each_other_and_take_tuples():
    x = np.array([0.0, 1.0, -1.0], "f4")
    vm = relax.VirtualMachine(tvm.compile(Calls))
    found = vm["outer"](tvm.runtime.tensor(x), (x, 10 * x))
    np.testing.assert_allclose(found.numpy(), np.exp(x) + x + 2 + 10 * x, rtol=1e-6)
    first, second = vm["inner"](x)
    np.testing.assert_allclose([first.numpy(), second.numpy()], [np.exp(x), x + 1], rtol=1e-6)


def test_a_block_builder_builds_what_a_script_says():
    x, w = relax.Var("x", R.Tensor((2, 3), "float32")), relax.Var("w", R.Tensor((3, 4), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x, w]):
        with bb.dataflow():
            lv = bb.emit(relax.op.matmul(x, w))
            gv = bb.emit_output(relax.op.nn.relu(lv))
        bb.emit_func_output(gv)

    @R.function
    def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 4), "float32")):
        with R.dataflow():
            lv = R.matmul(x, w)
            gv = R.nn.relu(lv)
            R.output(gv)
        return gv

    assert bb.finalize()["main"].native == main.native


def test_text_is_read_back():
    @I.ir_module
    class Model:
        I.module_attrs({"param_num": 2, "state_num": 0})

        @R.function
        def backbone(
            x: R.Tensor((4, 2, 6), "float32"), w: R.Tensor((3, 2, 3), "float32"), b: R.Tensor((4,), "float32")
        ):
            y = R.nn.conv1d(x, w, padding=1, strides=2)
            z = R.nn.gelu(R.sum(y, axis=1)) / R.const([1.0, 2.0, 4.0], "float32")
            return R.mean(z, axis=1) * b

    adjoint = relax.transform.Gradient("loss")
    Model["loss"] = relax.training.utils.append_loss(
        Model["backbone"], relax.training.loss.MSELoss()(*[relax.TensorStructInfo((4,), "float32")] * 2)
    )
    module = adjoint(Model)
    text = module.script()
    again = from_source(text)
    assert again.script() == text
    assert again.attrs == {"param_num": 2, "state_num": 0}
    for name in ("backbone", "loss", "loss_adjoint"):
        assert again[name].native == module[name].native
    assert "= R.add(" in text or "= R.multiply(" in text
    assert "R.adjoint('conv" in text


LOOP = """
@R.function
def f(x: R.Tensor((3,), "float32")):
    for i in range(3):
        x = x + 1.0
    return x
"""
UNKNOWN = """
@R.function
def f(x: R.Tensor((3,), "float32")):
    y = R.add(x, z)
    return y
"""
CALLED = """
@R.function
def f(x: R.Tensor((3,), "float32")):
    y = print(x)
    return y
"""
SHAPES = """
@R.function
def f(x: R.Tensor((3,), "float32")):
    y = R.matmul(x, x)
    w = R.add(y, R.const([1.0, 2.0], "float32"))
    return R.matmul(w, x)
"""
BARE = """
@R.function
def f(x):
    return x
"""


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (
            LOOP,
            ParseError,
            r"a function has assignments, with R.dataflow\(\), R.output and return, got 'for i in range",
        ),
        (UNKNOWN, ParseError, r"a name must be defined before it is used, got 'z'; .*\[at text:4\]"),
        (
            CALLED,
            ParseError,
            r"calls in a script are of operators, R.\*, and of functions of the module, got 'print\(x\)'",
        ),
        (BARE, ParseError, r"a parameter has a struct info such as R.Tensor\(\(64, 10\), 'float32'\), got 'x'"),
        (SHAPES, TypeRuleError, r"matmul: inner dimensions differ.*\[at text:6\]"),
    ],
)
def test_what_a_script_cannot_have(text, error, message):
    with pytest.raises(error, match=message):
        from_source(text, {"print": print})
