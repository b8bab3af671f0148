"""Random shapes and networks: what is drawn, what a name says, and what is printed of the ratios."""

import json
import sys

import numpy as np
import pytest
from rich.console import Console

from adjoint.profiling.machine import Level, Peaks
from benchmarks import families, harness, random_cases, random_networks
from benchmarks.families import Measured, distribution, worst
from benchmarks.peers import adjoint as peer
from tests.benchmarks.test_benchmark_harness import FAKE, Puppet
from tests.benchmarks.test_contractions import FAKE as FAKE_LIBRARY

SMALL = {
    "mlp": "mlp batch=3 sizes=5,7,2 opt=adam",
    "cnn": "cnn batch=2 channels=1,3 image=8 window=3 opt=sgd",
    "resnet": "resnet batch=2 widths=4, blocks=1 image=8 opt=sgd",
    "gpt": "gpt batch=2 layers=1 heads=2 width=8 tokens=5 vocabulary=11 opt=adamw",
    "vit": "vit batch=2 layers=1 heads=2 width=8 patch=4 image=8 opt=adam",
    "lstm": "lstm batch=2 tokens=4 width=6 hidden=5 vocabulary=9 opt=adam",
}


def test_sizes_are_as_likely_in_every_octave():
    rng = np.random.default_rng(0)
    sizes = [random_cases.size(rng, 1, 4096) for _ in range(4000)]
    assert (min(sizes), max(sizes)) == (1, 4096)
    counts, _ = np.histogram(np.log2(sizes), 3, (0, 12))
    assert counts.min() > 0.25 * len(sizes)
    assert sum(n > 8 and n % 8 != 0 for n in sizes) > 0.2 * len(sizes)


@pytest.mark.parametrize("family", random_cases.DRAWS)
def test_a_seed_gives_the_same_different_cases(family):
    cases = random_cases.draw(family, 20, 7)
    assert cases == random_cases.draw(family, 20, 7)
    assert len({case.name for case in cases}) == 20
    assert {case.name for case in cases}.isdisjoint(case.name for case in random_cases.draw(family, 20, 8))
    assert max(case.flops for case in cases) <= random_cases.MOST_FLOPS
    kinds = {"products": 4, "convolutions": 3, "attention": 2}
    assert len({case.kind for case in random_cases.draw(family, 60, 0)}) == kinds[family]


def test_networks_are_of_all_kinds_and_their_names_have_all_numbers(tmp_path):
    names = random_networks.draw(6, 3)
    assert [name.split()[0] for name in names] == list(random_networks.KINDS)
    assert names == random_networks.draw(6, 3)
    for name in SMALL.values():
        made = random_networks.make(name)
        random_networks.save(made, tmp_path / "arrays.npz")
        again = random_networks.load(name, tmp_path / "arrays.npz")
        assert (again.name, again.flops, again.opt) == (name, made.flops, made.opt)
        for ours, theirs in ((made.params, again.params), (made.states, again.states)):
            assert {k: a.tobytes() for k, a in ours.items()} == {k: a.tobytes() for k, a in theirs.items()}


@pytest.mark.parametrize("kind", ["mlp", "vit", "lstm"])  # the others have no operators but those of the workloads
def test_graphs_and_tensors_train_a_network_alike(kind):
    """Two implementations of the operators, and losses that fall for batches that are seen again."""
    made = random_networks.make(SMALL[kind])
    losses = {}
    for mode in ("step", "jit"):
        step, read = peer.build(made, mode, 1)
        batches = [(x if x.dtype.kind == "f" else x.astype("i8"), y if y.dtype.kind == "f" else y.astype("i8"))
                   for x, y in made.batches]  # fmt: skip
        losses[mode] = [read(step(*batches[0])) for _ in range(10)]
    np.testing.assert_allclose(losses["step"], losses["jit"], rtol=1e-5)
    assert losses["step"][-1] < losses["step"][0]


def test_the_distribution_of_ratios():
    found = [Measured(str(r), r, "torch", 10.0 * r, 40.0) for r in (0.8, 0.9, 1.0, 1.6, 2.0)]
    assert distribution(found) == (
        "5 cases: geometric mean 1.18, quartiles 0.85, 1.00 and 1.80, from 0.80 to 2.00; 40% below 1, 40% below 0.95, "
        "20% below 0.85"
    )
    assert distribution(found[:1]).startswith("1 cases: geometric mean 0.80, quartiles 0.80, 0.80 and 0.80")
    with open("/dev/null", "w") as nowhere:
        console = Console(record=True, width=80, file=nowhere)
        console.print(worst(found, "products, 1 thread", 2))
    lines = [line.split() for line in console.export_text().splitlines()]
    assert ["0.8", "0.80", "x", "8.0", "20%", "torch"] in lines
    assert ["0.9", "0.90", "x", "9.0", "22%", "torch"] in lines
    assert not any(line[:1] == ["1.0"] for line in lines)


