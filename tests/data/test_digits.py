import dataclasses

import numpy as np
import pytest

from adjoint.data import mnist
from adjoint.data.digits import MNIST
from adjoint.errors import DataError


def small_mnist(small, tmp_path):
    return dataclasses.replace(
        small.locations(tmp_path), title="MNIST", folder="mnist", package=None, system=None, urls=()
    )


def test_the_directory_of_its_own_name_comes_before_the_one_around_it(small, tmp_path):
    # Fashion-MNIST has files of the same names, which may lie in the directory itself.
    small.write(tmp_path / "mnist")
    (tmp_path / "train-images.gz").write_bytes(b"of another dataset")
    found = mnist(tmp_path / "cache", locations=small_mnist(small, tmp_path), environ={"ADJOINT_DATA": str(tmp_path)})
    assert small.matches(found)
    assert (found.name, found.classes) == ("MNIST", tuple("0123456789"))


def test_missing_files_without_a_package_or_a_server_are_refused_with_the_ways(small, tmp_path):
    locations = dataclasses.replace(small_mnist(small, tmp_path), urls=("http://127.0.0.1:9/",))
    with pytest.raises(DataError) as caught:
        mnist(tmp_path, locations=locations, environ={})
    message = caught.value.message
    assert message.startswith("MNIST is neither on this machine nor can it be fetched (http://127.0.0.1:9/")
    assert message.endswith(
        "): put train-images.gz, train-labels.gz, test-images.gz, test-labels.gz into "
        f"{tmp_path}, or into a directory mnist in one that ADJOINT_DATA names, or connect to the network so that they "
        "come from http://127.0.0.1:9/"
    )
    assert "; ;" not in message
    assert "; )" not in message


def test_the_files_have_the_names_and_sums_that_others_verify():
    # torchvision.datasets.MNIST.resources.
    assert {file.packed_name: file.md5 for file in MNIST.files} == {
        "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
        "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
    }
    assert all(len(bytes.fromhex(file.sha256)) == 32 for file in MNIST.files)


def test_labels_are_bytes(small, tmp_path):
    small.write(tmp_path, packed=False)
    assert mnist(tmp_path, locations=small_mnist(small, tmp_path), environ={}).test_labels.dtype == np.uint8
