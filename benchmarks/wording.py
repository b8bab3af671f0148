"""What pages of results call frameworks, workloads and CPUs, how they write numbers, and where results come from."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from benchmarks import roster

__all__ = ["TITLES", "digits", "enumeration", "frameworks", "peer_name", "provenance_text", "ratio"]

#: Peers as they call themselves.
FRAMEWORKS = {"jax": "JAX", "mindspore": "MindSpore", "tinygrad": "tinygrad", "torch": "PyTorch", "tvm": "TVM"}

#: Workloads as the README describes them.
TITLES = {
    "mlp": "MLP 784-128-128-10, batch 64",
    "linreg": "linear regression 4x2 (per-step overhead)",
    "lenet": "LeNet-5, batch 32",
    "resnet": "ResNet-20, batch 64",
    "gpt": "GPT, 4 layers, batch 12x64",
    "bigmlp": "MLP 1024-4096-4096-1024, Adam",
}


def frameworks(peers: Iterable[str]) -> list[str]:
    """Peers as they call themselves, in alphabetical order."""
    return sorted({FRAMEWORKS.get(peer, peer) for peer in peers}, key=str.casefold)


def enumeration(words: list[str]) -> str:
    """Words with commas, and an "and" before the last."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""


def peer_name(cell: Mapping[str, Any]) -> str:
    """A peer as the README calls it."""
    name = FRAMEWORKS.get(cell["peer"], cell["peer"])
    return name if cell["label"] == cell["peer"] else f"{name} (`{cell['mode']}`)"


def digits(value: float) -> str:
    """Four digits of a rate: more are noise."""
    return f"{float(f'{value:.4g}'):,.0f}" if value >= 1000 else f"{value:.4g}"


def ratio(value: float) -> str:
    """Two digits of how many times as fast one is as another."""
    return f"{value:,.0f}x" if value >= 9.95 else f"{value:.1f}x"


# ---- where results come from


def _versions(entry: Mapping[str, Any]) -> list[str]:
    found = {FRAMEWORKS.get(cell["peer"], cell["peer"]): cell["version"] for cell in entry.get("cells", ())}
    return [f"{name} {found[name]}" for name in sorted(found, key=str.casefold) if found[name] and name != roster.OURS]


def _origin(entry: Mapping[str, Any]) -> str:
    """Where an entry comes from, without its date."""
    run, machine = entry["run"], entry["run"]["machine"]
    commit = f"adjoint at commit {run['commit']}" if run["commit"] else "adjoint at a commit that was not recorded"
    commit += " with uncommitted changes" if run["dirty"] else ""
    cores = f"{machine['cores']} core{'s' if machine['cores'] != 1 else ''} of " if machine["cores"] else ""
    cpu = f"{machine['cpu']} ({machine['llvm_cpu']}, vectors of {machine['vector_bits']} bits)"
    return f"{cores}{cpu}: {enumeration([commit, *_versions(entry)])}"


def provenance_text(entries: Mapping[str, Mapping[str, Any]], more: Callable[[Any], str] | None = None) -> str:
    """When and where entries were measured: a sentence if all come from one place, a list of places otherwise.

    Parameters
    ----------
    entries : mapping
        Entries by what they are called in the list.
    more : callable, optional
        What else has to be the same for two entries to be in one item; it is appended to the item.
    """
    places: dict[tuple[str, str], list[str]] = {}
    for name, entry in entries.items():
        places.setdefault((_origin(entry), more(entry) if more else ""), []).append(name)
    texts = []
    for (origin, rest), names in places.items():
        days = sorted({entries[name]["run"]["time"][:10] for name in names})
        when = days[0] if len(days) == 1 else f"from {days[0]} to {days[-1]}"
        who = "" if len(places) == 1 else f"{'; '.join(names)}: "
        texts.append(f"{who}{'on ' if len(days) == 1 else ''}{when}, on {origin}.{rest and ' ' + rest}")
    if len(texts) == 1:
        return f"Measured {texts[0]}"
    return "These measurements come from different runs:\n\n" + "\n".join(f"- {text}" for text in texts)
