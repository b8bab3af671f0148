"""Functions of elements against NumPy, rounding of halves, special numbers."""

import math

import numpy as np

import adjoint as torch
from tests.tensor.comparing import check, message

F = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
N = np.arange(-4, 4)
HALVES = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.4, 8388609.0, -0.3], np.float32)


def test_functions_as_in_numpy():
    f, i, p = torch.tensor(F), torch.tensor(N), torch.tensor(abs(F) + 0.1)
    P = abs(F) + np.float32(0.1)
    same = [np.exp, np.exp2, np.expm1, np.sin, np.cos, np.tan, np.sinh, np.cosh, np.tanh, np.floor, np.ceil, np.trunc]
    same += [np.square, np.sign, np.abs, np.deg2rad, np.rad2deg]
    positive = [np.log, np.log2, np.log10, np.log1p, np.sqrt, np.reciprocal]
    check(*((getattr(torch, function.__name__)(f), function(F)) for function in same))
    check(*((getattr(p, function.__name__)(), function(P)) for function in positive))
    check(
        (p.rsqrt(), 1 / np.sqrt(P)),
        (f.sigmoid(), 1 / (1 + np.exp(-F))),
        (f.erf(), np.vectorize(math.erf)(F)),
        (f.erfc(), np.vectorize(math.erfc)(F)),
        (f.relu(), np.maximum(F, 0)),
        (f.frac(), F - np.trunc(F)),
        (f.sigmoid().logit(), F),
        (i.exp(), np.exp(N)),
        (i.floor(), N),
        (i.sign(), np.sign(N)),
        (f.softmax(1), np.exp(F) / np.exp(F).sum(1, keepdims=True)),
        (torch.log_softmax(f, dim=0), F - np.log(np.exp(F).sum(0))),
        (torch.softmax(i, 0, dtype=torch.float64), np.exp(N) / np.exp(N).sum()),
        rtol=2e-5,
    )


def test_halves_are_rounded_to_even():
    x = torch.tensor(HALVES)
    check((x.round(), np.round(HALVES)), (torch.round(torch.tensor(F), decimals=2), np.round(F, 2)))


def test_special_numbers_are_replaced():
    x = torch.tensor([math.nan, math.inf, -math.inf, 1.0])
    most = np.finfo(np.float32).max
    check((x.nan_to_num(), [0, most, -most, 1]), (x.nan_to_num(2.0, 3.0, 4.0), [2, 3, 4, 1]))


def test_softmax_without_an_axis_is_refused():
    assert message(lambda: torch.zeros(2).softmax()) == (
        "softmax: the axis must be given, got none for f32[2]; pass dim=-1 for the last one"
    )
