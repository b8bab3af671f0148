"""The compile cache: whole entries or none, keyed by all that matters, never in the way."""

import errno
import os
import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import CompileOptions, compile
from adjoint.errors import CacheError, InvalidValueError
from adjoint.ir import Function, param
from adjoint.runtime.cache import CacheWarning, CompileCache


def function(scale=2.0, name="f"):
    x = param("x", (3,))
    return Function(name, (x,), (ops.multiply(x, scale),))


def options(directory):
    return CompileOptions(cache_directory=directory, threads=1)


def test_the_second_compilation_comes_from_the_cache(tmp_path):
    first = compile(function(), options=options(tmp_path))
    second = compile(function(), options=options(tmp_path))
    assert not first.cached
    assert second.cached
    np.testing.assert_array_equal(second([1, 2, 3]), [2, 4, 6])
    assert second.kernels == first.kernels
    assert second.memory == first.memory


@pytest.mark.parametrize(
    "other", [lambda: (function(3.0), "host"), lambda: (function(name="g"), "host"), lambda: (function(), "sse2")]
)
def test_other_content_or_cpu_is_another_entry(tmp_path, other):
    compile(function(), options=options(tmp_path))
    made, target = other()
    assert not compile(made, target, options(tmp_path)).cached


def test_without_the_cache_nothing_is_written(tmp_path):
    compile(function(), options=CompileOptions(cache=False, cache_directory=tmp_path))
    assert not list(tmp_path.iterdir())


def test_the_directory_may_be_a_string(tmp_path):
    made = options(str(tmp_path / "code"))
    assert made == options(tmp_path / "code")
    compile(function(), options=made)
    assert compile(function(), options=options(tmp_path / "code")).cached


@pytest.mark.parametrize("directory", [3, b"code", True, ""])
def test_a_directory_of_another_kind_is_refused(directory):
    sentence = f"cache_directory must be the path of a directory, a str or Path, got {directory!r}"
    with pytest.raises(InvalidValueError, match=f"^{re.escape(sentence)}( \\[at .*\\])?$"):
        options(directory)


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:60] + b"\0" + b[61:], lambda _: b"", lambda _: b"x"])
def test_a_damaged_entry_is_made_again(tmp_path, damage):
    compile(function(), options=options(tmp_path))
    for path in tmp_path.iterdir():
        path.write_bytes(damage(path.read_bytes()))
    again = compile(function(), options=options(tmp_path))
    assert not again.cached
    np.testing.assert_array_equal(again([1, 2, 3]), [2, 4, 6])
    assert compile(function(), options=options(tmp_path)).cached


def test_a_cache_that_cannot_be_written_is_said_and_compiling_goes_on(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    with pytest.warns(CacheWarning, match="compiled code is not kept: "):
        made = compile(function(), options=options(blocked))
    np.testing.assert_array_equal(made([1, 2, 3]), [2, 4, 6])


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    from_pathlib = type(tmp_path).write_bytes

    def full(path, content):
        from_pathlib(path, content[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(type(tmp_path), "write_bytes", full)
    with pytest.warns(CacheWarning, match="compiled code is not kept: "):
        CompileCache(tmp_path).write("key", {"a": 1}, (b"code",))
    assert not list(tmp_path.iterdir())


def test_entries_are_read_back_as_written(tmp_path):
    cache = CompileCache(tmp_path)
    assert cache.read("key") is None
    cache.write("key", {"a": [1, "b"]}, (b"\0code", b"", b"more"))
    assert cache.read("key") == ({"a": [1, "b"]}, (b"\0code", b"", b"more"))


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_code_that_others_may_have_put_there_is_not_run(tmp_path):
    compile(function(), options=options(tmp_path / "cache"))
    file = max((tmp_path / "cache").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    for place in (file, tmp_path / "cache"):
        mode = place.stat().st_mode
        place.chmod(mode | 0o020)
        with pytest.raises(CacheError, match=f"nobody else may write to, and {tmp_path}.*chmod go-w it"):
            CompileCache(tmp_path / "cache").read(file.stem)
        place.chmod(mode)
    assert compile(function(), options=options(tmp_path / "cache")).cached


def fill(cache, *names, size=1000):
    """Entries, each used a second after the one before, an hour ago."""
    for number, name in enumerate(names):
        cache.write(name, {}, (bytes(size),))
        when = time.time() - 3600 + number
        os.utime(cache.directory / f"{name}.bin", (when, when))


def held(cache):
    return {path.stem for path in cache.directory.glob("*.bin")}


def test_what_was_used_longest_ago_goes_first(tmp_path):
    cache = CompileCache(tmp_path, limit=3300)
    fill(cache, "a", "b", "c")
    assert cache.read("a") is not None  # which makes it the newest
    cache.write("d", {}, (bytes(1000),))
    assert held(cache) == {"a", "c", "d"}


def test_the_entry_that_was_just_written_stays_whatever_its_size(tmp_path):
    cache = CompileCache(tmp_path, limit=2500)
    fill(cache, "a", "b")
    cache.write("large", {}, (bytes(5000),))
    assert held(cache) == {"large"}
    assert cache.read("large") == ({}, (bytes(5000),))


def test_the_limit_is_that_of_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("ADJOINT_CACHE_LIMIT", "2.5kB")
    cache = CompileCache(tmp_path)
    fill(cache, "a", "b", "c")
    assert held(cache) == {"b", "c"}


def test_what_dead_writers_left_goes_after_an_hour(tmp_path):
    cache = CompileCache(tmp_path)
    for name, age in ((".old.bin.12.part", 3700), (".new.bin.34.part", 60)):
        (tmp_path / name).write_bytes(b"half")
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    cache.write("a", {}, ())
    assert sorted(p.name for p in tmp_path.iterdir()) == [".new.bin.34.part", "a.bin"]


def test_entries_that_another_process_removes_meanwhile_are_no_trouble(tmp_path, monkeypatch):
    cache = CompileCache(tmp_path, limit=1500)
    fill(cache, "a", "b")
    plain = Path.unlink

    def late(path, missing_ok=False):
        if path.suffix == ".bin":
            plain(path)
        plain(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", late)
    cache.write("c", {}, (bytes(1000),))
    assert held(cache) == {"c"}


COMPILES = """
    import sys, time
    from pathlib import Path
    import numpy as np
    from tests.runtime.test_cache import function, options
    from adjoint.compiler import compile
    directory, number = Path(sys.argv[1]), int(sys.argv[2])
    (directory / f"ready{number}").touch()
    while len(list(directory.glob("ready*"))) < 4:
        time.sleep(0.001)
    for scale in (2.0, 3.0, 5.0):
        made = compile(function(scale), options=options(directory / "cache"))
        print(made([1, 2, 3]).tolist())
"""


def test_processes_fill_one_empty_cache_at_once(tmp_path):
    house = Path(__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(house / "src"), str(house)))}
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(COMPILES), str(tmp_path)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    started = [subprocess.Popen([*command, str(n)], cwd=house, env=env, **pipes) for n in range(4)]
    for process in started:
        out, err = process.communicate(timeout=100)
        assert (process.returncode, err) == (0, "")
        assert out.splitlines() == ["[2.0, 4.0, 6.0]", "[3.0, 6.0, 9.0]", "[5.0, 10.0, 15.0]"]
    files = list((tmp_path / "cache").iterdir())
    assert {path.suffix for path in files} == {".bin"}
    assert all(CompileCache(tmp_path / "cache").read(path.stem) for path in files)
    assert compile(function(2.0), options=options(tmp_path / "cache")).cached
