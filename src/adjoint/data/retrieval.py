"""Find the files of a built-in dataset on this machine, or fetch them."""

import os
from collections.abc import Mapping
from pathlib import Path

from adjoint.data.debian import files_of_package
from adjoint.data.files import DataFile, Progress, download, terminal_progress
from adjoint.errors import DataError
from adjoint.lazy_dataclass import dataclass
from adjoint.paths import cache_dir, check_writable, write_whole

__all__ = ["Locations", "cache_folder", "chosen_folders", "retrieve"]


@dataclass(frozen=True, slots=True)
class Locations:
    """What the files of a dataset are, and where to look for them.

    Parameters
    ----------
    title : str
        Name of the dataset in messages.
    folder : str
        Name of its directory in the cache and below ``ADJOINT_DATA``.
    files : tuple of DataFile
        The files.
    urls : tuple of str, default ()
        Base URLs for downloads, tried in order.
    package : str, optional
        A Debian package with the files.
    system : Path, optional
        The directory in which that package installs them.
    apt_get : str, optional
        The program ``apt-get``; default: found in PATH.
    """

    title: str
    folder: str
    files: tuple[DataFile, ...]
    urls: tuple[str, ...] = ()
    package: str | None = None
    system: Path | None = None
    apt_get: str | None = None


def cache_folder(folder: str, cache: str | os.PathLike[str] | None, environ: Mapping[str, str] | None) -> Path:
    """The directory for fetched files: `cache`, or `folder` in `adjoint.paths.cache_dir`."""
    return Path(cache) if cache is not None else cache_dir(environ) / folder


def chosen_folders(folder: str, environ: Mapping[str, str] | None) -> tuple[Path, ...]:
    """The directories in which the user may have put files: `folder` below ``ADJOINT_DATA``, then that directory.

    Raises
    ------
    DataError
        If ``ADJOINT_DATA`` does not name a directory, instead of silently downloading.
    """
    name = (os.environ if environ is None else environ).get("ADJOINT_DATA")
    if not name:
        return ()
    if not (directory := Path(name).expanduser()).is_dir():
        raise DataError(f"ADJOINT_DATA must name a directory, got {name}; correct it or unset it")
    return directory / folder, directory


def retrieve(
    locations: Locations,
    cache: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    environ: Mapping[str, str] | None = None,
) -> dict[str, bytes]:
    """The uncompressed contents of the files of a dataset by name, verified by checksums.

    Each file (``.gz`` or uncompressed) is searched for in the cache, in the directory given by ``ADJOINT_DATA``, and
    where the Debian package installs it. Missing files are downloaded into the cache or, if that fails, extracted from
    the package, which ``apt-get`` fetches without root.

    Parameters
    ----------
    locations : Locations
        The files.
    cache : path, optional
        Directory for downloaded files; default: the dataset's folder in `adjoint.paths.cache_dir`.
    progress : callable, optional
        Called as ``progress(file name, bytes so far, total bytes)`` during a download; default: a line on a terminal.
    environ : mapping, optional
        The environment; default: `os.environ`.

    Raises
    ------
    DataError
        If the data cannot be obtained, with all attempts; if ``ADJOINT_DATA`` is not a directory, or a file in it is
        wrong.
    CacheError
        If the cache directory cannot be written.
    """
    directory = cache_folder(locations.folder, cache, environ)
    chosen = chosen_folders(locations.folder, environ)
    contents: dict[str, bytes] = {}
    reasons: list[str] = []
    for file in locations.files:
        if (content := _find(file, directory, chosen, locations, reasons)) is not None:
            contents[file.name] = content
    missing = [file for file in locations.files if file.name not in contents]
    if missing:
        check_writable(directory)
        contents |= _fetch(missing, directory, locations, progress or terminal_progress, reasons)
    return contents


def _find(
    file: DataFile, cache: Path, chosen: tuple[Path, ...], locations: Locations, reasons: list[str]
) -> bytes | None:
    """The content of the file on this machine, or None; problems with copies are appended to `reasons`."""
    if (path := file.find(cache)) is not None:
        try:
            return file.read(path)
        except DataError as error:
            # The cache is adjoint's own, so a corrupt file in it is deleted and downloaded again.
            reasons.append(error.message)
            path.unlink(missing_ok=True)
    for folder in chosen:
        if (path := file.find(folder)) is not None:
            # The user chose this directory, so a corrupt file in it is an error.
            return file.read(path)
    if locations.system is not None and (path := file.find(locations.system)) is not None:
        try:
            return file.read(path)
        except DataError as error:
            reasons.append(error.message)
    return None


def _fetch(
    missing: list[DataFile], cache: Path, locations: Locations, progress: Progress, reasons: list[str]
) -> dict[str, bytes]:
    """Contents by name of files fetched into the cache; raises a single error that lists all attempts."""
    for fetch in (_download_all, _from_package):
        try:
            packed = fetch(missing, locations, progress)
            contents = {file.name: file.unpack(packed[file.name], file.packed_name) for file in missing}
        except DataError as error:
            reasons.extend([error.message] if error.message else [])
            continue
        for file in missing:
            write_whole(cache / file.packed_name, packed[file.name])
        return contents
    names = ", ".join(file.packed_name for file in missing)
    install = f"run 'apt-get install {locations.package}', or " if locations.package else ""
    servers = " or ".join([*locations.urls, *(["Debian's servers"] if not locations.urls else [])])
    raise DataError(
        f"{locations.title} is neither on this machine nor can it be fetched ({'; '.join(reasons)}): put {names} into "
        f"{cache}, or into a directory {locations.folder} in one that ADJOINT_DATA names, or {install}connect to the "
        f"network so that {'they come' if len(missing) > 1 else 'it comes'} from {servers}"
    )


def _download_all(missing: list[DataFile], locations: Locations, progress: Progress) -> dict[str, bytes]:
    reasons = []
    for url in locations.urls:
        try:
            return {file.name: download(file, url, progress) for file in missing}
        except DataError as error:
            reasons.append(error.message)
    raise DataError("; ".join(reasons))


def _from_package(missing: list[DataFile], locations: Locations, progress: Progress) -> dict[str, bytes]:
    if locations.package is None or locations.system is None:
        raise DataError("")
    paths = {file.name: f"{locations.system.as_posix().lstrip('/')}/{file.packed_name}" for file in missing}
    packed = files_of_package(locations.package, paths.values(), locations.apt_get)
    for file in missing:
        size = len(packed[paths[file.name]])
        progress(file.packed_name, size, size)
    return {name: packed[path] for name, path in paths.items()}
