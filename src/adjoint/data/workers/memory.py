"""Memory that two processes share, without a name that could be left behind.

A segment is a file without a directory entry: ``memfd_create`` where the system has it, else a temporary file that is
removed before it is used. Its descriptor is sent through a socket. The system frees a segment when no process has it
open or mapped any more, however the processes ended.
"""

import mmap
import os
import socket
import sys
import tempfile

import numpy as np

__all__ = ["ALIGNMENT", "AVAILABLE", "anonymous_file", "attach", "make_segment", "rounded"]

#: Whether descriptors can be sent to another process.
AVAILABLE = hasattr(socket, "send_fds")

#: Arrays in a segment begin at multiples of a cache line, as other memory of tensors.
ALIGNMENT = 64


def anonymous_file() -> int:
    """The descriptor of a new file that has no name."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("adjoint-worker", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile(buffering=0) as file:
        return os.dup(file.fileno())


def make_segment(size: int) -> tuple[int, np.ndarray]:
    """The descriptor of a new segment, and its bytes, uint8 [size]."""
    descriptor = anonymous_file()
    try:
        os.ftruncate(descriptor, size)
        return descriptor, attach(descriptor, size)
    except BaseException:
        os.close(descriptor)
        raise


def attach(descriptor: int, size: int) -> np.ndarray:
    """The bytes of a segment, uint8 [size]; they stay mapped until no array refers to them."""
    if sys.version_info >= (3, 13):
        return np.frombuffer(mmap.mmap(descriptor, size, trackfd=False), np.uint8)
    return np.frombuffer(mmap.mmap(descriptor, size), np.uint8)


def rounded(size: int) -> int:
    """The size of a segment for `size` bytes: an eighth of a power of two, so that it fits batches of similar size."""
    unit = max(mmap.PAGESIZE, 1 << max(size.bit_length() - 4, 0))
    return -(-size // unit) * unit
