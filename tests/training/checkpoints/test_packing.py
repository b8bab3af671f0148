"""State as JSON and arrays."""

import json
from collections import Counter

import numpy as np
import pytest

import adjoint
from adjoint.errors import CheckpointError
from adjoint.training.checkpoints.packing import pack, unpack


def test_everything_comes_back_as_it_was():
    value = {
        "plain": [None, True, 3, 0.1, "a", 1 << 70],
        "odd": (float("inf"), [(), {2, 3}], Counter({5: 2})),
        "keys": {1: "one", "$float": "two", (1, 2): np.array([1.5, 2.5], np.float32)},
        "scalar": np.float32(0.1),
        "tensor": adjoint.ones(2),
    }
    arrays = {}
    packed = pack("it", value, "x", lambda name, given: arrays.update({name: np.asarray(given)}))
    assert set(arrays) == {"x.keys.2", "x.scalar", "x.tensor"}
    found = unpack(json.loads(json.dumps(packed, allow_nan=False)), arrays)
    tensor, array = found.pop("tensor"), found["keys"].pop((1, 2))
    assert isinstance(tensor, adjoint.Tensor)
    assert tensor.tolist() == [1.0, 1.0]
    assert array.tolist() == [1.5, 2.5]
    del value["tensor"], value["keys"][1, 2]
    assert found == value
    assert isinstance(found["odd"][2], Counter)
    assert found["scalar"].dtype == np.float32


@pytest.mark.parametrize("packed", [{"$array": "other"}, {"$float": "1"}, {"$call": []}, {"$dict": [[1]]}, {"$set": 3}])
def test_what_was_never_packed_is_refused(packed):
    with pytest.raises(CheckpointError, match=r"^restore: the checkpoint's manifest is damaged at '\$"):
        unpack({"a": [packed]}, {})
