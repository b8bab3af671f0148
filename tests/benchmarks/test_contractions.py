"""Contractions: what they compute is held to loops, what is measured to a peer that needs no library."""

import itertools
import json
import sys
from math import prod
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from benchmarks import contraction_worker, contractions, roster
from benchmarks.contraction_cases import CASES, Case, attention, convolution, expected, operands, product
from benchmarks.worker import load_peer

SMALL = [
    product(5, 7, 9),
    product(5, 7, 9, transposed=True),
    product(5, 7, 9, right_transposed=True),
    product(5, 7, 9, True, True, batch=3),
    *convolution("small", 2, 3, 4, 5),
    *convolution("small", 2, 3, 4, 6, stride=2),
    *convolution("small", 2, 3, 4, 6, window=1, stride=2),
    *convolution("small", 1, 2, 3, 9, window=7, stride=2),
    *convolution("small", 2, 4, 6, 5, groups=2),
    *attention(2, 1, 5, 3, causal=False),
    *attention(1, 2, 6, 4, causal=True),
]


def attention_by_loops(case, qkv, ct):
    """Each row by itself; gradients as central differences of the sum of the output times `ct`."""

    def output(qkv):
        q, k, v = qkv
        made = np.zeros(ct.shape)
        for *lead, t in np.ndindex(ct.shape[:-1]):
            seen = t + 1 if case.causal else ct.shape[-2]
            scores = [sum(q[(*lead, t)] * k[(*lead, s)]) / ct.shape[-1] ** 0.5 for s in range(seen)]
            shares = np.exp(scores) / np.sum(np.exp(scores))
            made[(*lead, t)] = sum(share * v[(*lead, s)] for s, share in enumerate(shares))
        return made

    if case.kind == "attention":
        return output(qkv)
    made, step = np.zeros(qkv.shape), 1e-5
    for place in np.ndindex(qkv.shape):
        change = np.zeros(qkv.shape)
        change[place] = step
        made[place] = ((output(qkv + change) - output(qkv - change)) * ct).sum() / (2 * step)
    return made


def by_loops(case, left, right):
    """The contraction by its definition, one product after the other."""
    made = np.zeros(case.result)
    if case.kind.startswith("attention"):
        return attention_by_loops(case, left, right)
    if case.kind.startswith("matmul"):
        turned = "".join(case.kind.split("_")[1:])
        for *lead, i, j in np.ndindex(case.result):
            a, b = left[tuple(lead)], right[tuple(lead)]
            a, b = a.T if "a" in turned else a, b.T if "b" in turned else b
            made[(*lead, i, j)] = sum(a[i, k] * b[k, j] for k in range(len(b)))
        return made
    x, w, y = {"forward": (left, right, made), "data": (made, right, left), "weight": (left, made, right)}[case.kind]
    for (n, o, i, j), (part, a, b) in itertools.product(np.ndindex(y.shape), np.ndindex(w.shape[1:])):
        c = o // (w.shape[0] // case.groups) * w.shape[1] + part
        row, column = i * case.stride + a - case.padding, j * case.stride + b - case.padding
        if 0 <= row < x.shape[2] and 0 <= column < x.shape[3]:
            if case.kind == "forward":
                y[n, o, i, j] += x[n, c, row, column] * w[o, part, a, b]
            elif case.kind == "data":
                x[n, c, row, column] += y[n, o, i, j] * w[o, part, a, b]
            else:
                w[o, part, a, b] += y[n, o, i, j] * x[n, c, row, column]
    return made


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
def test_what_is_expected_is_what_loops_give(case):
    left, right = (array.astype(np.float64) for array in operands(case))
    assert left.shape == case.left
    assert right.shape == case.right
    # Differences of numbers near 1 are exact to 1e-16 / 1e-5, and their quotients to the square of the step.
    tolerance = 1e-9 if case.kind == "attention_gradient" else 1e-12
    np.testing.assert_allclose(expected(case, left, right), by_loops(case, left, right), tolerance, tolerance)


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
@pytest.mark.parametrize("name", ["adjoint", "numpy"])
def test_libraries_compute_what_is_expected_every_time(name, case):
    left, right = operands(case)
    made = load_peer(contractions.PEER_FOLDER / f"{name}.py").prepare(case, "", 1, left, right)
    if made is None:
        assert name == "numpy"
        assert not case.kind.startswith("matmul")
        return
    run, result = made
    wanted = expected(case, left.astype(np.float64), right.astype(np.float64))
    for _ in range(2):
        run()
        np.testing.assert_allclose(result(), wanted, rtol=1e-4, atol=1e-5)


