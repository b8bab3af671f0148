import errno
import gzip
import socket
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from adjoint.data import fashion_mnist
from adjoint.data.files import terminal_progress
from adjoint.errors import CacheError, DataError


def serve(server, small, folder=""):
    server.answers |= {f"/{folder}{file.packed_name}": small.packed[file.name] for file in small.files}
    return server.url + folder


def quiet(*_args):
    pass


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("place", ["cache", "ADJOINT_DATA", "below ADJOINT_DATA", "system"])
def test_files_on_this_machine_are_used_where_they_lie(small, tmp_path, place, packed):
    data = tmp_path / "data"
    data.mkdir()
    folder = {"cache": tmp_path / "cache", "ADJOINT_DATA": data, "system": tmp_path / "system"}
    small.write(folder.get(place, data / "fashion-mnist"), packed=packed)
    found = fashion_mnist(
        tmp_path / "cache",
        locations=small.locations(tmp_path, system=tmp_path / "system"),
        environ={"ADJOINT_DATA": str(data)},
    )
    assert small.matches(found)
    assert place == "cache" or not (tmp_path / "cache").exists()


def test_files_may_lie_in_different_places(small, tmp_path):
    small.write(tmp_path / "cache", names=["train-images", "test-labels"])
    small.write(tmp_path / "data", names=["train-labels"], packed=False)
    small.write(tmp_path / "system", names=["test-images"])
    locations = small.locations(tmp_path, system=tmp_path / "system")
    environ = {"ADJOINT_DATA": str(tmp_path / "data")}
    assert small.matches(fashion_mnist(tmp_path / "cache", locations=locations, environ=environ))


def test_the_cache_is_below_adjoint_cache_when_none_is_given(small, tmp_path):
    small.write(tmp_path / "fashion-mnist")
    assert small.matches(fashion_mnist(locations=small.locations(tmp_path), environ={"ADJOINT_CACHE": str(tmp_path)}))


def test_what_is_missing_is_downloaded_once_and_told(small, server, tmp_path):
    small.write(tmp_path / "cache", names=["train-images"])
    told = []
    locations = small.locations(tmp_path, urls=(serve(server, small),))
    for _ in range(2):
        found = fashion_mnist(tmp_path / "cache", lambda *now: told.append(now), locations=locations, environ={})
        assert small.matches(found)
    assert server.asked == ["/train-labels.gz", "/test-images.gz", "/test-labels.gz"]
    sizes = {f.packed_name: len(small.packed[f.name]) for f in small.files[1:]}
    assert {name: (done, total) for name, done, total in told} == {n: (s, s) for n, s in sizes.items()}
    assert sorted(p.name for p in (tmp_path / "cache").iterdir()) == sorted(f.packed_name for f in small.files)


def test_a_server_that_does_not_say_how_long_a_file_is(small, server, tmp_path):
    server.silent = True
    told = []
    locations = small.locations(tmp_path, urls=(serve(server, small),))
    found = fashion_mnist(tmp_path / "cache", lambda *now: told.append(now), locations=locations, environ={})
    assert small.matches(found)
    assert {total for _, _, total in told} == {0}
    assert [name for name, _, _ in told] == [file.packed_name for file in small.files]


def test_what_is_on_this_machine_is_read_without_what_downloads(small, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)  # to import it is an error
    small.write(tmp_path)
    assert small.matches(fashion_mnist(tmp_path, locations=small.locations(tmp_path), environ={}))


def test_the_second_address_is_tried_when_the_first_fails(small, server, tmp_path):
    urls = (server.url + "gone/", serve(server, small, "mirror/"))
    locations = small.locations(tmp_path, urls=urls)
    assert small.matches(fashion_mnist(tmp_path / "cache", quiet, locations=locations, environ={}))
    assert server.asked[0] == "/gone/train-images.gz"


def test_a_server_that_sends_something_else_is_refused_and_nothing_is_kept(small, server, tmp_path):
    url = serve(server, small)
    server.answers["/test-labels.gz"] = gzip.compress(b"an error page")
    with pytest.raises(DataError, match=r"test-labels\.gz must have MD5 .* got .* in \d+ bytes"):
        fashion_mnist(tmp_path / "cache", quiet, locations=small.locations(tmp_path, urls=(url,)), environ={})
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_connection_that_breaks_off_is_refused_and_nothing_is_kept(small, server, tmp_path):
    url = serve(server, small)
    server.cut = 10
    with pytest.raises(DataError, match=r"train-images\.gz (cannot be fetched|must have MD5)"):
        fashion_mnist(tmp_path / "cache", quiet, locations=small.locations(tmp_path, urls=(url,)), environ={})
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda _: b"", lambda _: gzip.compress(b"other")])
def test_a_damaged_file_in_the_cache_is_replaced(small, server, tmp_path, damage):
    cache = tmp_path / "cache"
    small.write(cache)
    path = cache / "train-images.gz"
    path.write_bytes(damage(path.read_bytes()))
    locations = small.locations(tmp_path, urls=(serve(server, small),))
    assert small.matches(fashion_mnist(cache, quiet, locations=locations, environ={}))
    assert server.asked == ["/train-images.gz"]
    assert path.read_bytes() == small.packed["train-images"]


def test_a_damaged_file_does_not_stay_in_the_cache_when_nothing_replaces_it(small, tmp_path):
    cache = tmp_path / "cache"
    small.write(cache)
    (cache / "test-images.gz").write_bytes(small.packed["test-images"][:-9])
    with pytest.raises(DataError, match=r"test-images\.gz is truncated or no gzip file"):
        fashion_mnist(cache, quiet, locations=small.locations(tmp_path), environ={})
    assert sorted(p.name for p in cache.iterdir()) == ["test-labels.gz", "train-images.gz", "train-labels.gz"]


