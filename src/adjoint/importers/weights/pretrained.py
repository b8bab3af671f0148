"""`load_pretrained` and `save_pretrained`: networks in folders of transformers' models."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from adjoint.errors import CheckpointError, InvalidValueError, listed
from adjoint.importers.weights.architecture import Architecture, Expected
from adjoint.importers.weights.architectures import architecture_of, architecture_of_kind
from adjoint.importers.weights.configuration import configuration_of, make_folder, read_json, settings_of, shown_name
from adjoint.importers.weights.stored import Stored, stored_tensors, tensors_of
from adjoint.ir import as_dtype, dtype_name, is_float
from adjoint.nn.lora import LoRALinear
from adjoint.nn.networks.transformer_parts import begin_weight
from adjoint.nn.parameters import undrawn
from adjoint.paths import FilePath, write_user_file
from adjoint.tensor.environment import get_default_dtype
from adjoint.training.tensors import write_file

__all__ = ["load_pretrained", "save_pretrained"]

_WHAT = "load_pretrained"

#: What a new head may have in any case, in elements; a larger one must be smaller than the rest of the network.
_SMALL = 1 << 24


def load_pretrained(path: FilePath, head: str | None = "auto", *, dtype: object = None, **settings: Any) -> Any:
    """Make a network from a folder of a model of transformers: GPT-2, BERT, DistilBERT, ViT or Llama.

    The folder has ``config.json`` and the weights: ``model.safetensors`` or ``pytorch_model.bin``, or several files
    with an index. Nothing is downloaded, and nothing that files contain is executed. All tensors of a file are used:
    those that an architecture does not have are an error. Only those of another head are left out.

    Parameters
    ----------
    path : str or os.PathLike
        The folder, or a file of weights with ``config.json`` next to it.
    head : {"auto", "lm", "classification", None}, default "auto"
        The head of the network. "auto" takes that of the file. The weights of a head that the file does not have are
        drawn anew.
    dtype : str or numpy dtype, optional
        A float dtype of the parameters, or "auto" for that of the file; default: `adjoint.get_default_dtype`.
    **settings
        Arguments of the network in place of those in ``config.json``, such as ``dropout=0.0``. With another number of
        `classes`, the last layer is drawn anew.

    Returns
    -------
    Module
        A `GPT2`, `BERT`, `DistilBERT`, `ViT` or `Llama` of `adjoint.nn.networks`, in evaluation mode as in
        transformers.

    Raises
    ------
    CheckpointError
        If a file is missing or damaged, or its tensors or configuration are not those of such a network.
    InvalidValueError
        If `head`, `dtype` or a setting does not fit the network.
    """
    given = Path(path)
    folder = given if given.is_dir() else given.parent
    config = read_json(folder / "config.json", _WHAT)
    architecture = architecture_of_kind(config.get("model_type"), _WHAT)
    found = settings_of(architecture, config, _WHAT)
    own = _own_head(architecture, config)
    chosen = _chosen_head(architecture, own, head)
    _check_settings(architecture, settings, found)
    wanted = found | settings | {"head": chosen}
    tensors = stored_tensors(folder, _WHAT) if given.is_dir() else tensors_of(given, _WHAT)
    if wanted["layers"] > len(tensors):
        raise CheckpointError(
            f"{_WHAT}: the file must have the layers of config.json, got {len(tensors)} tensors for "
            f"{wanted['layers']} layers; correct the configuration"
        )
    resized = wanted["classes"] != found["classes"]
    matched, fresh = _matched(architecture, wanted, _canonical(architecture, tensors), chosen != own, resized)
    target = _dtype_of(dtype, matched)
    with undrawn():
        network = architecture.network(**wanted).to(target)
    network.load_state_dict({one.ours: _elements(one, stored) for one, stored in matched}, strict=False)
    for one in fresh:  # biases and the weights of norms have their first values
        if len(one.shape) > 1:
            begin_weight(network.get_parameter(one.ours))
    network.pretrained_config = config
    return network.eval()


def _own_head(architecture: Architecture, config: Mapping[str, Any]) -> Any:
    """The head of the network in the file; "" if it is one that is not there."""
    names = config.get("architectures")
    name = names[0] if isinstance(names, list) and names else None
    return next((head for head, one in architecture.heads.items() if name in one.classes), "")


def _chosen_head(architecture: Architecture, own: Any, head: str | None) -> str | None:
    chosen = own if head == "auto" else head
    if chosen not in architecture.heads:
        known = ", ".join(map(repr, architecture.heads))
        if head == "auto":
            raise CheckpointError(
                f"{_WHAT}: architectures in config.json must be a list with one of "
                f"{', '.join(name for one in architecture.heads.values() for name in one.classes)}, got another; pass "
                f"head={known.replace(', ', ' or ')}"
            )
        raise InvalidValueError(f"{_WHAT}: the head of a {architecture.kind} network must be {known}, got {head!r}")
    return chosen


def _check_settings(architecture: Architecture, settings: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Raise unless settings that were given in place of those of the file are settings, and sizes integers."""
    for name, value in settings.items():
        if name not in found:
            raise InvalidValueError(
                f"{_WHAT}: the settings of a {architecture.kind} network are {', '.join(found)}, got {name!r}; leave "
                "it out"
            )
        before = found[name]
        if type(before) is int and type(value) is not int and not (value is None and name == "pad"):
            raise InvalidValueError(f"{_WHAT}: {name} must be an integer, got {value!r}; correct it")


