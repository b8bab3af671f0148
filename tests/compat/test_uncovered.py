"""Names that are not covered are refused with what to use instead."""

import sys
from types import ModuleType

import pytest

from adjoint.compat.uncovered import uncovered
from adjoint.errors import MissingAttributeError


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Foo", r"^tool\.nn\.Foo is not covered; use adjoint\.nn\.Bar"),
        ("Bar", r"^tool\.nn\.Bar is not covered, because it is not there; use adjoint\.nn\.Baz"),
        ("Lineal", r"^tool\.nn\.Lineal is not covered; did you mean Linear\?"),
        ("Other", r"^tool\.nn\.Other is not covered; look for it in adjoint\.nn"),
    ],
)
def test_the_error_says_what_to_use(name, message, monkeypatch):
    module = ModuleType("adjoint.compat.tool.nn")
    module.__all__ = ["Linear"]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    instead = {"Foo": "use adjoint.nn.Bar", "Bar": "because it is not there; use adjoint.nn.Baz"}
    module.__getattr__ = uncovered(module.__name__, instead, "adjoint.nn")
    with pytest.raises(MissingAttributeError, match=message):
        getattr(module, name)
    assert not hasattr(module, "__wrapped__")
