"""The list of operators against the operators themselves."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

from adjoint import ops
from adjoint.ir import Function, Value, is_float, methods, param, syntax
from adjoint.ir.value import apply
from adjoint.ops.catalogue import CATALOGUE, FAMILIES
from adjoint.ops.listing import listed_operators
from adjoint.testing.interpreter import interpret
from adjoint.transforms import gradient

LISTED = {each.name: each for each in listed_operators()}

x = param("x", (4, 4))
KEY = ops.random.key(0)
HALF, PAIR = ops.constant(np.float32(0.5)), ops.constant(np.array([0, 2]))
PAIRS = ops.constant(np.array([[0, 1], [2, 2]]))
#: A call of each composite, with operands that depend on x.
COMPOSITES = {
    "adaptive_avg_pool1d": lambda: ops.adaptive_avg_pool1d(x[None], 3),
    "adaptive_avg_pool2d": lambda: ops.adaptive_avg_pool2d(x[None, None], 2),
    "adaptive_avg_pool3d": lambda: ops.adaptive_avg_pool3d(x[None, None, None], (1, 2, 3)),
    "adaptive_max_pool1d": lambda: ops.adaptive_max_pool1d(x[None], 3),
    "adaptive_max_pool1d_with_indices": lambda: ops.adaptive_max_pool1d_with_indices(x[None], 2)[0],
    "adaptive_max_pool2d": lambda: ops.adaptive_max_pool2d(x[None, None], 2),
    "adaptive_max_pool2d_with_indices": lambda: ops.adaptive_max_pool2d_with_indices(x[None, None], 2)[0],
    "adaptive_max_pool3d": lambda: ops.adaptive_max_pool3d(x[None, None, None], (1, 2, 2)),
    "adaptive_max_pool3d_with_indices": lambda: ops.adaptive_max_pool3d_with_indices(x[None, None, None], 1)[0],
    "affine_grid": lambda: ops.affine_grid(x[None, :2, :3], (1, 1, 2, 2)),
    "avg_pool1d": lambda: ops.avg_pool1d(x[None], 2),
    "all": lambda: ops.cast(ops.all(x), "f32"),
    "any": lambda: ops.cast(ops.any(x), "f32"),
    "avg_pool2d": lambda: ops.avg_pool2d(x[None, None], 2),
    "avg_pool3d": lambda: ops.avg_pool3d(x[None, None, None], (1, 2, 2)),
    "batch_norm": lambda: ops.batch_norm(x, param("mean", (4,)), param("var", (4,)))[0],
    "batch_norm_inference": lambda: ops.batch_norm_inference(x, x[0], x[1] + 1.0),
    "broadcast": lambda: ops.broadcast(x, x[0])[1],
    "cholesky_solve": lambda: ops.cholesky_solve(x, x + 3 * ops.eye(4)),
    "coo_matmul": lambda: ops.coo_matmul(PAIR, PAIR, x[0, :2], x, 4),
    "csr_matmul": lambda: ops.csr_matmul(ops.constant(np.array([0, 1, 2])), PAIR, x[0, :2], x),
    "det": lambda: ops.det(x),
    "diag_embed": lambda: ops.diag_embed(x),
    "diagonal": lambda: ops.diagonal(x, 1),
    "channel_shuffle": lambda: ops.channel_shuffle(x[None], 2),
    "conv1d": lambda: ops.conv1d(x[None], x[None, :, :2]),
    "conv_transpose1d": lambda: ops.conv_transpose1d(x[None], x[:, None]),
    "cdist": lambda: ops.cdist(x, 2.0 * x),
    "celu": lambda: ops.celu(x),
    "eigh": lambda: ops.eigh(x)[0],
    "qr": lambda: ops.qr(x)[1],
    "svd": lambda: ops.svd(x)[1],
    "elu": lambda: ops.elu(x),
    "glu": lambda: ops.glu(x),
    "hardshrink": lambda: ops.hardshrink(x),
    "hardsigmoid": lambda: ops.hardsigmoid(x),
    "hardswish": lambda: ops.hardswish(x),
    "hardtanh": lambda: ops.hardtanh(x),
    "logsigmoid": lambda: ops.logsigmoid(x),
    "mish": lambda: ops.mish(x),
    "prelu": lambda: ops.prelu(x - 2.0, x[0]),
    "relu6": lambda: ops.relu6(x),
    "selu": lambda: ops.selu(x),
    "softmin": lambda: ops.softmin(x),
    "softshrink": lambda: ops.softshrink(x),
    "softsign": lambda: ops.softsign(x),
    "swiglu": lambda: ops.swiglu(x),
    "tanhshrink": lambda: ops.tanhshrink(x),
    "threshold": lambda: ops.threshold(x, 1.0, 0.0),
    "ceil": lambda: ops.ceil(x),
    "copysign": lambda: ops.copysign(x, -1.0),
    "count_nonzero": lambda: ops.cast(ops.count_nonzero(x), "f32"),
    "deg2rad": lambda: ops.deg2rad(x),
    "diff": lambda: ops.diff(x),
    "digamma": lambda: ops.digamma(x),
    "dropout": lambda: ops.dropout(x, KEY),
    "einsum": lambda: ops.einsum("ij,kj->ik", x, x),
    "embedding": lambda: ops.embedding(x, ops.iota((2,))),
    "expand_dims": lambda: ops.expand_dims(x, 0),
    "eye": lambda: ops.eye(4),
    "flatten": lambda: ops.flatten(x),
    "floor_divide": lambda: ops.cast(ops.floor_divide(ops.cast(x, "i32"), 2), "f32"),
    "fmax": lambda: ops.fmax(x, 1.0),
    "fmin": lambda: ops.fmin(x, 1.0),
    "fmod": lambda: ops.fmod(x, 1.0),
    "frac": lambda: ops.frac(x),
    "fori_loop": lambda: ops.fori_loop(0, 2, lambda _, c: c * 2.0, x),
    "full_like": lambda: ops.full_like(x, 2.0),
    "gather_nd": lambda: ops.gather_nd(x, PAIRS),
    "getitem": lambda: ops.getitem(x, 0),
    "inv": lambda: ops.inv(x),
    "kthvalue": lambda: ops.kthvalue(x, 2)[0],
    "grid_sample": lambda: ops.grid_sample(x[None, None], ops.full(0.25, (1, 2, 2, 2))),
    "group_norm": lambda: ops.group_norm(x, 2),
    "instance_norm": lambda: ops.instance_norm(x[None]),
    "interpolate": lambda: ops.interpolate(x[None], 3),
    "heaviside": lambda: ops.heaviside(x - x, x),
    "hypot": lambda: ops.hypot(x, 1.0),
    "isfinite": lambda: ops.cast(ops.isfinite(x), "f32"),
    "isinf": lambda: ops.cast(ops.isinf(x), "f32"),
    "isnan": lambda: ops.cast(ops.isnan(x), "f32"),
    "isneginf": lambda: ops.cast(ops.isneginf(x), "f32"),
    "isposinf": lambda: ops.cast(ops.isposinf(x), "f32"),
    "layer_norm": lambda: ops.layer_norm(x),
    "ldexp": lambda: ops.ldexp(x, 2.0),
    "leaky_relu": lambda: ops.leaky_relu(x),
    "linear": lambda: ops.linear(x, x, x[0]),
    "local_response_norm": lambda: ops.local_response_norm(x[None], 2),
    "log10": lambda: ops.log10(x),
    "log_softmax": lambda: ops.log_softmax(x),
    "logdet": lambda: ops.logdet(ops.matmul(x, x, transpose_b=True) + ops.eye(4)),
    "logsumexp": lambda: ops.logsumexp(x),
    "lp_pool1d": lambda: ops.lp_pool1d(x[None], 2, 2),
    "lp_pool2d": lambda: ops.lp_pool2d(x[None, None], 2, 2),
    "lp_pool3d": lambda: ops.lp_pool3d(x[None, None, None], 2, (1, 2, 2)),
    "max_pool1d": lambda: ops.max_pool1d(x[None], 2),
    "max_pool1d_with_indices": lambda: ops.max_pool1d_with_indices(x[None], 2)[0],
    "max_pool2d_with_indices": lambda: ops.max_pool2d_with_indices(x[None, None], 2)[0],
    "max_pool3d": lambda: ops.max_pool3d(x[None, None, None], (1, 2, 2)),
    "max_pool3d_with_indices": lambda: ops.max_pool3d_with_indices(x[None, None, None], (1, 2, 2))[0],
    "mean": lambda: ops.mean(x),
    "median": lambda: ops.median(x)[0],
    "mode": lambda: ops.mode(x)[0],
    "nanmedian": lambda: ops.nanmedian(x)[0],
    "nanquantile": lambda: ops.nanquantile(x, HALF, 1),
    "quantile": lambda: ops.quantile(x, HALF),
    "pad_mode": lambda: ops.pad_mode(x, (1, 0), (0, 1), "reflect"),
    "pixel_shuffle": lambda: ops.pixel_shuffle(x[..., None], 2),
    "pixel_unshuffle": lambda: ops.pixel_unshuffle(x[None], 2),
    "rms_norm": lambda: ops.rms_norm(x),
    "logaddexp": lambda: ops.logaddexp(x, 1.0),
    "logaddexp2": lambda: ops.logaddexp2(x, 1.0),
    "logcumsumexp": lambda: ops.logcumsumexp(x, 0),
    "logit": lambda: ops.logit(x / 4.0),
    "nan_to_num": lambda: ops.nan_to_num(x),
    "nanmean": lambda: ops.nanmean(x),
    "nansum": lambda: ops.nansum(x),
    "norm": lambda: ops.norm(x),
    "rad2deg": lambda: ops.rad2deg(x),
    "remainder": lambda: ops.remainder(x, 1.0),
    "scaled_dot_product_attention": lambda: ops.scaled_dot_product_attention(*3 * [x[None, None]]),
    "random.bernoulli": lambda: ops.cast(ops.random.bernoulli(KEY, ops.sigmoid(x)), "f32"),
    "random.beta": lambda: ops.random.beta(KEY, ops.exp(x), 2.0),
    "random.categorical": lambda: ops.cast(ops.random.categorical(KEY, x), "f32"),
    "random.cauchy": lambda: ops.random.cauchy(KEY, 4),
    "random.dirichlet": lambda: ops.random.dirichlet(KEY, ops.exp(x)),
    "random.exponential": lambda: ops.random.exponential(KEY, 4),
    "random.gamma": lambda: ops.random.gamma(KEY, ops.exp(x)),
    "random.geometric": lambda: ops.random.geometric(KEY, ops.sigmoid(x)),
    "random.gumbel": lambda: ops.random.gumbel(KEY, 4),
    "random.laplace": lambda: ops.random.laplace(KEY, 4),
    "random.lognormal": lambda: ops.random.lognormal(KEY, x),
    "random.poisson": lambda: ops.cast(ops.random.poisson(KEY, ops.exp(x)), "f32"),
    "random.truncated_normal": lambda: ops.random.truncated_normal(KEY, x - 3.0, 3.0),
    "random.bits": lambda: ops.cast(ops.random.bits(KEY, 4), "f32"),
    "random.fold_in": lambda: ops.cast(ops.random.fold_in(KEY, ops.cast(x[0, 0], "i32")), "f32"),
    "random.key": lambda: ops.cast(ops.random.key(ops.cast(x[0, 0], "i32")), "f32"),
    "random.normal": lambda: ops.random.normal(KEY, 4),
    "random.permutation": lambda: ops.random.permutation(KEY, x),
    "random.randint": lambda: ops.cast(ops.random.randint(KEY, 4, 0, ops.cast(x[0, 0], "i32")), "f32"),
    "random.split": lambda: ops.cast(ops.random.split(KEY, 4), "f32"),
    "random.uniform": lambda: ops.random.uniform(KEY, (4, 4), low=x, high=3.5),
    "scatter_nd": lambda: ops.scatter_nd(PAIRS, x[0, :2], (4, 4)),
    "scatter_reduce": lambda: ops.scatter_reduce(x, ops.iota((4, 4), 0), x, 1, "mean"),
    "segment_max": lambda: ops.segment_max(x, ops.iota((4,)), 5)[:4],
    "segment_mean": lambda: ops.segment_mean(x, ops.iota((4,)), 4),
    "segment_min": lambda: ops.segment_min(x, ops.iota((4,)), 5)[:4],
    "segment_sum": lambda: ops.segment_sum(x, ops.iota((4,)), 4),
    "signbit": lambda: ops.cast(ops.signbit(x), "f32"),
    "silu": lambda: ops.silu(x),
    "sinc": lambda: ops.sinc(x),
    "slice_axis": lambda: ops.slice_axis(x, 0, 1, 3),
    "slogdet": lambda: ops.slogdet(x)[1],
    "softmax": lambda: ops.softmax(x),
    "softplus": lambda: ops.softplus(x),
    "sort": lambda: ops.sort(x)[0],
    "squeeze": lambda: ops.squeeze(x[None]),
    "stack": lambda: ops.stack([x, x]),
    "swapaxes": lambda: ops.swapaxes(x, 0, 1),
    "topk": lambda: ops.topk(x, 2)[0],
    "transpose": lambda: ops.transpose(x),
    "tril": lambda: ops.tril(x),
    "triu": lambda: ops.triu(x),
    "trapezoid": lambda: ops.trapezoid(x),
    "true_divide": lambda: ops.true_divide(x, 3.0),
    "trunc": lambda: ops.trunc(x),
    "variance": lambda: ops.variance(x),
    "xlogy": lambda: ops.xlogy(x, x),
}


def test_every_operator_and_every_public_function_is_listed():
    random = {f"random.{name}" for name in ops.random.__all__ if not name.endswith("_array")}
    functions = {*ops.__all__, *random} - {"parse", "parse_function", "random"}
    assert {op.name for op in CATALOGUE} | functions == set(LISTED)
    assert {each.name for each in LISTED.values() if each.composite} == set(COMPOSITES)


def test_families_are_those_of_the_catalogue():
    families = [each.family for each in listed_operators()]
    assert [f for n, f in enumerate(families) if f not in families[:n]] == [
        *FAMILIES,
        "resizing",
        "control flow",
    ]
    assert families == sorted(families, key=families.index), "those of a family are next to each other"
    assert LISTED["matmul"].family == "contraction"
    assert LISTED["dropout"].family == "random"
    assert LISTED["scan"].family == "control flow"
    assert LISTED["avg_pool2d"].family == "pooling"
    assert LISTED["flatten"].family == "shape"
    assert LISTED["random.split"].family == "random"


@pytest.mark.parametrize("cls", CATALOGUE, ids=lambda cls: cls.name)
def test_operators_have_a_gradient_if_their_vjp_returns_one(cls):
    found = False
    for sample in cls.samples():
        if sample.error:
            continue
        inputs = [param(f"x{n}", array.shape, array.dtype) for n, array in enumerate(sample.inputs)]
        out = apply(sample.op, *inputs)
        if is_float(out.dtype):
            found |= any(ct is not None for ct in sample.op.vjp(param("ct", out.shape, out.dtype), out, *inputs))
    assert LISTED[cls.name].gradient == found
    assert bool(LISTED[cls.name].reason) == (not found)


@pytest.mark.parametrize("name", COMPOSITES)
def test_composites_have_a_gradient_if_it_is_not_zero(name):
    result = COMPOSITES[name]()
    assert result.op.name != name, "an operator of its own is no composite"
    weights = np.arange(1.0, 1.0 + result.size).reshape(result.shape) ** 2
    loss = Function("loss", (x, param("mean", (4,)), param("var", (4,))), (ops.sum(result * weights),))
    values = np.random.default_rng(0).uniform(0.5, 3.0, (4, 4)).astype(np.float32)
    _, found = interpret(gradient(loss, ["x"]), values, np.zeros(4, np.float32), np.ones(4, np.float32))
    assert LISTED[name].gradient == bool(np.any(found))


def test_summaries_and_signatures_are_those_of_the_functions():
    assert LISTED["softmax"].signature == "softmax(x, axis=-1)"
    assert LISTED["concat"].signature == "concat(*values, axis=0)"
    assert LISTED["relu"].summary == "``max(x, 0)``; its gradient at 0 is 0."
    assert LISTED["window_argmax"].signature is None
    assert all(each.summary for each in LISTED.values())


def called(python, monkeypatch):
    """The name of the function that a piece of Python calls."""
    names = []

    def operation(name):
        return lambda *_: names.append(name)

    for module in (methods, syntax):
        monkeypatch.setattr(module, "operation", operation)
    if match := re.fullmatch(r"x\.(\w+)\(\)", python):
        method = getattr(Value, match[1])
        needed = [p for p in inspect.signature(method).parameters.values() if p.default is p.empty]
        method(*[x if p.name == "self" else 0 for p in needed if p.kind is p.POSITIONAL_OR_KEYWORD])
    else:
        eval(python, {"x": x, "y": param("y", (4, 4))})
    return names


@pytest.mark.parametrize(
    ("name", "python"), [(each.name, python) for each in LISTED.values() for python in each.python]
)
def test_python_calls_the_function(name, python, monkeypatch):
    assert called(python, monkeypatch) == [name]


def test_all_of_pythons_syntax_and_every_method_is_listed():
    listed = {python for each in LISTED.values() for python in each.python}
    public = {name for name in vars(methods.Methods) if not name.startswith("_")} - {"ndim", "size"}
    assert {f"x.{name}" for name in public} == {
        python.removesuffix("()") for python in listed if python.startswith("x.")
    }
    used = set(re.findall(r'operation\("(\w+)"\)', Path(syntax.__file__).read_text()))
    assert used == {each.name for each in LISTED.values() if any(not re.match(r"x\.", p) for p in each.python)}
