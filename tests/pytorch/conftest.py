"""Selects the tests of this folder where they are asked for, and prints their report."""

from collections import Counter


def pytest_ignore_collect(collection_path, config):
    """They take many minutes: run by `make test-pytorch`, or where this folder is named on the command line."""
    named = any("pytorch" in str(argument) for argument in config.args)
    return True if collection_path.name == "test_opinfo.py" and not named else None


def pytest_terminal_summary(terminalreporter):
    """OpInfos, samples, agreements, and refusals by reason."""
    counts, refusals = Counter(), Counter()
    for report in [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]:
        found = dict(report.user_properties) if report.when == "call" else {}
        if "samples" in found:
            counts.update({"opinfos": 1, **{name: found[name] for name in ("samples", "agree", "refused", "wrong")}})
            refusals.update(found["reasons"])
    if counts:
        terminalreporter.section("agreement with PyTorch")
        terminalreporter.line(", ".join(f"{count} {name}" for name, count in counts.items()))
        for sentence, count in refusals.most_common():
            terminalreporter.line(f"{count:6} refused: {sentence}")
