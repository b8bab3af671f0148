"""How an architecture is written in tables: the keys of its configuration, and the names of its weights."""

from collections.abc import Iterator, Mapping
from dataclasses import field
from math import prod
from typing import Any

from adjoint.lazy_dataclass import dataclass

__all__ = ["ACTIVATIONS", "Architecture", "Expected", "Head", "Key", "Weight", "linear", "norm"]

#: Activations by the names in configurations. The names of the tanh approximation differ in how it is computed there.
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}


@dataclass(frozen=True)
class Key:
    """One entry of a configuration, and the setting of the network that it is.

    Attributes
    ----------
    theirs, ours : str
        The key in config.json, and the argument of the network.
    default : object
        What the key is where it is absent: an int for sizes, a float, a bool, or a str for activations.
    optional : bool, default False
        Whether None is allowed, which is then the default.
    """

    theirs: str
    ours: str
    default: Any
    optional: bool = False


@dataclass(frozen=True)
class Weight:
    """One tensor, or one of each layer if the names contain ``{n}``.

    Attributes
    ----------
    theirs, ours : str
        The name in files, without the prefix of the architecture, and in the network.
    shape : str
        The shape in the network: sizes of the network, or products of them, with spaces between.
    transposed : bool, default False
        Whether the axes in files are in the other order.
    when : str, default ""
        The setting with which there is such a tensor, or, after "not ", without which there is one.
    """

    theirs: str
    ours: str
    shape: str
    transposed: bool = False
    when: str = ""


@dataclass(frozen=True)
class Head:
    """What a network has beyond the part that all networks of the architecture have.

    Attributes
    ----------
    classes : tuple of str
        The names of transformers' classes with this head; the first one is written to files.
    weights : tuple of Weight
        Its tensors.
    inner : tuple of Weight
        Tensors that it has too, whose names have the prefix of the architecture.
    tied : tuple of (str, str)
        Names in files of tensors that are others of the network if the setting `tied` holds: the name, and that of the
        other tensor in files, without the prefix.
    twice : tuple of (str, str)
        Names of one tensor, of which the second one is used if a file has both.
    """

    classes: tuple[str, ...]
    weights: tuple[Weight, ...] = ()
    inner: tuple[Weight, ...] = ()
    tied: tuple[tuple[str, str], ...] = ()
    twice: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Expected:
    """A tensor that a network has, with the sizes of that network filled in."""

    theirs: str
    ours: str
    shape: tuple[int, ...]
    transposed: bool

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """The shape in files."""
        return self.shape[::-1] if self.transposed else self.shape


@dataclass(frozen=True)
class Architecture:
    """A family of networks: transformers' ``model_type`` and what belongs to it.

    Attributes
    ----------
    kind : str
        The ``model_type``.
    network : type
        The class of adjoint's networks.
    prefix : str
        What the names of all tensors but the head's begin with in files of networks with a head.
    keys : tuple of Key
        The configuration.
    fixed : dict
        Keys of configurations that must have these values if they are there.
    weights : tuple of Weight
        The tensors that all heads share.
    heads : dict
        Heads by the argument `head` of the network.
    ignored : tuple of str
        Regular expressions of names, without the prefix, that are not weights.
    renamed : dict
        Parts of names by older parts of names.
    modules : tuple of (str, str)
        Parts of names of modules in memory, which adapters have, and in files, where transformers keeps older ones.
    """

    kind: str
    network: type
    prefix: str
    keys: tuple[Key, ...]
    weights: tuple[Weight, ...]
    heads: dict[str | None, Head]
    fixed: dict[str, Any] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    renamed: dict[str, str] = field(default_factory=dict)
    modules: tuple[tuple[str, str], ...] = ()

    def canonical(self, name: str) -> str:
        """A name without the prefix, and with the parts that files have today."""
        name = self.in_files(name.removeprefix(self.prefix))
        for old, new in self.renamed.items():
            name = name.replace(old, new)
        return name

    def in_files(self, name: str) -> str:
        """The name in files of a module of this name in memory."""
        for memory, file in self.modules:
            name = name.replace(memory, file)
        return name

    def in_memory(self, name: str) -> str:
        """The name in memory of a module of this name in files."""
        for memory, file in self.modules:
            name = name.replace(file, memory)
        return name

    def written(self, expected: Expected, head: str | None) -> str:
        """The name that transformers gives a tensor in files of networks with this head."""
        own = any(weight.theirs == expected.theirs for weight in self.heads[head].weights)
        return expected.theirs if own or head is None else self.prefix + expected.theirs

    @staticmethod
    def completed(settings: Mapping[str, Any]) -> dict[str, Any]:
        """Settings with the sizes that follow from others."""
        found = dict(settings)
        if found.get("hidden", 0) is None:
            found["hidden"] = 4 * found["width"]
        if found.get("groups", 0) is None:
            found["groups"] = found["heads"]
        if found.get("head_size", 0) is None:
            found["head_size"] = found["width"] // found["heads"]
        if "patch" in found:
            found["places"] = (found["size"] // found["patch"]) ** 2 + 1
        return found

    def shared(self, settings: Mapping[str, Any]) -> Iterator[Expected]:
        """The tensors that networks with these settings have whatever their head is."""
        return _expected(self.weights, settings)

    def own(self, settings: Mapping[str, Any], head: str | None) -> Iterator[Expected]:
        """The tensors of a head of networks with these settings."""
        return _expected(self.heads[head].inner + self.heads[head].weights, settings)


def _expected(weights: tuple[Weight, ...], settings: Mapping[str, Any]) -> Iterator[Expected]:
    for weight in weights:
        setting = weight.when.removeprefix("not ")
        if setting and bool(settings[setting]) == weight.when.startswith("not "):
            continue
        shape = tuple(_size(text, settings) for text in weight.shape.split())
        for n in range(settings["layers"] if "{n}" in weight.theirs else 1):
            yield Expected(weight.theirs.format(n=n), weight.ours.format(n=n), shape, weight.transposed)


def _size(text: str, settings: Mapping[str, Any]) -> int:
    return prod(int(part) if part.isdigit() else settings[part] for part in text.split("*"))


def linear(
    theirs: str, ours: str, outputs: str, inputs: str, *, bias: str = "always", transposed: bool = False, when: str = ""
) -> tuple[Weight, ...]:
    """The tensors of a linear layer; `bias` is "always", "never" or the setting that says so."""
    weight = Weight(f"{theirs}.weight", f"{ours}.weight", f"{outputs} {inputs}", transposed, when)
    if bias == "never":
        return (weight,)
    return weight, Weight(f"{theirs}.bias", f"{ours}.bias", outputs, when="" if bias == "always" else bias)


def norm(theirs: str, ours: str, *, bias: bool = True) -> tuple[Weight, ...]:
    """The tensors of a norm of all features."""
    names = ("weight", "bias") if bias else ("weight",)
    return tuple(Weight(f"{theirs}.{name}", f"{ours}.{name}", "width") for name in names)
