"""The table of all metrics in docs/metrics.md: ``python -m adjoint.training.metrics.table`` prints it."""

import inspect

from adjoint.training import metrics
from adjoint.training.metrics.base import Metric
from adjoint.training.metrics.by_name import NAMES

__all__ = ["table"]


def _arguments(metric: type[Metric]) -> str:
    """The arguments of a metric with their defaults, except for the name, which all have."""
    return ", ".join(_shown(p) for p in inspect.signature(metric).parameters.values() if p.name != "name")


def _shown(parameter: inspect.Parameter) -> str:
    return parameter.name if parameter.default is parameter.empty else f"{parameter.name}={parameter.default!r}"


def table() -> str:
    """The lines of the table, in Markdown."""
    lines = ["| metric | names | what it computes | arguments | compiled |", "|---|---|---|---|---|"]
    for cls in sorted(
        (vars(metrics)[name] for name in metrics.__all__ if name[0].isupper()), key=lambda c: c.__name__.lower()
    ):
        if cls is Metric:
            continue
        names = ", ".join(f"`{name}`" for name, made in NAMES.items() if made is cls)
        text = " ".join((cls.__doc__ or "").split())
        first = text.split(". ")[0].split("; arguments")[0].rstrip(".").replace("``", "`").replace("|", "\\|")
        own = _arguments(cls)
        shown = f"`{own}`" if own else ""
        lines.append(f"| `{cls.__name__}` | {names} | {first} | {shown} | {'yes' if cls.compiled else 'no'} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
