import errno
from pathlib import Path

import pytest

from adjoint.errors import CacheError
from adjoint.paths import cache_dir, check_writable, write_whole


def test_adjoint_cache_names_the_directory():
    assert cache_dir({"ADJOINT_CACHE": "/somewhere/else", "XDG_CACHE_HOME": "/x"}) == Path("/somewhere/else")


def test_a_tilde_in_adjoint_cache_is_the_home_directory():
    assert cache_dir({"ADJOINT_CACHE": "~/kept"}) == Path.home() / "kept"


@pytest.mark.parametrize(
    ("platform", "environ", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/x"}, Path("/x/adjoint")),
        ("linux", {}, Path.home() / ".cache" / "adjoint"),
        ("darwin", {}, Path.home() / "Library" / "Caches" / "adjoint"),
        ("win32", {"LOCALAPPDATA": "/local"}, Path("/local/adjoint")),
    ],
)
def test_each_platform_has_its_own_place(monkeypatch, platform, environ, expected):
    monkeypatch.setattr("sys.platform", platform)
    assert cache_dir(environ) == expected


def test_write_whole_makes_directories_and_leaves_only_the_file(tmp_path):
    path = tmp_path / "a" / "b" / "file"
    write_whole(path, b"one")
    write_whole(path, b"two")
    assert path.read_bytes() == b"two"
    assert [p.name for p in path.parent.iterdir()] == ["file"]


def test_a_full_disk_is_told_and_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_whole(path, b"old")

    def half_written(self, content):
        with open(self, "wb") as file:
            file.write(content[: len(content) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", half_written)
    with pytest.raises(CacheError, match=r"no room for 3 MB in the cache directory .*; free some, or set"):
        write_whole(path, bytes(3 << 20))
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_read_only_directory_is_refused_with_the_fix(tmp_path, monkeypatch):
    def refuse(*_args, **_kwargs):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(CacheError, match=r"cannot be written \(Read-only file system\); set ADJOINT_CACHE"):
        check_writable(tmp_path)


@pytest.mark.parametrize("use", [check_writable, lambda d: write_whole(d / "file", b"x")])
def test_a_file_where_the_directory_should_be_is_refused(tmp_path, use):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(CacheError, match=r"cannot be written \((File exists|Not a directory)\)"):
        use(tmp_path / "file")
