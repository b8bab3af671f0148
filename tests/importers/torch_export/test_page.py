"""The code of the page on PyTorch models runs, and the example learns; they need PyTorch, and the example also peft."""

from itertools import pairwise
from pathlib import Path

import pytest

from tests.test_examples import load
from tests.test_readme import ROOT, blocks

torch = pytest.importorskip("torch")


@pytest.mark.filterwarnings("ignore")
def test_the_code_of_the_page_prints_what_the_page_says(capsys):
    page, names, ran = ROOT / "docs" / "pytorch-models.md", {"__name__": "page"}, 0
    found = blocks(page)
    for (language, code, line), (after, expected, _) in pairwise(found):
        if language == "py":
            assert after == "text"
            exec(compile("\n" * line + code, page.name, "exec"), names)
            assert capsys.readouterr().out == expected
            ran += 1
    assert ran == 4


@pytest.mark.filterwarnings("ignore")
def test_the_example_of_lora_learns_and_writes_the_adapter(capsys, monkeypatch, tmp_path):
    pytest.importorskip("transformers")
    pytest.importorskip("peft")
    monkeypatch.chdir(tmp_path)
    example = load("fine_tune_distilbert_lora")
    assert len((Path(example.__file__)).read_text().splitlines()) < 50
    example.EPOCHS = 5
    example.main()
    lines = capsys.readouterr().out.splitlines()
    losses = [float(line.split()[3]) for line in lines if line.startswith("epoch")]
    assert losses[-1] < 0.7 * losses[0]
    assert (tmp_path / "distilbert-lora" / "adapter_model.safetensors").is_file()
