"""Random functions under random nests of grad, vjp, jvp, vmap and jit, which must agree with each other."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as torch
from adjoint import grad, hessian, jit, jvp, vjp, vmap

#: Smooth functions of a vector, of at most order one on the unit cube.
UNARY = {
    "sin": torch.sin,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "square": lambda x: x * x,
    "exp": lambda x: torch.exp(x) / 3,
    "roll": lambda x: torch.cat((x[1:], x[:1])),
    "softmax": lambda x: torch.softmax(x, 0),
    "cumulate": lambda x: x * x.sum() / 3,
}


def function_of(names):
    """A scalar function of a vector, made of these."""

    def function(x):
        y = x
        for name in names:
            y = UNARY[name](y)
        return (y * x).sum()

    return function


names = st.lists(st.sampled_from(sorted(UNARY)), min_size=1, max_size=4)
vectors = st.lists(st.floats(-1, 1, width=32), min_size=6, max_size=6)


@settings(max_examples=8, deadline=None)
@given(names, vectors, st.booleans())
def test_nests_agree(names, numbers, traced):
    f = function_of(names)
    x = torch.tensor(numbers[:3], dtype=torch.float64)
    v = torch.tensor(numbers[3:], dtype=torch.float64)
    rows = torch.stack((x, v, x + v))

    def both(g):
        return jit(g) if traced else g

    first = both(grad(f))(x)
    pulled = vjp(f, x)[1](torch.ones((), dtype=torch.float64))
    pulled = pulled[0] if isinstance(pulled, tuple) else pulled
    _, along = jvp(f, (x,), (v,))
    second = both(lambda x: grad(lambda x: (grad(f)(x) * v).sum())(x))(x)
    _, forward = jvp(grad(f), (x,), (v,))
    matrix = hessian(f)(x)
    mapped = both(vmap(grad(f)))(rows)
    values = vmap(f)(rows)
    results = [t.numpy(force=True) for t in (first, pulled, along, second, forward, matrix, mapped, values)]
    first, pulled, along, second, forward, matrix, mapped, values = results
    direction = v.numpy()

    def close(a, b):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)

    close(pulled, first)
    close(along, first @ direction)
    close(matrix, matrix.T)
    close(second, matrix @ direction)
    close(forward, second)
    close(mapped[0], first)
    close(values[0], float(f(x).item()))
    # Against central differences, whose error is of the order of h**2 and of rounding over h.
    h = 1e-5
    moved = [float(f(x + h * sign * v).item()) for sign in (1, -1)]
    np.testing.assert_allclose(first @ direction, (moved[0] - moved[1]) / (2 * h), rtol=1e-5, atol=1e-7)
