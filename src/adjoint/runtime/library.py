"""Object code made callable in this process."""

import itertools

import llvmlite.binding as llvm

__all__ = ["Library"]

_numbers = itertools.count()


class Library:
    """Loaded object code; it stays loaded while this object lives.

    Parameters
    ----------
    objects : tuple of bytes
        Relocatable object files for this machine, which are linked together.
    names : tuple of str
        Functions wanted.
    """

    def __init__(self, objects: tuple[bytes, ...], names: tuple[str, ...]) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        # JITLink puts an object into one piece of memory. The older linker may put its constants beyond the reach of
        # its code, in a process with gigabytes of arrays, and then ends the process.
        self._jit = llvm.create_lljit_compiler(use_jit_link=True)
        builder = llvm.JITLibraryBuilder().add_current_process()
        for code in objects:
            builder.add_object_img(code)
        for name in names:
            builder.export_symbol(name)
        self._resources = builder.link(self._jit, f"adjoint{next(_numbers)}")
        self._addresses = {name: int(self._resources[name]) for name in names}

    def __getitem__(self, name: str) -> int:
        """Address of a function."""
        return self._addresses[name]
