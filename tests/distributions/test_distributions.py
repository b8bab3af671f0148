"""Distributions: densities, entropies and divergences are those of PyTorch 2.13; moments of what is drawn."""

import numpy as np
import pytest

import adjoint as torch
from adjoint import distributions as D  # noqa: N812
from adjoint.errors import AdjointError


def leaf(*values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def pairs(a, b, c):
    return [
        (D.Normal(c, a), D.Normal(a, b)),
        (D.Uniform(c - 2, a + b + 1), D.Uniform(c - a - 2, b + 3)),
        (D.Exponential(a), D.Exponential(b)),
        (D.Laplace(c, a), D.Laplace(b, b)),
        (D.Gamma(a, b), D.Gamma(b, a)),
        (D.Beta(a, b), D.Beta(b, a)),
        (D.Bernoulli(logits=c), D.Bernoulli(probs=a / 3)),
    ]


# For each pair: p.log_prob(x), p.entropy() and kl_divergence(p, q), summed over three distributions, and the sums of
# the gradients of the divergence with respect to a, b and c; printed by PyTorch 2.13 with this code.
NUMBERS = {
    "Normal": (-3.35382668361, 4.51917986408, 14.4460143846, 17.6857075024, -75.597239369, -7.51265432099),
    "Uniform": (-4.83745582082, 4.83745582082, 1.01281375762, -0.175012589482, -0.175012589482, 0.175012589482),
    "Exponential": (-2.00763573553, 2.73763573553, 1.1293298699, -1.61420118343, -0.84188034188, 0),
    "Laplace": (-3.37065195999, 5.34180580615, 4.05972803109, -0.220281476437, -10.2308345083, -0.737148888591),
    "Gamma": (-1.96447412283, 3.23891211894, 10.0487329362, 4.13664579428, -24.5056208864, 0),
    "Beta": (1.10896961149, -1.5027302032, 5.6724860947, -0.552393198722, -11.6037112912, 0),
    "Bernoulli": (-1.96575580137, 1.95239766823, 0.222198029682, -0.876071525306, 0, 0.496337004475),
}


def test_numbers_are_those_of_pytorch():
    a, b, c = leaf(0.5, 1.3, 2.0), leaf(0.9, 2.0, 0.4), leaf(-0.3, 0.2, 1.0)
    x, truth = torch.tensor([0.1, 0.4, 0.85], dtype=torch.float64), torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64)
    found = {}
    for p, q in pairs(a, b, c):
        name = type(p).__name__
        divergence = D.kl_divergence(p, q).sum()
        slopes = torch.autograd.grad(divergence, (a, b, c), allow_unused=True, retain_graph=True)
        sums = [p.log_prob(truth if name == "Bernoulli" else x).sum(), p.entropy().sum(), divergence]
        found[name] = [*sums, *(torch.zeros(()) if s is None else s.sum() for s in slopes)]
    for name, values in found.items():
        np.testing.assert_allclose([v.item() for v in values], NUMBERS[name], rtol=1e-8, err_msg=name)


def test_categorical():
    p = D.Categorical(logits=torch.tensor([[0.0, 1.0, -1.0], [2.0, 0.0, 0.5]]))
    q = D.Categorical(probs=torch.tensor([[1.0, 2.0, 1.0], [0.0, 1.0, 1.0]]))
    logs = np.array([[0.0, 1.0, -1.0], [2.0, 0.0, 0.5]])
    logs -= np.log(np.exp(logs).sum(-1, keepdims=True))
    np.testing.assert_allclose(p.log_prob(torch.tensor([2, 0])).numpy(), [logs[0, 2], logs[1, 0]], rtol=1e-5)
    many = p.log_prob(torch.tensor([[2, 0], [1, 1]])).numpy()
    np.testing.assert_allclose(many, [[logs[0, 2], logs[1, 0]], [logs[0, 1], logs[1, 1]]], rtol=1e-5)
    np.testing.assert_allclose(p.entropy().numpy(), -(np.exp(logs) * logs).sum(-1), rtol=1e-5)
    np.testing.assert_allclose(q.entropy().numpy(), [1.5 * np.log(2), np.log(2)], rtol=1e-5)
    first = (np.exp(logs[0]) * (logs[0] - np.log([0.25, 0.5, 0.25]))).sum()
    divergence = D.kl_divergence(p, q).numpy()
    np.testing.assert_allclose(divergence[0], first, rtol=1e-5)
    assert np.isinf(divergence[1])
    drawn = p.sample((4000,)).numpy()
    assert drawn.shape == (4000, 2)
    shares = np.stack([(drawn == k).mean(0) for k in range(3)], -1)
    np.testing.assert_allclose(shares, np.exp(logs), atol=5 * 0.5 / 4000**0.5)


