"""Names of functions that there are not lead to those that there are."""

import pytest

from adjoint import ops
from adjoint.errors import MissingAttributeError
from adjoint.ops.missing import MISSING


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("randn", "adjoint.ops has no function randn; use random.normal"),
        ("view", "adjoint.ops has no function view; use reshape"),
        ("softmx", "adjoint.ops has no function softmx; use softmax"),
        ("qqqq", "adjoint.ops has no function qqqq; `adjoint ops` lists the functions"),
    ],
)
def test_the_message_says_what_to_use(name, message):
    with pytest.raises(MissingAttributeError) as caught:
        getattr(ops, name)
    assert caught.value.message == message
    assert caught.value.where.startswith(__file__)
    assert not hasattr(ops, name)


def test_the_names_are_absent_and_their_replacements_present():
    assert not MISSING.keys() & vars(ops).keys()
    replacements = {fix.removeprefix("use ") for fix in MISSING.values() if fix.startswith("use ")}
    random = {name.removeprefix("random.") for name in replacements if name.startswith("random.")}
    assert {name for name in replacements if name.isidentifier()} <= {*ops.__all__}
    assert random <= {*ops.random.__all__}


def test_modules_and_private_names_are_as_usual():
    from adjoint.ops import catalogue  # noqa: PLC0415

    assert catalogue.CATALOGUE
    with pytest.raises(AttributeError, match=r"module 'adjoint\.ops' has no attribute '_nothing'"):
        ops._nothing  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'randn'"):
        exec("from adjoint.ops import randn")
