"""Who takes part: peers, their modes and their interpreters."""

import ast
import contextlib
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["OURS", "Peer", "choose", "find_peers"]

#: The peer that all others are compared with.
OURS = "adjoint"


@dataclass(frozen=True, slots=True)
class Peer:
    """A framework that takes part.

    Parameters
    ----------
    name : str
        Its name, which is also the name of its module.
    path : Path
        The file that builds its steps.
    modes : tuple of str
        The ways it can run.
    caches : tuple of str
        Environment variables that name the folders of its compile caches.
    cached_modes : tuple of str
        The modes that use them.
    tolerances : dict of str to float
        Relative difference that its losses may have, by workload, where its formulas are others.
    python : str or None
        Its interpreter; None where none is known.
    workloads : dict of str to tuple of str
        For modes that make sense for some workloads only, these workloads.
    """

    name: str
    path: Path
    modes: tuple[str, ...]
    caches: tuple[str, ...] = ()
    cached_modes: tuple[str, ...] = ()
    tolerances: Mapping[str, float] = field(default_factory=dict, hash=False)
    python: str | None = None
    workloads: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    def runs(self, mode: str, workload: str) -> bool:
        """Whether a mode takes part in a workload."""
        kind = workload.split()[0]  # the names of random networks go on with their numbers
        return kind in self.workloads.get(mode, (kind,))


def _literals(path: Path) -> dict[str, Any]:
    """Constants at the top of a file, read without running it: its framework may live in another interpreter."""
    found = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            with contextlib.suppress(ValueError):
                found[node.targets[0].id] = ast.literal_eval(node.value)
    return found


def find_peers(
    folders: Sequence[Path], pythons: Mapping[str, str], environ: Mapping[str, str] = os.environ
) -> dict[str, Peer]:
    """Peers by name: one a file, adjoint first.

    Parameters
    ----------
    folders : sequence of Path
        Where peer files are; the first one that has a name wins.
    pythons : mapping of str to str
        Interpreters by peer.
    environ : mapping, optional
        The environment, where ``TORCH_PYTHON`` names the interpreter of torch. Without either, this interpreter is
        used where it has the framework.
    """
    files = {path.stem: path for folder in reversed(folders) for path in sorted(folder.glob("[a-z]*.py"))}
    peers = {}
    for name in sorted(files, key=lambda n: (n != OURS, n)):
        literals = _literals(files[name])
        if "MODES" not in literals:
            continue
        python = pythons.get(name) or environ.get(f"{name.upper()}_PYTHON")
        if python is None and importlib.util.find_spec(name) is not None:
            python = sys.executable
        modes, caches, tolerances = (literals.get(key, ()) for key in ("MODES", "CACHES", "TOLERANCES"))
        cached_modes = literals.get("CACHED_MODES", modes)
        only = literals.get("WORKLOADS", {})
        peers[name] = Peer(name, files[name], modes, caches, cached_modes, dict(tolerances), python, only)
    return peers


def choose(peers: Mapping[str, Peer], wanted: Sequence[str] | None) -> list[tuple[Peer, str]]:
    """Pairs of peer and mode: for ``torch`` all modes, for ``torch:eager`` that one, for None all that is installed.

    Raises
    ------
    ValueError
        For an unknown peer or mode, and for a peer that is asked for without an interpreter.
    """
    if wanted is None:
        return [(peer, mode) for peer in peers.values() if peer.python for mode in peer.modes]
    pairs = []
    for text in wanted:
        name, _, mode = text.partition(":")
        peer = peers.get(name)
        if peer is None:
            raise ValueError(f"peers are {', '.join(peers)}, got {name!r}")
        if mode and mode not in peer.modes:
            raise ValueError(f"modes of {name} are {', '.join(peer.modes)}, got {mode!r}")
        if peer.python is None:
            raise ValueError(f"{name} is not installed here; name its interpreter with --python {name}=/path/to/python")
        pairs += [(peer, m) for m in peer.modes if m == mode or not mode]
    return list(dict.fromkeys(pairs))
