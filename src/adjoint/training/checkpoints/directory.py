"""A directory with the checkpoints of one run: its lock, the names of its files, and which of them are kept."""

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from adjoint.errors import CheckpointError, InvalidValueError, warn
from adjoint.paths import FilePath
from adjoint.training.checkpoints.lock import DirectoryLock
from adjoint.training.checkpoints.snapshot import Snapshot, read_manifest, read_snapshot

__all__ = ["CheckpointDirectory", "check_prefix"]

#: What the names of checkpoints end with.
SUFFIX = ".safetensors"

#: A name: a prefix, perhaps with the number of a later run, the epoch, and the step in it.
_NAME = re.compile(r"(?P<prefix>.+)-(?P<epoch>\d+)_(?P<step>\d+)" + re.escape(SUFFIX), re.DOTALL)

#: A temporary file of `adjoint.paths.replace_file` for a checkpoint, which a killed process has left.
_STALE = re.compile(r"\..+-\d+_\d+(_\w+)?" + re.escape(SUFFIX) + r"\.[0-9a-f]{16}\.part", re.DOTALL)

_MINUTE = 60.0

#: What names of files cannot contain on one system or another.
_NOT_IN_NAMES = set("/\\\0:")


class CheckpointDirectory:
    """The checkpoints of one run.

    Files are named ``{prefix}-{epoch}_{step_in_epoch}.safetensors``. Reading needs no lock; `lock` is for the run that
    writes.

    Parameters
    ----------
    path : str or os.PathLike
        The directory, which `lock` makes if it does not exist.
    prefix : str, default "CKP"
        The beginning of the names of files.
    keep_checkpoint_max : int or None, default 5
        The number of the newest files that are kept; None keeps all.
    keep_checkpoint_per_n_minutes : float or None, optional
        Of older files, one is kept for so many minutes.

    Raises
    ------
    InvalidValueError
        If a number is out of range, or the prefix cannot begin the name of a file.
    """

    def __init__(
        self,
        path: FilePath,
        prefix: str = "CKP",
        *,
        keep_checkpoint_max: int | None = 5,
        keep_checkpoint_per_n_minutes: float | None = None,
    ) -> None:
        most, minutes = keep_checkpoint_max, keep_checkpoint_per_n_minutes
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
            raise InvalidValueError(
                f"checkpoints: keep_checkpoint_max must be an integer of at least 1, got {most!r}; None keeps all"
            )
        if minutes is not None and not minutes > 0:
            raise InvalidValueError(f"checkpoints: keep_checkpoint_per_n_minutes must be above 0, got {minutes!r}")
        check_prefix(prefix)
        self.path, self.prefix, self._base = Path(path), prefix, prefix
        #: The prefix, which may be followed by the number of a run.
        self._runs = re.compile(rf"{re.escape(prefix)}(_\d+)?", re.DOTALL)
        self._most, self._minutes = most, minutes
        self._lock: DirectoryLock | None = None
        #: The time and the number in the manifests of files that have been looked at, None for damaged ones.
        self._known: dict[Path, tuple[float, int] | None] = {}
        self._next = 0

    def __enter__(self) -> "CheckpointDirectory":
        self.lock()
        return self

    def __exit__(self, *_error: object) -> None:
        self.unlock()

    def lock(self) -> None:
        """Begin to write: make the directory, lock it for this run, and remove temporary files of killed runs.

        Raises
        ------
        CheckpointError
            If another run has locked it, or it cannot be written.
        """
        if self._lock is not None:
            return
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(
                f"checkpoints: {self.path} must be a directory that can be made, got {error.strerror}; choose another"
            ) from error
        self._lock = DirectoryLock(self.path)
        self._known.clear()  # another run may have written since
        for path in self.path.iterdir():
            if _STALE.fullmatch(path.name):
                with suppress(OSError):
                    path.unlink()

    def unlock(self) -> None:
        """Give the directory back; again without effect."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def continue_from(self, path: Path | None) -> None:
        """Write files after those that are there.

        Parameters
        ----------
        path : Path or None
            The checkpoint that the run continues; its files are continued, and pruned together. Without, the run is a
            new one: if there are files of the prefix, those of another run, its prefix gets a number, as in
            ``lin_1-1_2``, and they are not pruned.
        """
        found = self.checkpoints()
        self._next = max((self._facts(each) or (0.0, -1))[1] for each in found) + 1 if found else 0
        taken = {_prefix(each) for each in found}
        if path is not None:
            self.prefix = _prefix(path) or self.prefix
        else:
            numbered = (f"{self._base}_{i}" for i in range(1, len(taken) + 1))
            self.prefix = next(name for name in (self._base, *numbered) if name not in taken)

    def next_sequence(self) -> int:
        """The number of the next checkpoint: larger than those of all others in the directory."""
        self._next += 1
        return self._next - 1

    def file(self, epoch: int, step: int, suffix: str = "") -> Path:
        """The path of a checkpoint: of an epoch counted from 1, and of the number of steps done in it."""
        return self.path / f"{self.prefix}-{epoch}_{step}{suffix}{SUFFIX}"

    def checkpoints(self) -> list[Path]:
        """The checkpoints of the prefix, and of runs of the prefix with a number, from the oldest to the newest.

        Damaged ones come first.
        """
        try:
            paths = [p for p in self.path.iterdir() if self._runs.fullmatch(_prefix(p) or "")]
        except OSError:
            return []
        return sorted(paths, key=lambda path: (*(self._facts(path) or (0.0, -1))[::-1], path.name))

    def latest(self) -> Path | None:
        """The newest checkpoint that is whole; None if there is none. A warning names newer ones that are damaged."""
        found = self.latest_snapshot()
        return None if found is None else found[0]

    def latest_snapshot(self) -> tuple[Path, Snapshot] | None:
        """The newest checkpoint that is whole, and its content."""
        paths = self.checkpoints()
        damaged = [path for path in paths if self._facts(path) is None]
        for path in reversed(paths[len(damaged) :]):
            try:
                snapshot = read_snapshot(path)
            except CheckpointError as error:
                warn(f"checkpoints: {path.name} is skipped, because it is not whole ({error.message})")
                continue
            _warn_of(damaged)
            return path, snapshot
        _warn_of(damaged)
        return None

    def written(self, path: Path, *, keep: Iterable[Path | None] = ()) -> None:
        """Remove older files after a new one is whole.

        Parameters
        ----------
        path : Path
            The new file.
        keep : iterable of Path
            Files that stay in any case, such as the best one.
        """
        self._known.pop(path, None)
        if self._most is None:
            return
        found = [each for each in self.checkpoints() if _prefix(each) == self.prefix and self._facts(each) is not None]
        stay = {path, *keep, *found[-self._most :]}
        if self._minutes is not None:
            last: float | None = None
            for each in found:
                at = (self._facts(each) or (0.0, 0))[0]
                if last is None or at - last >= self._minutes * _MINUTE:
                    last = at
                    stay.add(each)
        for each in found:
            if each not in stay:
                with suppress(OSError):
                    each.unlink()
                self._known.pop(each, None)

    def _facts(self, path: Path) -> tuple[float, int] | None:
        """When a checkpoint was made and its number; None if its header is damaged."""
        if path not in self._known:
            manifest: dict[str, Any] | None = None
            with suppress(CheckpointError):
                manifest = read_manifest(path)
            self._known[path] = None if manifest is None else (float(manifest["time"]), manifest["sequence"])
        return self._known[path]


def check_prefix(prefix: object) -> None:
    """Check that a text can begin the name of a file.

    Raises
    ------
    InvalidValueError
        If it cannot.
    """
    if not isinstance(prefix, str) or not prefix or prefix.startswith(".") or set(prefix) & _NOT_IN_NAMES:
        raise InvalidValueError(
            f"checkpoints: the prefix must be a text that can begin the name of a file, got {prefix!r}; pass such as "
            "'model'"
        )


def _prefix(path: Path) -> str | None:
    """The prefix of the name of a checkpoint; None for other files."""
    found = _NAME.fullmatch(path.name)
    return None if found is None else found["prefix"]


def _warn_of(damaged: list[Path]) -> None:
    for path in damaged:
        warn(f"checkpoints: {path.name} is skipped, because it is damaged or no checkpoint; remove it")
