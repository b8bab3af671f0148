"""Every test records programs of its own: what earlier tests recorded is no reason for anything."""

import pytest

from adjoint.tensor.structure import Node
from adjoint.tensor.trace import fresh_trace, growing


@pytest.fixture(autouse=True)
def _own_programs():
    growing.root, growing.count = Node(None), 0
    fresh_trace()
    yield
    growing.root, growing.count = Node(None), 0
    fresh_trace()
