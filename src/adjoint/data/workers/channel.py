"""Messages between a process and its worker: frames in a socket, with descriptors of files."""

import pickle
import socket
import struct
from collections import deque
from collections.abc import Iterator
from typing import Any

__all__ = ["Channel", "ChannelClosed"]

#: Each frame begins with its number of bytes.
_LENGTH = struct.Struct("<Q")

#: Bytes and descriptors that are received by one call.
_BYTES, _DESCRIPTORS = 1 << 16, 8


class ChannelClosed(Exception):  # noqa: N818
    """The other end is closed; not an `OSError`, which items may raise themselves."""


class Channel:
    """One end of a connection.

    Parameters
    ----------
    connection : socket.socket
        A stream; of the family AF_UNIX where descriptors are sent.

    Attributes
    ----------
    descriptors : deque of int
        What has been received, in the order in which it was sent.
    ended : bool
        Whether the other end is closed and everything before that has been received.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.descriptors: deque[int] = deque()
        self.ended = False
        self._received = bytearray()

    def send(self, message: Any, descriptor: int | None = None) -> None:
        """Send a message that can be pickled, and a descriptor with it; raises `ChannelClosed`."""
        text = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        frame = _LENGTH.pack(len(text)) + text
        try:
            if descriptor is not None:
                sent = socket.send_fds(self.connection, [frame], [descriptor])
                frame = frame[sent:]
            self.connection.sendall(frame)
        except ConnectionError:
            raise ChannelClosed from None

    def messages(self) -> Iterator[Any]:
        """The messages one after the other, until the other end is closed."""
        while not self.ended:
            yield from self.arrived()

    def arrived(self, wait: bool = True) -> list[Any]:
        """The messages that some more bytes complete, which may be none.

        Without `wait`, it raises `BlockingIOError` if there are no bytes.
        """
        flags = 0 if wait else getattr(socket, "MSG_DONTWAIT", 0)
        try:
            if hasattr(socket, "recv_fds"):
                read, descriptors, _, _ = socket.recv_fds(self.connection, _BYTES, _DESCRIPTORS, flags)
                self.descriptors.extend(descriptors)
            else:
                read = self.connection.recv(_BYTES)
        except ConnectionError:
            read = b""
        self.ended = not read
        self._received += read
        return list(self._complete())

    def _complete(self) -> Iterator[Any]:
        while len(self._received) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._received)[0]
            if len(self._received) < end:
                return
            message = pickle.loads(self._received[_LENGTH.size : end])
            del self._received[:end]
            yield message

    def close(self) -> None:
        """Close this end, which ends `messages` at the other one."""
        self.connection.close()