def test_samples_have_the_moments_and_gradients():
    torch.manual_seed(5)
    loc = torch.tensor([1.0, -2.0], requires_grad=True)
    scale = torch.tensor([0.5, 3.0], requires_grad=True)
    normal = D.Normal(loc, scale)
    made = {
        "normal": (normal, normal.rsample((4000,))),
        "uniform": (u := D.Uniform(torch.tensor([0.0]), 4.0), u.sample((4000,))),
        "exponential": (e := D.Exponential(2.0), e.sample((4000,))),
        "laplace": (p := D.Laplace(1.0, 2.0), p.sample((4000,))),
        "gamma": (g := D.Gamma(torch.tensor([0.5, 3.0]), 2.0), g.sample((4000,))),
        "beta": (b := D.Beta(2.0, 3.0), b.sample((4000,))),
        "bernoulli": (t := D.Bernoulli(probs=torch.tensor([0.2, 0.9])), t.sample((4000,))),
    }
    moments = {name: (d.mean.detach(), d.variance.sqrt().detach()) for name, (d, _) in made.items()}
    made["normal"][1].sum().backward()
    noise = (made["normal"][1].detach().numpy() - [1.0, -2.0]) / [0.5, 3.0]
    np.testing.assert_allclose(loc.grad.numpy(), 4000)
    np.testing.assert_allclose(scale.grad.numpy(), noise.sum(0), rtol=1e-3, atol=0.05)
    for name, (distribution, drawn) in made.items():
        assert drawn.shape == (4000, *distribution.batch_shape)
        mean, deviation = (v.numpy() for v in moments[name])
        found = drawn.detach().numpy()
        # Five standard errors of the mean, and of the deviation, whose own one is at most twice as large.
        assert (np.abs(found.mean(0) - mean) < 5 * deviation / 4000**0.5).all(), name
        assert (np.abs(found.std(0) - deviation) < 10 * deviation / 4000**0.5).all(), name
    assert not made["uniform"][1].requires_grad
    np.testing.assert_allclose(D.Normal(1.0, 2.0).cdf(torch.tensor(3.0)).item(), 0.8413447, rtol=1e-6)
    assert D.Uniform(0.0, 1.0).log_prob(torch.tensor([0.5, 2.0])).tolist() == [0.0, float("-inf")]


def test_distributions_of_gamma_variables():
    """The sums that PyTorch 2.13 prints of log_prob, entropy, and kl_divergence or variance; then gradients."""
    a, b = leaf(0.5, 1.3, 2.0), leaf(0.9, 2.0, 0.4)
    x = torch.tensor([0.1, 0.4, 0.85], dtype=torch.float64)
    chi, student, dirichlet = D.Chi2(a), D.StudentT(a + 3, b, a), D.Dirichlet(a)
    sums = [
        *(chi.log_prob(x), chi.entropy(), D.kl_divergence(chi, D.Chi2(b))),
        *(student.log_prob(x), student.entropy(), student.variance),
        *(dirichlet.log_prob(x / x.sum()), dirichlet.entropy(), D.kl_divergence(dirichlet, D.Dirichlet(b))),
        dirichlet.variance,
    ]
    few = D.StudentT(torch.tensor([0.5, 1.5]))
    torch.manual_seed(3)
    df, shape, one, others = leaf(8.0), leaf(0.3, 4.0), leaf(2.0), leaf(0.5, 2.5, 1.0)
    many = (8000,)
    # Means of samples, with what their derivatives must be: those of the exact means.
    drawn = [
        (D.Gamma(shape, torch.ones(2, dtype=torch.float64)).rsample(many).square(), shape, 2 * shape.detach() + 1),
        (D.Beta(one, 3.0 + 0 * one).rsample(many), one, torch.tensor([3 / 25])),
        (D.Dirichlet(others).rsample(many)[:, 0], others, torch.tensor([3.5, -0.5, -0.5]) / 16),
        (D.StudentT(df).rsample(many).square(), df, torch.tensor([-2 / 36])),
        (D.Chi2(df).rsample(many), df, torch.ones(1)),
    ]
    found = [(torch.autograd.grad(y.sum() / 8000, v)[0], expected) for y, v, expected in drawn]
    sums = [s.sum() for s in sums]
    numbers = [
        *(-1.557913779780388, 1.942803792958594, 1.4509167013513191),
        *(-5.262137592329293, 5.273516168012245, 10.409565217391306),
        *(1.5559347992287957, -1.4777622804073842, 1.9395352010705968, 0.12263388734995384),
    ]
    np.testing.assert_allclose([s.item() for s in sums], numbers, rtol=1e-9)
    assert np.isnan(few.mean.numpy()[0])
    assert few.variance.numpy()[1] == np.inf
    for number, (slope, expected) in enumerate(found):
        np.testing.assert_allclose(slope.numpy(), expected.numpy(), rtol=0.1, atol=0.01, err_msg=str(number))


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (
            lambda: D.Bernoulli(probs=0.5).rsample(),
            "Bernoulli.rsample: the numbers must have a gradient with respect to the parameters, which those of this "
            "distribution have not; use sample and log_prob",
        ),
        (lambda: D.Bernoulli(), "Bernoulli: there must be either probs or logits, got none; pass one"),
        (lambda: D.Categorical(1, 1), "Categorical: there must be either probs or logits, got both; pass one"),
        (
            lambda: D.Normal(torch.zeros(2), torch.ones(3)),
            "Normal: parameters must broadcast, got the shapes (2,) and (3,); reshape one",
        ),
        (
            lambda: D.kl_divergence(D.Normal(0.0, 1.0), D.Laplace(0.0, 1.0)),
            "kl_divergence: two distributions of the same class are compared, got Normal and Laplace; estimate "
            "(p.log_prob(x) - q.log_prob(x)).mean() for x = p.sample(...)",
        ),
    ],
)
def test_refusals(build, expected):
    with pytest.raises(AdjointError) as error:
        build()
    assert error.value.message == expected