def test_cases_are_those_of_the_networks():
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
    (first,) = (case for case in CASES if case.name == "cifar 16->32@32 3x3/2 forward")
    assert (first.left, first.right, first.result) == ((64, 16, 32, 32), (32, 16, 3, 3), (64, 32, 16, 16))
    assert first.flops == 2 * 64 * 32 * 16 * 16 * 16 * 9
    (stem,) = (case for case in CASES if case.name == "imagenet 3->64@224 7x7/2 data")
    assert (stem.left, stem.right, stem.result) == ((8, 64, 112, 112), (64, 3, 7, 7), (8, 3, 224, 224))
    assert [sum(case.name.startswith(n) for case in CASES) for n in ("cifar", "imagenet")] == [24, 24]
    assert all(case.flops == 2 * prod(case.result) * case.left[-1] for case in CASES if case.kind == "matmul")


def test_a_case_goes_through_json():
    for case in CASES:
        assert Case.from_dict(json.loads(json.dumps(case.as_dict()))) == case


def test_a_window_lasts_as_long_as_asked(monkeypatch):
    now = [0.0]

    def run():
        now[0] += 0.25

    monkeypatch.setattr(contraction_worker.time, "perf_counter", lambda: now[0])
    assert contraction_worker.run_calls(run, 2.0, 4) == (8, 2.0)
    assert contraction_worker.run_calls(run, 2.1, 4) == (12, 3.0)


def test_differences_are_relative_to_the_largest_number():
    assert contraction_worker.difference(np.array([1.0, -4.5]), np.array([1.5, -5.0])) == 0.1
    assert not contraction_worker.difference(np.array([np.nan, 1.0]), np.array([1.0, 1.0])) <= 1


FAKE = """
import os

import numpy as np

from benchmarks.contraction_cases import expected

MODES = ("good", "wrong", "dies", "knows_none")


def prepare(case, mode, threads, left, right):
    if mode == "knows_none":
        return None
    if mode == "dies" and case.kind == "matmul" and case.result[-1] == 10:
        raise RuntimeError("it rains")
    made = expected(case, left, right)
    if mode == "wrong" and case.kind == "matmul":
        made[0] += 1
    return (lambda: None), (lambda: made)
"""


def measured(tmp_path, *arguments):
    """Exit status, what was printed, and what was written by (contraction, library)."""
    (tmp_path / "fake.py").write_text(FAKE)
    with open("/dev/null", "w") as nowhere:
        console = Console(record=True, width=140, file=nowhere)
        status = contractions.main(
            ["--peer-folder", str(tmp_path), "--python", f"fake={sys.executable}", "--threads", "1", "--rounds", "2",
             "--seconds", "0.005", "--json", str(tmp_path / "out.json"), *arguments],
            console,
        )  # fmt: skip
    written = json.loads((tmp_path / "out.json").read_text())["contractions"]
    return status, console.export_text(), written


def test_adjoint_is_measured_beside_the_best_of_the_others(tmp_path):
    status, text, written = measured(tmp_path, "--peers", "adjoint,numpy,fake:good", "--only", "64x10 @*")
    assert status == 0
    (found,) = written
    assert (found["name"], found["best_peer"], found["threads"]) == ("64x10 @ 10x128", "fake:good", 1)
    libraries = {one["peer"]: one for one in found["libraries"]}
    assert all(len(one["calls_per_second"]) == 2 and one["error"] is None for one in libraries.values())
    assert libraries["numpy"]["version"] == np.__version__
    rates = [libraries[name]["calls_per_second"] for name in ("adjoint", "fake")]
    assert found["adjoint_over_best_peer"] == np.median(np.divide(*rates))
    assert libraries["adjoint"]["gflops"] == pytest.approx(np.median(rates[0]) * 2 * 64 * 10 * 128 / 1e9)
    row = next(line.split() for line in text.splitlines() if line.strip().startswith("64x10 @"))
    assert row[3:6] == [f"{libraries[n]['gflops']:.1f}" for n in ("adjoint", "fake")] + ["fake:good"]
    assert "in the worst case, 64x10 @ 10x128" in " ".join(text.split())


