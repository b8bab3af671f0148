"""config.json of transformers: read with checks of every value, and written."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from adjoint.errors import CheckpointError
from adjoint.importers.weights.architecture import ACTIVATIONS, Architecture, Key
from adjoint.paths import FilePath, reading

__all__ = ["configuration_of", "in_config", "make_folder", "parsed_object", "read_json", "settings_of", "shown_name"]

#: The longest configuration that is read, in bytes; one with the names of 21,000 classes has a million.
_LONGEST = 1 << 26

#: The most characters of a name, or of another value, that a message shows.
_LONGEST_NAME, _LONGEST_VALUE = 100, 40

#: The largest size that is accepted: what is multiplied by others stays an ordinary number.
_LARGEST = 1 << 40


def shown_name(name: str) -> str:
    """A name from a file, on one line of text and not too long."""
    return name if name.isprintable() and len(name) <= _LONGEST_NAME else f"{ascii(name)[:_LONGEST_NAME]}..."


def read_json(path: Path, what: str) -> dict[str, Any]:
    """The object in a JSON file.

    Raises
    ------
    CheckpointError
        If it cannot be read, is no JSON, is no object, or has a name twice.
    """
    with reading(path, what):
        content = path.read_bytes() if path.stat().st_size <= _LONGEST else b""
    return parsed_object(content, what, str(path))


def parsed_object(content: bytes, what: str, place: str) -> dict[str, Any]:
    """The object that JSON text in UTF-8 describes; `place` is where it is, for messages."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            names = [name for name, _ in pairs]
            raise CheckpointError(
                f"{what}: {place} must have every name once, got {shown_name(_repeated(names))} twice; save it again"
            )
        return made

    try:
        found = json.loads(content.decode(), object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{what}: {place} must be JSON, got something else; save it again") from error
    if not isinstance(found, dict):
        raise CheckpointError(
            f"{what}: {place} must hold an object of JSON, got a {type(found).__name__}; save it again"
        )
    return found


def _repeated(names: list[str]) -> str:
    """The first name that occurs again."""
    return next(name for name, count in Counter(names).items() if count > 1)


def settings_of(architecture: Architecture, config: Mapping[str, Any], what: str) -> dict[str, Any]:
    """The arguments of a network that has a configuration.

    Raises
    ------
    CheckpointError
        If a value has the wrong type or is out of range, or says that the network computes something else.
    """
    settings = {key.ours: _value(key, config.get(key.theirs, _absent(key)), what) for key in architecture.keys}
    for name, wanted in architecture.fixed.items():
        if config.get(name, wanted) != wanted:
            raise CheckpointError(
                f"{what}: {architecture.kind} networks have {name} = {wanted!r} here, and config.json says "
                f"{_shown(config[name])}; such a network is not there"
            )
    settings["classes"] = _classes(config, what)
    if architecture.kind == "llama":
        settings["theta"], settings["scaling"] = _rotary(config, what)
    return settings


def _absent(key: Key) -> Any:
    return None if key.optional else key.default


def _value(key: Key, given: Any, what: str) -> Any:
    if key.optional and (given is None or (key.ours == "pad" and given == -1)):  # as old files of Llama say that
        return None
    if isinstance(key.default, str):
        if not isinstance(given, str) or given not in ACTIVATIONS:
            raise in_config(what, key.theirs, f"one of {', '.join(ACTIVATIONS)}", given)
        return ACTIVATIONS[given]
    if isinstance(key.default, bool):
        if not isinstance(given, bool):
            raise in_config(what, key.theirs, "true or false", given)
        return given
    if isinstance(key.default, int):
        least = 0 if key.ours == "pad" else 1
        if not isinstance(given, int) or isinstance(given, bool) or not least <= given <= _LARGEST:
            raise in_config(what, key.theirs, f"an integer from {least} to {_LARGEST}", given)
        return given
    return _number(what, key.theirs, given, below=1.0)


def _number(what: str, name: str, given: Any, *, below: float) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given < below:
        raise in_config(what, name, f"a number from 0 to {below:g}", given)
    return float(given)


def in_config(what: str, name: str, rule: str, given: Any, file: str = "config.json") -> CheckpointError:
    """The error that an entry of a configuration is not as the rule says."""
    return CheckpointError(f"{what}: {name} in {file} must be {rule}, got {_shown(given)}; correct it")


def make_folder(folder: FilePath, what: str) -> Path:
    """Make a folder if it is not there; `what` is the name of the caller in messages."""
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CheckpointError(
            f"{what}: the folder {place} cannot be made ({error.strerror}); choose another place"
        ) from error
    return place


def _shown(given: Any) -> str:
    """A value from a file, without the length that a file can give it."""
    text = "null" if given is None else json.dumps(given)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


def _classes(config: Mapping[str, Any], what: str) -> int:
    """The number of classes: that of their names, or 2 as in transformers."""
    names = config.get("id2label")
    if names is not None and (not isinstance(names, dict) or not names):
        raise in_config(what, "id2label", "an object with the name of each class", names)
    given = len(names) if names else config.get("num_labels", 2)
    return int(_value(Key("num_labels", "classes", 2), given, what))


def _rotary(config: Mapping[str, Any], what: str) -> tuple[float, dict[str, Any] | None]:
    """Base and scaling of rotary positions, which transformers 5 has in one place, and older versions in two."""
    given = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(given, dict):
        raise in_config(what, "rope_parameters", "an object", given)
    base = given.get("rope_theta", config.get("rope_theta", 10000.0))
    theta = _number(what, "rope_theta", base, below=1e12)
    if theta < 1:
        raise in_config(what, "rope_theta", "at least 1", base)
    kind = given.get("rope_type", given.get("type", "default"))
    if kind == "default":
        return theta, None
    known = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    if kind not in ("linear", "llama3"):
        raise in_config(what, "rope_type", 'one of "default", "linear", "llama3"', kind)
    needed = known[:1] if kind == "linear" else known
    numbers = {name: _number(what, name, given.get(name), below=_LARGEST) for name in needed}
    return theta, {"rope_type": kind, **numbers}


def configuration_of(architecture: Architecture, network: Any, dtype: str, before: Mapping[str, Any]) -> dict[str, Any]:
    """The content of config.json of a network; `before` is that of the file it was read from, if any."""
    settings = network.settings
    names = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
    made = dict(before)
    for key in architecture.keys:
        value = settings[key.ours]
        made[key.theirs] = names[value] if isinstance(key.default, str) else value
    made |= architecture.fixed
    made |= {
        "model_type": architecture.kind,
        "architectures": [architecture.heads[settings["head"]].classes[0]],
        "dtype": dtype,
    }
    made.pop("torch_dtype", None)
    if len(made.get("id2label", "  ")) != settings["classes"]:
        made["id2label"] = {str(n): f"LABEL_{n}" for n in range(settings["classes"])}
        made["label2id"] = {f"LABEL_{n}": n for n in range(settings["classes"])}
    if "theta" in settings:
        for name in ("rope_theta", "rope_scaling"):
            made.pop(name, None)
        scaling = settings["scaling"] or {"rope_type": "default"}
        made["rope_parameters"] = {"rope_theta": settings["theta"], **scaling}
    if "resid_pdrop" in made:
        made["embd_pdrop"] = settings["dropout"]
    return made
