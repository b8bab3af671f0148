"""``adjoint show``, ``profile``, ``doctor`` and ``cache``."""

import json
import os
import re
from dataclasses import replace

import numpy as np
import pytest
from llvmlite.binding import get_host_cpu_name

import adjoint
from adjoint.cli import main
from adjoint.compiler import host
from adjoint.ir import IRModule
from adjoint.models import linreg, mlp
from adjoint.paths import write_whole
from tests.cli.helpers import refusal
from tests.profiling.steps import PEAKS


@pytest.mark.parametrize("model", ["mlp", "linreg"])
@pytest.mark.parametrize(
    ("stage", "part"),
    [
        ("graph", "func @backbone("),
        ("adjoint", "func @backbone_loss_adjoint("),
        ("step", "func @step("),
        ("kernels", "kernel "),
        ("llvm", "define i32 @adjoint.step("),
        ("asm", "step:"),
    ],
)
def test_every_stage_prints(capsys, model, stage, part):
    assert main(["show", model, "--stage", stage]) == 0
    assert part in capsys.readouterr().out


def test_the_graph_of_a_file_is_printed_as_it_was_parsed(capsys, tmp_path):
    (tmp_path / "model.txt").write_text(str(mlp((5, 4, 3), batch_size=2)))
    assert main(["show", str(tmp_path / "model.txt")]) == 0
    assert adjoint.ops.parse(capsys.readouterr().out) == mlp((5, 4, 3), batch_size=2)


@pytest.mark.parametrize("stage", ["graph", "adjoint", "step"])
def test_lines_are_appended_to_the_values_of_graphs(capsys, stage):
    assert main(["show", "linreg", "--stage", stage]) == 0
    plain = capsys.readouterr().out
    assert main(["show", "linreg", "--stage", stage, "--lines"]) == 0
    told = capsys.readouterr().out
    assert adjoint.ops.parse(told) == adjoint.ops.parse(plain)
    (product,) = (line for line in told.splitlines() if line.startswith("  %predictions: "))
    assert re.search(r"\}  # models\.py:\d+$", product)
    assert re.sub(r"  # \w+\.py:\d+$", "", told, flags=re.MULTILINE) == plain


def test_values_of_a_file_have_its_lines(capsys, tmp_path):
    path = tmp_path / "model.txt"
    path.write_text(str(linreg()))
    number = 1 + path.read_text().splitlines().index(
        next(line for line in path.read_text().splitlines() if line.startswith("  %predictions"))
    )
    assert main(["show", str(path), "--stage", "adjoint", "--loss", "mse", "--lines"]) == 0
    out = capsys.readouterr().out
    assert f"transpose_b = False}}  # model.txt:{number}\n" in out


def test_lines_are_of_graphs(capsys):
    wanted = "--lines requires one of the stages graph, adjoint, step; omit it"
    assert refusal(capsys, "show", "linreg", "--stage", "kernels", "--lines") == wanted
    assert refusal(capsys, "show", "linreg", "--print-after", "cse", "--lines") == wanted


def test_the_batch_size_of_a_built_in_model_may_be_chosen(capsys):
    assert main(["show", "mlp", "--batch-size", "7"]) == 0
    assert "%x: f32[7,784]" in capsys.readouterr().out


def test_one_kernel_is_a_part_of_all_kernels(capsys):
    module = adjoint.SetupTrainer(adjoint.losses.MSELoss(), adjoint.optim.SGD(0.01), (adjoint.TensorType((4, 1)),) * 2)(
        linreg()
    )
    names = [k.name for k in adjoint.compile(module, entries=("step",))["step"].kernels]
    assert main(["show", "linreg", "--stage", "kernels"]) == 0
    whole = capsys.readouterr().out
    parts = []
    for name in names:
        assert main(["show", "linreg", "--stage", "kernels", "--kernel", name]) == 0
        parts.append(capsys.readouterr().out)
    assert all(part in whole for part in parts)
    assert sum(len(part) for part in parts) == pytest.approx(len(whole), abs=2 * len(parts))


def test_code_for_another_cpu_is_printed(capsys):
    assert main(["show", "linreg", "--stage", "asm", "--target", "neon"]) == 0
    assert "fmul\tv" in capsys.readouterr().out
    assert main(["show", "linreg", "--print-after", "build_kernels", "--target", "avx2"]) == 0
    assert "kernel " in capsys.readouterr().out
    assert refusal(capsys, "show", "linreg", "--target", "neom").startswith("no target 'neom'; did you mean neon?")


def test_an_unknown_kernel_is_refused(capsys):
    assert refusal(capsys, "show", "linreg", "--stage", "asm", "--kernel", "zzz").startswith("no kernel 'zzz'; there ")


def test_files_that_hold_no_model_are_refused(capsys, tmp_path):
    path = tmp_path / "model.txt"
    path.write_text("module {} {\n\nfunc @backbone(%x: f32[2]) -> f32[2] {\n  %y: f32[2] = exq(%x)\n}\n}\n")
    assert "exp" in refusal(capsys, "show", str(path))
    path.write_text(str(IRModule((linreg()["backbone"].renamed("other"),))))
    assert "a function 'backbone' or 'step', got other" in refusal(capsys, "show", str(path), "--stage", "step")
    path.write_text(str(linreg()))
    assert "--batch-size applies to built-in models" in refusal(capsys, "show", str(path), "--batch-size", "2")
    path.write_bytes(b"\xff\xfe\x00")
    assert "cannot be read as text" in refusal(capsys, "show", str(path))
    assert "did you mean" in refusal(capsys, "show", str(tmp_path / "modle.txt"))


