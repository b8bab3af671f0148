"""A run that is resumed has the bits that it would have had, and a checkpoint that does not fit is refused."""

import subprocess
import sys

import numpy as np
import pytest

import adjoint
from adjoint import nn, optim
from adjoint.errors import AdjointError, AdjointWarning, CheckpointError
from adjoint.training.checkpoints import capture, read_snapshot, restore, write_snapshot
from tests.training.checkpoints.networks import Training


def sgd(params):
    return optim.SGD(params, lr=0.1, momentum=0.9, nesterov=True)


def asgd(params):
    return optim.ASGD(params, lr=0.1, t0=2.0)


def nadam(params):
    return optim.NAdam(params, lr=0.1)


def groups(params):
    first, *rest = params
    return optim.AdamW([{"params": [first], "lr": 0.3, "weight_decay": 0.1}, {"params": rest}], lr=0.1)


def everything(training):
    """All bits of a run, by a name for the message."""
    snapshot = capture(**training.parts())
    return {name: (array.dtype, array.tobytes()) for name, array in snapshot.arrays.items()} | {
        "optimizers": str(snapshot.manifest["optimizers"]),
        "schedulers": str(snapshot.manifest["schedulers"]),
        "callbacks": str(snapshot.manifest["callbacks"]),
    }


@pytest.mark.parametrize("make", [None, sgd, asgd, nadam, groups])
def test_three_steps_and_three_more_are_six_steps_to_the_bit(make, tmp_path):
    whole = Training(make).steps(0, 6)
    first = Training(make).steps(0, 3)
    write_snapshot(tmp_path / "file", capture(**first.parts(), run_cursor={"step": 3}))
    again = Training(make, seed=7)
    assert restore(read_snapshot(tmp_path / "file"), **again.parts()) == {"step": 3}
    again.steps(3, 6)
    assert again.losses == whole.losses[3:]
    assert everything(again) == everything(whole)
    assert again.callback.count == 6


