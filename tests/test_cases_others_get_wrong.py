"""Cases that other compilers of gradients get wrong, each through every door: graphs, tensors, functions of tensors.

The gradients of all cases are computed by one program per door. Each case is a result, contracted with the cotangent
1, 2, 3, ..., and the gradients that NumPy's loops and formulas give.
"""

import numpy as np
import pytest

import adjoint
from adjoint import CompileOptions, Function, compile, grad, jit, ops, param, scan, tensor, value_and_grad
from adjoint.compiler import compiled_graph, host
from adjoint.losses import CrossEntropyLoss, cross_entropy, nll
from adjoint.nn import functional
from adjoint.tensor.explain import log
from adjoint.transforms.batch_axis import batch_inputs
from adjoint.transforms.differentiate import gradient
from adjoint.transforms.mask_batch import mask_batch

ONE_THREAD = CompileOptions(threads=1, cache=False)
RNG = np.random.default_rng(16)

IDS = np.array([[2, 0], [2, 2]])
MASK = np.array([[True, False, True], [False, False, True]])
LABELS = np.array([1, -1, 2, 1, -1])
WEIGHTS = np.array([0.5, 2.0, 3.0], np.float32)


def counting(shape):
    """The cotangent of a case: 1, 2, 3, ..."""
    return np.arange(1.0, 1.0 + np.prod(shape)).reshape(shape).astype(np.float32)


