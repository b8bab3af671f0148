"""Workers that prepare data: processes with shared memory, or threads.

`pool` has the order of items and results; `processes` and `threads` are the two kinds of workers. A worker process runs
`child`, and `channel` and `memory` carry messages and arrays between it and its parent.
"""

from adjoint.data.workers.pool import WorkerPool

__all__ = ["WorkerPool"]
