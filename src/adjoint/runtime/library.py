"""Load object code into this process."""

import itertools

import llvmlite.binding as llvm

__all__ = ["Library"]

_numbers = itertools.count()


class Library:
    """Loaded object code, which stays loaded as long as this object exists.

    Parameters
    ----------
    objects : tuple of bytes
        Relocatable object files for this machine, to be linked together.
    names : tuple of str
        Names of the functions to look up.
    """

    def __init__(self, objects: tuple[bytes, ...], names: tuple[str, ...]) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        # JITLink allocates an object contiguously. In a process with gigabytes of arrays, the older linker may place
        # constants out of reach of the code, and then aborts the process.
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
