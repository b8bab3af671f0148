"""Low-rank updates of linear layers: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021."""

from collections.abc import Iterator, Sequence
from typing import Any

from adjoint.errors import InvalidValueError
from adjoint.modules import Module
from adjoint.nn import functional as F  # noqa: N812
from adjoint.nn.dropout import Dropout
from adjoint.nn.linear import Linear
from adjoint.nn.parameters import check_sizes, drawn, filled
from adjoint.tensor.autograd import no_grad

__all__ = ["LoRALinear", "add_lora", "merge_lora"]


class LoRALinear(Linear):
    """A linear layer with a frozen weight, and an update of a low rank, which is trained and begins with zero.

    ``input @ (weight + scale * lora_b @ lora_a).T + bias``, without computing the sum.

    Parameters
    ----------
    base : Linear
        The layer, whose weight and bias become those of this one, and get no gradients.
    rank : int
        The rank of the update, at least 1.
    scale : float
        What multiplies it: ``alpha / rank`` in the paper.
    dropout : float, default 0.0
        Probability of dropping features of the input of the update.

    Attributes
    ----------
    lora_a : Parameter
        Shape ``[rank, in_features]``, drawn evenly between plus and minus ``1 / sqrt(in_features)``.
    lora_b : Parameter
        Shape ``[out_features, rank]``, zeros.

    Raises
    ------
    InvalidValueError
        If the rank is below 1.
    """

    def __init__(self, base: Linear, rank: int, scale: float, dropout: float = 0.0) -> None:
        Module.__init__(self)
        check_sizes("LoRALinear", rank=rank)
        if rank < 1:
            raise InvalidValueError(f"LoRALinear: rank must be at least 1, got {rank}; pass a small number such as 8")
        self.in_features, self.out_features = base.in_features, base.out_features
        self.rank, self.scale = rank, float(scale)
        self.weight = base.weight.requires_grad_(False)
        self.register_parameter("bias", None if base.bias is None else base.bias.requires_grad_(False))
        self.lora_a = drawn((rank, self.in_features), self.in_features**-0.5, base.weight.dtype)
        self.lora_b = filled((self.out_features, rank), 0.0, base.weight.dtype)
        self.drop = Dropout(dropout)
        self.train(base.training)

    def forward(self, input: Any) -> Any:
        """The product, shape ``[..., out_features]``."""
        update = F.linear(F.linear(self.drop(input), self.lora_a), self.lora_b)
        return F.linear(input, self.weight, self.bias) + update * self.scale

    def merged(self) -> Linear:
        """An ordinary linear layer with the update in its weight, which is trained again."""
        with no_grad():
            self.weight += (self.lora_b @ self.lora_a) * self.scale
        made = Linear(1, 1, bias=False)
        made.in_features, made.out_features = self.in_features, self.out_features
        made.weight = self.weight.requires_grad_()
        made.register_parameter("bias", None if self.bias is None else self.bias.requires_grad_())
        made.train(self.training)
        return made

    def extra_repr(self) -> str:
        """The sizes."""
        return f"{super().extra_repr()}, rank={self.rank}, scale={self.scale:g}"


def add_lora(
    network: Module,
    targets: Sequence[str],
    rank: int = 8,
    alpha: float = 16.0,
    dropout: float = 0.0,
    trained: Sequence[str] = (),
) -> Module:
    """Freeze a network, and give linear layers low-rank updates, which are trained in their place.

    Parameters
    ----------
    network : Module
        The network, which is changed and returned.
    targets : sequence of str
        Names of linear layers, or ends of them: ``"query"`` is that of all layers, ``"layers.0.attention.query"`` one.
    rank : int, default 8
        The rank of the updates.
    alpha : float, default 16.0
        Updates are multiplied by ``alpha / rank``.
    dropout : float, default 0.0
        Probability of dropping features of the inputs of the updates.
    trained : sequence of str, default ()
        Names of other modules, or ends of them, that are trained too, such as ``"classifier"``.

    Raises
    ------
    InvalidValueError
        If there is no layer of such a name, or the rank is below 1.
    """
    places = list(_named(network, "targets", targets))
    for path, module in places:
        if not isinstance(module, Linear) or isinstance(module, LoRALinear):
            raise InvalidValueError(
                f"add_lora: targets must be linear layers without an update, got {path!r}, a {type(module).__name__}; "
                "name others"
            )
    kept = list(_named(network, "trained", trained))
    network.requires_grad_(False)
    for path, module in places:
        replace_module(network, path, LoRALinear(module, rank, alpha / max(rank, 1), dropout))
    for _, module in kept:
        module.requires_grad_()
    return network


def merge_lora(network: Module) -> Module:
    """Add all low-rank updates to their weights, and train all parameters again; returns the network."""
    for path, module in list(network.named_modules()):
        if isinstance(module, LoRALinear) and path:
            replace_module(network, path, module.merged())
    return network.requires_grad_()


def replace_module(network: Module, path: str, module: Module) -> None:
    """Put a module in the place of another one, by its name in the network."""
    parent, _, name = path.rpartition(".")
    network.get_submodule(parent).register_module(name, module)


def _named(network: Module, what: str, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Modules whose names are, or end in, one of these; every name must have one."""
    modules = dict(network.named_modules())
    for name in names:
        if not any(_ends(path, name) for path in modules):
            raise InvalidValueError(
                f"add_lora: {what} must be names of modules of {type(network).__name__}, got {name!r}, which is none; "
                "print(network) shows them"
            )
    yield from ((path, one) for path, one in modules.items() if any(_ends(path, name) for name in names))


def _ends(path: str, name: str) -> bool:
    return bool(name) and (path == name or path.endswith(f".{name}"))
