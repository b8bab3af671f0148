"""The file of measurements, one per CPU.

It is JSON, which can be read, copied to other machines of the same kind, or deleted::

    {"cpu": "znver5, 64-byte vectors",
     "contractions": {"float32 m16:144,0 n32:0,1 ...": {"form": "8x2x1", "microseconds": 1283.1,
                                                        "estimated": "14x2x1", "estimated_microseconds": 1442.0}}}
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from adjoint.errors import CacheError, InvalidValueError
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.paths import write_whole

__all__ = ["SECONDS", "Measured", "Tuning"]

#: Seconds of measuring in a compilation unless another bound is given.
SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Measured:
    """The measurement of a contraction.

    Parameters
    ----------
    form : str
        The best form (`adjoint.lower.contractions.schedules`).
    microseconds : float
        Its time on one thread, with the caches as the step leaves them.
    estimated : str
        The form that would be chosen without measuring.
    estimated_microseconds : float
        Its time.
    """

    form: str
    microseconds: float
    estimated: str
    estimated_microseconds: float


@dataclass(frozen=True, slots=True)
class Tuning:
    """The stored measurements for one kind of CPU.

    Parameters
    ----------
    path : Path
        The file, created when there are measurements to store.
    cpu : str
        The CPU of the measurements.
    seconds : float, default `SECONDS`
        How long a compilation measures what is not stored; 0 if it only uses what is.
    """

    path: Path
    cpu: str
    seconds: float = SECONDS

    @classmethod
    def of(cls, target: Target, directory: Path, seconds: float = SECONDS) -> "Tuning":
        """The file of a target's CPU in a directory."""
        name, width = target.cpu, target.vector_bytes
        return cls(directory / f"{name}-{width}-step.json", f"{name}, {width}-byte vectors", seconds)

    def digest(self) -> str:
        """A digest of the file, part of the cache key of code that depends on it."""
        try:
            return hashlib.sha256(self.path.read_bytes()).hexdigest()
        except OSError:
            return ""

    def read(self) -> dict[str, Measured]:
        """Measurements by signature; empty if there is no file.

        Raises
        ------
        InvalidValueError
            If the file does not contain measurements of this CPU.
        """
        try:
            text = self.path.read_text()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise CacheError(f"measurements cannot be read from {self.path} ({error}); make it readable") from error
        try:
            content = json.loads(text)
            found = {name: Measured(**fields) for name, fields in content["contractions"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            message = f"{self.path} is not a file of measured contractions: {error}; delete it"
            raise InvalidValueError(message) from error
        if content.get("cpu") != self.cpu:
            raise InvalidValueError(
                f"{self.path} holds measurements of {content.get('cpu')}, but this CPU is {self.cpu}; delete it"
            )
        return found

    def write(self, found: Mapping[str, Measured]) -> None:
        """Add measurements to the file."""
        merged = {**self.read(), **found}
        content = {"cpu": self.cpu, "contractions": {name: asdict(m) for name, m in sorted(merged.items())}}
        write_whole(self.path, (json.dumps(content, indent=1) + "\n").encode())
