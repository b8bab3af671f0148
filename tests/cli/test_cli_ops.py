"""``adjoint ops``: the table, JSON, and the page in the documentation."""

import json
from pathlib import Path

import pytest

from adjoint.cli import main
from adjoint.ops.catalogue import CATALOGUE
from tests.cli.helpers import refusal

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")


def test_the_table_has_signatures_syntax_and_gradients(capsys, wide):  # noqa: ARG001
    assert main(["ops"]) == 0
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in capsys.readouterr().out.splitlines()]
    assert ["", "subtract(x, y)", "x - y, broadcast; scalars and arrays are promoted.", "x - y", "yes"] in rows
    assert ["", "linear(x, w, b=None) (composite)", "x @ w + b.", "", "yes"] in rows
    assert any(row[1:2] == ["after (no function)"] for row in rows)
    assert ["rounding", "floor(x)", "Floats rounded down, without a gradient.", "", "no: the gradient is 0"] in rows


def test_brackets_are_not_taken_for_styles(capsys, wide):  # noqa: ARG001
    assert main(["ops", "indexing", "linear algebra"]) == 0
    out = capsys.readouterr().out
    assert "result[ids[i]] += updates[i]" in out
    assert "x[...]" in out
    assert "cholesky(x, upper=False)" in out
    assert "scaled_dot_product" not in out


def test_json_is_a_list_of_objects(capsys):
    assert main(["ops", "--json"]) == 0
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert found["equal"] == {
        "name": "equal",
        "family": "comparison",
        "signature": "equal(x, y)",
        "summary": "``x == y`` as bool, broadcast; scalars and arrays are promoted.",
        "python": [],
        "gradient": False,
        "reason": "a bool is not differentiable",
        "composite": False,
    }
    assert {op.name for op in CATALOGUE} <= set(found)
    assert all(each["gradient"] is True or each["reason"] for each in found.values())
    softmax = found["softmax"]
    assert (softmax["composite"], softmax["gradient"], softmax["reason"]) == (True, True, None)


def test_the_page_in_the_documentation_is_the_printed_one(capsys):
    assert main(["ops", "--markdown"]) == 0
    assert (DOCS / "operators.md").read_text() == capsys.readouterr().out, (
        "run `adjoint ops --markdown > docs/operators.md`"
    )


def test_aten_operators_have_functions_or_a_reason(capsys, wide):  # noqa: ARG001
    assert main(["ops", "--aten"]) == 0
    *table, last = capsys.readouterr().out.splitlines()
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in table]
    assert ["any", "default, dim, dims", "any", ""] in rows
    assert ["_fft_r2c", "default", "none", "there are no complex numbers"] in rows
    assert last == "158 of 164 operators are computed."


def test_aten_as_json(capsys):
    assert main(["ops", "--aten", "--json"]) == 0
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert found["max_pool2d_with_indices"] == {
        "name": "max_pool2d_with_indices",
        "overloads": ["default"],
        "functions": ["nn.functional.max_pool2d"],
        "remark": "with return_indices=True",
        "covered": True,
    }
    assert not found["resize_"]["covered"]


def test_the_page_on_aten_is_the_printed_one(capsys):
    assert main(["ops", "--aten", "--markdown"]) == 0
    assert (DOCS / "aten.md").read_text() == capsys.readouterr().out, (
        "run `adjoint ops --aten --markdown > docs/aten.md`"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("ops --json --markdown", "--json and --markdown exclude each other, got both; omit one"),
        ("ops reduction --aten", "--aten prints the whole set, got reduction as well; omit it"),
        ("ops reduction --markdown", "--markdown prints the whole page, got reduction as well; omit it"),
        (
            "ops redcution",
            "no family 'redcution'; did you mean reduction? (there are arithmetic, rounding, exponential, "
            "trigonometric, special, activation, comparison, logic, bitwise, conversion, creation, shape, reduction, "
            "cumulative, normalization, contraction, attention, convolution, pooling, indexing, ordering, "
            "linear algebra, random, resizing, control flow)",
        ),
    ],
)
def test_wrong_words_get_one_sentence(capsys, words, message):
    assert refusal(capsys, *words.split()) == message