def test_profile_has_a_row_for_each_kernel(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("adjoint.profiling.step.machine_peaks", lambda *_, **__: PEAKS)
    monkeypatch.setattr("adjoint.profiling.step.keep_peaks", lambda _, peaks: peaks)
    assert main(["profile", "mlp", "--runs", "3"]) == 0
    out = capsys.readouterr().out
    module = adjoint.SetupTrainer(
        adjoint.losses.CrossEntropyLoss(), adjoint.optim.SGD(0.01),
        (adjoint.TensorType((64, 10)), adjoint.TensorType((64,), "i64")),
    )(mlp())  # fmt: skip
    names = [k.name for k in adjoint.compile(module, entries=("step",))["step"].kernels]
    assert names
    assert all(name in out for name in names)
    assert "GFLOP/s" in out
    assert "100" in out or "%" in out


def test_doctor_tells_what_it_finds(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("ADJOINT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for part in (adjoint.__version__, np.__version__, "LLVM", host().cpu, "L1", str(tmp_path / "cache"), "yes"):
        assert part in out


def test_doctor_says_which_instructions_the_compiler_uses(capsys, monkeypatch):
    features = "+avx2,+fma,+f16c,+avx512bf16,-amx-bf16"
    other = replace(host(), triple="x86_64-unknown-linux-gnu", features=features, cpu="abacus", fma_units=1)
    monkeypatch.setattr("adjoint.cli.doctor.host_target", lambda: other)
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["CPU"]["recognized as"] == "abacus"
    assert found["CPU"]["named by LLVM"] == get_host_cpu_name()
    assert found["CPU"]["multiply-adds per cycle"] == 1
    assert found["instructions"]["FMA"] == {"present": True, "used": True}
    assert found["instructions"]["AVX512-BF16"] == {"present": True, "used": False}
    assert found["instructions"]["AMX-BF16"] == {"present": False, "used": False}
    assert found["memory"]["L1"]["bytes"] == host().l1.nbytes


def test_doctor_says_why_the_cache_does_not_work(capsys, monkeypatch, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("ADJOINT_CACHE", str(tmp_path / "file"))
    monkeypatch.setenv("COLUMNS", "300")
    assert main(["doctor"]) == 2
    assert "cannot be written" in capsys.readouterr().out


def test_the_cache_is_told_and_cleared_and_nothing_else_is_touched(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("ADJOINT_CACHE", str(tmp_path))
    (tmp_path / "mine.txt").write_text("keep")
    (tmp_path / "fashion-mnist").mkdir()
    (tmp_path / "fashion-mnist" / "x.gz").write_bytes(bytes(2_000_000))
    assert main(["cache"]) == 0
    assert "fashion-mnist: Fashion-MNIST, 1 file, 2.0 MB" in capsys.readouterr().out
    assert main(["cache", "--clear"]) == 0
    assert "removed Fashion-MNIST, 1 file" in capsys.readouterr().out
    assert os.listdir(tmp_path) == ["mine.txt"]


def test_clearing_leaves_nothing_of_what_adjoint_keeps(capsys, monkeypatch, tmp_path):
    """Measured contractions too, or code would go on being made from them."""
    monkeypatch.setenv("ADJOINT_CACHE", str(tmp_path / "cache"))
    x, w = adjoint.param("x", (64, 128)), adjoint.param("w", (128, 128))
    adjoint.compile(adjoint.Function("f", (x, w), (adjoint.ops.matmul(x, w),)), tune=True)
    write_whole(tmp_path / "cache" / "peaks" / "peaks.json", b"{}")
    assert sorted(os.listdir(tmp_path / "cache")) == ["compiled", "peaks", "tuning"]
    assert main(["cache", "--clear"]) == 0
    assert "tuning: removed measured contractions, 1 file" in capsys.readouterr().out
    assert os.listdir(tmp_path / "cache") == []


def test_the_limit_of_compiled_code_is_told(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("ADJOINT_CACHE", str(tmp_path))
    monkeypatch.setenv("ADJOINT_CACHE_LIMIT", "500MB")
    assert main(["cache"]) == 0
    assert "compiled: compiled code, 0 files, 0.0 MB of at most 500.0 MB" in capsys.readouterr().out
    monkeypatch.setenv("ADJOINT_CACHE_LIMIT", "much")
    assert main(["cache"]) == 2
    assert (
        "ADJOINT_CACHE_LIMIT is a number of bytes above 0 or a size like 500MB, got 'much'" in capsys.readouterr().err
    )


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_doctor_says_where_others_may_write_to_the_cache(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("ADJOINT_CACHE", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "300")
    tmp_path.chmod(0o777)
    assert main(["doctor"]) == 2
    assert "has mode 0777; chmod go-w it" in capsys.readouterr().out