def test_a_fresh_process_has_the_same_bits(tmp_path):
    whole = Training().steps(0, 5)
    write_snapshot(tmp_path / "file", capture(**Training().steps(0, 3).parts()))
    code = f"""if True:
        from adjoint.training.checkpoints import read_snapshot, restore
        from tests.training.checkpoints.networks import Training
        again = Training(seed=9)
        restore(read_snapshot({str(tmp_path / "file")!r}), **again.parts())
        print([loss.hex() for loss in again.steps(3, 5).losses])"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
    assert done.stdout.strip() == str([loss.hex() for loss in whole.losses[3:]])


def test_a_run_continues_in_the_objects_that_it_has():
    training = Training().steps(0, 2)
    snapshot = capture(**training.parts())
    bits = everything(training)
    training.steps(2, 4)
    assert everything(training) != bits
    restore(snapshot, **training.parts())
    assert everything(training) == bits


def test_the_loss_scale_is_restored():
    network = nn.Linear(1, 1)
    scaler = adjoint.amp.GradScaler(init_scale=8.0)
    snapshot = capture(network, scaler=scaler)
    other = adjoint.amp.GradScaler(init_scale=2.0, growth_factor=3.0)
    tensor = other._scale
    restore(snapshot, network, scaler=other)
    assert other.state_dict() == scaler.state_dict()
    assert other._scale is tensor  # a compiled step may have taken it as an argument
    with pytest.raises(CheckpointError, match="it has the state of 1 loss scale, while 0 were given; build"):
        restore(snapshot, network)


def test_other_modules_are_restored_without_what_they_share():
    network = nn.Linear(2, 1)
    averaged = optim.swa_utils.AveragedModel(network)
    both = nn.Sequential(network, nn.Linear(1, 1))
    snapshot = capture(network, modules={"averaged": averaged, "both": both})
    assert {name for name in snapshot.arrays if "both" in name} == {
        "adjoint:module:both:1.weight",
        "adjoint:module:both:1.bias",
    }
    old = averaged.module.weight.detach().numpy().copy()
    averaged.module.weight.data.fill_(9.0)
    restore(snapshot, network, modules={"averaged": averaged, "both": both})
    np.testing.assert_array_equal(averaged.module.weight.detach().numpy(), old)


class Tied(nn.Module):
    def __init__(self, tied=True, width=2):
        super().__init__()
        self.one = nn.Linear(2, width, bias=False)
        self.two = nn.Linear(2, width, bias=False)
        if tied:
            self.two.weight = self.one.weight


def test_tied_parameters_are_stored_once_and_stay_tied():
    network = Tied()
    snapshot = capture(network)
    assert list(snapshot.arrays) == ["one.weight", "adjoint:random:default"]
    other = Tied()
    restore(snapshot, other)
    np.testing.assert_array_equal(other.two.weight.detach().numpy(), network.one.weight.detach().numpy())
    with pytest.raises(CheckpointError, match=r"it has 'two.weight' as the same tensor as 'one.weight'; build"):
        restore(snapshot, Tied(tied=False))
    with pytest.raises(CheckpointError, match=r"it has 'two.weight' as a tensor of its own; build"):
        restore(capture(Tied(tied=False)), Tied())


@pytest.mark.parametrize(
    ("network", "difference"),
    [
        (lambda: nn.Linear(3, 2), r"'weight' as float32\[2, 2\] instead of float32\[2, 3\]"),
        (lambda: nn.Linear(2, 2, bias=False), "'bias', which Linear does not have"),
        (lambda: nn.LayerNorm(2).double(), r"'weight' as float32\[2, 2\] instead of float64\[2\]"),
        (lambda: nn.Sequential(nn.Linear(2, 2)), r"no '0.weight', which is float32\[2, 2\] in Sequential"),
    ],
)
def test_another_network_is_refused_with_the_first_difference(network, difference):
    snapshot = capture(nn.Linear(2, 2))
    with pytest.raises(
        CheckpointError,
        match=f"^restore: the checkpoint must be one of the same run, and it has {difference}; build everything as it "
        "was saved, or pass strict=False to load what fits",
    ):
        restore(snapshot, network())


def test_what_fits_is_loaded_and_the_rest_is_named():
    saved, given = nn.Linear(2, 2), nn.Linear(3, 2)
    with pytest.warns(
        AdjointWarning,
        match=r"^restore: what fits has been loaded, and the checkpoint has 'weight' as float32\[2, 2\] instead of "
        r"float32\[2, 3\]",
    ):
        restore(capture(saved), given, strict=False)
    np.testing.assert_array_equal(given.bias.detach().numpy(), saved.bias.detach().numpy())


def test_another_optimizer_is_refused_and_nothing_is_changed():
    saved, given = Training(), Training(seed=1)
    snapshot = capture(saved.network, saved.optimizer)
    weight = given.network.first.weight.detach().numpy().copy()
    for optimizer, message in (
        (
            sgd(given.network.parameters()),
            "restore: the optimizer must be the one that was saved, AdamW, got SGD; build it again",
        ),
        (
            optim.AdamW(given.network.first.parameters()),
            r"restore: the optimizer's groups must have as many parameters as in the checkpoint, \[6\], got \[2\]",
        ),
        (None, "it has the state of 1 optimizer, while 0 were given; build"),
    ):
        with pytest.raises(CheckpointError, match=message):
            restore(snapshot, given.network, optimizer)
    np.testing.assert_array_equal(given.network.first.weight.detach().numpy(), weight)


def test_optimizers_written_for_pytorch_are_restored():
    class Plain(optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        def step(self):
            with adjoint.no_grad():
                for group in self.param_groups:
                    for p in group["params"]:
                        state = self.state[p]
                        state.setdefault("sum", adjoint.zeros_like(p))
                        state["sum"] += p.grad
                        p -= group["lr"] * state["sum"]

    def steps(network, optimizer, count):
        for _ in range(count):
            network(adjoint.ones(1, 2)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        return network.weight.detach().numpy().copy()

    first, second = nn.Linear(2, 1), nn.Linear(2, 1)
    one, two = Plain(first.parameters(), 0.1), Plain(second.parameters(), 0.2)
    steps(first, one, 2)
    snapshot = capture(first, one)
    restore(snapshot, second, two)
    np.testing.assert_array_equal(steps(first, one, 2), steps(second, two, 2))


def test_a_callback_that_is_missing_is_named():
    training = Training()
    snapshot = capture(**training.parts())
    with pytest.warns(
        AdjointWarning, match="the checkpoint has the state of a callback Counting, which this run does not have; pass"
    ):
        restore(snapshot, training.network, training.optimizer, schedulers=training.schedule)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("optimizers", 0, "class"), "SGD", "must be the one that was saved, SGD, got AdamW; build it again"),
        (("optimizers", 0, "groups"), [], r"as many parameters as in the checkpoint, \[\], got \[6\]"),
        (("optimizers", 0, "groups", 0, "updates"), [], "the state of AdamW in the checkpoint is damaged"),
        (
            ("optimizers", 0, "groups", 0, "names", 0),
            "x",
            "AdamW must have the names of the checkpoint, got '0' for 'x'",
        ),
        (
            ("optimizers", 0, "groups", 0, "options", "lr"),
            "x",
            "has lr of AdamW as a str, and the optimizer as a float",
        ),
        (("optimizers", 0, "groups", 0, "options", "lr"), -1, "AdamW: lr"),
        (("optimizers", 0, "groups", 0, "slots", "0_exp_avg"), {"$array": "last.bias"}, r"'0_exp_avg' of AdamW as"),
        (("optimizers", 0, "groups", 0, "slots", "x"), {"$array": "last.bias"}, "the optimizer has no such state"),
        (("schedulers", 0, "state", "gamma"), "x", "the state of the scheduler MultiStepLR instead of MultiStepLR"),
        (("schedulers", 0, "state", "step"), 1, "the state of the scheduler MultiStepLR instead of MultiStepLR"),
        (("random", "default"), {"$array": "last.bias"}, r"set_state: a state must be u8\[24\]"),
        (("cursor",), {"$call": []}, r"the checkpoint's manifest is damaged at '\$call'"),
        (("network",), {}, r"the checkpoint's manifest is damaged \(KeyError: 'aliases'\); use another checkpoint"),
        (
            ("callbacks", "Counting:0", "count"),
            {"$call": []},
            r"the checkpoint's manifest is damaged at '\$call'; use another checkpoint",
        ),
        (
            ("callbacks", "Counting:0", "pair"),
            3,
            r"the state of Counting must be what its state_dict\(\) returned, and loading it failed \(AssertionError",
        ),
    ],
)
def test_a_manifest_that_was_never_captured_is_refused(path, value, message):
    training = Training().steps(0, 1)
    snapshot = capture(**training.parts())
    place = snapshot.manifest
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(AdjointError, match=message):
        restore(snapshot, **training.parts())
