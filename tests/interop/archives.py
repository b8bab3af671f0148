"""Files of PyTorch's format made by hand, for what PyTorch itself never writes."""

import io
import pickle
import zipfile

import numpy as np

from adjoint.interop import read_torch

FLOATS = np.arange(6, dtype="<f4").tobytes()


def plain(value):
    """The opcodes of a plain object, as the standard library writes them."""
    return pickle.dumps(value, 2)[2:-1]


def name(full):
    """The opcodes of a name."""
    module, _, attribute = full.rpartition(".")
    return f"c{module}\n{attribute}\n".encode()


def call(full, *args):
    """The opcodes of a call with arguments that are opcodes."""
    return name(full) + b"(" + b"".join(args) + b"tR"


def storage(key="0", kind="FloatStorage", count=6):
    return b"(" + plain("storage") + name(f"torch.{kind}") + plain(key) + plain("cpu") + plain(count) + b"tQ"


def tensor(shape=(2, 3), strides=(3, 1), offset=0, where=None, metadata=b""):
    parts = [
        where or storage(),
        plain(offset),
        plain(shape),
        plain(strides),
        plain(False),
        name("collections.OrderedDict"),
    ]
    return call("torch._utils._rebuild_tensor_v2", *parts, b")R", metadata)


def archive(opcodes, entries=None, compression=zipfile.ZIP_STORED):
    """A file whose pickle has these opcodes, and whose other entries are given by name."""
    file = io.BytesIO()
    given = {"data.pkl": b"\x80\x02" + opcodes + b".", "data/0": FLOATS, "version": b"3\n"} | (entries or {})
    with zipfile.ZipFile(file, "w", compression) as opened:
        for entry, content in given.items():
            opened.writestr(f"archive/{entry}", content)
    return file.getvalue()


def read(opcodes, entries=None, **settings):
    return read_torch(io.BytesIO(archive(opcodes, entries)), **settings)
