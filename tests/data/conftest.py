"""A small dataset in the shape of Fashion-MNIST, and a web server on loopback that holds it."""

import gzip
import hashlib
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from adjoint.data.files import DataFile
from adjoint.data.retrieval import Locations


def idx(array):
    header = bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    return header + array.tobytes()


@dataclass
class SmallData:
    """Four idx files with random content: their arrays, their packed bytes, and `Locations` that know them."""

    arrays: dict
    packed: dict
    files: tuple

    def locations(self, tmp_path, **changes):
        defaults = {
            "title": "Fashion-MNIST",
            "folder": "fashion-mnist",
            "package": "dataset-fashion-mnist",
            "system": tmp_path / "no-system",
            "apt_get": str(tmp_path / "no-apt-get"),
        }
        return Locations(files=self.files, **{**defaults, **changes})

    def write(self, directory, names=None, packed=True):
        directory.mkdir(parents=True, exist_ok=True)
        for file in self.files:
            if names is None or file.name in names:
                if packed:
                    (directory / file.packed_name).write_bytes(self.packed[file.name])
                else:
                    (directory / file.name).write_bytes(idx(self.arrays[file.name]))

    def matches(self, found):
        got = (found.train_images, found.train_labels, found.test_images, found.test_labels)
        return all(np.array_equal(a, self.arrays[f.name]) for a, f in zip(got, self.files, strict=True))


@pytest.fixture
def small():
    rng = np.random.default_rng(7)
    arrays = {
        "train-images": rng.integers(0, 256, (30, 4, 4), dtype=np.uint8),
        "train-labels": rng.integers(0, 10, 30, dtype=np.uint8),
        "test-images": rng.integers(0, 256, (10, 4, 4), dtype=np.uint8),
        "test-labels": rng.integers(0, 10, 10, dtype=np.uint8),
    }
    packed = {name: gzip.compress(idx(array)) for name, array in arrays.items()}
    files = tuple(
        DataFile(name, hashlib.sha256(idx(array)).hexdigest(), hashlib.md5(packed[name]).hexdigest())
        for name, array in arrays.items()
    )
    return SmallData(arrays, packed, files)


@dataclass
class Server:
    """What a loopback server answers by path, and which paths it was asked for."""

    answers: dict = field(default_factory=dict)
    asked: list = field(default_factory=list)
    cut: int = 0  # bytes at the end of a file that are promised but not sent
    silent: bool = False  # about the length of files
    url: str = ""


@pytest.fixture
def server():
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            state.asked.append(self.path)
            body = state.answers.get(self.path)
            if body is None:
                self.send_error(404)
                return
            self.send_response(200)
            if not state.silent:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) - state.cut])

        def log_message(self, *_args):
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{listener.server_port}/"
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield state
    listener.shutdown()
    thread.join()
    listener.server_close()
