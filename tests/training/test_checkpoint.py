"""Saving and loading a trainer: the same bits as without, in another process, and refusals that change nothing."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from adjoint import ops
from adjoint.compiler import CompileOptions
from adjoint.errors import CheckpointError, InvalidValueError
from adjoint.ir import Function, IRModule, TensorType, param
from adjoint.losses import CrossEntropyLoss, MSELoss
from adjoint.models import mlp
from adjoint.optim import SGD, Adam
from adjoint.training import SetupTrainer, Trainer
from adjoint.training.checkpoint import GROUPS, Checkpoint
from adjoint.version import __version__
from tests.training.models import BATCH, INDICES, LOGITS, SIZES, batch_normalised, batches, linear
from tests.training.test_epochs import dataset

OPTIMIZERS = {"adam": Adam(0.01), "momentum": SGD(0.1, 0.9)}
CASES = [
    (optimizer, drop_last, threads) for optimizer in OPTIMIZERS for drop_last in (False, True) for threads in (1, 2)
]
STOP, EVERY = 4, 2


def normalised(optimizer):
    types = [TensorType((8, 2)), TensorType((8, 2))]
    return SetupTrainer(MSELoss(), optimizer, types)(batch_normalised())


def arrays_of(trainer):
    """All arrays that a trainer keeps, by unique names."""
    groups = {"param": trainer.export_params(), "state": trainer.export_states()}
    groups |= {"optimizer": trainer.export_optimizer_state(), "hyper": trainer.hyper.arrays}
    return {f"{group}/{name}": array.copy() for group, named in groups.items() for name, array in named.items()}


def assert_equal_bits(one, other):
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert array.dtype == other[name].dtype, name
        assert array.tobytes() == other[name].tobytes(), name


def rows(count=61):
    rng = np.random.default_rng(3)
    return rng.standard_normal((count, 3)).astype("f4"), rng.standard_normal((count, 2)).astype("f4")


def two_epochs(trainer, drop_last, resume=False, callback=None):
    """The epochs from the trainer's position to the end of the second; their losses."""
    steps = 61 // 8 if drop_last else 61 // 8 + 1
    losses = []
    while trainer.epochs < 2:
        rates = np.linspace(0.1, 0.01, steps) / (trainer.epochs + 1)
        settings = {"drop_last": drop_last, "every": EVERY, "callback": callback, "schedule": {"lr": rates}}
        losses.append(trainer.run_epoch(rows(), resume=resume, **settings).losses)
    return losses


def resume_all(folder, cache):
    """In the other process: finish the epochs of each case's file."""
    for optimizer, drop_last, threads in CASES:
        name = f"{optimizer}-{drop_last}-{threads}"
        trainer = Trainer.load(
            folder / f"{name}.safetensors", threads=threads, options=CompileOptions(cache_directory=cache)
        )
        losses = two_epochs(trainer, drop_last, resume=True)
        np.savez(folder / f"{name}.npz", losses=np.concatenate(losses), **arrays_of(trainer))


