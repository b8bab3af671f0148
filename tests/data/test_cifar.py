import gzip
import hashlib
import io
import tarfile

import numpy as np
import pytest

from adjoint.data import cifar10
from adjoint.data.cifar import CifarLocations
from adjoint.data.files import Archive
from adjoint.data.image_sets import npz_bytes
from adjoint.errors import DataError
from tests.data.conftest import idx

NAMES = [f"data_batch_{number}.bin" for number in range(1, 6)] + ["test_batch.bin"]
RANDOM = np.random.default_rng(0).bytes(6146)  # cannot be compressed


@pytest.fixture(scope="module")
def files():
    """Two images in each file; each byte of an image is the sum of its file, color, row and column."""
    found = {}
    for number, name in enumerate(NAMES):
        content = b""
        for label in (number, 9 - number):
            pixels = [(number + 80 * c + 2 * y + x) % 256 for c in range(3) for y in range(32) for x in range(32)]
            content += bytes([label, *pixels])
        found[name] = content
    return found


def tar_of(files, folder="cifar-10-batches-bin"):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(f"{folder}/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def locations(packed, urls=(), counts=(10, 2)):
    return CifarLocations(Archive("cifar-10-binary.tar.gz", hashlib.sha256(packed).hexdigest()), urls, counts)


def check(found):
    assert (found.name, found.image_shape) == ("CIFAR-10", (32, 32, 3))
    assert found.classes[:3] == ("airplane", "automobile", "bird")
    assert found.train_labels.tolist() == [0, 9, 1, 8, 2, 7, 3, 6, 4, 5]
    assert found.test_labels.tolist() == [5, 4]
    image, (row, column, color) = found.train_images[6], (20, 3, 2)
    assert image[row, column, color] == (3 + 80 * color + 2 * row + column) % 256
    assert found.test_images[1, 31, 30, 1] == 5 + 80 + 62 + 30


def put(folder, kind, files):
    folder.mkdir(parents=True)
    if kind == "archive":
        (folder / "cifar-10-binary.tar.gz").write_bytes(tar_of(files))
        return
    unpacked = folder / "cifar-10-batches-bin"
    unpacked.mkdir()
    for name, content in files.items():
        (unpacked / name).write_bytes(content)
    if kind == "directory":
        return
    found = cifar10(folder, locations=locations(b""), environ={})
    for path in unpacked.iterdir():
        path.unlink()
    unpacked.rmdir()
    if kind == "npz":
        (folder / "cifar-10.npz").write_bytes(npz_bytes(found))
        return
    for stem, array in (
        ("train-images-idx4-ubyte", found.train_images), ("train-labels-idx1-ubyte", found.train_labels),
        ("t10k-images-idx4-ubyte", found.test_images), ("t10k-labels-idx1-ubyte", found.test_labels),
    ):  # fmt: skip
        (folder / f"{stem}.gz").write_bytes(gzip.compress(idx(array), 1))


@pytest.mark.parametrize("kind", ["archive", "directory", "npz", "idx"])
def test_what_is_on_this_machine_is_used(files, tmp_path, kind):
    put(tmp_path / "data" / "cifar-10", kind, files)
    known = locations(tar_of(files) if kind == "archive" else b"")
    if kind == "archive":  # the time is in the file
        packed = (tmp_path / "data" / "cifar-10" / "cifar-10-binary.tar.gz").read_bytes()
        known = locations(packed)
    environ = {"ADJOINT_DATA": str(tmp_path / "data")}
    check(cifar10(tmp_path / "cache", locations=known, environ=environ))
    assert not (tmp_path / "cache").exists()
    if kind != "idx":  # those of another dataset have the same names
        environ = {"ADJOINT_DATA": str(tmp_path / "data" / "cifar-10")}
        check(cifar10(tmp_path / "cache", locations=known, environ=environ))


def test_the_archive_is_downloaded_once_and_kept_as_an_npz_file(files, server, tmp_path):
    packed = tar_of(files)
    server.answers["/cifar-10-binary.tar.gz"] = packed
    known, told = locations(packed, (server.url,)), []
    for _ in range(2):
        check(cifar10(tmp_path, lambda *now: told.append(now), locations=known, environ={}))
    assert server.asked == ["/cifar-10-binary.tar.gz"]
    assert told[-1] == ("cifar-10-binary.tar.gz", len(packed), len(packed))
    path = tmp_path / "cifar-10.npz"
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1  # one bit of an image, which only the checksum in the file tells
    path.write_bytes(content)
    check(cifar10(tmp_path, lambda *now: told.append(now), locations=known, environ={}))
    assert len(server.asked) == 2


def test_a_server_that_sends_something_else_is_refused_with_the_ways(server, tmp_path):
    server.answers["/cifar-10-binary.tar.gz"] = b"an error page"
    with pytest.raises(DataError) as caught:
        cifar10(tmp_path, lambda *_: None, locations=locations(b"", (server.url,)), environ={})
    got = hashlib.sha256(b"an error page").hexdigest()[:12]
    assert caught.value.message == (
        f"CIFAR-10 is neither on this machine nor can it be fetched ({server.url}cifar-10-binary.tar.gz must have "
        f"sha256 e3b0c44298fc..., got {got}... in 13 bytes; remove it and fetch it again): put cifar-10-binary.tar.gz, "
        f"its directory cifar-10-batches-bin or cifar-10.npz into {tmp_path}, or into a directory cifar-10 in one that "
        f"ADJOINT_DATA names, or connect to the network so that it comes from {server.url}"
    )
    assert list(tmp_path.iterdir()) == []


def refusal(folder, known):
    with pytest.raises(DataError) as caught:
        cifar10(folder / "cache", locations=known, environ={"ADJOINT_DATA": str(folder)})
    return caught.value.message.replace(str(folder), "DATA")


def test_malformed_files_are_refused(files, tmp_path):
    put(tmp_path / "cifar-10", "directory", files)
    folder = tmp_path / "cifar-10" / "cifar-10-batches-bin"
    where = "DATA/cifar-10/cifar-10-batches-bin"
    assert refusal(tmp_path, locations(b"", counts=(50_000, 10_000))) == (
        f"CIFAR-10 is 50000 training and 10000 test images [32, 32, 3], {where} has 10 and 2 of [32, 32, 3]; remove it "
        "and fetch it again"
    )
    (folder / "data_batch_2.bin").write_bytes(files["data_batch_2.bin"][:-1])
    assert refusal(tmp_path, locations(b"")) == (
        f"a file of CIFAR-10 has 3073 bytes an image, {where}/data_batch_2.bin has 6145 bytes; fetch it again"
    )
    (folder / "data_batch_2.bin").write_bytes(b"\x0a" + files["data_batch_2.bin"][1:])
    assert refusal(tmp_path, locations(b"")) == (
        f"labels of CIFAR-10 are below 10, {where}/data_batch_2.bin has 10; fetch it again"
    )
    (folder / "data_batch_2.bin").unlink()
    assert refusal(tmp_path, locations(b"")) == f"there is no file {where}/data_batch_2.bin; check the path"


@pytest.mark.parametrize(
    ("packed", "reason"),
    [
        (b"no archive", "DATA/cifar-10-binary.tar.gz is truncated or no archive (not a gzip file); remove it"),
        (tar_of({"a": b"b"}), "the archive DATA/cifar-10-binary.tar.gz must hold the file "
         "cifar-10-batches-bin/data_batch_1.bin, it does not; remove it"),
        (tar_of({NAMES[0]: RANDOM})[:4000], "DATA/cifar-10-binary.tar.gz is truncated or no archive ("),
    ],
)  # fmt: skip
def test_a_malformed_archive_is_refused(tmp_path, packed, reason):
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(packed)
    assert refusal(tmp_path, locations(packed)).startswith(reason)


def test_the_official_archive_is_the_one_that_its_page_describes():
    # tensorflow_datasets 4.9, url_checksums of cifar10.
    known = CifarLocations()
    assert known.archive.sha256 == "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
    assert known.urls == ("https://www.cs.toronto.edu/~kriz/",)
    assert known.counts == (50_000, 10_000)
    assert np.prod((32, 32, 3)) + 1 == 3073
