"""The model zoo: networks of `examples/`, trained by adjoint and by PyTorch from the same source.

``python benchmarks/run.py --section networks`` measures them. PyTorch runs an example with its imports replaced, so
both frameworks build the same modules. Their initial weights are made once and loaded into both with
`load_state_dict`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.model_zoo import sequences, vision
from benchmarks.model_zoo.entry import Compiled, Network

__all__ = ["PEER_FOLDER", "WORKLOADS", "Workload", "load", "make", "save"]

PEER_FOLDER = Path(__file__).resolve().parent / "peers"

#: Every network by name.
WORKLOADS: dict[str, Network] = {network.name: network for network in (*vision.NETWORKS, *sequences.NETWORKS)}


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """A network with its data and initial weights.

    Parameters
    ----------
    network : Network
        An entry of `WORKLOADS`.
    states : dict of str to dict of str to numpy.ndarray
        What the `state_dict` of each model has at the start.
    batches : list of tuples of numpy.ndarray
        Taken in turn.
    """

    network: Network
    states: dict[str, dict[str, np.ndarray]]
    batches: list[tuple[np.ndarray, ...]]

    #: Floating-point operations of a step are not counted for these networks.
    flops = 0

    @property
    def name(self) -> str:
        """The network's name."""
        return self.network.name

    @property
    def tolerance(self) -> float:
        """Maximum relative difference of the first losses of two peers."""
        return self.network.tolerance

    def begin(self, framework: Any, compiled: Compiled) -> Any:
        """The training step of the network in a framework, with these initial weights."""
        models, step = self.network.start(framework.__name__, compiled)
        for name, model in models.items():
            model.load_state_dict({key: framework.tensor(array) for key, array in self.states[name].items()})
        return step


def make(name: str) -> Workload:
    """The workload of that name, with the initial weights that the example gives its models in adjoint."""
    import adjoint  # noqa: PLC0415 - a peer's interpreter need not have it

    adjoint.manual_seed(0)
    network = WORKLOADS[name]
    models, _ = network.start("adjoint", lambda function: function)
    states = {
        key: {label: tensor.numpy() for label, tensor in model.state_dict().items()} for key, model in models.items()
    }
    return Workload(network, states, list(network.batches(np.random.default_rng(0))))


def save(workload: Workload, path: Path) -> None:
    """Write its arrays, because NumPy's random streams may differ between the peers' versions."""
    arrays = {f"state/{key}/{label}": a for key, state in workload.states.items() for label, a in state.items()}
    for i, batch in enumerate(workload.batches):
        arrays |= {f"batch/{i}/{j}": array for j, array in enumerate(batch)}
    np.savez(path, allow_pickle=False, **arrays)


def load(name: str, path: Path) -> Workload:
    """The workload of that name, with the arrays written by `save`."""
    states: dict[str, dict[str, np.ndarray]] = {}
    batches: dict[str, dict[str, np.ndarray]] = {}
    with np.load(path) as file:
        for key in file.files:
            kind, group, label = key.split("/")
            (states if kind == "state" else batches).setdefault(group, {})[label] = file[key]
    return Workload(WORKLOADS[name], states, [tuple(batch.values()) for batch in batches.values()])
