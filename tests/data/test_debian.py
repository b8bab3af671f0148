"""The ways through apt-get, with a program in its place that builds the package when asked to download it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from adjoint.data import fashion_mnist
from adjoint.data.debian import files_of_package
from adjoint.errors import DataError

pytestmark = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")


@pytest.fixture
def package(tmp_path):
    """A built package that holds usr/share/things/file."""
    root = tmp_path / "root"
    (root / "usr/share/things").mkdir(parents=True)
    (root / "usr/share/things/file").write_bytes(b"content")
    return build(root, tmp_path)


def build(root, folder):
    (root / "DEBIAN").mkdir()
    (root / "DEBIAN/control").write_text(
        "Package: things\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@localhost>\nDescription: things\n"
    )
    subprocess.run(["dpkg-deb", "--build", root, folder / "things_1_all.deb"], check=True, capture_output=True)
    return folder / "things_1_all.deb"


def program(tmp_path, body):
    path = tmp_path / "apt-get"
    path.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n{body}\n')
    path.chmod(0o755)
    return str(path)


def calls(tmp_path):
    return (tmp_path / "calls").read_text().splitlines()


def test_a_file_is_read_out_of_the_package(tmp_path, package):
    apt_get = program(tmp_path, f"cp {package} .")
    assert files_of_package("things", ["usr/share/things/file"], apt_get) == {"usr/share/things/file": b"content"}
    assert calls(tmp_path) == ["download things"]


def test_without_a_package_list_apt_gets_a_private_one(tmp_path, package):
    apt_get = program(
        tmp_path,
        f"""case "$*" in
        *Dir::State=*update) touch listed-privately; mkdir -p state; exit 0;;
        *Dir::State=*download*) [ -e listed-privately ] && cp {package} . ;;
        *) echo "E: Unable to locate package things" >&2; exit 100;;
        esac""",
    )
    assert files_of_package("things", ["usr/share/things/file"], apt_get)["usr/share/things/file"] == b"content"
    first, second, third = calls(tmp_path)
    assert first == "download things"
    assert second.endswith("update")
    assert third.endswith("download things")
    for option in ("Dir::State=", "Dir::State::status=", "Dir::Cache="):
        assert option in second
        assert option in third


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("echo 'W: hm' >&2; echo 'E: No network' >&2; exit 100", r"update failed \(E: No network\)"),
        ("exit 0", "ended well but left no package"),
    ],
)
def test_what_apt_complains_of_is_told(tmp_path, body, message):
    with pytest.raises(DataError, match=message):
        files_of_package("things", ["file"], program(tmp_path, body))


def test_a_package_without_the_file_is_refused(tmp_path, package):
    with pytest.raises(DataError, match=r"things must hold usr/share/other, things_1_all\.deb does not"):
        files_of_package("things", ["usr/share/other"], program(tmp_path, f"cp {package} ."))


def test_a_program_that_hangs_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr("adjoint.data.debian._FETCH_SECONDS", 0.2)
    monkeypatch.setattr("adjoint.data.debian._UPDATE_SECONDS", 0.2)
    with pytest.raises(DataError, match="did not end within 0 s"):
        files_of_package("things", ["file"], program(tmp_path, "exec sleep 30"))


def test_a_machine_without_apt_is_told(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(DataError, match="apt-get is not on this machine"):
        files_of_package("things", ["file"])


def test_the_dataset_comes_out_of_the_package_into_the_cache(small, tmp_path):
    root = tmp_path / "root"
    small.write(root / "usr/share/datasets/small")
    apt_get = program(tmp_path, f"cp {build(root, tmp_path)} .")
    locations = small.locations(tmp_path, package="things", apt_get=apt_get, system=Path("/usr/share/datasets/small"))
    told = []
    found = fashion_mnist(tmp_path / "cache", lambda *now: told.append(now), locations=locations, environ={})
    assert small.matches(found)
    assert [name for name, done, total in told if done == total] == [file.packed_name for file in small.files]
    assert sorted(os.listdir(tmp_path / "cache")) == sorted(file.packed_name for file in small.files)
