"""Checkpoints of training runs: everything that the next steps depend on, in one file that is always whole.

`capture` copies the state of a run into a `Snapshot`, and `restore` continues from one. `write_snapshot` and
`read_snapshot` are its file. A `CheckpointDirectory` keeps the files of one run, and a `CheckpointWriter` writes them
while training goes on. The callback that uses all of them is `adjoint.training.callbacks.ModelCheckpoint`.
"""

from adjoint.training.checkpoints.capture import capture
from adjoint.training.checkpoints.directory import CheckpointDirectory
from adjoint.training.checkpoints.restore import restore
from adjoint.training.checkpoints.snapshot import Snapshot, read_snapshot, write_snapshot
from adjoint.training.checkpoints.writer import CheckpointWriter

__all__ = [
    "CheckpointDirectory",
    "CheckpointWriter",
    "Snapshot",
    "capture",
    "read_snapshot",
    "restore",
    "write_snapshot",
]
