"""Fixtures of the command line's tests."""

import pytest

from tests.cli.helpers import clothes


@pytest.fixture
def small(monkeypatch):
    """`adjoint train` reads small data."""
    monkeypatch.setattr("adjoint.cli.experiment.load_dataset", lambda _: clothes())
