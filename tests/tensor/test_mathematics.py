"""Functions of mathematics on tensors: dtypes, methods and conventions; what they compute is tested with ops."""

import math

import numpy as np
import pytest

import adjoint as torch
from adjoint import nn
from adjoint.errors import AdjointError
from adjoint.nn import functional as F  # noqa: N812
from adjoint.tensor.norms import vector_norm

X = np.array([[0.5, -0.25, 0.75], [0.1, 0.9, -0.6]], np.float32)


def message(call):
    with pytest.raises(AdjointError) as error:
        call()
    return error.value.message


def test_functions_of_one_tensor_are_those_of_numpy():
    """All are read by one program; integers are converted to f32."""
    x = torch.tensor(X)
    made = {
        name: getattr(x, name)() for name in ("asin", "acos", "atan", "asinh", "atanh", "arcsin", "sinc", "signbit")
    }
    made |= {"acosh": torch.acosh(x + 2), "lgamma": x.abs().lgamma(), "erfinv": x.erf().erfinv(), "fix": (4 * x).fix()}
    whole = torch.tensor([1, 2, 5]).lgamma()
    wanted = {
        "asin": np.arcsin(X),
        "acos": np.arccos(X),
        "atan": np.arctan(X),
        "asinh": np.arcsinh(X),
        "atanh": np.arctanh(X),
        "arcsin": np.arcsin(X),
        "sinc": np.sinc(X),
        "signbit": np.signbit(X),
        "acosh": np.arccosh(X + 2),
        "lgamma": np.vectorize(math.lgamma)(abs(X)),
        "erfinv": X,
        "fix": np.trunc(4 * X),
    }
    for name, tensor in made.items():
        np.testing.assert_allclose(tensor.numpy(), wanted[name], rtol=2e-6, atol=1e-7, err_msg=name)
    assert whole.dtype == torch.float32
    np.testing.assert_allclose(whole.numpy(), [0, 0, math.log(24)], rtol=1e-6)


def test_functions_of_two_tensors_promote_as_in_pytorch():
    x, n = torch.tensor(X), torch.tensor([[1], [-2]])
    angle, far, low = torch.atan2(n, x), n.hypot(x), torch.fmax(n, torch.tensor([0, 5, 9]))
    lifted, power = x.logaddexp(torch.tensor(0.0)), x.ldexp(n)
    np.testing.assert_allclose(angle.numpy(), np.arctan2([[1], [-2]], X), rtol=1e-6)
    np.testing.assert_allclose(far.numpy(), np.hypot([[1], [-2]], X), rtol=1e-6)
    np.testing.assert_allclose(lifted.numpy(), np.logaddexp(X, 0), rtol=1e-6)
    np.testing.assert_allclose(power.numpy(), X * np.array([[2], [0.25]]), rtol=1e-6)
    assert (low.dtype, low.tolist()) == (torch.int64, [[1, 5, 9], [0, 5, 9]])


def test_bits_of_integers():
    n = torch.tensor([12, -7, 5])
    made = [n & 10, n | 1, n ^ n, ~n, n << 2, n >> 1, n.bitwise_and(torch.tensor(3, dtype=torch.int8))]
    assert [m.tolist() for m in made] == [
        [8, 8, 0],
        [13, -7, 5],
        [0, 0, 0],
        [-13, 6, -6],
        [48, -28, 20],
        [6, -4, 2],
        [0, 1, 1],
    ]
    assert (torch.tensor([True, False]) & torch.tensor([1, 1])).dtype == torch.int64


def test_running_sums_and_extremes():
    x = torch.tensor([[1.0, 3.0, 3.0, 2.0]], requires_grad=True)
    best = x.cummax(1)
    least = torch.cummin(x, 1)
    total = x.cumsum(1).sum() + x.cumprod(-1).sum() + best.values.sum() + x.logcumsumexp(1).sum()
    total.backward()
    assert best.indices.tolist() == [[0, 1, 2, 2]]
    assert least.values.tolist() == [[1, 1, 1, 1]]
    assert torch.tensor(3.0).cumsum(0).item() == 3.0
    assert torch.tensor([True, True]).cumsum(0).tolist() == [1, 2]
    # torch.autograd.grad of the same in PyTorch 2.13.
    np.testing.assert_allclose(x.grad.numpy(), [[37.2366, 15.7486, 13.8678, 10.1470]], rtol=1e-5)


