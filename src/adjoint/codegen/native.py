"""Compile LLVM IR to optimized object code with llvmlite, for this machine or another."""

import ctypes
import os
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import repeat
from typing import Any

import llvmlite.binding as llvm
from llvmlite.binding import ffi

from adjoint.codegen.targets import host_target
from adjoint.errors import VerifyError
from adjoint.kernel.target import Target, available_cores

__all__ = ["NativeCode", "SharedText", "compile_native"]

#: LLVM's optimization level, 0 to 3. Steps at level 2 are no faster, but compile 11 to 19% slower; at 0 they are
#: slower.
_EFFORT = 1

#: CPUs whose jumps must neither cross nor end at a multiple of 32 bytes, or else the cache of decoded instructions does
#: not hold their code, and loops of long instructions wait for the decoders (Intel, "Mitigations for Jump Conditional
#: Code Erratum", 2019). On Cascade Lake, the gradient of a weight then took 1.37 times as long.
_JUMPS_APART = frozenset(("skylake", "skylake-avx512", "cascadelake"))

#: Held while LLVM is set up, once for all threads.
_setting_up = threading.Lock()


def _set_up(target: Target) -> None:
    """Set LLVM up for a target. Options apply to all code that the process compiles later, for any target."""
    with _setting_up:
        _initialize(target.architecture)
        # An LLVM for another architecture may lack the option, and would end the process.
        if target.cpu in _JUMPS_APART and host_target().architecture == "x86_64":
            _set_option("--x86-branches-within-32B-boundaries")


def _renew_lock() -> None:
    """Free the lock in a forked process, which does not have the thread that may hold it."""
    global _setting_up
    _setting_up = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


@cache
def _set_option(option: str) -> None:
    llvm.set_option("", option)


@cache
def _initialize(family: str) -> None:
    """Initialize LLVM's backend for an architecture: only this machine's if possible, which needs 10 MB less."""
    if family == host_target().architecture:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()


class SharedText(str):
    """LLVM text that is part of many programs, so that a process compiles it once for each target."""

    __slots__ = ()


class NativeCode:
    """One compiled module: its object code, assembly and optimized LLVM text."""

    def __init__(self, text: str, target: Target) -> None:
        _set_up(target)
        machine = _machine(target)
        self._module = _parse(text)
        _optimize(self._module, machine)
        self._machine = machine

    def object(self) -> bytes:
        """Relocatable object code."""
        return _emit_object(self._machine, self._module)

    def assembly(self) -> str:
        """Assembly text."""
        return str(self._machine.emit_assembly(self._module))

    def llvm(self) -> str:
        """Optimized LLVM text."""
        return str(self._module)


def compile_native(texts: Iterable[str], target: Target, threads: int | None = None) -> tuple[bytes, ...]:
    """Compile LLVM modules to object code.

    Parameters
    ----------
    texts : iterable of str
        The modules. Threads start with the first ones while the iterable still generates others.
    target : Target
        The target CPU.
    threads : int, optional
        Number of compiler threads; default: the number of cores available to this process.

    Returns
    -------
    tuple of bytes
        One relocatable object file per module, in order, to be linked together; identical for any number of threads.
    """
    threads = threads or available_cores()
    if threads == 1:
        return tuple(_object(text, target) for text in texts)
    with ThreadPoolExecutor(threads) as pool:
        return tuple(pool.map(_object, texts, repeat(target)))


def _object(text: str, target: Target) -> bytes:
    return _shared_object(text, target) if isinstance(text, SharedText) else NativeCode(text, target).object()


@cache
def _shared_object(text: str, target: Target) -> bytes:
    return NativeCode(text, target).object()


def _emit_object(machine: Any, module: Any) -> bytes:
    """Generate the object code of a module, in parallel with other threads.

    llvmlite serializes all calls of LLVM. LLVM itself only requires that threads share neither contexts nor target
    machines, which is the case here, and most of the time is spent in this call. So it bypasses llvmlite's lock.
    """
    emit = ffi.lib.LLVMPY_TargetMachineEmitToMemory
    emit = getattr(emit, "_cfn", emit)
    with ffi.OutputString() as error:
        buffer = emit(machine, module, 1, error)
        if not buffer:
            raise VerifyError(f"LLVM cannot make code of a module: {error}")
    try:
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


def _machine(target: Target) -> Any:
    # A target machine must not be shared by modules, so each compilation creates its own.
    found = llvm.Target.from_triple(target.triple)
    return found.create_target_machine(
        cpu=target.cpu, features=target.features, opt=_EFFORT, reloc="pic", codemodel="small"
    )


def _parse(text: str) -> Any:
    try:
        module = llvm.parse_assembly(text, llvm.create_context())
        module.verify()
    except RuntimeError as error:
        raise VerifyError(f"generated code is not valid LLVM: {error}") from error
    return module


def _optimize(module: Any, machine: Any) -> None:
    """Run the few passes that improve generated code.

    Vectors, unrolling and fusion are explicit already. So LLVM's own loop and vectorization passes are disabled: they
    would take most of the compile time without finding anything. Combining instructions is left to instruction
    selection, which does so anyway (docs/design/compile-time.md). Functions of shared texts that a module does not call
    are removed before anything else works on them.
    """
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(machine, tuning)
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, builder)
