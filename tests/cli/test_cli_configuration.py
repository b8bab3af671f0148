"""Configurations: defaults, a TOML file, ``--set`` and options, each over the one before; unknown keys are refused."""

import click
import pytest

from adjoint.cli.configuration import DEFAULTS, configured

TOML = """
[data]
batch_size = 32

[model]
name = "mlp"
hidden = [256, 64]

[optimizer]
lr = 1
"""


def written(tmp_path, text=TOML):
    file = tmp_path / "run.toml"
    file.write_text(text)
    return file


def test_each_source_overrides_the_one_before(tmp_path):
    found = configured(
        written(tmp_path),
        ["optimizer.lr=0.5", "data.name=mnist", "model.hidden=[8]", "optimizer.nesterov=true", "train.epochs=2"],
        {"train.epochs": 3, "train.seed": None, "optimizer.lr": None},
    )
    assert found["data"] == {"name": "mnist", "batch_size": 32}
    assert found["model"] == {"name": "mlp", "hidden": [8]}
    assert (found["optimizer"]["lr"], found["optimizer"]["nesterov"], found["optimizer"]["name"]) == (0.5, True, "adam")
    assert (found["train"]["epochs"], found["train"]["seed"]) == (3, 0)


def test_without_sources_there_are_defaults():
    found = configured(None, [], {})
    assert found == {section: dict(keys) for section, keys in DEFAULTS.items()}
    found["data"]["name"] = "changed"
    assert DEFAULTS["data"]["name"] == "fashion-mnist"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["lr"], "--set takes section.key=value, got 'lr'; write such as optimizer.lr=0.01"),
        (
            ["optimiser.lr=1"],
            "--set: no section 'optimiser'; did you mean optimizer? (there are data, model, optimizer, train)",
        ),
        (
            ["train.epoch=1"],
            "--set: no key 'train.epoch'; did you mean epochs? (there are epochs, seed, threads, limit, amp, "
            "accumulate)",
        ),
        (["train.epochs=0"], "--set: train.epochs must be at least 1, got 0"),
        (["train.epochs=1.5"], "--set: train.epochs must be an integer, got 1.5"),
        (["train.seed=true"], "--set: train.seed must be an integer, got True"),
        (["optimizer.lr=fast"], "--set: optimizer.lr must be a number, got 'fast'"),
        (["data.name=3"], "--set: data.name must be a text, got 3"),
    ],
)  # fmt: skip
def test_settings_that_are_none_are_refused(settings, message):
    with pytest.raises(click.UsageError) as raised:
        configured(None, settings, {})
    assert raised.value.message == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epochs = 3", "{}: keys belong to sections, got 'epochs' outside of one; move it"),
        ("[train]\nepochs = '3'", "{}: train.epochs must be an integer, got '3'"),
        ("[train", "--config {} must be a TOML file, got one that is not: "),
    ],
)
def test_files_that_are_no_configuration_are_refused(tmp_path, text, message):
    file = written(tmp_path, text)
    with pytest.raises(click.UsageError) as raised:
        configured(file, [], {})
    assert raised.value.message.startswith(message.format(file))


def test_a_file_that_is_missing_is_refused(tmp_path):
    with pytest.raises(click.UsageError) as raised:
        configured(tmp_path / "none.toml", [], {})
    expected = f"--config {tmp_path / 'none.toml'} cannot be read (No such file or directory); name a TOML file"
    assert raised.value.message == expected
