"""`mindspore.train.serialization`: checkpoints of parameters by name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from adjoint.compat.mindspore.common.parameter import Parameter
from adjoint.compat.mindspore.common.tensor import Tensor
from adjoint.compat.uncovered import uncovered
from adjoint.errors import CheckpointError, InvalidValueError
from adjoint.interop import read_mindspore
from adjoint.saving import load, save
from adjoint.tensor.assign import assign
from adjoint.training.checkpoints import read_snapshot

__all__ = ["load_checkpoint", "load_param_into_net", "save_checkpoint"]


def save_checkpoint(save_obj: Any, ckpt_file_name: str, *_options: Any, **_more: Any) -> None:
    """Save the parameters of a cell, of a list of ``{"name": ..., "data": ...}`` or of a dict, in adjoint's format.

    Parameters
    ----------
    save_obj : Cell, list or dict
        What is saved.
    ckpt_file_name : str
        The file; ".ckpt" is added if it has no such ending.
    """
    if hasattr(save_obj, "parameters_and_names"):
        found = {name: one.detach() for name, one in save_obj.parameters_and_names()}
    elif isinstance(save_obj, Mapping):
        found = {name: one.detach() for name, one in save_obj.items()}
    else:
        found = {one["name"]: one["data"].detach() for one in save_obj}
    path = str(ckpt_file_name)
    save(found, path if path.endswith(".ckpt") else f"{path}.ckpt")


def load_checkpoint(ckpt_file_name: str, net: Any = None, strict_load: bool = False, **_options: Any) -> dict[str, Any]:
    """The parameters of a checkpoint by name, which may be of `save_checkpoint`, `ModelCheckpoint` or MindSpore.

    Parameters
    ----------
    ckpt_file_name : str
        The file.
    net : Cell, optional
        The parameters are loaded into it as well.
    strict_load : bool, default False
        As for `load_param_into_net`.

    Raises
    ------
    CheckpointError
        If it is no checkpoint.
    """
    found = {name: Parameter(Tensor(array), name) for name, array in _arrays(Path(ckpt_file_name)).items()}
    if net is not None:
        load_param_into_net(net, found, strict_load)
    return found


def _arrays(path: Path) -> dict[str, Any]:
    ours = path.with_suffix(".safetensors")  # what ModelCheckpoint makes of MindSpore's name
    if not path.exists() and ours.exists():
        path = ours
    with path.open("rb") as file:
        beginning = file.read(4)
    if beginning[:2] == b"PK":
        return {name: one.asnumpy() for name, one in load(path).items()}
    try:
        return dict(read_snapshot(path).network_state())
    except CheckpointError:
        return {name: one for name, one in read_mindspore(path).items() if not isinstance(one, str)}


def load_param_into_net(
    net: Any, parameter_dict: Mapping[str, Any], strict_load: bool = False
) -> tuple[list[str], list[str]]:
    """Copy parameters into those of the same names.

    Parameters
    ----------
    net : Cell
        The cell.
    parameter_dict : mapping of str to Parameter
        What `load_checkpoint` returned.
    strict_load : bool, default False
        Whether both must have the same names.

    Returns
    -------
    param_not_load, ckpt_not_load : list of str
        The parameters of the cell that got nothing, and the names that are not in it.

    Raises
    ------
    InvalidValueError
        If a shape differs or, with `strict_load`, the names do.
    """
    own = dict(net.parameters_and_names())
    missing = [name for name in own if name not in parameter_dict]
    unknown = [name for name in parameter_dict if name not in own]
    if strict_load and (missing or unknown):
        raise InvalidValueError(
            f"load_param_into_net: with strict_load, both must have the same names, got none for {missing} and "
            f"{unknown} more; rename them"
        )
    for name, parameter in own.items():
        if name in parameter_dict:
            array = parameter_dict[name].asnumpy()
            if array.shape != tuple(parameter.shape):
                raise InvalidValueError(
                    f"load_param_into_net: {name} must have shape {tuple(parameter.shape)}, got {array.shape}; load "
                    "into the network that was saved"
                )
            assign(parameter, array.astype(parameter.dtype))
    return missing, unknown


__getattr__ = uncovered(__name__, {"export": "use adjoint.compile and Executable.save"}, "adjoint.save")
