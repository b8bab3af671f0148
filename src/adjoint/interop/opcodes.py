"""Pickles as data: an interpreter of the opcodes that PyTorch's files contain, which imports and executes nothing.

`pickle.Unpickler` imports what a pickle names, and can be asked by one to call any function. Here a name is looked up
in a table that the caller gives, and only what the table has can be called. The opcodes are documented in the standard
library's `pickletools`; those of protocol 2 are the ones that PyTorch writes, and those of later protocols are few.
"""

import struct
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from pickle import decode_long
from typing import Any

from adjoint.errors import AdjointError, CheckpointError
from adjoint.lazy_dataclass import dataclass

__all__ = ["KEYS", "Global", "Internal", "Pickle", "Unpickled", "checked_keys"]

#: What a damaged or hostile pickle raises in the interpreter or in a function of the table.
_DAMAGE = (
    ArithmeticError,
    AttributeError,
    IndexError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    UnicodeError,
    ValueError,
    struct.error,
)

#: Maximum number of characters of a name in a message.
_SHOWN = 80

#: Dictionaries that a pickle may fill.
_DICTS = (dict, OrderedDict, Counter)

#: Keys of dictionaries and elements of sets. Not tuples, whose hash takes time exponential in the depth of their nest.
KEYS = (str, int, float, complex, bool, bytes, type(None))


class Internal:
    """An object that has a meaning inside a pickle only, and may not be part of the result."""


@dataclass(frozen=True, eq=False)
class Global(Internal):
    """A name that a pickle may use.

    Attributes
    ----------
    name : str
        Its module and name, for messages.
    call : callable
        What makes an object from the arguments that the pickle gives.
    """

    name: str
    call: Callable[..., object]


@dataclass(frozen=True)
class Unpickled:
    """What a pickle contains, and where in its bytes it ends."""

    value: object
    end: int


class Pickle:
    """The interpreter of one pickle.

    Parameters
    ----------
    what : str
        The name of the caller and the file, for messages: ``read_torch: weights.pt``.
    content : bytes
        Bytes that contain the pickle.
    names : mapping of str to object
        What a pickle may name, by module and name: a `Global`, or an object without a call, such as a dtype.
    persistent : callable
        What makes an object from a persistent id: in PyTorch's files, a storage.
    build : callable
        Sets the state of an object that a call has made; raises if the object has none.
    """

    def __init__(
        self,
        what: str,
        content: bytes,
        names: Mapping[str, object],
        persistent: Callable[[object], object],
        build: Callable[[object, object], None],
    ) -> None:
        self._what, self._content, self._names = what, content, names
        self._persistent, self._build = persistent, build
        self._at = 0
        self._stack: list[Any] = []
        self._marks: list[list[Any]] = []
        self._memo: dict[int, object] = {}

    def load(self, start: int = 0) -> Unpickled:
        """Interpret the pickle that starts at a byte.

        Raises
        ------
        CheckpointError
            If it names what the table does not have, or is damaged.
        """
        self._at = start
        try:
            while (opcode := self._content[self._at]) != _STOP:
                self._at += 1
                step = _STEPS.get(opcode)
                if step is None:
                    raise CheckpointError(
                        f"{self._what} has the opcode {opcode:#04x} at byte {self._at - 1} of its pickle, which "
                        "files of PyTorch do not have; save it again with torch.save"
                    )
                step(self)
            return Unpickled(self._stack.pop(), self._at + 1)
        except AdjointError:
            raise
        except _DAMAGE as error:
            raise CheckpointError(f"{self._what} has a damaged pickle, at byte {self._at}; save it again") from error

    def _read(self, count: int) -> bytes:
        """The next bytes."""
        found = self._content[self._at : self._at + count]
        if len(found) != count:
            raise ValueError
        self._at += count
        return found

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._read(struct.calcsize(form)))[0]

    def _line(self) -> str:
        end = self._content.index(b"\n", self._at)
        line = self._content[self._at : end].decode()
        self._at = end + 1
        return line

    def _since_mark(self) -> list[Any]:
        items, self._stack = self._stack, self._marks.pop()
        return items

    def _mark(self) -> None:
        self._marks.append(self._stack)
        self._stack = []

    def _find(self, module: str, name: str) -> None:
        # Protocol 2 has the names that modules had in Python 2.
        full = f"{'builtins' if module == '__builtin__' else module}.{name}"
        if full not in self._names:
            raise CheckpointError(
                f"{self._what} needs {full[:_SHOWN]}, which is none of the dense tensors, numbers and containers that "
                "are read without executing code, as weights_only=False would; save a state_dict instead"
            )
        self._stack.append(self._names[full])

    def _stack_global(self) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        if type(name) is not str or type(module) is not str:
            raise TypeError
        self._find(module, name)

    def _call(self) -> None:
        args, function = self._stack.pop(), self._stack.pop()
        if type(function) is not Global or type(args) is not tuple:
            raise TypeError
        self._stack.append(function.call(*args))

    def _set_state(self) -> None:
        state = self._stack.pop()
        self._build(self._stack[-1], state)

    def _append(self, items: list[Any]) -> None:
        if type(self._stack[-1]) is not list:
            raise TypeError
        self._stack[-1].extend(items)

    def _set_items(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) not in _DICTS or len(items) % 2:
            raise TypeError
        for key, value in zip(checked_keys(items[::2]), items[1::2], strict=True):
            target[key] = value  # `update` of a Counter adds

    def _add_items(self) -> None:
        items = self._since_mark()
        if type(self._stack[-1]) is not set:
            raise TypeError
        self._stack[-1].update(checked_keys(items))

    def _tuple(self, count: int) -> None:
        if len(self._stack) < count:
            raise IndexError
        self._stack[-count:] = [tuple(self._stack[-count:])]

    def _put(self, index: int) -> None:
        self._memo[index] = self._stack[-1]

    def _text(self, form: str) -> None:
        self._stack.append(self._read(self._number(form)).decode("utf-8", "surrogatepass"))

    def _long(self, form: str) -> None:
        self._stack.append(decode_long(self._read(self._number(form))))