def random(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def taken_gradient(rows):
    made = np.zeros((rows, 2))
    np.add.at(made, IDS, counting((2, 2, 2)))
    return made


def where_gradients():
    ct = counting((2, 3))
    return (ct * MASK).sum(0), (ct * ~MASK).sum(1, keepdims=True)


def nll_gradient():
    """Of ``sum_i(-w[y_i] * x[i, y_i]) / sum_i(w[y_i])`` over rows with a label that counts."""
    made, kept = np.zeros((5, 3)), LABELS >= 0
    made[np.flatnonzero(kept), LABELS[kept]] = -WEIGHTS[LABELS[kept]]
    return made / WEIGHTS[LABELS[kept]].sum()


IMAGE, KERNEL = random(1, 2, 7, 7), random(3, 2, 3, 3)


def dilated_gradients():
    """Of a convolution with dilation 2, term by term."""
    ct = counting((1, 3, 3, 3)).astype(float)
    of_image, of_kernel = np.zeros(IMAGE.shape), np.zeros(KERNEL.shape)
    for o, c, i, j, a, b in np.ndindex(3, 2, 3, 3, 3, 3):
        of_image[0, c, i + 2 * a, j + 2 * b] += ct[0, o, i, j] * KERNEL[o, c, a, b]
        of_kernel[o, c, a, b] += ct[0, o, i, j] * IMAGE[0, c, i + 2 * a, j + 2 * b]
    return of_image, of_kernel


def later_sums(shape):
    """The gradient of an exclusive running sum along axis 1: the sum of all later cotangents."""
    ct = counting(shape)
    return ct[:, ::-1].cumsum(1)[:, ::-1] - ct


#: For each case: the arrays; the result in graphs; the result of tensors; the gradients.
CASES = {
    "concat of one tensor": (
        [random(2, 3)],
        lambda x: ops.concat(x, axis=1),
        lambda x: adjoint.cat([x], 1),
        [counting((2, 3))],
    ),
    "cumsum, exclusive": (
        [random(2, 4)],
        lambda x: ops.cumsum(x, 1, exclusive=True),
        lambda x: adjoint.cumsum(x, 1, exclusive=True),
        [later_sums((2, 4))],
    ),
    "take with 2-d and repeated indices": (
        [random(4, 2)],
        lambda x: ops.take(x, ops.constant(IDS)),
        lambda x: x[tensor(IDS)],
        [taken_gradient(4)],
    ),
    "where with broadcast operands": (
        [random(3), random(2, 1)],
        lambda x, y: ops.where(ops.constant(MASK), x, y),
        lambda x, y: adjoint.where(tensor(MASK), x, y),
        where_gradients(),
    ),
    "NLL with weights and an ignored index that occurs": (
        [random(5, 3)],
        lambda x: nll(x, ops.constant(LABELS), WEIGHTS, -1),
        lambda x: functional.nll_loss(x, tensor(LABELS), tensor(WEIGHTS), ignore_index=-1),
        [nll_gradient()],
    ),
    "conv with dilation 2": (
        [IMAGE, KERNEL],
        lambda x, w: ops.conv2d(x, w, dilation=2),
        lambda x, w: functional.conv2d(x, w, dilation=2),
        dilated_gradients(),
    ),
    "one part of a split": (
        [random(6, 2)],
        lambda x: x[2:4],
        lambda x: adjoint.split(x, 2)[1],
        [np.concatenate([np.zeros((2, 2)), counting((2, 2)), np.zeros((2, 2))])],
    ),
}
GIVEN = {name: [f"{name}{n}".replace(" ", "_") for n in range(len(case[0]))] for name, case in CASES.items()}


def through_a_graph():
    params, total = {}, None
    for case, (arrays, build, _, _) in CASES.items():
        own = [param(f"p{len(params) + n}", a.shape, a.dtype) for n, a in enumerate(arrays)]
        params |= dict(zip(GIVEN[case], own, strict=True))
        result = build(*own)
        term = (result * ops.constant(counting(result.shape))).sum()
        total = term if total is None else total + term
    run = compile(gradient(Function("cases", tuple(params.values()), (total,))), options=ONE_THREAD)
    found = run(*(array for arrays, *_ in CASES.values() for array in arrays))
    return dict(zip(params, found[1:], strict=True))


def of_tensors(given):
    total = 0.0
    for case, (_, _, build, _) in CASES.items():
        result = build(*(given[name] for name in GIVEN[case]))
        total = total + (result * tensor(counting(tuple(result.shape)))).sum()
    return total


def arrays_by_name():
    return {n: a for case, (arrays, *_) in CASES.items() for n, a in zip(GIVEN[case], arrays, strict=True)}


def through_tensors():
    given = {name: tensor(array, requires_grad=True) for name, array in arrays_by_name().items()}
    of_tensors(given).backward()
    return {name: x.grad.numpy() for name, x in given.items()}


def through_functions():
    found = grad(of_tensors)({name: tensor(array) for name, array in arrays_by_name().items()})
    return {name: x.numpy() for name, x in found.items()}


DOORS = {"graph": through_a_graph, "tensors": through_tensors, "functions": through_functions}


@pytest.fixture(scope="module", params=DOORS)
def gradients(request):
    return DOORS[request.param]()


@pytest.mark.parametrize("case", CASES)
def test_gradients(case, gradients):
    for name, want in zip(GIVEN[case], CASES[case][3], strict=True):
        assert gradients[name].shape == want.shape
        np.testing.assert_allclose(gradients[name], want, rtol=2e-5, atol=2e-5)


def test_one_hot_cross_entropy_has_the_bits_of_index_cross_entropy():
    x, y = random(33, 7), RNG.integers(0, 7, 33)
    hot = np.eye(7, dtype=np.float32)[y]
    logits, found = param("logits", x.shape), []
    for target in (y, hot):
        given = param("target", target.shape, target.dtype)
        function = gradient(Function("loss", (logits, given), (cross_entropy(logits, given),)), "logits")
        found.append(compile(function, options=ONE_THREAD)(x, target))
        as_tensor = tensor(x, requires_grad=True)
        loss = functional.cross_entropy(as_tensor, tensor(target))
        loss.backward()
        found.append((loss.numpy(force=True), as_tensor.grad.numpy()))
        found.append([r.numpy() for r in value_and_grad(functional.cross_entropy)(tensor(x), tensor(target))])
    for value, slope in found[1:]:
        assert value.tobytes() == found[0][0].tobytes()
        assert slope.tobytes() == found[0][1].tobytes()
    wide = x.astype(float)
    want = (np.log(np.exp(wide).sum(1)) - wide[np.arange(33), y]).mean()
    np.testing.assert_allclose(found[0][0], want, rtol=1e-6)


def test_the_mean_loss_of_ignored_labels_alone_is_nan_and_its_gradient_0():
    """As the docstring of `cross_entropy` says, and as in PyTorch."""
    x, y = random(2, 3), np.array([-100, -100])
    types = (ops.constant(x).type, ops.constant(y).type)
    function = gradient(CrossEntropyLoss().function(*types), "predictions")
    value, slope = compile(function, options=ONE_THREAD)(x, y)
    given = tensor(x, requires_grad=True)
    loss, total = (functional.cross_entropy(given, tensor(y), reduction=r) for r in ("mean", "sum"))
    loss.backward()
    assert np.isnan([value, loss.item()]).all()
    assert total.item() == 0.0
    assert not slope.any()
    assert not given.grad.numpy().any()


def test_one_leaf_of_a_nested_tuple_has_a_gradient_and_the_others_zeros():
    params = (tensor([1.0, 2.0]), (tensor([3.0]), [tensor([[4.0, 5.0]]), tensor([6.0])]))

    def loss(params):
        return (params[1][1][0] ** 2).sum()

    def looped(params):
        """The same leaf, in the carry of a loop."""
        carry, _ = scan(lambda c, _: ((c[0], (c[1][0], [c[1][1][0] * 2.0, c[1][1][1]])), None), params, length=2)
        return (carry[1][1][0] ** 2).sum()

    for function, factor in ((loss, 2.0), (looped, 32.0), (jit(loss), 2.0)):
        one, (two, (three, four)) = grad(function)(params)
        np.testing.assert_allclose(three.numpy(), factor * np.array([[4.0, 5.0]]))
        assert [x.numpy().tolist() for x in (one, two, four)] == [[0.0, 0.0], [0.0], [0.0]]


def test_gradients_pass_through_calls_and_unused_parameters_get_zeros():
    x, y, unused = param("x", (3,)), param("y", (3,)), param("unused", (2,))
    a, b = param("a", (3,)), param("b", (3,))
    inner = Function("inner", (a, b), (a * b, a + b))
    product, _ = ops.call(inner, x, y)
    outer = Function("outer", (x, y, unused), ((product * product).sum(),))
    given = [random(3), random(3), random(2)]
    want = [2 * given[0] * given[1] ** 2, 2 * given[0] ** 2 * given[1], np.zeros(2)]
    inner_of_tensors = jit(lambda a, b: (a * b, a + b))

    def loss(x, y, _unused):
        return (inner_of_tensors(x, y)[0] ** 2).sum()

    tensors = [tensor(array, requires_grad=True) for array in given]
    loss(*tensors).backward()
    assert tensors[2].grad is None, "as in PyTorch"
    found = [
        compile(gradient(outer), options=ONE_THREAD)(*given)[1:],
        [x.numpy() for x in grad(loss, argnums=(0, 1, 2))(*map(tensor, given))],
        [*(x.grad.numpy() for x in tensors[:2]), np.zeros(2)],
    ]
    for door in found:
        for got, other in zip(door, want, strict=True):
            np.testing.assert_allclose(got, other, rtol=1e-6)


def test_a_checkpoint_survives_cse_and_has_a_smaller_arena():
    x, w = tensor(random(64, 32)), tensor(random(32, 32), requires_grad=True)

    def block(x):
        for _ in range(4):
            x = (x @ w).tanh()
        return x

    arenas, products, slopes = [], [], []
    for inner in (block, adjoint.checkpoint(block)):
        step = jit(lambda x, inner=inner: value_and_grad(lambda x: inner(inner(x)).sum(), 0, w)(x))
        slopes.append(step(x)[1][1].numpy(force=True))
        function = step.lower(x)
        graph = compiled_graph(function, host(), ONE_THREAD)
        products.append(sum(v.op.name == "tanh" for v in graph.values()))
        arenas.append(compile(function, options=ONE_THREAD)[function.name].memory.arena)
    assert products == [8, 16], "computed again, not merged with the first computation"
    assert arenas[1] < 0.8 * arenas[0]
    np.testing.assert_allclose(slopes[1], slopes[0], rtol=1e-5, atol=1e-5)


def test_one_program_takes_a_batch_of_2_and_then_of_5():
    w, before = random(3, 2), log.count

    @jit(dynamic={"x": {0: "n"}}, bound=5)
    def step(x, w):
        return value_and_grad(lambda w: ((x @ w) ** 2).mean())(w)

    x, kernel = param("x", (5, 3)), param("w", (3, 2))
    function = Function("loss", (x, kernel), (ops.mean((x @ kernel).square()),))
    run = compile(gradient(mask_batch(function, batch_inputs(function, (x,))), "w"), options=ONE_THREAD)
    for rows in (2, 5):
        given = random(rows, 3)
        product = given.astype(float) @ w
        want = (product**2).mean(), 2 * given.T @ product / product.size
        padded = np.concatenate([given, np.repeat(given[:1], 5 - rows, 0)])
        found = [tuple(r.numpy() for r in step(tensor(given), tensor(w))), run(padded, w, np.int32(rows))]
        for value, slope in found:
            np.testing.assert_allclose(value, want[0], rtol=1e-5)
            np.testing.assert_allclose(slope, want[1], rtol=1e-4, atol=1e-6)
    assert log.count == before + 1