@pytest.fixture(scope="module")
def resumed(cache, tmp_path_factory):
    """Arrays and losses by case: straight through, and saved in a callback and resumed in a new process."""
    folder, straight = tmp_path_factory.mktemp("resumed"), {}
    for case in CASES:
        optimizer, drop_last, threads = case
        path = folder / f"{optimizer}-{drop_last}-{threads}.safetensors"
        trainer = Trainer(normalised(OPTIMIZERS[optimizer]), threads, 5, cache)
        trainer.init_parameters()
        calls = []

        def keep(step, _, trainer=trainer, path=path, calls=calls):
            calls.append(step)
            if calls.count(STOP) == 2 and step == STOP:  # in the middle of the second epoch
                trainer.save(path)

        losses = two_epochs(trainer, drop_last, callback=keep)
        straight[case] = {"losses": losses[1], **arrays_of(trainer)}
    code = f"""
        from pathlib import Path
        from tests.training.test_checkpoint import resume_all
        resume_all(Path({str(folder)!r}), Path({str(cache.cache_directory)!r}))
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=100)
    return {
        case: (expected, dict(np.load(folder / f"{'-'.join(map(str, case))}.npz")))
        for case, expected in straight.items()
    }


@pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join(map(str, c)))
def test_saved_in_a_callback_and_resumed_in_a_new_process_the_bits_are_the_same(resumed, case):
    expected, got = resumed[case]
    assert_equal_bits(got, expected)


def test_a_loaded_trainer_has_everything(module, cache, tmp_path):
    trainer = Trainer(module, options=cache, seed=7)
    trainer.init_parameters()
    trainer.run_epoch(dataset())
    trainer.hyper["lr"] = 0.03
    trainer.save(tmp_path / "file")
    loaded = Trainer.load(str(tmp_path / "file"), options=cache)
    assert loaded.module == trainer.module
    assert (loaded.seed, loaded.epochs) == (7, 1)
    assert_equal_bits(arrays_of(loaded), arrays_of(trainer))
    np.testing.assert_array_equal(loaded.run_epoch(dataset()).losses, trainer.run_epoch(dataset()).losses)


def test_a_trainer_is_saved_before_its_first_step(module, cache, tmp_path):
    trainer = Trainer(module, options=cache)
    trainer.init_parameters()
    trainer.save(tmp_path / "file")
    loaded = Trainer.load(tmp_path / "file", options=cache)
    assert loaded.epochs == 0
    assert_equal_bits(arrays_of(loaded), arrays_of(trainer))


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f64"])
def test_every_float_dtype_survives(cache, tmp_path, dtype):
    types = [TensorType((4, 2), dtype)] * 2
    trainer = Trainer(SetupTrainer(MSELoss(), Adam(0.1), types)(linear(dtype)), options=cache)
    trainer.init_parameters()
    x = np.random.default_rng(0).random((8, 3)).astype(types[0].dtype)
    trainer.run_epoch((x, x[:, :2].copy()), limit=1)
    trainer.save(tmp_path / "file")
    loaded = Trainer.load(tmp_path / "file", options=cache)
    assert_equal_bits(arrays_of(loaded), arrays_of(trainer))
    results = [t.run_epoch((x, x[:, :2].copy()), resume=True) for t in (trainer, loaded)]
    assert results[0].losses.dtype == types[0].dtype
    assert results[0].losses.tobytes() == results[1].losses.tobytes()


def test_integer_bool_and_scalar_states_survive(cache, tmp_path):
    """States of other dtypes, among them an integer of more digits than a float64 has."""
    x, w = param("x", (4, 3)), param("w", (3, 2))
    count, seen = param("count", (), "i64"), param("seen", (2,), "bool")
    results = (ops.matmul(x, w), ops.add(count, 1), ops.logical_not(seen))
    backbone = IRModule((Function("backbone", (x, w, count, seen), results),), {"param_num": 1, "state_num": 2})
    types = [TensorType((4, 2))] * 2
    trainer = Trainer(SetupTrainer(MSELoss(), SGD(0.1), types)(backbone), options=cache)
    trainer.init_parameters("zeros")
    trainer.load_states([np.array(2**62 + 1), np.array([True, False])])
    trainer.update(np.ones((4, 3), "f4"), np.ones((4, 2), "f4"))
    trainer.save(tmp_path / "file")
    states = Trainer.load(tmp_path / "file", options=cache).export_states()
    assert states["count"] == 2**62 + 2
    assert states["count"].shape == ()
    assert states["seen"].tolist() == [False, True]


def test_other_readers_find_the_parameters_by_their_names(trainer, tmp_path):
    trainer.run_epoch(dataset(), limit=2)
    trainer.save(tmp_path / "file")
    with safe_open(tmp_path / "file", "np") as file:
        names = set(file.keys())
        for name, array in trainer.export_params().items():
            np.testing.assert_array_equal(file.get_tensor(name), array)
        assert file.metadata()["adjoint.format"] == "1"
        assert file.metadata()["adjoint.version"] == __version__
        assert file.metadata()["adjoint.module"] == str(trainer.module)
    others = names - trainer.export_params().keys()
    assert all(name.startswith("adjoint:") for name in others)
    assert {"adjoint:hyper:lr", "adjoint:epoch:order", "adjoint:epoch:losses"} <= others


def test_the_module_that_was_saved_may_be_given(module, trainer, cache, tmp_path):
    trainer.save(tmp_path / "file")
    assert Trainer.load(tmp_path / "file", module=module, options=cache).module is module


def other_module(loss=None, optimizer=None, sizes=SIZES):
    loss = CrossEntropyLoss() if loss is None else loss
    optimizer = SGD(0.1, 0.9, weight_decay=0.01) if optimizer is None else optimizer
    return SetupTrainer(loss, optimizer, [LOGITS, INDICES])(mlp(sizes, BATCH))


@pytest.mark.parametrize(
    ("given", "difference"),
    [
        ({"sizes": (12, 20, 8, 3)}, "parameter 'w0' is f32[12,16], but f32[12,20] in the one given"),
        ({"sizes": (12, 16, 3)}, "parameter 'w1' is f32[16,8], but f32[16,3] in the one given"),
        (
            {"optimizer": SGD(0.1)},
            "optimizer state 'w0_momentum_buffer' is f32[12,16], but missing in the one given",
        ),
        (
            {"optimizer": SGD(0.2, 0.9, weight_decay=0.01)},
            "the attribute hyper is (('lr', 0.1), ('momentum', 0.9), ('weight_decay', 0.01)), but (('lr', 0.2), "
            "('momentum', 0.9), ('weight_decay', 0.01)) in the one given",
        ),
        ({"loss": CrossEntropyLoss(label_smoothing=0.1)}, "the loss, @backbone_loss, differs from the one given"),
    ],
)
def test_another_module_is_refused_with_the_first_difference(trainer, cache, tmp_path, given, difference):
    path = tmp_path / "file"
    trainer.save(path)
    with pytest.raises(InvalidValueError) as caught:
        Trainer.load(path, module=other_module(**given), options=cache)
    assert caught.value.message == (
        f"Trainer.load: {path} was saved for another module, in which {difference}; pass the same module or none, or "
        "take only the weights, with Trainer(module).load_params(path)"
    )


def rewritten(path, change=None, **metadata):
    """Change a trainer's file."""
    with safe_open(path, "np") as file:
        arrays, old = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118
    if change is not None:
        change(arrays)
    save_file(arrays, path, old | {f"adjoint.{name}": text for name, text in metadata.items()})