def test_differences_and_integrals():
    x = torch.tensor([[1.0, 4.0, 9.0]])
    assert x.diff().tolist() == [[3, 5]]
    assert torch.diff(x, prepend=torch.tensor([[0.0]]), append=torch.tensor([[9.0]])).tolist() == [[1, 3, 5, 0]]
    assert torch.trapezoid(x, dx=2.0).tolist() == [18]
    assert torch.trapz(x, torch.tensor([0, 1, 3])).tolist() == [15.5]
    assert message(lambda: torch.trapezoid(x, x, dx=1.0)) == (
        "trapezoid: either x or dx must be given, got both, dx=1.0; leave dx out"
    )


def test_norms_and_distances():
    x = torch.tensor([[3.0, 4.0], [0.0, 0.0]], requires_grad=True)
    (x.norm(dim=1).sum() + F.normalize(x).sum() + x.std(1).sum()).backward()
    # torch.autograd.grad of the same in PyTorch 2.13.
    np.testing.assert_allclose(x.grad.numpy(), [[-0.075107, 1.4831], [1e12, 1e12]], rtol=1e-4)
    y = x.detach()
    made = [vector_norm(y, 1), y.dist(torch.tensor([3.0, 0.0])), torch.cdist(y, y)[0, 1], torch.pdist(y)[0]]
    np.testing.assert_allclose([m.item() for m in made], [7, 5, 5, 5], rtol=1e-6)
    np.testing.assert_allclose(y.renorm(2, 0, 1.0).numpy(), [[0.6, 0.8], [0, 0]], rtol=1e-6)
    pair = nn.PairwiseDistance(p=1)(y, y * 0), nn.CosineSimilarity()(y, y)
    np.testing.assert_allclose(pair[0].detach().numpy(), [7, 0], atol=1e-5)
    np.testing.assert_allclose(pair[1].numpy(), [1, 0], rtol=1e-6)
    assert message(lambda: torch.pdist(torch.ones(2))) == (
        "pdist: the operand must be a matrix, got f32[2]; use cdist for batches of them"
    )
    assert message(lambda: torch.norm(torch.tensor([1, 2]))) == (
        "norm: the dtype must be float, got i64[2]; convert it with float()"
    )


def test_sums_without_nan():
    x = torch.tensor([[1.0, math.nan], [2.0, 3.0]])
    assert x.nansum().item() == 6
    assert x.nanmean(0).tolist() == [1.5, 3]
    assert torch.nansum(torch.tensor([True, True])).item() == 2


def test_activations_that_draw_or_gate():
    x = torch.tensor([[-1.0, 2.0, -3.0, 4.0]])
    torch.manual_seed(0)
    layer = nn.RReLU(0.1, 0.3)
    slopes = layer(torch.full((1000,), -1.0))
    fixed = layer.eval()(x)
    gated = nn.SwiGLU()(x)
    drawn = -slopes.numpy()
    assert drawn.min() >= 0.1
    assert drawn.max() <= 0.3
    # The standard error of the mean is 0.2 / sqrt(12 * 1000) = 0.0018.
    assert abs(drawn.mean() - 0.2) < 0.008
    np.testing.assert_allclose(fixed.numpy(), [[-0.2, 2, -0.6, 4]], rtol=1e-6)
    np.testing.assert_allclose(gated.numpy(), [[3 / (1 + math.e), 8 / (1 + math.exp(-2))]], rtol=1e-6)
    assert repr(layer) == "RReLU(lower=0.1, upper=0.3)"
    assert repr(nn.LeakyReLU(0.2, inplace=True)) == "LeakyReLU(negative_slope=0.2, inplace=True)"
    assert (
        message(lambda: F.rrelu(x, 0.5, 0.1)) == "rrelu: lower must be at most upper, got 0.5 and 0.1; exchange them?"
    )
    image = torch.zeros(2, 4, 1, 1)
    assert nn.Softmax2d()(image).tolist() == np.full((2, 4, 1, 1), 0.25).tolist()
    assert message(lambda: nn.Softmax2d()(x)) == (
        "Softmax2d: the input must be [N, C, H, W] or [C, H, W], got the shape (1, 4); use Softmax for others"
    )


def test_no_differences_are_taken_of_what_would_be_joined():
    x = torch.tensor([1.0, 3.0])
    assert torch.diff(x, n=0, append=torch.tensor([4.0])).tolist() == [1.0, 3.0]
