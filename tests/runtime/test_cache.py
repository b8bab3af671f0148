"""The compile cache: whole entries or none, keyed by all that matters, never in the way."""

import errno
import os

import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import CompileOptions, compile
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
