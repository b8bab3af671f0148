"""A compiled function called on buffers by address, without looking at arrays: what runs recorded programs.

`Bound` serves callers that pass arrays and keeps some of them resident. Here the caller owns all buffers and knows
their types, so a call only stores addresses and runs.
"""

import ctypes
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from adjoint.errors import IndexRangeError
from adjoint.kernel.program import arena_size, check_symbol, entry_symbol
from adjoint.runtime.bound import Signature, aligned, allowed, first_outside
from adjoint.runtime.fastcall import FastCall
from adjoint.runtime.library import Library
from adjoint.runtime.process import Runtime
from adjoint.runtime.threads import check_threads
from adjoint.runtime.turn import Turn

__all__ = ["Invocation"]


class Invocation:
    """A compiled function whose arguments and results are given by address.

    Attributes
    ----------
    slots : memoryview of u64
        Where the addresses of arguments and results are stored, at the slots of the signature. Other threads must not
        store any until `call` has returned.
    call : builtin function
        Runs the function; takes no arguments, and returns nothing of interest.
    """

    def __init__(self, signature: Signature, runtime: Runtime, library: Library, threads: int) -> None:
        self._signature = signature
        self._runtime = runtime
        self._library = library
        self._threads = check_threads(threads) if signature.shared else 1
        working = arena_size(signature.arena, signature.scratch, self._threads)
        self._arena = aligned((max(working, 1),), np.dtype(np.uint8))
        own = sum(1 for result in signature.results if not result.donated)
        self._table = (ctypes.c_uint64 * (len(signature.arguments) + own + 1))()
        self.slots = memoryview(self._table).cast("B").cast("Q")
        self._zero = ctypes.c_float(0.0)
        self._function = library[entry_symbol(signature.name)]
        words = {
            2: ctypes.addressof(self._table),
            3: self._arena.ctypes.data,
            4: self._function,
            5: library[check_symbol(signature.name)] if signature.checks else 0,
            6: self._threads,
            8: runtime.pool.block,
            9: 1,  # the number 0, which nobody looks at, is made without a call
            10: ctypes.addressof(self._zero),
            16: signature.brief and self._threads == 1,
        }
        self._fast = FastCall(runtime.fastcall, (), words, Turn(), self._checked, lambda: None)
        self.call: Callable[[], Any] = self._fast.call

    def _checked(self) -> None:
        """The slow path: refuse integers out of range, or start the threads that are missing."""
        for check in self._signature.checks:
            argument = next(a for a in self._signature.arguments if a.slot == check.slot)
            count = int(np.prod(argument.shape, dtype=np.int64))
            memory = (ctypes.c_uint8 * (count * argument.dtype.itemsize)).from_address(self.slots[check.slot])
            array = np.ctypeslib.as_array(memory).view(argument.dtype).reshape(argument.shape)
            place = first_outside(check, array)
            if place is not None:
                self._refuse(argument.name, allowed(check), array[place], place)
        slots, arena = ctypes.addressof(self._table), self._arena.ctypes.data
        self._runtime.pool.run(self._function, slots, arena, self._threads)

    def _refuse(self, name: str, condition: str, given: object, place: tuple[int, ...]) -> NoReturn:
        where = f" at {place if len(place) > 1 else place[0]}" if place else ""
        raise IndexRangeError(f"{name} holds indices and must be {condition}, got {given}{where}; correct the data")
