"""`benchmarks/late.py`: what it puts into a trainer, and what it prints."""

import numpy as np
from rich.console import Console

from adjoint import Trainer
from benchmarks import blocks, late, record, workloads
from benchmarks.run import PEER_FOLDER
from benchmarks.worker import load_peer


def test_half_of_the_features_never_have_a_gradient():
    made = late.without_half_of_the_features(workloads.make("mlp"))
    for x, _ in made.batches:
        assert not x[:, ::2].any()
        assert x[:, 1::2].any(axis=0).all()
    ids = late.without_half_of_the_features(workloads.make("gpt")).batches[0][0]
    assert ids[:, ::2].any()


def test_an_aged_state_is_subnormal_where_it_was_zero_and_stays_so():
    peer = load_peer(PEER_FOLDER / "adjoint.py")
    workload = late.without_half_of_the_features(workloads.make("linreg"))
    workload.opt.update(late.OPTIMIZERS["momentum"])
    trainer = Trainer(peer.module_of(workload), threads=1)
    trainer.init_parameters("zeros")
    trainer.update(*workload.batches[0])
    assert late._subnormal(trainer) == 0
    late._age(trainer)
    assert late._subnormal(trainer) == 0.5
    (buffer,) = trainer.export_optimizer_state().values()
    assert 0 < buffer[0, 0] < np.finfo(np.float32).smallest_normal
    # Flushed when it is next read; without flushing it would stay for ever.
    assert np.float32(late._LEFT_OVER) * np.float32(0.9) > 0


def test_steps_are_taken_as_long_as_patience_allows(monkeypatch):
    monkeypatch.setattr(late, "LATE_STEPS", 100)
    workload = workloads.make("linreg")
    found = [late.measure(workload, "adam", 1, 1, 0.001, patience).steps for patience in (0.0, 60.0)]
    assert found == [late.FIRST_STEPS, 100]


def test_a_table_has_every_workload_with_both_optimizers(tmp_path):
    console = Console(record=True, width=140)
    words = ["--workloads", "linreg", "--rounds", "1", "--seconds", "0.01", "--patience", "0"]
    path = tmp_path / "results.json"
    assert late.main([*words, "--json", str(path), "--allow-dirty"], console) == 0
    rows = [line.split() for line in console.export_text().splitlines() if "linreg" in line]
    assert [row[3] for row in rows] == ["momentum", "adam"]
    results = record.load(path)
    published = [line.split(" | ") for line in blocks.late_table(results).splitlines() if "linreg" in line]
    assert [row[1] for row in published] == ["momentum", "adam"]
    assert blocks.late_origin(results).startswith("Measured on 20")
    assert late.main([*words, "--at-most", "0.001"], console) == 1
