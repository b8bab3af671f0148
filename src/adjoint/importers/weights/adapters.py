"""`load_adapter` and `save_adapter`: low-rank updates of networks in folders of peft's adapters."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from adjoint.errors import CheckpointError, InvalidValueError, listed
from adjoint.importers.weights.architecture import Architecture
from adjoint.importers.weights.architectures import architecture_of
from adjoint.importers.weights.configuration import in_config, make_folder, read_json, shown_name
from adjoint.importers.weights.stored import Stored, tensors_of
from adjoint.ir import is_float
from adjoint.modules import Module
from adjoint.nn.lora import LoRALinear, replace_module
from adjoint.paths import FilePath, write_user_file
from adjoint.tensor.assign import assign
from adjoint.training.tensors import write_file

__all__ = ["load_adapter", "save_adapter"]

_CONFIG, _FILES = "adapter_config.json", ("adapter_model.safetensors", "adapter_model.bin")

#: What the names of all tensors of an adapter begin with, and how those of updates end.
_PREFIX, _ENDS = "base_model.model.", {".lora_A.weight": "lora_a", ".lora_B.weight": "lora_b"}

#: Keys of a configuration that do not change what is computed, beyond those that are read here.
_HARMLESS = frozenset(
    (
        "alpha_pattern",
        "auto_mapping",
        "base_model_name_or_path",
        "exclude_modules",
        "fan_in_fan_out",
        "inference_mode",
        "layers_pattern",
        "layers_to_transform",
        "lora_alpha",
        "lora_dropout",
        "megatron_config",
        "megatron_core",
        "modules_to_save",
        "peft_version",
        "qalora_group_size",
        "r",
        "rank_pattern",
        "revision",
        "runtime_config",
        "target_modules",
        "task_type",
        "use_rslora",
    )
)


def load_adapter(network: Module, folder: FilePath) -> Module:
    """Give a network the low-rank updates of an adapter of peft.

    The folder has ``adapter_config.json`` and ``adapter_model.safetensors`` or ``adapter_model.bin``. The network's own
    weights are frozen; the updates, and modules that the adapter has whole, such as a classifier, are trained if
    training goes on. `merge_lora` makes the updates part of the weights.

    Parameters
    ----------
    network : GPT2, BERT, DistilBERT, ViT or Llama
        The network, which is changed and returned.
    folder : str or os.PathLike
        The folder.

    Raises
    ------
    CheckpointError
        If a file is missing or damaged, or the adapter is of another kind or for another network; the network is
        unchanged.
    InvalidValueError
        If the network has updates already.
    """
    what = "load_adapter"
    architecture = architecture_of(network, what)
    if any(isinstance(module, LoRALinear) for module in network.modules()):
        raise InvalidValueError(
            f"{what}: the network must be without low-rank updates, got one with some; call merge_lora(network) first"
        )
    place = Path(folder)
    config = read_json(place / _CONFIG, what)
    alphas, dropout = _check_config(config, what)
    file = next((place / name for name in _FILES if (place / name).is_file()), None)
    if file is None:
        raise CheckpointError(
            f"{what}: an adapter must have {' or '.join(_FILES)}, got {place} without; check the path"
        )
    updates, whole = _sorted_out(architecture, network, tensors_of(file, what), what)
    scales = {path: _alpha(alphas, name) for path, (name, _) in updates.items()}
    network.requires_grad_(False)
    for path, (_, pair) in updates.items():
        rank = pair["lora_a"].shape[0]
        scale = scales[path] / (rank**0.5 if config.get("use_rslora") else rank)
        layer = LoRALinear(network.get_submodule(path), rank, scale, dropout)
        for name, stored in pair.items():
            parameter = getattr(layer, name)
            assign(parameter, np.asarray(stored.read(), parameter.dtype))
        replace_module(network, path, layer)
    for name, stored in whole.items():
        parameter = network.get_parameter(name)
        assign(parameter, np.asarray(stored.read(), parameter.dtype))
        parameter.requires_grad_()
    return network


def _check_config(config: Mapping[str, Any], what: str) -> tuple[dict[str, float], float]:
    """The values of alpha by parts of names, that of all others under "", and the dropout of an adapter."""
    if config.get("peft_type") != "LORA":
        raise in_config(what, "peft_type", '"LORA"', config.get("peft_type"), _CONFIG)
    if config.get("bias", "none") != "none":
        raise in_config(what, "bias", '"none"', config["bias"], _CONFIG)
    if config.get("init_lora_weights", True) not in (True, False, "gaussian"):  # others change the network's weights
        raise in_config(what, "init_lora_weights", 'true, false or "gaussian"', config["init_lora_weights"], _CONFIG)
    read = {"peft_type", "bias", "init_lora_weights"}
    unknown = [shown_name(name) for name, value in config.items() if value and name not in _HARMLESS | read]
    if unknown:
        raise CheckpointError(
            f"{what}: an adapter must be of plain LoRA, got {listed(unknown)} in {_CONFIG}; merge it with peft instead"
        )
    if not isinstance(config.get("use_rslora", False), bool):
        raise in_config(what, "use_rslora", "true or false", config["use_rslora"], _CONFIG)
    patterns = config.get("alpha_pattern") or {}
    if not isinstance(patterns, dict) or any(set(name) & set("^$*+?()[]{}|\\") or not name for name in patterns):
        raise in_config(what, "alpha_pattern", "numbers by names of modules, not by expressions", patterns, _CONFIG)
    alphas = {**patterns, "": config.get("lora_alpha", 8)}
    for name, alpha in alphas.items():
        if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 <= alpha < 1e9:
            raise in_config(what, name or "lora_alpha", "a number from 0 to 1e+09", alpha, _CONFIG)
    dropout = config.get("lora_dropout", 0.0)
    if isinstance(dropout, bool) or not isinstance(dropout, int | float) or not 0 <= dropout <= 1:
        raise in_config(what, "lora_dropout", "a number from 0 to 1", dropout, _CONFIG)
    return alphas, float(dropout)


def _alpha(alphas: Mapping[str, float], name: str) -> float:
    """The alpha of a module, by the first pattern that its name is, or ends in."""
    found = next((alpha for part, alpha in alphas.items() if part and f".{name}".endswith(f".{part}")), alphas[""])
    return float(found)


#: By the path of a layer in the network: its name in the adapter, and both factors of its update.
_Updates = dict[str, tuple[str, dict[str, Stored]]]


def _sorted_out(
    architecture: Architecture, network: Any, tensors: Mapping[str, Stored], what: str
) -> tuple[_Updates, dict[str, Stored]]:
    """The updates of an adapter by the layers of a network, and other tensors by the parameters, all checked."""
    settings = architecture.completed(network.settings)
    expected = (*architecture.shared(settings), *architecture.own(settings, settings["head"]))
    known = {one.theirs: one for one in expected}
    updates: _Updates = {}
    whole: dict[str, Stored] = {}
    unknown = []
    for name, stored in tensors.items():
        own = name.removeprefix(_PREFIX)
        end = next((end for end in _ENDS if own.endswith(end)), "")
        base = own.removesuffix(end) if end else own
        one = known.get(architecture.canonical(base) + (".weight" if end else ""))
        if one is None or (end and len(one.shape) != 2) or not is_float(stored.dtype):
            unknown.append(shown_name(name))
        elif end:
            updates.setdefault(one.ours.removesuffix(".weight"), (base, {}))[1][_ENDS[end]] = stored
        else:
            whole[one.ours] = stored
    if unknown or not updates:
        raise CheckpointError(
            f"{what}: the tensors must be updates of linear layers of this {type(network).__name__}, or whole layers, "
            f"got {listed(unknown) or 'none'}; is it an adapter of another network?"
        )
    shapes = {one.ours: one.stored_shape for one in expected}
    wrong = [name for name, stored in whole.items() if stored.shape != shapes[name]]
    wrong += [path for path, (_, pair) in updates.items() if not _fits(pair, network.get_submodule(path))]
    if wrong:
        raise CheckpointError(
            f"{what}: updates must be pairs of matrices [rank, inputs] and [outputs, rank], and whole layers have the "
            f"network's shapes, got others for {listed(wrong)}; is it an adapter of another network?"
        )
    return updates, whole


def _fits(pair: Mapping[str, Stored], layer: Any) -> bool:
    if len(pair) != len(_ENDS) or len(pair["lora_a"].shape) != 2:
        return False
    rank, inputs = pair["lora_a"].shape
    return rank > 0 and inputs == layer.in_features and pair["lora_b"].shape == (layer.out_features, rank)


def save_adapter(network: Any, folder: FilePath, *, base: str = "") -> None:
    """Write the low-rank updates of a network to a folder that peft loads, and with them other trained parameters.

    Parameters
    ----------
    network : GPT2, BERT, DistilBERT, ViT or Llama
        The network, after `add_lora` or `load_adapter`.
    folder : str or os.PathLike
        The folder, which is made if it is not there.
    base : str, default ""
        Name or folder of the model without updates, for ``base_model_name_or_path``.

    Raises
    ------
    TypeRuleError
        If it is another network.
    InvalidValueError
        If it has no updates, or trains a parameter that an adapter cannot have.
    CheckpointError
        If a file cannot be written.
    """
    what = "save_adapter"
    architecture = architecture_of(network, what)
    layers = {path: module for path, module in network.named_modules() if isinstance(module, LoRALinear)}
    if not layers:
        raise InvalidValueError(f"{what}: the network must have low-rank updates, got none; call add_lora first")
    settings: dict[str, Any] = network.settings
    head = settings["head"]
    complete = architecture.completed(settings)
    names = {one.ours: one for one in (*architecture.shared(complete), *architecture.own(complete, head))}

    def module_name(ours: str) -> str:
        return architecture.in_memory(architecture.written(names[ours], head).rpartition(".")[0])

    arrays, saved = {}, set()
    modules = {path: module_name(f"{path}.weight") for path in layers}
    for path, layer in layers.items():
        for end, name in _ENDS.items():
            arrays[_PREFIX + modules[path] + end] = getattr(layer, name).detach().elements().array
    for name, parameter in network.named_parameters():
        if not parameter.requires_grad or name.rpartition(".")[0] in layers:
            continue
        role = name.rpartition(".")[2]
        if name not in names or not names[name].theirs.endswith(f".{role}") or role not in ("weight", "bias"):
            raise InvalidValueError(
                f"{what}: an adapter has updates and whole layers, got the trained parameter {name!r}; call "
                "requires_grad_(False) on it, or write the network with save_pretrained"
            )
        array = parameter.detach().elements().array
        saved.add(module_name(name))
        arrays[f"{_PREFIX}{module_name(name)}.{role}"] = array.T if names[name].transposed else array
    config = _config_of(layers, modules, saved, base)
    config["fan_in_fan_out"] = any(names[f"{path}.weight"].transposed for path in layers)
    place = make_folder(folder, what)
    write_user_file(place / _CONFIG, (json.dumps(config, indent=2) + "\n").encode(), what)
    write_file(place / _FILES[0], arrays, {"format": "pt"}, what)


def _config_of(
    layers: Mapping[str, LoRALinear], modules: Mapping[str, str], saved: set[str], base: str
) -> dict[str, Any]:
    """The content of ``adapter_config.json``; ranks and alphas that are not the most frequent ones are patterns."""
    alphas = {path: layer.scale * layer.rank for path, layer in layers.items()}
    rank = Counter(layer.rank for layer in layers.values()).most_common(1)[0][0]
    alpha = Counter(alphas.values()).most_common(1)[0][0]
    return {
        "peft_type": "LORA",
        "task_type": None,
        "base_model_name_or_path": base,
        "r": rank,
        "lora_alpha": alpha,
        "lora_dropout": next(iter(layers.values())).drop.p,
        "rank_pattern": {modules[path]: layer.rank for path, layer in layers.items() if layer.rank != rank},
        "alpha_pattern": {modules[path]: value for path, value in alphas.items() if value != alpha},
        "target_modules": sorted(modules.values()),
        "modules_to_save": sorted(saved) or None,
        "bias": "none",
        "use_rslora": False,
        "use_dora": False,
        "inference_mode": True,
        "init_lora_weights": True,
    }
