"""What a configuration describes: data, a network that fits them, an optimizer, and the model of all."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from adjoint.cli.files import load_network
from adjoint.cli.options import closest
from adjoint.data import ArrayDataset, ImageClassification, Rows, TextCorpus, load_dataset
from adjoint.data.text import CharTokenizer, LanguageModelWindows
from adjoint.lazy_dataclass import dataclass
from adjoint.losses import CrossEntropyLoss
from adjoint.modules import Module
from adjoint.nn.networks import GPT, MLP, LeNet, ResNet
from adjoint.optim import SGD, Adam, AdamW, chain, scale_by_schedule, schedules
from adjoint.tensor.environment import set_num_threads
from adjoint.tensor.generator import manual_seed
from adjoint.training.checkpoints import CheckpointDirectory, read_snapshot
from adjoint.training.metrics import Perplexity, get_metrics
from adjoint.training.model import Model

__all__ = ["DEFAULT_MODELS", "LEARNING_RATES", "NETWORKS", "SCHEDULES", "Data", "Experiment", "made_experiment"]

#: Factor applied to pixels.
_SCALE = 1 / 255

#: Default learning rate of each optimizer.
LEARNING_RATES = {"sgd": 0.05, "adam": 0.002, "adamw": 0.002}

_OPTIMIZERS: Mapping[str, Any] = {"sgd": SGD, "adam": Adam, "adamw": AdamW}

#: What optimizers are given unless the configuration says otherwise.
_OPTIMIZER_DEFAULTS: Mapping[str, Mapping[str, Any]] = {"sgd": {"momentum": 0.9}}

#: The learning rate over a run, as a factor of the first one.
SCHEDULES: Mapping[str, Callable[[int], Any]] = {
    "linear": lambda steps: schedules.Linear(1.0, 0.0, steps),
    "cosine": lambda steps: schedules.Cosine(steps),
    "warmup-cosine": lambda steps: schedules.Warmup(steps // 20 + 1, schedules.Cosine(steps - steps // 20 - 1)),
    "constant": lambda _: None,
}

#: The networks by name, and the kind of data that they take.
NETWORKS: Mapping[str, tuple[str, Any]] = {
    "mlp": ("images", MLP),
    "lenet": ("images", LeNet),
    "resnet20": ("images", ResNet),
    "gpt": ("text", GPT),
}

#: The network for each kind of data, if none is named.
DEFAULT_MODELS = {"images": "mlp", "text": "gpt"}

#: Characters of a sequence, unless the configuration says otherwise.
_TOKENS = 64


@dataclass(frozen=True, slots=True)
class Data:
    """Data for training and evaluation.

    Parameters
    ----------
    kind : {"images", "text"}
        What they are.
    name : str
        Their name.
    train, test : ArrayDataset or LanguageModelWindows
        Batches.
    sizes : mapping of str to int
        What networks are made for: channels, classes and size of images; vocabulary and tokens of texts.
    classes : tuple of str
        Names of the classes of images.
    tokenizer : CharTokenizer or None
        Of a text.
    """

    kind: str
    name: str
    train: ArrayDataset | LanguageModelWindows
    test: ArrayDataset | LanguageModelWindows
    sizes: Mapping[str, int]
    classes: tuple[str, ...] = ()
    tokenizer: CharTokenizer | None = None


@dataclass(frozen=True, slots=True)
class Experiment:
    """A configuration with what it describes."""

    config: dict[str, dict[str, Any]]
    data: Data
    model: Model

    @property
    def steps(self) -> int:
        """How many steps the run has."""
        return total_steps(self.config, self.data)


def total_steps(config: Mapping[str, Mapping[str, Any]], data: Data) -> int:
    """The number of steps of a run: those of all epochs, or the limit."""
    steps = int(config["train"]["epochs"]) * len(data.train)
    limit: int | None = config["train"]["limit"]
    return steps if limit is None else min(steps, limit)


def made_experiment(config: dict[str, dict[str, Any]]) -> Experiment:
    """Load the data, and make the network, the optimizer and the model.

    Raises
    ------
    click.UsageError
        If there is no such model or optimizer, it does not fit the data, or takes no such setting.
    AdjointError
        If the data cannot be loaded, or a setting is out of range.
    """
    threads = config["train"]["threads"]
    if threads is not None:
        set_num_threads(threads)
    found = load_dataset(config["data"]["name"])
    data = _images(config, found) if isinstance(found, ImageClassification) else _text(config, found)
    manual_seed(config["train"]["seed"])
    network = made_network(config, data)
    steps = total_steps(config, data)
    if not steps:
        raise click.UsageError(
            f"data.batch_size must be at most the number of training rows, got {config['data']['batch_size']}; "
            "choose a smaller one"
        )
    optimizer = made_optimizer(config, steps).bind(network.parameters())
    metrics = get_metrics({"loss", "accuracy"})
    if data.kind == "text":
        metrics = {"loss": metrics["loss"], "perplexity": Perplexity(axis=1)}
    train = config["train"]
    model = Model(
        network, CrossEntropyLoss(), optimizer, metrics,
        amp_level=train["amp"], clip=config["optimizer"]["clip"], accumulate=train["accumulate"],
    )  # fmt: skip
    return Experiment(config, data, model)


def as_planes(images: np.ndarray) -> np.ndarray:
    """Images [N, H, W] or [N, H, W, C] as [N, C, H, W]."""
    return images[:, None] if images.ndim == 3 else np.ascontiguousarray(np.moveaxis(images, 3, 1))


def trained_experiment(checkpoint: Path, dataset: str | None = None) -> Experiment:
    """What a checkpoint of ``adjoint train`` describes, with its parameters.

    Parameters
    ----------
    checkpoint : Path
        The file, or a folder whose newest whole one is taken.
    dataset : str, optional
        Another dataset than that of the training.

    Raises
    ------
    click.UsageError
        If there is no checkpoint, or it was not written by ``adjoint train``.
    CheckpointError
        If it is damaged.
    """
    path = CheckpointDirectory(checkpoint, "model").latest() if checkpoint.is_dir() else checkpoint
    if path is None or not path.is_file():
        raise click.UsageError(f"there is no checkpoint at {checkpoint}; name a file or folder of adjoint train")
    snapshot = read_snapshot(path)
    config = snapshot.manifest.get("config") or {}
    if not {"data", "model", "optimizer", "train"} <= config.keys():
        raise click.UsageError(f"{path} was not written by adjoint train; load it with your own program")
    if dataset is not None:
        config["data"]["name"] = dataset
    experiment = made_experiment(config)
    experiment.model.network.load_state_dict(snapshot.network_state())
    return experiment


def _images(config: Mapping[str, Mapping[str, Any]], found: ImageClassification) -> Data:
    height, width, channels = found.image_shape
    if height != width:
        raise click.UsageError(f"images must be square, got {height}x{width}; resize them")

    def rows(images: np.ndarray, labels: np.ndarray, shuffle: bool) -> ArrayDataset:
        return ArrayDataset(
            Rows(as_planes(images), _SCALE, "float32"), Rows(labels, dtype="int64"),
            batch_size=config["data"]["batch_size"], shuffle=shuffle, seed=config["train"]["seed"], drop_last=shuffle,
        )  # fmt: skip

    sizes = {"channels": channels, "classes": len(found.classes), "size": height}
    train = rows(found.train_images, found.train_labels, True)
    test = rows(found.test_images, found.test_labels, False)
    return Data("images", config["data"]["name"], train, test, sizes, found.classes)


def _text(config: Mapping[str, Mapping[str, Any]], found: TextCorpus) -> Data:
    tokenizer = CharTokenizer.from_text(found.train + found.validation)
    tokens, size = int(config["model"].get("tokens", _TOKENS)), config["data"]["batch_size"]
    ids, others = tokenizer.encode(found.train), tokenizer.encode(found.validation)
    # Sequences begin anywhere; an epoch has as many as there are without overlap.
    train = LanguageModelWindows(
        ids, tokens, size, stride=1, windows_per_epoch=max((len(ids) - 1) // tokens, 1), seed=config["train"]["seed"],
        drop_last=True,
    )  # fmt: skip
    test = LanguageModelWindows(others, tokens, size, shuffle=False)
    sizes = {"vocabulary": len(tokenizer), "tokens": tokens}
    return Data("text", config["data"]["name"], train, test, sizes, tokenizer=tokenizer)


def made_network(config: Mapping[str, Mapping[str, Any]], data: Data) -> Module:
    """The network of a configuration, of the sizes of the data.

    Raises
    ------
    click.UsageError
        If there is none of this name, it takes other data, or no such setting.
    """
    settings = dict(config["model"])
    name = settings.pop("name") or DEFAULT_MODELS[data.kind]
    if name not in NETWORKS:
        return load_network(name, NETWORKS)
    kind, network = NETWORKS[name]
    if kind != data.kind:
        fitting = [n for n, (takes, _) in NETWORKS.items() if takes == data.kind]
        raise click.UsageError(f"model {name} takes {kind}, but {data.name} has {data.kind}; {closest(name, fitting)}")
    sizes = dict(data.sizes)
    if network is MLP:
        sizes = {"inputs": sizes["channels"] * sizes["size"] ** 2, "outputs": sizes["classes"]}
    known = [n for n in inspect.signature(network).parameters if n not in sizes or n == "tokens"]
    _refuse_unknown("model", name, settings, known)
    taken = {n: size for n, size in sizes.items() if n in inspect.signature(network).parameters}
    made: Module = network(**{**taken, **settings})
    return made


def made_optimizer(config: Mapping[str, Mapping[str, Any]], steps: int) -> Any:
    """The optimizer of a configuration, with the schedule of its learning rate.

    Raises
    ------
    click.UsageError
        If there is none of this name, or it takes no such setting.
    """
    settings = dict(config["optimizer"])
    name, lr, schedule, _ = (settings.pop(key) for key in ("name", "lr", "schedule", "clip"))
    if name not in _OPTIMIZERS:
        raise click.UsageError(f"no optimizer {name!r}; {closest(name, _OPTIMIZERS)}")
    if schedule not in SCHEDULES:
        raise click.UsageError(f"no schedule {schedule!r}; {closest(schedule, SCHEDULES)}")
    _refuse_unknown("optimizer", name, settings, inspect.signature(_OPTIMIZERS[name]).parameters)
    settings = {**_OPTIMIZER_DEFAULTS.get(name, {}), **settings}
    optimizer = _OPTIMIZERS[name](LEARNING_RATES[name] if lr is None else float(lr), **settings)
    factor = SCHEDULES[schedule](steps)
    return optimizer if factor is None else chain(optimizer, scale_by_schedule(factor))


def _refuse_unknown(section: str, name: str, settings: Mapping[str, Any], known: Any) -> None:
    for key in settings:
        if key not in known:
            raise click.UsageError(f"{section} {name} takes no {key!r}; {closest(key, known)}")
