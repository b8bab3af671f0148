"""`mindspore.context`: the mode of execution; what concerns devices and graphs on disk has no effect."""

from typing import Any

from adjoint.compat.uncovered import uncovered
from adjoint.errors import InvalidValueError, NameLookupError

__all__ = [
    "GRAPH_MODE",
    "PYNATIVE_MODE",
    "ParallelMode",
    "get_auto_parallel_context",
    "get_context",
    "reset_auto_parallel_context",
    "set_auto_parallel_context",
    "set_context",
]

GRAPH_MODE, PYNATIVE_MODE = 0, 1

#: Settings that can be given and read, with MindSpore's defaults. Only the mode has an effect.
_settings: dict[str, Any] = {
    "mode": PYNATIVE_MODE,
    "device_target": "CPU",
    "device_id": 0,
    "save_graphs": False,
    "save_graphs_path": ".",
    "max_call_depth": 1000,
    "enable_graph_kernel": False,
    "pynative_synchronize": False,
    "deterministic": "OFF",
    "jit_level": "",
    "jit_config": None,
    "max_device_memory": "1024GB",
    "runtime_num_threads": 30,
}


class ParallelMode:
    """The names of the modes of parallel training; there is one device."""

    STAND_ALONE = "stand_alone"
    DATA_PARALLEL = "data_parallel"
    HYBRID_PARALLEL = "hybrid_parallel"
    SEMI_AUTO_PARALLEL = "semi_auto_parallel"
    AUTO_PARALLEL = "auto_parallel"


def set_context(**settings: Any) -> None:
    """Set the mode: in `GRAPH_MODE`, calls of cells are compiled as a whole. Other settings have no effect.

    Raises
    ------
    NameLookupError
        If there is no such setting.
    InvalidValueError
        If the mode is neither, or the device is not the CPU.
    """
    for name, value in settings.items():
        if name not in _settings:
            raise NameLookupError(f"set_context: no setting is called {name!r}; choose one of {', '.join(_settings)}")
        if name == "mode" and value not in (GRAPH_MODE, PYNATIVE_MODE):
            raise InvalidValueError(f"set_context: mode must be GRAPH_MODE or PYNATIVE_MODE, got {value!r}")
        if name == "device_target" and value != "CPU":
            raise InvalidValueError(f"set_context: device_target must be 'CPU', got {value!r}; omit it")
    _settings.update(settings)


def get_context(attr_key: str) -> Any:
    """A setting.

    Raises
    ------
    NameLookupError
        If there is no such setting.
    """
    if attr_key not in _settings:
        raise NameLookupError(f"get_context: no setting is called {attr_key!r}; choose one of {', '.join(_settings)}")
    return _settings[attr_key]


def set_auto_parallel_context(*, parallel_mode: str = ParallelMode.STAND_ALONE, **_settings: Any) -> None:
    """Accepts "stand_alone", the only mode.

    Raises
    ------
    InvalidValueError
        If it is another mode.
    """
    if parallel_mode != ParallelMode.STAND_ALONE:
        raise InvalidValueError(
            f"set_auto_parallel_context: parallel_mode must be 'stand_alone', got {parallel_mode!r}; train on one CPU"
        )


def get_auto_parallel_context(attr_key: str) -> Any:
    """The settings of one device: its mode, and whether gradients are averaged."""
    known = {"parallel_mode": ParallelMode.STAND_ALONE, "gradients_mean": False, "device_num": 1, "global_rank": 0}
    if attr_key not in known:
        raise NameLookupError(
            f"get_auto_parallel_context: no setting is called {attr_key!r}; choose one of {', '.join(known)}"
        )
    return known[attr_key]


def reset_auto_parallel_context() -> None:
    """Nothing: there is one mode."""


__getattr__ = uncovered(__name__, {}, "adjoint.CompileOptions")
