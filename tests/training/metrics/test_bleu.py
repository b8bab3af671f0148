"""BLEU."""

import numpy as np
import pytest

from adjoint.errors import AdjointError
from adjoint.training.metrics import BLEU

REFERENCES = [[["the", "cat", "is", "on", "the", "mat"]], [["a", "b", "d", "c", "e"], ["b", "c", "d"]]]
CANDIDATES = [["the", "cat", "sat", "on", "mat"], ["a", "b", "c", "d"]]


def test_numbers_of_mindspore():
    # mindspore.train.BleuScore(n_gram=4) and (n_gram=2) of MindSpore 2.10. Of references that are as near, of 5 and
    # 3 tokens, it takes the first; the shorter one, which NLTK takes, makes 9 tokens for 9 instead of 11.
    candidate = ["i", "have", "a", "pen", "on", "my", "desk"]
    references = [["i", "have", "a", "pen", "in", "my", "desk"], ["there", "is", "a", "pen", "on", "the", "desk"]]
    assert BLEU()([candidate], [references]) == pytest.approx(0.5946035575013605, rel=1e-15)
    metric = BLEU(2)
    for one, several in zip(CANDIDATES, REFERENCES, strict=True):
        metric.update([one], [several])
    assert metric.eval() == pytest.approx(0.5706828606647346 / np.exp(1 - 11 / 9), rel=1e-15)


def test_smoothing_and_no_common_n_grams():
    assert BLEU(4)(CANDIDATES, REFERENCES) == 0.0  # no 4-gram is found
    # Of 9, 7, 5 and 3 n-grams, 8, 4, 1 and 0 are found; 9 tokens stand for 6 and 3.
    wanted = np.exp(np.log([8 / 9, 5 / 8, 2 / 6, 1 / 4]).mean())
    assert BLEU(4, smooth=True)(CANDIDATES, REFERENCES) == pytest.approx(wanted, rel=1e-15)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: BLEU(0), "BLEU: n_gram must be an int of at least 1, got 0; pass 4"),
        (
            lambda: BLEU().update(CANDIDATES, REFERENCES[:1]),
            "BLEU: each candidate needs a list of references, got 2 candidates and 1 lists; pass [[reference, ...], "
            "...]",
        ),
        (
            lambda: BLEU().update(["a b"], [["a b"]]),
            "BLEU: texts must be sequences of tokens, got a string; split it, as in text.split()",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(AdjointError) as refused:
        call()
    assert refused.value.message == message
