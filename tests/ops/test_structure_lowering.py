"""Lowering of structural operators, taken literally element by element, against their references.

The operands here refuse to be read outside, so this also shows that no index map leaves its tensor.
"""

import numpy as np
import pytest

from adjoint.ops import (
    centred,
    contract,
    convolution,
    create,
    index,
    pooling,
    present,
    reduce,
    shape,
    sizes,
    window_places,
)
from tests.closeness import agrees_with_graph
from tests.ops.running import Direct, Memory, graph_of, lowered

CLASSES = [
    create.Full,
    create.Iota,
    create.Constant,
    shape.BroadcastTo,
    shape.Reshape,
    shape.Permute,
    shape.Flip,
    shape.Slice,
    shape.Pad,
    shape.Concat,
    reduce.ReduceSum,
    reduce.ReduceMax,
    reduce.ReduceMin,
    reduce.ReduceProd,
    reduce.ArgMax,
    sizes.Count,
    present.PresentSum,
    present.PresentSquares,
    centred.CentredSquares,
    centred.Normalize,
    centred.SumExp,
    contract.MatMul,
    convolution.Conv2d,
    convolution.Conv2dWeightGradient,
    convolution.ConvTranspose2d,
    convolution.Conv3d,
    convolution.Conv3dWeightGradient,
    convolution.ConvTranspose3d,
    pooling.MaxPool2d,
    pooling.SumPool2d,
    window_places.WindowArgMax,
    window_places.WindowPick,
    window_places.WindowSpread,
    index.OneHot,
    index.Take,
    index.TakeAlong,
    index.ScatterAdd,
]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.name)
def test_every_element_is_the_references(cls):
    for sample in (s for s in cls.samples() if not s.error):
        found = lowered(sample.op, *sample.inputs)
        agrees_with_graph(found, graph_of(sample), *sample.inputs, message=str(sample.op))


def test_out_of_range_ids_read_inside_the_table_and_are_written_nowhere():
    ids, table = np.array([-1, 7, 1]), np.arange(6, dtype=np.float32).reshape(3, 2)
    assert np.isin(lowered(index.Take(), table, ids), table).all()
    assert np.isin(lowered(index.TakeAlong(), table, np.array([5, -9, 1])), table).all()
    np.testing.assert_array_equal(lowered(index.OneHot(3), ids), [[0, 0, 0], [0, 0, 0], [0, 1, 0]])
    np.testing.assert_array_equal(lowered(index.ScatterAdd(3), ids, table), [[0, 0], [4, 5], [0, 0]])


def test_concat_of_many_operands_halves_its_way_to_one():
    arrays = [np.full(1, n, np.float32) for n in range(3000)]
    assert shape.Concat(0).lower(Direct(), (2718,), *map(Memory, arrays)) == 2718


class Seeing(Memory):
    def __call__(self, index):
        self.seen = index


def test_a_reshape_keeps_the_coordinates_of_axes_that_it_does_not_touch():
    untouched = object()  # arithmetic with it would be a TypeError
    operand = Seeing(np.zeros((8, 5, 1), np.float32))
    shape.Reshape((4, 1, 2, 5)).lower(Direct(), (3, 0, 1, untouched), operand)
    assert operand.seen == (7, untouched, 0)
