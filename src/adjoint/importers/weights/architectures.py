"""All architectures, by transformers' names and by the networks."""

from typing import Any

from adjoint.errors import CheckpointError, TypeRuleError, kind_of
from adjoint.importers.weights import bert, distilbert, gpt2, llama, vit
from adjoint.importers.weights.architecture import Architecture

__all__ = ["ARCHITECTURES", "architecture_of", "architecture_of_kind"]

#: Architectures by ``model_type``.
ARCHITECTURES: dict[str, Architecture] = {
    module.ARCHITECTURE.kind: module.ARCHITECTURE for module in (gpt2, bert, distilbert, vit, llama)
}


def architecture_of_kind(kind: Any, what: str) -> Architecture:
    """The architecture that a configuration names; `what` is the name of the caller in messages."""
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        shown = kind[:40] if isinstance(kind, str) else kind_of(kind)
        raise CheckpointError(
            f"{what}: model_type in config.json must be one of {', '.join(ARCHITECTURES)}, got {shown}; write the "
            "network with adjoint.nn, and find out where its weights belong with adjoint.interop.map_names"
        )
    return ARCHITECTURES[kind]


def architecture_of(network: Any, what: str) -> Architecture:
    """The architecture of a network; `what` is the name of the caller in messages."""
    for architecture in ARCHITECTURES.values():
        if type(network) is architecture.network:
            return architecture
    names = ", ".join(architecture.network.__name__ for architecture in ARCHITECTURES.values())
    raise TypeRuleError(f"{what} takes a {names} of adjoint.nn.networks, got {kind_of(network)}; pass one of them")
