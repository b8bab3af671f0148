"""What the system says of its caches."""

import pytest

from adjoint.codegen import host as host_module
from adjoint.codegen.host import host_caches, host_memory, host_model
from adjoint.codegen.targets import host_target
from adjoint.kernel.target import Cache, Target


def sysfs(directory, *caches):
    for number, (level, kind, size, ways, cores) in enumerate(caches):
        index = directory / f"index{number}"
        index.mkdir(parents=True)
        names = ("level", "type", "size", "ways_of_associativity", "shared_cpu_list")
        for name, text in zip(names, (level, kind, size, ways, cores), strict=True):
            (index / name).write_text(f"{text}\n")
    return directory


@pytest.fixture
def linux(monkeypatch):
    monkeypatch.setattr(host_module.sys, "platform", "linux")


@pytest.mark.usefixtures("linux")
def test_caches_are_read_from_the_system(tmp_path):
    directory = sysfs(
        tmp_path, (1, "Data", "48K", 12, "0,64"), (1, "Instruction", "32K", 8, "0,64"),
        (2, "Unified", "1024K", 0, "0,64"), (3, "Unified", "32768K", 16, "0-7,64-71"),
    )  # fmt: skip
    # The system may not know the ways (0).
    assert host_caches(directory) == (
        Cache(1, 49152, 12), Cache(2, 1048576, 8), Cache(3, 33554432, 16, shared=True),
    )  # fmt: skip


@pytest.mark.usefixtures("linux")
def test_without_information_there_are_no_caches(tmp_path):
    assert host_caches(tmp_path / "missing") == ()
    (sysfs(tmp_path, (1, "Data", "much", 8, "0")) / "index1").mkdir()
    assert host_caches(tmp_path) == ()


def test_macos_names_sizes_by_level(monkeypatch):
    sizes = {"hw.perflevel0.l1dcachesize": 128 << 10, "hw.l2cachesize": 4 << 20}
    monkeypatch.setattr(host_module.sys, "platform", "darwin")
    monkeypatch.setattr(host_module, "_sysctl", lambda name: sizes.get(name, 0))
    assert host_caches() == (Cache(1, 128 << 10, 8), Cache(2, 4 << 20, 8, shared=True))


def test_the_host_has_at_least_two_caches():
    host = host_target()
    assert len(host.caches) >= 2
    assert host.caches == (host_caches() or Target("", "", "", 64, 32).caches)
    assert 0 < host.l1.nbytes < host.l2.nbytes


def test_memory_holds_more_than_the_caches():
    nbytes = host_memory()
    assert nbytes is None or nbytes > sum(cache.nbytes for cache in host_target().caches)


def test_the_cpu_has_the_name_that_the_system_gives_it(tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Abacus 4000\n\nmodel name\t: Abacus 4000\n")
    assert host_model(tmp_path / "cpuinfo") == "Abacus 4000"
    monkeypatch.setattr(host_module.platform, "processor", lambda: "beads")
    assert host_model(tmp_path / "missing") == "beads"