def checked_keys(keys: list[Any]) -> list[Any]:
    """Keys of a dictionary or elements of a set, all of them plain."""
    if not all(type(key) in KEYS for key in keys):
        raise TypeError
    return keys


def _pushes(make: Callable[[Pickle], object]) -> Callable[[Pickle], None]:
    """An opcode that puts an object on the stack."""

    def step(p: Pickle) -> None:
        made = make(p)  # which may replace the stack by the one below the mark
        p._stack.append(made)

    return step


def _takes(take: Callable[[Pickle, list[Any]], None], count: int) -> Callable[[Pickle], None]:
    """An opcode that takes the last objects of the stack, as those of a mark."""

    def step(p: Pickle) -> None:
        if len(p._stack) <= count:
            raise IndexError
        items = p._stack[-count:]
        del p._stack[-count:]
        take(p, items)

    return step


_STOP = ord(".")

#: What each opcode does, in the order of `pickletools`: numbers, texts, containers, the memo, names and calls.
_STEPS: dict[int, Callable[[Pickle], object]] = {
    ord("J"): _pushes(lambda p: p._number("<i")),
    ord("K"): _pushes(lambda p: p._number("<B")),
    ord("M"): _pushes(lambda p: p._number("<H")),
    ord("G"): _pushes(lambda p: p._number(">d")),
    0x8A: lambda p: p._long("<B"),
    0x8B: lambda p: p._long("<I"),
    ord("N"): _pushes(lambda _: None),
    0x88: _pushes(lambda _: True),
    0x89: _pushes(lambda _: False),
    ord("X"): lambda p: p._text("<I"),
    0x8C: lambda p: p._text("<B"),
    0x8D: lambda p: p._text("<Q"),
    # The strings of Python 2, which wrote the names of tensors as such.
    ord("U"): lambda p: p._text("<B"),
    ord("T"): lambda p: p._text("<I"),
    ord("B"): _pushes(lambda p: p._read(p._number("<I"))),
    ord("C"): _pushes(lambda p: p._read(p._number("<B"))),
    0x8E: _pushes(lambda p: p._read(p._number("<Q"))),
    ord("]"): _pushes(lambda _: []),
    ord("}"): _pushes(lambda _: {}),
    ord(")"): _pushes(lambda _: ()),
    0x8F: _pushes(lambda _: set()),
    ord("a"): _takes(Pickle._append, 1),
    ord("e"): lambda p: p._append(p._since_mark()),
    ord("s"): _takes(Pickle._set_items, 2),
    ord("u"): lambda p: p._set_items(p._since_mark()),
    0x90: Pickle._add_items,
    ord("t"): _pushes(lambda p: tuple(p._since_mark())),
    0x85: lambda p: p._tuple(1),
    0x86: lambda p: p._tuple(2),
    0x87: lambda p: p._tuple(3),
    ord("("): Pickle._mark,
    ord("0"): lambda p: p._stack.pop(),
    ord("1"): Pickle._since_mark,
    ord("q"): lambda p: p._put(p._number("<B")),
    ord("r"): lambda p: p._put(p._number("<I")),
    0x94: lambda p: p._put(len(p._memo)),
    ord("h"): _pushes(lambda p: p._memo[p._number("<B")]),
    ord("j"): _pushes(lambda p: p._memo[p._number("<I")]),
    ord("c"): lambda p: p._find(p._line(), p._line()),
    0x93: Pickle._stack_global,
    ord("R"): Pickle._call,
    0x81: Pickle._call,
    ord("b"): Pickle._set_state,
    ord("Q"): lambda p: p._stack.append(p._persistent(p._stack.pop())),
    0x80: lambda p: p._read(1),
    0x95: lambda p: p._read(8),
}
