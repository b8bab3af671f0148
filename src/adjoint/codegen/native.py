"""LLVM at work: text to optimized object code, for this machine or another."""

import ctypes
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

__all__ = ["NativeCode", "compile_native"]

#: LLVM's effort, 0 to 3. Steps of 2 are no faster, and take 11 to 19 % longer to compile; those of 0 are slower.
_EFFORT = 1


@cache
def _initialize(family: str) -> None:
    """Make LLVM's code for a kind of CPU available: this machine's alone where that is it, which takes 10 MB less."""
    if family == host_target().architecture:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()


class NativeCode:
    """Object code of one module, and the texts on the way to it."""

    def __init__(self, text: str, target: Target) -> None:
        _initialize(target.architecture)
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
    """Object code of LLVM texts that belong together.

    Parameters
    ----------
    texts : iterable of str
        Modules. Threads begin with the first while the iterable still makes the others.
    target : Target
        The CPU.
    threads : int, optional
        Threads that compile; default: the cores that this process may use.

    Returns
    -------
    tuple of bytes
        One relocatable object file for each text, in their order, to be linked into one product; the same bytes for
        any number of threads.
    """
    threads = threads or available_cores()
    if threads == 1:
        return tuple(_object(text, target) for text in texts)
    with ThreadPoolExecutor(threads) as pool:
        return tuple(pool.map(_object, texts, repeat(target)))


def _object(text: str, target: Target) -> bytes:
    return NativeCode(text, target).object()


def _emit_object(machine: Any, module: Any) -> bytes:
    """Object code of a module, made beside other threads.

    llvmlite lets one thread into LLVM at a time. LLVM itself asks only that threads share neither contexts nor
    machines, which they do not here; and this is where most of the time goes. So it is called behind that lock.
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
    # A machine belongs to one module at a time, so each compilation makes its own.
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
    """The few passes that generated code gains from.

    Vectors, unrolling and fusion are explicit already, so LLVM's own loop and vector passes stay off: they cost
    most of the compile time and find nothing.
    """
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(machine, tuning)
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, builder)
