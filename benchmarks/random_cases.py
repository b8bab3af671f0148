"""Random contractions: products, convolutions and attention of sizes that nobody has chosen.

Sizes are drawn log-uniformly, so that each order of magnitude is as frequent as any other, and half of them are
rounded to a multiple of 8, as networks often have. Cases of more operations than `MOST_FLOPS` are drawn again: they
would take most of the time of a run.
"""

from collections.abc import Callable

import numpy as np

from benchmarks.contraction_cases import Case, attention, convolution, product

__all__ = ["DRAWS", "MOST_FLOPS", "draw", "random_attention", "random_convolution", "random_product", "size"]

#: Operations of a case, at most: a third of a second at 100 GFLOP/s.
MOST_FLOPS = 32 * 10**9


def size(rng: np.random.Generator, low: int, high: int) -> int:
    """A whole number from `low` to `high`, log-uniform; half of them are multiples of 8, where one is in the range."""
    found = round(float(np.exp(rng.uniform(np.log(low), np.log(high)))))
    if found > 8 and rng.random() < 0.5:
        found = min(-(-found // 8) * 8, high)
    return found


def random_product(rng: np.random.Generator) -> Case:
    """A product of up to 4096x4096 and 4096x4096, with any of its operands stored transposed, one in five a batch."""
    m, k, n = (size(rng, 1, 4096) for _ in range(3))
    batch = size(rng, 2, 64) if rng.random() < 0.2 else 0
    return product(m, k, n, bool(rng.integers(2)), bool(rng.integers(2)), batch)


def random_convolution(rng: np.random.Generator) -> Case:
    """A convolution or one of its gradients, of 1 to 512 channels; one in five is depthwise, one in ten has groups."""
    window, stride = int(rng.choice((1, 3, 3, 3, 5, 7))), int(rng.choice((1, 1, 1, 2)))
    image = size(rng, max(window, 4), 112)
    channels, outputs, kind = size(rng, 1, 512), size(rng, 1, 512), rng.random()
    groups = 1
    if kind < 0.2:
        groups, outputs = channels, channels
    elif kind < 0.3:
        groups = int(rng.choice((2, 4, 8)))
        channels, outputs = (-(-x // groups) * groups for x in (channels, outputs))
    cases = convolution("random", size(rng, 1, 64), channels, outputs, image, window, stride, groups)
    return cases[int(rng.integers(3))]


def random_attention(rng: np.random.Generator) -> Case:
    """Attention of 64 to 8192 tokens and heads of 32 to 128 numbers, half of it causal, or its gradient."""
    tokens, width = size(rng, 64, 8192), int(rng.choice((32, 48, 64, 80, 96, 128)))
    cases = attention(size(rng, 1, 16), size(rng, 1, 16), tokens, width, bool(rng.integers(2)))
    return cases[int(rng.integers(2))]


#: By family.
DRAWS: dict[str, Callable[[np.random.Generator], Case]] = {
    "products": random_product,
    "convolutions": random_convolution,
    "attention": random_attention,
}


def draw(family: str, count: int, seed: int) -> list[Case]:
    """So many different cases of a family; the same for the same seed."""
    rng, found = np.random.default_rng(seed), dict[str, Case]()
    while len(found) < count:
        case = DRAWS[family](rng)
        if case.flops <= MOST_FLOPS:
            found[case.name] = case
    return list(found.values())
