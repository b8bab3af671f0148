"""The fit of constants to measured schedules: the search, and what the models choose with other constants."""

import io
import json

import pytest
from rich.console import Console

from adjoint import costs
from adjoint.codegen.targets import host_target
from benchmarks import fit_costs, regret


def test_the_search_changes_one_constant_at_a_time_while_the_cost_falls():
    def cost(values):
        return 1 + abs(values["a"] - 8) + abs(values["b"] - 3)

    best, least = fit_costs.coordinate_search(cost, {"a": 2, "b": 3.0}, rounds=5)
    assert best == {"a": 8, "b": 3.0}
    assert least == 1


def test_constants_are_what_they_were_after_a_regret():
    class Failing:
        def regret(self):
            assert costs.TILE_CYCLES == 60
            raise ZeroDivisionError

    before = costs.TILE_CYCLES
    with pytest.raises(ZeroDivisionError):
        fit_costs.regret([Failing()], {"TILE_CYCLES": 60})
    assert before == costs.TILE_CYCLES


def test_models_choose_anew_for_other_constants():
    """Tiles are cached by what they depend on, which constants are not part of."""
    found = [one for one in regret.contractions("products", 30, 8, host_target()) if one.estimated().startswith("gemm")]

    class Chosen:
        def __init__(self, one):
            self.one, self.names = one, []

        def regret(self):
            self.names.append(self.one.estimated())
            return 1.0

    chosen = [Chosen(one) for one in found]
    for values in ({}, {"TILE_STEP_CYCLES": 50.0}, {}):
        fit_costs.regret(chosen, values)
    before, other, after = zip(*(one.names for one in chosen), strict=True)
    assert before == after != other


def test_measured_times_are_looked_up_for_what_the_models_choose(tmp_path, monkeypatch):
    monkeypatch.setattr(regret, "LEAST_FLOPS", 10**4)
    found = list(regret.contractions("products", 4, 8, host_target()))
    tried = [[{"name": one.estimated(), "nanoseconds": 3.0}, {"name": "other", "nanoseconds": 2.0}] for one in found]
    written = [{"name": one.name, "tried": times} for one, times in zip(found, tried, strict=True)]
    file = tmp_path / "found.json"
    file.write_text(json.dumps({"families": ["products"], "count": 4, "seed": 8, "contractions": written}))
    out = io.StringIO()
    assert fit_costs.main([str(file), "--rounds", "1", "--constants", "TILE_CYCLES"], Console(file=out)) == 0
    assert "others: 1.5000 to 1.5000" in out.getvalue()


def test_constants_that_do_not_exist_are_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        fit_costs.main([str(tmp_path), "--constants", "NOTHING,l2_bytes"])
    assert "adjoint.costs has no number named NOTHING, l2_bytes" in capsys.readouterr().err
