"""Compilation, and the virtual machine: compiled functions by name."""

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.compat.tvm.relax.function import Function, nested
from adjoint.compat.tvm.relax.module import IRModule, name_of
from adjoint.compat.tvm.runtime import Device, Tensor
from adjoint.compat.uncovered import uncovered
from adjoint.compiler import CompileOptions
from adjoint.compiler import compile as compile_module
from adjoint.errors import InvalidValueError, TypeRuleError, kind_of, plural
from adjoint.ir import IRModule as Graphs
from adjoint.profiling.doors import profile_function

__all__ = ["VMExecutable", "VirtualMachine", "build"]
__getattr__ = uncovered(__name__, {}, "adjoint.compile")


class VMExecutable:
    """A module to be run; its functions are compiled when they are first called.

    Attributes
    ----------
    mod : IRModule
        The module.
    """

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod

    def export_library(self, file_name: str, **_: Any) -> None:
        """Refused."""
        raise InvalidValueError(
            f"export_library: compiled steps are saved as bundles, got {file_name}; use adjoint.compile(...).save(path)"
        )


def build(mod: IRModule, target: Any = None, params: Any = None, exec_mode: str = "bytecode", **_: Any) -> VMExecutable:
    """A module that a `VirtualMachine` runs. It is compiled for this machine."""
    del exec_mode
    if params is not None:
        raise InvalidValueError("build: params are arguments of functions here, got some; pass them to the calls")
    if not isinstance(mod, IRModule):
        raise TypeRuleError(f"build takes a module, got {kind_of(mod)}; use tvm.script or a BlockBuilder")
    name = str(getattr(target, "kind", target) or "llvm").split()[0]
    if name not in ("llvm", "c", "cpu"):
        raise InvalidValueError(f"build: the target must be llvm, the CPU of this machine, got {name}; use 'llvm'")
    return VMExecutable(mod)


class VirtualMachine:
    """Runs the functions of a module: ``vm["main"](x)``.

    Parameters
    ----------
    rt_mod : VMExecutable
        What `build` or ``tvm.compile`` returned.
    device : Device, optional
        The CPU.
    profile : bool, default False
        Whether `profile` may be called.
    """

    def __init__(self, rt_mod: VMExecutable, device: Any = None, memory_cfg: Any = None, profile: bool = False) -> None:
        del memory_cfg
        given: object = rt_mod
        if not isinstance(given, VMExecutable):
            raise TypeRuleError(f"VirtualMachine takes what tvm.compile returns, got {kind_of(given)}; compile it")
        self.executable, self.device, self.may_profile = rt_mod, device or Device(), profile
        self._functions: dict[str, Callable[..., Any]] = {}

    @property
    def module(self) -> IRModule:
        """The module."""
        return self.executable.mod

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if name not in self._functions:
            self._functions[name] = self._compiled(self.module[name])
        return self._functions[name]

    def _compiled(self, function: Function) -> Callable[..., Any]:
        entry = compile_module(_alone(self.module, function), entries=(function.name,))[function.name]
        results, outputs, count = function.native.results, function.outputs, len(function.params)

        def call(*args: Any) -> Any:
            if len(args) != count:
                raise TypeRuleError(f"{function.name} takes {plural(count, 'argument')}, got {len(args)}; pass all")
            found = entry(*arrays_of(args))
            items = found if len(results) > 1 else (found,)
            tensors = [Tensor(np.asarray(x, r.dtype)) for x, r in zip(items, results, strict=True)]
            return nested(outputs, tensors)

        return call

    def profile(self, func_name: str, *args: Any) -> Any:
        """Measure a function kernel by kernel; printed, the result is a table."""
        if not self.may_profile:
            raise InvalidValueError("profile: the VirtualMachine must be made with profile=True, got profile=False")
        function = self.module[name_of(func_name)].native
        arrays = dict(zip((p.label for p in function.params), arrays_of(args), strict=True))
        return profile_function(function, arrays, function.name, CompileOptions(), 20, None)


def arrays_of(args: Any) -> list[np.ndarray]:
    """The arrays in arguments, which may be tuples."""
    found: list[np.ndarray] = []
    for arg in args:
        if isinstance(arg, tuple | list):
            found += arrays_of(arg)
        else:
            found.append(arg.numpy() if isinstance(arg, Tensor) else np.asarray(arg))
    return found


def _alone(module: IRModule, function: Function) -> Graphs:
    """A module with a function, and what it calls."""
    return module.native if function.name in module else Graphs((function.native,))
