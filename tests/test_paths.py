import errno
import os
import stat
from functools import partialmethod
from pathlib import Path

import pytest
from platformdirs.macos import MacOS
from platformdirs.unix import Unix
from platformdirs.windows import Windows

from adjoint.errors import CacheError, InvalidValueError
from adjoint.paths import (
    cache_dir,
    cache_limit,
    check_private,
    check_writable,
    private_bytes,
    replace_file,
    write_whole,
)

POSIX = pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")


def test_adjoint_cache_names_the_directory():
    assert cache_dir({"ADJOINT_CACHE": "/somewhere/else", "XDG_CACHE_HOME": "/x"}) == Path("/somewhere/else")


def test_a_tilde_in_adjoint_cache_is_the_home_directory():
    assert cache_dir({"ADJOINT_CACHE": "~/kept"}) == Path.home() / "kept"


@pytest.mark.parametrize(
    ("platform", "environ", "expected"),
    [
        (Unix, {"XDG_CACHE_HOME": "/x"}, Path("/x/adjoint")),
        (Unix, {}, Path.home() / ".cache" / "adjoint"),
        (MacOS, {}, Path.home() / "Library" / "Caches" / "adjoint"),
        (Windows, {}, Path("/CSIDL_LOCAL_APPDATA/adjoint")),
    ],
)
def test_each_platform_has_its_own_place(monkeypatch, platform, environ, expected):
    # Only Windows can be asked for its folders.
    monkeypatch.setattr("platformdirs.windows.get_win_folder", lambda name: f"/{name}")
    for name in ("ADJOINT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("adjoint.paths.PlatformDirs", platform)
    assert cache_dir() == expected


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


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        (None, 1 << 30),
        ("", 1 << 30),
        ("1000", 1000),
        ("500MB", 500_000_000),
        ("1.5 gb", 1_500_000_000),
        ("2GiB", 2 << 30),
        (" 64k ", 64_000),
    ],
)
def test_the_limit_is_in_bytes_or_in_larger_units(given, limit):
    assert cache_limit({} if given is None else {"ADJOINT_CACHE_LIMIT": given}) == limit


@pytest.mark.parametrize("given", ["0", "-5", "5 apples", "MB", "1e9", "0.2", "1,5GB"])
def test_other_limits_are_refused(given):
    with pytest.raises(InvalidValueError, match=f"a size like 500MB, got '{given}'; correct or unset it"):
        cache_limit({"ADJOINT_CACHE_LIMIT": given})


@POSIX
@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022])
def test_directories_and_files_that_are_made_are_the_users_alone(tmp_path, umask):
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "a" / "b" / "file", b"x")
        check_writable(tmp_path / "c" / "d")
    finally:
        os.umask(before)
    for made in ("a", "a/b", "c", "c/d"):
        assert stat.S_IMODE((tmp_path / made).stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "a/b/file").stat().st_mode) == 0o600
    check_private(tmp_path / "a" / "b")
    assert private_bytes(tmp_path / "a/b/file") == b"x"


@POSIX
@pytest.mark.parametrize("mode", [0o777, 0o775, 0o707, 0o1777])
def test_what_others_may_write_to_is_refused(tmp_path, mode):
    place = tmp_path / "compiled"
    place.mkdir()
    place.chmod(mode)
    fix = f"{place} has mode {mode:04o}; chmod go-w it, or set ADJOINT_CACHE to another directory"
    with pytest.raises(CacheError, match=f"^compiled code is read only from what nobody else may write to, and {fix}"):
        check_private(place)
    file = tmp_path / "file"
    file.write_bytes(b"")
    file.chmod(mode)
    with pytest.raises(CacheError, match=f"{file} has mode {mode:04o}; chmod go-w it"):
        private_bytes(file)


