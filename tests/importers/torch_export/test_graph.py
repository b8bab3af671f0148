"""Which calls a graph is for, and outputs with names."""

import numpy as np
import pytest

from adjoint.func.tree import tree_map
from adjoint.importers.torch_export.graph import Graph, Input, Outputs
from adjoint.importers.torch_export.module import ImportedModule  # noqa: F401  (which makes Outputs a tree)

F32, I64 = np.dtype(np.float32), np.dtype(np.int64)


def graph(*inputs, **ranges):
    return Graph(inputs, (), (), tuple, ranges=ranges)


@pytest.mark.parametrize(
    ("shapes", "dtypes", "accepted"),
    [
        ([(4, 3), (4,)], [F32, I64], True),
        ([(9, 3), (9,)], [F32, I64], True),
        ([(4, 3), (5,)], [F32, I64], False),  # the two sizes are the same
        ([(1, 3), (1,)], [F32, I64], False),  # below the range
        ([(17, 3), (17,)], [F32, I64], False),  # above
        ([(4, 2), (4,)], [F32, I64], False),  # a fixed size
        ([(4, 3), (4,)], [F32, F32], False),
        ([(4, 3, 1), (4,)], [F32, I64], False),
        ([(4, 3)], [F32], False),
    ],
)
def test_a_graph_is_for_the_sizes_that_it_was_made_for(shapes, dtypes, accepted):
    made = graph(
        Input("x", shape=("s", 3), dtype=F32), Input("w", "tensor"), Input("y", shape=("s",), dtype=I64), s=(2, 16)
    )
    assert [one.name for one in made.arguments] == ["x", "y"]
    assert made.accepts(shapes, dtypes) is accepted


def test_outputs_are_found_by_name_attribute_and_position():
    found = Outputs(loss=1, logits=2)
    assert (found["loss"], found.logits, found[0], found[:2]) == (1, 2, 1, [1, 2])
    with pytest.raises(AttributeError, match=r"^the outputs are loss, logits, got 'hidden'$"):
        _ = found.hidden
    assert tree_map(lambda x: x + 1, found).logits == 3