@pytest.mark.parametrize(("limits", "rounds"), [((), 2), ((1.0,), 8), ((3.0,), 2)])
def test_cases_on_both_sides_of_a_limit_are_measured_in_more_rounds(tmp_path, monkeypatch, limits, rounds):
    (tmp_path / "fake.py").write_text(FAKE)
    clock = itertools.cycle([2.0, 1.0, 1.0, 2.0])  # adjoint is twice as fast in one round and half as fast in the next

    def window(_, result, seconds):
        result.add({"steps": next(clock), "seconds": seconds, "cores": 1.0, "others": 0.0, "peak_bytes": 0})

    monkeypatch.setattr(contractions._Library, "window", window)
    peers = roster.find_peers([tmp_path, contractions.PEER_FOLDER], {"fake": sys.executable})
    pairs = roster.choose(peers, ["adjoint", "fake:good"])
    ((_, results),) = contractions.measure([SMALL[0]], pairs, 1, 2, 0.01, limits=limits)
    assert [len(result.rates) for result in results] == [rounds, rounds]


def test_what_computes_something_else_or_ends_is_named_and_not_measured(tmp_path):
    status, text, written = measured(tmp_path, "--peers", "adjoint,fake", "--only", "(64x128)T*")
    assert status == 0
    assert [one["mode"] for one in written[0]["libraries"]] == ["compiled", "good", "wrong", "dies"]
    status, text, written = measured(tmp_path, "--peers", "adjoint,fake", "--only", "64x1[02]* @ *0*")
    assert status == 1
    assert [one["name"] for one in written] == ["64x128 @ 128x10", "64x10 @ 10x128"]
    lines = " ".join(text.split())
    assert "fake:wrong: 64x128 @ 128x10: WRONG, not measured: its result differs from NumPy's by" in lines
    assert "fake:dies: 64x128 @ 128x10: failed: RuntimeError: it rains" in lines
    assert "fake:dies: 64x10" not in lines, "another process has taken over"
    assert [one["error"] for one in written[1]["libraries"] if one["mode"] == "dies"] == [None]
    assert "adjoint is" in lines


def test_names_are_listed(capsys):
    assert contractions.main(["--list", "--only", "imagenet*7x7"]) == 0
    assert capsys.readouterr().out.split("\n") == [
        f"imagenet 3->64@224 7x7/2 {kind}" for kind in ("forward", "data", "weight")
    ] + [""]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "vgg"], "no contraction is called 'vgg'"),
        (["--threads", "0"], "numbers of threads are from 1"),
        (["--rounds", "0"], "--rounds is from 1"),
        (["--peers", "blas"], "got 'blas'"),
        (["--python", "torch=/no/such/python"], "got 'torch=/no/such/python'"),
    ],
)
def test_wrong_options_are_refused(arguments, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        contractions.main(arguments)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_it_has_the_library_files_that_the_documentation_names():
    found = {path.stem for path in Path(contractions.PEER_FOLDER).glob("[a-z]*.py")}
    assert found == {"adjoint", "jax", "numpy", "torch"}


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_16_bits_are_measured_by_adjoint_alone(tmp_path, dtype):
    status, _, written = measured(
        tmp_path, "--peers", "adjoint,numpy", "--only", "64x10 @*", "--dtypes", f"f32,{dtype}"
    )
    assert status == 0
    assert [(found["name"], found["dtype"]) for found in written] == [
        ("64x10 @ 10x128", "f32"),
        (f"{dtype} 64x10 @ 10x128", dtype),
    ]
    assert [[one["peer"] for one in found["libraries"]] for found in written] == [["adjoint", "numpy"], ["adjoint"]]


def test_unknown_dtypes_are_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        measured(tmp_path, "--dtypes", "f32,f8")
    assert "dtypes are f32, bf16, f16, not 'f32,f8'" in capsys.readouterr().err