def no_directory(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (Path.unlink, "Trainer.load: there is no file {path}; check the path"),
        (no_directory, "Trainer.load: {path} is a directory; give the path of a file in it"),
        (
            lambda path: save_file({"w": np.ones(3)}, path),
            "Trainer.load reads files of Trainer.save, and {path} holds arrays only; make a Trainer of the module and "
            "use its load_params(path)",
        ),
        (
            lambda path: rewritten(path, format="2", version="7.0"),
            f"Trainer.load: {{path}} has format 2, and adjoint {__version__} reads format 1; install adjoint 7.0 or "
            "newer",
        ),
        (
            lambda path: rewritten(path, lambda arrays: arrays.pop("w0")),
            "Trainer.load: {path} is damaged (no 'w0'); load another file",
        ),
        (
            lambda path: rewritten(path, lambda arrays: arrays.update(w0=np.ones(3, "f4"))),
            "Trainer.load: {path} is damaged (parameter 'w0' is f32[12,16] in the module, got float32[3]); load "
            "another file",
        ),
        (
            lambda path: rewritten(path, lambda arrays: arrays["adjoint:epoch:order"].fill(0)),
            "Trainer.load: {path} is damaged (the order of the epoch must have each of 61 rows once); load another "
            "file",
        ),
        (
            lambda path: rewritten(path, trainer=json.dumps({"seed": 1})),
            "Trainer.load: {path} is damaged (no 'begun'); load another file",
        ),
    ],
)
def test_files_that_are_not_a_trainers_are_refused_in_one_sentence(trainer, tmp_path, spoil, message):
    path = tmp_path / "file"
    trainer.run_epoch(dataset(), limit=2)
    trainer.save(path)
    spoil(path)
    with pytest.raises(CheckpointError) as caught:
        Trainer.load(path)
    assert caught.value.message == message.format(path=path)


