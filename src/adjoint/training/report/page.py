"""A report as a single HTML page, which needs neither network nor server nor scripts.

The layout is defined in ``templates``; this module fills them in.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from adjoint.pages.environment import page_environment
from adjoint.training.report.charts import Chart, Series, draw_chart, number
from adjoint.training.report.record import Record

__all__ = ["report_text"]

#: The most kernels in the table, and the most classes with names and counts in the matrix.
_KERNELS, _CLASSES = 12, 20

#: The most epochs in the table: the first and last ones of more.
_EPOCHS = 40


def report_text(record: Record) -> str:
    """The page's HTML."""
    environment = page_environment("adjoint.training.report")
    environment.filters |= {"number": number, "span": span}
    names = list(dict.fromkeys(name for epoch in record.epochs for name in epoch.metrics))
    confusion = record.confusion
    if confusion is None and record.predictions is not None:
        confusion = record.predictions.confusion
    text: str = environment.get_template("report.html.j2").render(
        record=record,
        tiles=tuple(_tiles(record)),
        charts=tuple(_charts(record, names)),
        names=names,
        epochs=_shortened(record.epochs),
        confusion=confusion,
        labelled=confusion is not None and len(confusion.names) <= _CLASSES,
        config={str(key): _plain(value) for key, value in record.config.items()},
        kernels=() if record.profile is None else _slowest(record.profile),
    )
    return text


def span(seconds: float) -> str:
    """A time in words: ``1.2 s``, ``3 min 20 s``, ``2 h 5 min``."""
    if seconds < 100:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _tiles(record: Record) -> Iterator[tuple[str, str]]:
    """Figures and what they are."""
    if record.epochs:
        last = record.epochs[-1]
        for name, value in list(last.metrics.items())[:3]:
            yield number(value), f"validation {name}"
        yield number(last.train_loss), "training loss, mean of the last epoch"
    yield f"{record.steps:,}", f"steps in {len(record.epochs)} complete epochs"
    compiled = f", and {span(record.compile_seconds)} of compilation" if record.compile_seconds else ""
    yield span(record.seconds), f"of training{compiled}"
    if record.seconds > 0 and record.steps:
        rate = record.steps / record.seconds
        rows = "" if record.batch_size is None else f", {number(rate * record.batch_size)} rows a second"
        yield number(rate), f"steps a second{rows}"
    if record.parameters:
        yield f"{record.parameters:,}", "parameters"


def _charts(record: Record, names: Sequence[str]) -> Iterator[Chart]:
    """Loss, metrics and learning rate."""
    steps = np.arange(1, len(record.losses) + 1, dtype=np.float64)
    losses = [Series("training loss", steps, record.losses)]
    ends = np.array([epoch.step for epoch in record.epochs], np.float64)
    if "loss" in names:
        losses.append(Series("validation loss", ends, _values(record, "loss"), dots=True))
    shares = [name for name in names if name != "loss" and _is_share(_values(record, name))]
    drawn = [draw_chart("Loss", losses)]
    if shares:
        title = shares[0] if len(shares) == 1 else "Metrics"
        drawn.append(draw_chart(title, [Series(name, ends, _values(record, name), dots=True) for name in shares]))
    for name in names:
        if name != "loss" and name not in shares:
            drawn.append(draw_chart(name, [Series(name, ends, _values(record, name), dots=True)]))
    if record.rates:
        at, rates = np.array(record.rates, np.float64).T
        drawn.append(draw_chart("Learning rate", [Series("learning rate", at, rates)]))
    return (chart for chart in drawn if chart is not None)


def _values(record: Record, name: str) -> np.ndarray:
    """A metric of each epoch; NaN where it was not evaluated."""
    return np.array([epoch.metrics.get(name, np.nan) for epoch in record.epochs], np.float64)


def _is_share(values: np.ndarray) -> bool:
    """Whether all values are from 0 to 1, as those of accuracies are."""
    return bool(np.nanmin(values) >= 0 and np.nanmax(values) <= 1) if np.isfinite(values).any() else False


def _shortened(epochs: Sequence[Any]) -> list[Any]:
    """The epochs of the table; None stands for those that are left out."""
    if len(epochs) <= _EPOCHS:
        return list(epochs)
    return [*epochs[: _EPOCHS // 2], None, *epochs[-_EPOCHS // 2 :]]


def _slowest(profile: Any) -> list[Any]:
    """The slowest kernels of a profile."""
    return sorted(profile.rows, key=lambda row: -row.nanoseconds)[:_KERNELS]


def _plain(value: Any) -> str:
    """A value of the configuration as text."""
    return value if isinstance(value, str) else json.dumps(value, default=str)
