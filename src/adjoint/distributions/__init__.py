"""Probability distributions with PyTorch's names: densities, entropies, divergences, and random numbers."""

from adjoint.distributions.base import Distribution
from adjoint.distributions.continuous import Beta, Exponential, Gamma, Laplace, Normal, Uniform
from adjoint.distributions.discrete import Bernoulli, Categorical
from adjoint.distributions.divergence import kl_divergence
from adjoint.distributions.of_gamma import Chi2, Dirichlet, StudentT

__all__ = [
    "Bernoulli",
    "Beta",
    "Categorical",
    "Chi2",
    "Dirichlet",
    "Distribution",
    "Exponential",
    "Gamma",
    "Laplace",
    "Normal",
    "StudentT",
    "Uniform",
    "kl_divergence",
]
