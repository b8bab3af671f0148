"""adjoint agrees with PyTorch on the sample inputs of PyTorch's own OpInfo database, forward and backward."""

from collections import Counter

import pytest

from tests.pytorch.tables import NOT_COVERED, NOT_RUN, REFUSED

agreement = pytest.importorskip("tests.pytorch.agreement", reason="needs PyTorch: run `make test-pytorch`")

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(900)]

INFOS = [info for info in agreement.op_db if agreement.full_name(info) not in NOT_RUN]
RUN = [info for info in INFOS if agreement.counterpart(info.name) is not None]


@pytest.mark.parametrize("info", RUN, ids=agreement.full_name)
def test_agreement(info, record_property):
    outcome, name = agreement.agreement(info), agreement.full_name(info)
    reasons = Counter(agreement.reason(text) for text in outcome.refused)
    found = {"refused": len(outcome.refused), "wrong": len(outcome.wrong), "reasons": reasons}
    for key, value in {"samples": outcome.samples, "agree": outcome.agree, **found}.items():
        record_property(key, value)
    assert outcome.samples, "no sample could be run"
    assert not outcome.wrong, f"{len(outcome.wrong)} of {outcome.samples} samples disagree:\n" + "\n".join(
        outcome.wrong[:10]
    )
    allowed = REFUSED.get(name, {})
    for text in outcome.refused:
        assert any(part in text for part in allowed), f"a refusal that is not in the table REFUSED: {text}"
    for part, most in allowed.items():
        count = sum(part in text for text in outcome.refused)
        assert 0 < count <= most, f"{count} samples refused with {part!r}, the table REFUSED says {most}"


def test_what_is_not_run_is_listed_and_does_not_exist():
    """An OpInfo of a function that adjoint has is run; one of another function is listed with the reason."""
    missing = {info.name for info in INFOS if agreement.counterpart(info.name) is None}
    listed = [name for names in NOT_COVERED.values() for name in names.split()]
    assert sorted(listed) == sorted(missing)
    assert set(NOT_RUN) <= {agreement.full_name(info) for info in agreement.op_db}
    assert set(REFUSED) <= set(map(agreement.full_name, RUN))
