"""Arithmetic against NumPy, dtypes against PyTorch's table, refusals."""

import numpy as np

import adjoint as torch
from tests.tensor.comparing import check, message

RNG = np.random.default_rng(0)
F = RNG.standard_normal((3, 4)).astype(np.float32)
G = RNG.standard_normal((3, 4)).astype(np.float32)
N = RNG.integers(-5, 6, (3, 4))
J = RNG.integers(1, 4, (3, 4))
B = F > 0


def test_floats_and_integers_as_in_numpy():
    f, g, i, j, b = map(torch.tensor, (F, G, N, J, B))
    check(
        (f + g, F + G),
        (f - 2, F - 2),
        (2 - f, 2 - F),
        (f.add(g, alpha=2), F + 2 * G),
        (i.sub(j, alpha=3), N - 3 * J),
        (torch.rsub(f, g), G - F),
        (f * g, F * G),
        (b * f, B * F),
        (f / g, F / G),
        (i / j, N / J),
        (3 / j, 3 / J),
        (i // j, N // J),
        (f // g, F // G),
        (i % j, N % J),
        (f % g, F % G),
        (torch.fmod(f, g), np.fmod(F, G)),
        (torch.fmod(i, j), np.fmod(N, J)),
        (torch.div(i, j, rounding_mode="trunc"), np.trunc(N / J)),
        (torch.div(f, g, rounding_mode="floor"), np.floor(F / G)),
        (-i, -N),
        (f**2, F**2),
        (f**3, F**3),
        (abs(f) ** 1.7, abs(F) ** 1.7),
        (i**3, N**3),
        (j**j, J**J),
        (2.0**f, 2.0**F),
        (torch.maximum(f, g), np.maximum(F, G)),
        (torch.minimum(i, j), np.minimum(N, J)),
        (f.clamp(-0.5, 0.5), F.clip(-0.5, 0.5)),
        (i.clamp(min=-1), N.clip(-1)),
        (f.clamp(g, g + 1), F.clip(G, G + 1)),
        (f.clamp(1.0, -1.0), np.full_like(F, -1)),
        (torch.lerp(f, g, 0.3), F + np.float32(0.3) * (G - F)),
        (torch.addcmul(f, g, f, value=0.5), F + 0.5 * G * F),
        (torch.addcdiv(f, g, j, value=2), F + 2 * G / J),
        (b + b, B),
        (torch.float_power(j, 0.5), J**0.5),
        (F * f, F * F),
        (f + np.float32(1), F + 1),
    )


def test_dtypes_are_those_of_pytorch():
    f, i, b, u = torch.tensor([1.5]), torch.tensor([2]), torch.tensor([True]), torch.tensor([3], dtype=torch.uint8)
    h, s = torch.tensor([1.0]).half(), torch.tensor(2.0, dtype=torch.float64)
    found = [x.dtype for x in (f + i, i + 1, i + 1.0, i / i, b + 1, u + i, h + f, f + s, i + s, b * 2.5, i // 2, u**2)]
    names = ["f32", "i64", "f32", "f32", "i64", "i64", "f32", "f32", "f64", "f32", "i64", "u8"]
    assert found == [torch.tensor([0]).to(torch.ir.types.DTYPES[name]).dtype for name in names]


def test_a_number_that_varies_is_compiled_twice_at_most():
    x = torch.tensor([1.0, 2.0])
    before = len(torch.explain_recompiles())
    for n in range(5):
        found = torch.add(x, x, alpha=0.5 + n).tolist()
        assert found == [1.5 + n, 2 * (1.5 + n)]
    assert len(torch.explain_recompiles()) - before <= 2


def test_refusals():
    i, b = torch.tensor([2]), torch.tensor([True])
    assert message(lambda: i**-1) == (
        "pow: an integer tensor takes exponents of at least 0, got -1; convert the tensor with float()"
    )
    assert message(lambda: b - b) == "sub: bools have no difference, got two bool operands; use logical_xor"
    assert message(lambda: i.clamp()) == (
        "clamp: at least one of min and max must be given, got None for both; pass one"
    )
    assert message(lambda: i.div(i, rounding_mode="up")) == (
        "div: rounding_mode must be None, 'floor' or 'trunc', got 'up'"
    )
    assert message(lambda: i + "a") == (
        "an operand must be a tensor or a number, got a str; convert it with tensor() or from_numpy()"
    )


def test_gradients_of_what_is_composed():
    x = torch.tensor([0.3, -1.2, 2.5], dtype=torch.float64, requires_grad=True)
    f = lambda v: (v**3 + 2 / v + v.clamp(-1, 1) * v % 0.7 + torch.lerp(v, v * v, 0.25)).sum()  # noqa: E731
    f(x).backward()
    a, h = x.detach().numpy().copy(), 1e-6
    steps = np.eye(3) * h
    wanted = [(f(torch.tensor(a + d)) - f(torch.tensor(a - d))).item() / (2 * h) for d in steps]
    # `%` has the derivative 1 for its dividend, and `//` none.
    np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-6)


def test_products_and_limits_of_bools():
    a, b = torch.tensor([True, True, False, False]), torch.tensor([True, False, True, False])
    both, either = [True, False, False, False], [True, True, True, False]
    check(
        (a.clamp(min=b), either),
        (a.clamp(max=b), both),
        (torch.fmax(a, b), either),
        (torch.fmin(a, b), both),
        (torch.heaviside(a, b), either),
        (torch.outer(a, b)[1], b.numpy()),
        (torch.kron(a, b)[:4], b.numpy()),
        (torch.inner(a[0], b), b.numpy()),
        (torch.addr(b, a, a)[3], b.numpy()),
        (torch.add(a, b, alpha=False), a.numpy()),
        (a.square(), [1, 1, 0, 0]),
    )


def test_powers_and_factors_of_integers():
    """The results of PyTorch 2.13: factors of integers are rounded towards zero."""
    vector, matrix = torch.tensor([1, 2]), torch.tensor([[1, 2], [3, 4]])
    check(
        (torch.tensor([0, 2, -1]) ** torch.tensor([-1, -2, -3]), [0, 0, -1]),
        (torch.addmv(vector, matrix, vector, beta=0.2, alpha=2.6), [10, 22]),
    )