@pytest.mark.parametrize("size", [0, 5, 100, -1, "text"])
def test_truncated_files_and_other_files_are_refused(trainer, tmp_path, size):
    path = tmp_path / "file"
    trainer.save(path)
    path.write_bytes(b"hello, this is no checkpoint" if size == "text" else path.read_bytes()[:size])
    with pytest.raises(CheckpointError) as caught:
        Trainer.load(path)
    said = caught.value.message
    assert said.startswith(f"Trainer.load reads safetensors files, and {path} is truncated or not one (")
    assert said.endswith("; save it again")


def test_a_folder_that_is_missing_is_refused(trainer, tmp_path):
    with pytest.raises(CheckpointError) as caught:
        trainer.save(tmp_path / "none" / "file")
    assert caught.value.message == f"save: the directory {tmp_path / 'none'} does not exist; create it first"
    with pytest.raises(CheckpointError, match=r"is a directory; give the path of a file in it"):
        trainer.save(tmp_path)


def test_a_parameter_with_a_reserved_name_is_refused(module, tmp_path):
    groups = {group: {} for group in GROUPS} | {"parameter": {"adjoint:state:w": np.ones(3)}}
    with pytest.raises(CheckpointError) as caught:
        Checkpoint(module, 0, groups, 0, None).write(tmp_path / "file")
    assert caught.value.message == (
        "save: names that begin with 'adjoint:' are those of the file's other arrays, got the parameter "
        "'adjoint:state:w'; rename it"
    )
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_save_leaves_the_old_file_and_no_other(trainer, tmp_path, monkeypatch):
    path = tmp_path / "file"
    trainer.save(path)
    before = path.read_bytes()

    def interrupt(_file):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    trainer.update(*next(batches(1)))
    with pytest.raises(KeyboardInterrupt):
        trainer.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL")
def test_a_killed_save_leaves_the_old_file(trainer, cache, tmp_path):
    path = tmp_path / "file"
    trainer.save(path)
    code = f"""
        import os, signal
        from adjoint.training import Trainer
        trainer = Trainer.load({str(path)!r})
        trainer.init_parameters("zeros")
        os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL)  # once all is written, before it gets its name
        trainer.save({str(path)!r})
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert_equal_bits(arrays_of(Trainer.load(path, options=cache)), arrays_of(trainer))
    if has_unnamed_files(tmp_path):
        assert list(tmp_path.iterdir()) == [path]


def has_unnamed_files(folder):
    """Whether a file can be written before it has a name, which most filesystems of Linux allow."""
    try:
        os.close(os.open(folder, os.O_WRONLY | os.O_TMPFILE))
    except (AttributeError, OSError):
        return False
    return True


@pytest.mark.parametrize("kind", ["rows", "batches"])
def test_a_save_while_another_thread_trains_is_of_a_moment_between_two_steps(module, cache, tmp_path, kind):
    """The file's position and arrays belong together: continued from there, the epoch ends with the same bits."""
    trainer = Trainer(module, threads=1, seed=1, options=cache)
    trainer.init_parameters()
    steps = {"rows": 20000, "batches": 4000}[kind]
    x, y = dataset(steps * BATCH)
    cut = list(zip(x.reshape(steps, BATCH, -1), y.reshape(steps, BATCH), strict=True))
    data = cut if kind == "batches" else (x, y)
    started, saved = threading.Event(), threading.Event()

    def tell(*_):
        started.set()
        saved.wait(0.001)  # slow until the files are written

    thread = threading.Thread(target=trainer.run_epoch, args=(data,), kwargs={"callback": tell})
    thread.start()
    started.wait()
    for number in range(2):
        trainer.save(tmp_path / f"{number}")
    saved.set()
    thread.join()
    for number in range(2):
        loaded = Trainer.load(tmp_path / f"{number}", options=cache)
        assert loaded.epochs == 0, "the epoch was too short to save in its middle"
        assert loaded.run_epoch(data, limit=1, resume=True).steps < steps
        result = loaded.run_epoch(data, resume=True)
        np.testing.assert_array_equal(result.losses, trainer.last_epoch.losses)
        assert_equal_bits(arrays_of(loaded), arrays_of(trainer))
