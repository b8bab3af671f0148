"""Programs with other frameworks' names beside adjoint's: the same losses, and what is printed of their speeds."""

import pytest

from adjoint.compat.covered import FRAMEWORKS
from benchmarks import compat

#: What `compat_programs/torch.py` prints under PyTorch 2.13.
LOSSES = [2.3148708, 2.2518790, 2.1972017, 2.1598275, 2.1222434, 2.0717423, 2.0081654, 1.9293158]


@pytest.mark.parametrize("framework", [name for name in compat.NATIVE if name in FRAMEWORKS])
def test_losses_are_pytorchs(framework, tmp_path):
    path = tmp_path / "program.py"  # TVM's scripts are read from their files
    compared = compat.variants(framework, {framework: "python"})
    assert [each.kind for each in compared] == ["compat", "adjoint", "framework"]
    path.write_text(compared[0].code)
    names = {"__name__": "program", "__file__": str(path)}
    exec(compile(compared[0].code, str(path), "exec"), names)
    found = names["main"](4)
    assert found["losses"] == pytest.approx(LOSSES, rel=1e-5)
    assert found["rate"] > 0


@pytest.mark.parametrize("program", ["adjoint_jit", "adjoint_graph"])
def test_adjoints_own_programs_compute_the_same(program):
    names = {"__name__": "program"}
    exec(compile((compat.PROGRAMS / f"{program}.py").read_text(), program, "exec"), names)
    assert names["main"](4)["losses"] == pytest.approx(LOSSES, rel=1e-5)


def test_rates_and_ratios_are_medians_and_losses_must_agree():
    def runs(*rates, loss=1.0):
        return [{"losses": [loss], "rate": rate} for rate in rates]

    results = {"compat": runs(98, 200, 99), "adjoint": runs(100, 100, 100), "framework": runs(49, 50, 33)}
    assert compat.summary("torch", results) == ("torch", "99", "100", "49", "0.99", "3.00")
    assert compat.summary("torch", {kind: results[kind] for kind in ("compat", "adjoint")})[3:] == ("", "0.99", "")
    with pytest.raises(SystemExit, match=r"torch: losses of compat are \[1\.1\], but adjoint's are \[1\.0\]"):
        compat.summary("torch", results | {"compat": runs(1, loss=1.1)})