def _canonical(architecture: Architecture, tensors: Mapping[str, Stored]) -> dict[str, Stored]:
    """Tensors without the prefix of the architecture; those that are no weights are left out."""
    found: dict[str, Stored] = {}
    for name, stored in tensors.items():
        short = architecture.canonical(name)
        if any(re.fullmatch(pattern, short) for pattern in architecture.ignored):
            continue
        if short in found:
            raise CheckpointError(
                f"{_WHAT}: every tensor must be there once, got {shown_name(short)} again as "
                f"{shown_name(name)}; remove one"
            )
        found[short] = stored
    return found


def _matched(
    architecture: Architecture, wanted: dict[str, Any], present: dict[str, Stored], new_head: bool, resized: bool
) -> tuple[list[tuple[Expected, Stored]], list[Expected]]:
    """The tensors of the file by those of the network, checked for names, shapes and dtypes, and those to be drawn.

    Parameters
    ----------
    new_head : bool
        Whether the head is another one than that of the file, so that parts of it may be absent.
    resized : bool
        Whether there is another number of classes than in the file.
    """
    head = wanted["head"]
    settings = architecture.completed(wanted)
    shared, own = list(architecture.shared(settings)), list(architecture.own(settings, head))
    _use_tied(architecture, settings, head, present)
    missing = [one.theirs for one in shared if one.theirs not in present]
    fresh: list[Expected] = []
    for one in own:
        part = one.ours.rpartition(".")[0]
        is_there = any(other.theirs in present for other in own if other.ours.rpartition(".")[0] == part)
        if (resized and part == "classifier") or (new_head and not is_there):
            fresh.append(one)
        elif one.theirs not in present:
            missing.append(one.theirs)
    _check_fresh(fresh, present)
    matched = [(one, present[one.theirs]) for one in (*shared, *own) if one.theirs in present and one not in fresh]
    unknown = present.keys() - _known_names(architecture, settings)
    _check_agreement(missing, sorted(map(shown_name, unknown)), matched)
    return matched, fresh


def _use_tied(
    architecture: Architecture, settings: Mapping[str, Any], head: str | None, present: dict[str, Stored]
) -> None:
    """Take tensors that are others of the network for those, where a file has only one of them, and drop them."""
    for one in architecture.heads.values():
        for name, other in one.tied:
            if name in present and (settings.get("tied") or one is not architecture.heads[head]):
                stored = present.pop(name)
                if settings.get("tied"):
                    present.setdefault(other, stored)
        for name, other in one.twice:
            if other in present:
                present[name] = present.pop(other)


def _known_names(architecture: Architecture, settings: Mapping[str, Any]) -> set[str]:
    """The names of all tensors of networks with these settings and any head."""
    heads = (
        architecture.own({**settings, "tied": tied}, head) for head in architecture.heads for tied in (True, False)
    )
    return {one.theirs for group in (architecture.shared(settings), *heads) for one in group}


