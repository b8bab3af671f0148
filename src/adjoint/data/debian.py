"""Read files from a Debian package, without root and without installing it."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from adjoint.errors import DataError

__all__ = ["files_of_package"]

_UPDATE_SECONDS = 180
_FETCH_SECONDS = 300


def files_of_package(package: str, paths: Iterable[str], apt_get: str | None = None) -> dict[str, bytes]:
    """Read files from a Debian package downloaded with ``apt-get download``.

    If the system's package list is missing or does not contain the package, a private list is fetched into a temporary
    directory. Neither needs root or changes the system.

    Parameters
    ----------
    package : str
        Name of the package.
    paths : iterable of str
        Paths inside the package, without the leading slash.
    apt_get : str, optional
        The program; default: found in PATH.

    Returns
    -------
    dict
        Contents by path.

    Raises
    ------
    DataError
        If apt is not installed, cannot fetch the package, or the package lacks a file.
    """
    program = apt_get or shutil.which("apt-get")
    if program is None:
        raise DataError("apt-get is not on this machine; use another way")
    with tempfile.TemporaryDirectory(prefix="adjoint-apt-") as name:
        folder = Path(name)
        archive = _fetch(program, package, folder)
        unpacked = folder / "unpacked"
        _run(["dpkg-deb", "-x", str(archive), str(unpacked)], folder, _FETCH_SECONDS)
        found = {}
        for path in paths:
            if not (unpacked / path).is_file():
                raise DataError(f"the package {package} must hold {path}, {archive.name} does not; use another way")
            found[path] = (unpacked / path).read_bytes()
        return found


def _fetch(program: str, package: str, folder: Path) -> Path:
    """Download the package to `folder`, with the system's package list or, if that fails, a private one."""
    try:
        _run([program, "download", package], folder, _FETCH_SECONDS)
    except DataError:
        options = _private_state(folder)
        _run([program, *options, "update"], folder, _UPDATE_SECONDS)
        _run([program, *options, "download", package], folder, _FETCH_SECONDS)
    archives = sorted(folder.glob(f"{package}_*.deb"))
    if not archives:
        raise DataError(f"apt-get download {package} ended well but left no package; use another way")
    return archives[0]


def _private_state(folder: Path) -> list[str]:
    """Options that make apt keep its package list under `folder`, without special permissions."""
    for part in ("state/lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    status = "/var/lib/dpkg/status" if Path("/var/lib/dpkg/status").is_file() else os.devnull
    return [
        "-o", f"Dir::State={folder}/state",
        "-o", f"Dir::State::status={status}",
        "-o", f"Dir::Cache={folder}/cache",
        "-o", "APT::Sandbox::User=",  # otherwise apt switches from root to a user that cannot write here
        "-o", "Acquire::Languages=none",
        "-o", "Acquire::Retries=0",
    ]  # fmt: skip


def _run(command: list[str], folder: Path, seconds: float) -> None:
    """Run a command in `folder`, silently; its last error message becomes the exception's."""
    environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    what = " ".join(word for word in command if not word.startswith(("-o", "Dir::", "APT::", "Acquire::")))
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=seconds, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise DataError(f"{what} did not end within {seconds:.0f} s; check the network") from error
    except OSError as error:
        raise DataError(f"{what} cannot be run ({error.strerror}); use another way") from error
    if done.returncode:
        complaints = [line for line in done.stderr.splitlines() if line.startswith("E:")] or [done.stderr.strip()]
        raise DataError(f"{what} failed ({complaints[-1]}); use another way")
