"""The lists of covered names."""

import pytest

from adjoint.compat.covered import FRAMEWORKS, covered_names


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_name_is_listed_once(framework):
    names = [one.name for one in covered_names(framework)]
    assert len(names) == len(set(names)) > 10
    assert all(name.split(".")[0] == framework for name in names)