@POSIX
def test_what_belongs_to_another_user_is_refused_and_to_root_is_not(tmp_path, monkeypatch):
    status = list(tmp_path.stat())
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for owner in (0, 1000, 1001):
        status[stat.ST_UID] = owner
        monkeypatch.setattr(Path, "stat", partialmethod(lambda _, made: made, os.stat_result(status)))
        if owner != 1001:
            check_private(tmp_path)
    message = (
        "only from what belongs to user 1000 or root, and .* belongs to user 1001; set ADJOINT_CACHE to a directory"
    )
    with pytest.raises(CacheError, match=message):
        check_private(tmp_path)


@POSIX
def test_a_directory_around_it_is_open_to_everyone_only_where_it_is_sticky(tmp_path):
    around = tmp_path / "around"
    (around / "cache").mkdir(parents=True, mode=0o700)
    around.chmod(0o1777)
    check_private(around / "cache")
    check_private(around / "not" / "there")
    around.chmod(0o777)
    for inside in ("cache", "not/there"):
        with pytest.raises(
            CacheError, match=f"{around} around the cache {around / inside} has mode 0777; chmod o-w it"
        ):
            check_private(around / inside)


@POSIX
def test_the_cache_directory_around_is_as_private(tmp_path, monkeypatch):
    """In a directory of its group, others could put a directory of theirs in place of `compiled`."""
    (tmp_path / "compiled").mkdir(mode=0o700)
    tmp_path.chmod(0o770)
    check_private(tmp_path / "compiled")
    monkeypatch.setenv("ADJOINT_CACHE", str(tmp_path))
    with pytest.raises(CacheError, match=f"{tmp_path} has mode 0770"):
        check_private(tmp_path / "compiled")


def test_elsewhere_than_on_posix_nothing_is_looked_at(tmp_path, monkeypatch):
    tmp_path.chmod(0o777)
    monkeypatch.setattr("adjoint.paths.os.name", "nt")
    check_private(tmp_path)


@pytest.fixture(params=["unnamed", "unsupported", "named"])
def temporary(request, monkeypatch):
    """The kinds of temporary file that a system may have."""
    if request.param == "named":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    if request.param == "unsupported":
        opened = os.open

        def refuse(path, flags, *rest):
            if flags & getattr(os, "O_TMPFILE", 0) == getattr(os, "O_TMPFILE", -1):
                raise OSError(errno.EOPNOTSUPP, "not on this filesystem")
            return opened(path, flags, *rest)

        monkeypatch.setattr(os, "open", refuse)


@pytest.mark.usefixtures("temporary")
def test_a_file_is_replaced_as_a_whole_and_flushed_with_its_directory(tmp_path, monkeypatch):
    path, flushed = tmp_path / "file", []
    monkeypatch.setattr(os, "fsync", lambda file: flushed.append(stat.S_ISDIR(os.fstat(file).st_mode)))
    replace_file(path, b"one")
    assert flushed == [False, True] if os.name == "posix" else [False]
    old = path.open("rb")
    replace_file(path, b"another")
    assert (path.read_bytes(), old.read()) == (b"another", b"one")
    old.close()
    assert list(tmp_path.iterdir()) == [path]


@POSIX
@pytest.mark.usefixtures("temporary")
def test_a_replaced_file_keeps_its_mode_and_a_symbolic_link_its_target(tmp_path):
    (tmp_path / "data").mkdir()
    path, link = tmp_path / "data" / "file", tmp_path / "link"
    link.symlink_to(path)
    mask = os.umask(0o027)
    try:
        replace_file(link, b"one")
    finally:
        os.umask(mask)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o604)
    replace_file(link, b"another")
    assert path.read_bytes() == b"another"
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


@pytest.mark.usefixtures("temporary")
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, error):
    path = tmp_path / "file"
    replace_file(path, b"one")

    def fail(_):
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(error):
        replace_file(path, b"another")
    assert path.read_bytes() == b"one"
    assert list(tmp_path.iterdir()) == [path]