PEAKS = Peaks("cpu", 256, 1, 100.0, (Level("memory", None, 10.0),))


@pytest.fixture
def tmp_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(families, "machine_peaks", lambda _target, _threads: PEAKS)
    return tmp_path


def run(tmp_path, *arguments):
    """Exit status, what was printed, and what was written."""
    with open("/dev/null", "w") as nowhere:
        console = Console(record=True, width=140, file=nowhere)
        status = families.main(
            ["--peer-folder", str(tmp_path), "--python", f"fake={sys.executable}", "--threads", "1", "--rounds", "1",
             "--seconds", "0.005", "--json", str(tmp_path / "out.json"), *arguments],
            console,
        )  # fmt: skip
    return status, console.export_text(), json.loads((tmp_path / "out.json").read_text())


def test_random_products_are_measured_beside_a_peer(tmp_folder, monkeypatch):
    monkeypatch.setattr(random_cases, "MOST_FLOPS", 10**5)
    (tmp_folder / "fake.py").write_text(FAKE_LIBRARY.replace('case.kind == "matmul"', "True"))  # of any kind
    peers = "adjoint,fake:good,fake:wrong"
    status, text, written = run(tmp_folder, "--families", "products", "--count", "2", "--seed", "4", "--peers", peers)
    assert status == 0
    assert "seed 4" in text
    assert "2 cases: geometric mean 0." in text  # the peer does nothing, so it is faster
    assert "fake:wrong" in text
    assert written["seed"] == 4
    assert [case["name"] for case in written["cases"]] == [case.name for case in random_cases.draw("products", 2, 4)]
    assert {case["peer"] for case in written["cases"]} == {"fake:good"}


def test_networks_whose_losses_differ_are_named(tmp_folder, monkeypatch):
    (tmp_folder / "fake.py").write_text(FAKE)
    monkeypatch.setenv("FAKE_LOG", str(tmp_folder / "log"))
    status, text, written = run(
        tmp_folder, "--families", "networks", "--names", SMALL["mlp"], "--peers", "adjoint:step,fake:good"
    )
    assert status == 1
    assert f"adjoint:step: {SMALL['mlp']}: loss 1 is" in text
    assert written["cases"] == []


def test_networks_that_get_ready_side_by_side_are_all_measured(tmp_folder, monkeypatch):
    """Three networks in groups of two, on processes that only say what happens to them."""
    log = []
    monkeypatch.setattr(harness, "Worker", type("Puppets", (Puppet,), {"log": log}))
    monkeypatch.setattr(harness, "groups", lambda _threads: 2)
    monkeypatch.setattr(harness, "SETTLE_S", 0)
    (tmp_folder / "fake.py").write_text(FAKE)
    names = [f"mlp batch=2 sizes={size} opt=sgd" for size in ("3,4", "4,5", "5,6")]
    chosen = [argument for name in names for argument in ("--names", name)]
    status, text, written = run(tmp_folder, "--families", "networks", *chosen, "--peers", "adjoint:step,fake:good")
    assert status == 0, text
    assert [case["name"] for case in written["cases"]] == names
    assert all(f"1.00 x fake:good: {name}" in text for name in names)
    first, second = log[: len(log) * 2 // 3], log[len(log) * 2 // 3 :]
    for part, networks in ((first, 2), (second, 1)):
        starts, ends = ([n for n, line in enumerate(part) if line.startswith(word)] for word in ("start", "end"))
        assert len(starts) == len(ends) == 2 * networks
        assert starts == list(range(2 * networks))  # all are started before any is measured
        assert ends == list(range(len(part) - 2 * networks, len(part)))


def test_unknown_families_are_refused(capsys):
    with pytest.raises(SystemExit):
        families.main(["--families", "products,soups"])
    assert "families are products, convolutions, attention, networks, got soups" in capsys.readouterr().err


def test_a_family_without_peers_is_refused(capsys):
    with pytest.raises(SystemExit):
        families.main(["--families", "products", "--peers", "adjoint"])
    assert "products: there must be a peer to compare with; name its interpreter" in capsys.readouterr().err
