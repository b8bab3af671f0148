"""`save` and `load`: state dictionaries, ties, whole modules, refusals; and files that PyTorch reads."""

import io
from collections import OrderedDict

import numpy as np
import pytest

import adjoint
from adjoint import nn
from adjoint.errors import CheckpointError, InvalidValueError


def test_a_training_state_round_trip(tmp_path):
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    state = {"model": model.state_dict(), "step": 3, "names": ["a", None], "best": adjoint.tensor(2.5)}
    path = tmp_path / "state.pt"
    adjoint.save(state, path)
    found = adjoint.load(path, map_location="cpu")
    assert isinstance(found["model"], OrderedDict)
    assert (found["step"], found["names"], found["best"].item()) == (3, ["a", None], 2.5)
    other = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    other.load_state_dict(found["model"])
    for name, tensor in other.state_dict().items():
        np.testing.assert_array_equal(tensor.numpy(), state["model"][name].numpy(), err_msg=name)
        assert tensor.dtype == state["model"][name].dtype


def test_parameters_stay_parameters_and_pytorch_reads_the_file(tmp_path):
    adjoint.save({"w": nn.Linear(2, 1).weight}, tmp_path / "w.pt")
    found = adjoint.load(tmp_path / "w.pt")["w"]
    assert isinstance(found, nn.Parameter)
    assert found.requires_grad
    torch = pytest.importorskip("torch")
    assert isinstance(torch.load(tmp_path / "w.pt")["w"], torch.nn.Parameter)
    torch.save(torch.nn.Linear(2, 1).state_dict(), tmp_path / "t.pt")
    nn.Linear(2, 1).load_state_dict(adjoint.load(tmp_path / "t.pt"))


def test_whole_modules_are_loaded_on_request_only(tmp_path):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    places = [tmp_path / "model.pt", io.BytesIO()]
    for place in places:
        adjoint.save(model, place)
        if isinstance(place, io.BytesIO):
            place.seek(0)
        with pytest.raises(CheckpointError) as caught:
            adjoint.load(place)
        assert caught.value.message == (
            "load: the file must contain tensors only, got a whole module; pass weights_only=False if you trust it, or "
            "save its state_dict()"
        )
        found = adjoint.load(place, weights_only=False)
        assert repr(found) == repr(model)
        assert found[0].weight.tolist() == model[0].weight.tolist()


def test_what_loading_refuses(tmp_path):
    with pytest.raises(InvalidValueError, match="there is one device, 'cpu', got 'cuda'"):
        adjoint.load(tmp_path / "x", map_location="cuda")
    (tmp_path / "broken").write_bytes(b"adjoint module\nabc")
    with pytest.raises(CheckpointError, match=r"^load: the file must contain a module, got "):
        adjoint.load(tmp_path / "broken", weights_only=False)
    with pytest.raises(CheckpointError, match=r"^save: the file must be writable, got .*, No such file or directory"):
        adjoint.save(nn.ReLU(), tmp_path / "none" / "x")


def test_a_missing_file_is_not_found(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        adjoint.load(tmp_path / "none")
    assert isinstance(error.value, CheckpointError)
    assert error.value.message == f"load: there is no file {tmp_path / 'none'}; check the path"