def test_a_wrong_file_that_the_user_named_is_an_error_and_stays(small, server, tmp_path):
    small.write(tmp_path / "data", packed=False)
    (tmp_path / "data" / "train-labels").write_bytes(b"\0\0\x08\x01\0\0\0\x01\x05")
    locations = small.locations(tmp_path, urls=(serve(server, small),))
    with pytest.raises(DataError, match=r"data/train-labels must unpack to sha256 .*; remove it and fetch it again"):
        fashion_mnist(tmp_path / "cache", quiet, locations=locations, environ={"ADJOINT_DATA": str(tmp_path / "data")})
    assert (tmp_path / "data" / "train-labels").exists()
    assert server.asked == []


def test_a_name_that_is_no_directory_is_refused(small, tmp_path):
    with pytest.raises(DataError, match=r"ADJOINT_DATA must name a directory, got /no/such; correct it or unset it"):
        fashion_mnist(tmp_path, quiet, locations=small.locations(tmp_path), environ={"ADJOINT_DATA": "/no/such"})


def test_a_wrong_file_of_the_system_is_passed_over(small, server, tmp_path):
    small.write(tmp_path / "system")
    (tmp_path / "system" / "train-labels.gz").write_bytes(b"junk")
    locations = small.locations(tmp_path, system=tmp_path / "system", urls=(serve(server, small),))
    assert small.matches(fashion_mnist(tmp_path / "cache", quiet, locations=locations, environ={}))
    assert server.asked == ["/train-labels.gz"]


def test_the_last_error_names_every_way(small, server, tmp_path):
    locations = small.locations(tmp_path, urls=(server.url,))
    with pytest.raises(DataError) as caught:
        fashion_mnist(tmp_path / "cache", quiet, locations=locations, environ={})
    message = caught.value.message
    for part in (
        "train-images.gz, train-labels.gz, test-images.gz, test-labels.gz",
        str(tmp_path / "cache"),
        "ADJOINT_DATA",
        "apt-get install dataset-fashion-mnist",
        server.url,
        "404",
    ):
        assert part in message


def test_a_host_that_does_not_answer_is_an_error_of_its_own(small, tmp_path):
    locations = small.locations(tmp_path, urls=("http://127.0.0.1:9/",))  # the discard port: nothing listens
    with pytest.raises(DataError, match=r"http://127\.0\.0\.1:9/train-images\.gz cannot be fetched \(.*refused\)"):
        fashion_mnist(tmp_path / "cache", quiet, locations=locations, environ={})


def test_a_server_that_stalls_is_given_up(small, tmp_path, monkeypatch):
    monkeypatch.setattr("adjoint.data.files.STALL_TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        locations = small.locations(tmp_path, urls=(f"http://127.0.0.1:{silent.getsockname()[1]}/",))
        with pytest.raises(DataError, match=r"train-images\.gz cannot be fetched \(timed out\); check the network"):
            fashion_mnist(tmp_path / "cache", quiet, locations=locations, environ={})


def test_a_cache_that_cannot_be_made_is_refused_before_anything_is_fetched(small, server, tmp_path):
    (tmp_path / "cache").write_bytes(b"a file")
    locations = small.locations(tmp_path, urls=(serve(server, small),))
    with pytest.raises(CacheError, match=r"cannot be written .*; set ADJOINT_CACHE"):
        fashion_mnist(tmp_path / "cache" / "below", quiet, locations=locations, environ={})
    assert server.asked == []


def test_a_disk_that_fills_up_is_told_and_leaves_no_part(small, server, tmp_path, monkeypatch):
    def full(self, content):
        with open(self, "wb") as file:
            file.write(content[:5])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    locations = small.locations(tmp_path, urls=(serve(server, small),))
    with pytest.raises(CacheError, match="no room"):
        fashion_mnist(tmp_path / "cache", quiet, locations=locations, environ={})
    assert list((tmp_path / "cache").iterdir()) == []


def test_several_at_once_all_get_the_data(small, server, tmp_path):
    locations = small.locations(tmp_path, urls=(serve(server, small),))
    found = []

    def fetch():
        found.append(fashion_mnist(tmp_path / "cache", quiet, locations=locations, environ={}))

    threads = [threading.Thread(target=fetch) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert all(small.matches(one) for one in found)
    assert sorted(p.name for p in (tmp_path / "cache").iterdir()) == sorted(f.packed_name for f in small.files)


def test_progress_writes_one_line_a_file_on_a_terminal_and_nothing_elsewhere(capsys, monkeypatch):
    terminal_progress("a.gz", 1, 4)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    terminal_progress("a.gz", 2_000_000, 4_000_000)
    terminal_progress("a.gz", 4_000_000, 4_000_000)
    assert capsys.readouterr().err == "\ra.gz   50 %  2.0 MB\ra.gz  100 %  4.0 MB\n"


def test_the_real_data_are_what_their_paper_describes(real):
    assert real.train_images.shape == (60000, 28, 28)
    assert real.test_images.shape == (10000, 28, 28)
    assert len(real.classes) == 10
    # Table 2 of arXiv:1708.07747: the classes are balanced.
    np.testing.assert_array_equal(np.bincount(real.train_labels), np.full(10, 6000))
    np.testing.assert_array_equal(np.bincount(real.test_labels), np.full(10, 1000))
    # The mean and deviation that people normalise with, as published for the training images.
    assert real.train_images.mean() / 255 == pytest.approx(0.2860, abs=5e-5)
    assert real.train_images.std() / 255 == pytest.approx(0.3530, abs=5e-5)