def _check_fresh(fresh: list[Expected], present: Mapping[str, Stored]) -> None:
    """Raise if weights that are drawn anew would take more memory than a file justifies."""
    there = sum(int(np.prod(stored.shape, dtype=object)) for stored in present.values())
    needed = sum(int(np.prod(one.shape, dtype=object)) for one in fresh)
    if needed > max(there, _SMALL):
        raise CheckpointError(
            f"{_WHAT}: a new head must not be larger than the network, got {needed} weights for {there} in the file; "
            "correct the number of classes"
        )


def _check_agreement(missing: list[str], unknown: list[str], matched: list[tuple[Expected, Stored]]) -> None:
    """Raise one error with all differences between the file and the network."""
    differences = []
    if missing:
        differences.append(f"no {listed(missing)}")
    if unknown:
        differences.append(f"the unknown {listed(unknown)}")
    wrong = [
        f"{one.theirs} of shape {list(stored.shape)} instead of {list(one.stored_shape)}"
        for one, stored in matched
        if stored.shape != one.stored_shape
    ]
    wrong += [f"{one.theirs} of dtype {stored.dtype}" for one, stored in matched if not is_float(stored.dtype)]
    if wrong:
        differences.append(listed(wrong))
    if differences:
        raise CheckpointError(
            f"{_WHAT}: the tensors must be those of config.json, got {' and '.join(differences)}; is it the "
            "configuration of this file?"
        )


def _dtype_of(dtype: object, matched: list[tuple[Expected, Stored]]) -> np.dtype:
    if dtype is None:
        return get_default_dtype()
    if isinstance(dtype, str) and dtype == "auto":
        return matched[0][1].dtype
    found = as_dtype(dtype)
    if not is_float(found):
        raise InvalidValueError(f"{_WHAT}: dtype must be a float or 'auto', got {dtype_name(found)}; use f32")
    return found


def _elements(one: Expected, stored: Stored) -> np.ndarray:
    array = stored.read()
    return array.T if one.transposed else array


def save_pretrained(network: Any, folder: FilePath, *, dtype: object = None) -> None:
    """Write a network to a folder that transformers loads: ``config.json`` and ``model.safetensors``.

    Parameters
    ----------
    network : GPT2, BERT, DistilBERT, ViT or Llama
        The network. Entries of the configuration that it was loaded with, such as the names of classes, are kept.
    folder : str or os.PathLike
        The folder, which is made if it is not there.
    dtype : str or numpy dtype, optional
        A float dtype in the file; default: that of the parameters.

    Raises
    ------
    TypeRuleError
        If it is another network.
    InvalidValueError
        If it has low-rank updates, which `merge_lora` makes part of the weights and `save_adapter` writes.
    CheckpointError
        If a file cannot be written.
    """
    what = "save_pretrained"
    architecture = architecture_of(network, what)
    if any(isinstance(module, LoRALinear) for module in network.modules()):
        raise InvalidValueError(
            f"{what}: the weights must be without low-rank updates, got a network with some; call merge_lora(network) "
            "first, or write the updates with save_adapter"
        )
    settings: dict[str, Any] = network.settings
    complete = architecture.completed(settings)
    state = network.state_dict()
    target = None if dtype is None else as_dtype(dtype)
    arrays = {}
    for one in (*architecture.shared(complete), *architecture.own(complete, settings["head"])):
        array = state[one.ours].elements().array
        array = array if target is None else array.astype(target)
        arrays[architecture.written(one, settings["head"])] = array.T if one.transposed else array
    for name, other in architecture.heads[settings["head"]].twice:
        arrays[other] = arrays[name]
    place = make_folder(folder, what)
    written = next(iter(arrays.values())).dtype
    before = getattr(network, "pretrained_config", {})
    config = configuration_of(architecture, network, str(written), before)
    write_user_file(place / "config.json", (json.dumps(config, indent=2) + "\n").encode(), what)
    # transformers reads files that say whose tensors they have.
    write_file(place / "model.safetensors", arrays, {"format": "pt"}, what)
