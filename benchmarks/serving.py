"""Measure prediction in a process that does nothing else: python benchmarks/serving.py. See docs/inference.md.

For each model and number of rows, the function and the parameters are written to two files. A fresh process, pinned to
one core, loads them, compiles the function, calls it, and then times further calls in many short windows, of which the
fastest counts: other programs on the machine only ever slow a window down. The same is measured in a second process,
which finds the code in the compile cache.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

if not __package__:  # run as a script: import the package that contains it
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from rich.console import Console
from rich.table import Table

from adjoint import Function, IRModule, SetupTrainer, TensorType, Trainer, losses, models, ops, optim, param
from adjoint.training import inference_function
from benchmarks import record

__all__ = ["HEADINGS", "MODELS", "best", "cnn", "main", "measure", "table_rows"]

#: Columns of the table.
HEADINGS = ("model", "rows", "call", "first result", "cached", "memory", "peak when compiling")

#: What the measuring process runs. It imports nothing but what a server needs.
_SERVER = """
import json, sys, time
start = time.perf_counter()
from pathlib import Path
import numpy as np
from adjoint import CompileOptions, compile, ops
from adjoint.training import read_arrays
folder, windows, seconds = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
function = ops.parse_function((folder / "function.txt").read_text())
weights = read_arrays(folder / "weights.safetensors")
server = compile(function, options=CompileOptions(threads=1))[function.name].bind(weights)
x = np.random.default_rng(0).random(function.params[0].shape, np.float32)
server(x)
first = time.perf_counter() - start
calls = 1
def window():
    begin = time.perf_counter()
    for _ in range(calls):
        server(x)
    return time.perf_counter() - begin
while window() < seconds / 2:
    calls *= 2
call = min(window() for _ in range(windows)) / calls
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({
    "first": first, "call": call, "arena": server.entry.arena,
    "memory": int(status["VmRSS"].split()[0]) * 1024, "peak": int(status["VmHWM"].split()[0]) * 1024,
}))
"""


def cnn(batch_size: int = 64) -> IRModule:
    """The network of examples/fashion_mnist_cnn.py."""
    x = param("x", (batch_size, 1, 28, 28))
    conv0, conv0_bias = param("conv0.weight", (16, 1, 5, 5)), param("conv0.bias", (16,))
    conv1, conv1_bias = param("conv1.weight", (32, 16, 3, 3)), param("conv1.bias", (32,))
    weight, bias = param("linear.weight", (800, 10)), param("linear.bias", (10,))
    hidden = ops.max_pool2d(ops.conv2d(x, conv0, conv0_bias).relu(), 2)
    hidden = ops.max_pool2d(ops.conv2d(hidden, conv1, conv1_bias).relu(), 2)
    logits = ops.linear(hidden.flatten(1), weight, bias)
    return IRModule((Function("backbone", (x, conv0, conv0_bias, conv1, conv1_bias, weight, bias), (logits,)),))


MODELS = {"mlp": models.mlp(), "cnn": cnn()}


def measure(model: IRModule, rows: int, windows: int, seconds: float) -> dict[str, dict[str, Any]]:
    """Measure a model for a number of rows per call.

    Parameters
    ----------
    model : IRModule
        A classifier.
    rows : int
        Rows of a call.
    windows : int
        Number of windows.
    seconds : float
        Length of each.

    Returns
    -------
    dict
        For ``cold`` and ``cached``: seconds from the first import to the result of the first call (``first``) and of
        the fastest window per call (``call``), bytes of working memory (``arena``), and of the process after the calls
        (``memory``) and at most (``peak``).
    """
    logits = model["backbone"].results[0].type
    labels = TensorType(logits.shape[:1], "i64")
    trainer = Trainer(SetupTrainer(losses.CrossEntropyLoss(), optim.SGD(0.1), (logits, labels))(model), threads=1)
    trainer.init_parameters()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "function.txt").write_text(str(inference_function(model, rows)))
        trainer.save_params(Path(folder) / "weights.safetensors")
        return {name: _served(folder, windows, seconds) for name in ("cold", "cached")}


def _served(folder: str, windows: int, seconds: float) -> dict[str, Any]:
    """What a server's process measures; the second one in a folder finds compiled code there."""
    environment = {**os.environ, "ADJOINT_CACHE": f"{folder}/cache", "OPENBLAS_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    command = [sys.executable, "-c", _SERVER, folder, str(windows), str(seconds)]
    pinned = ["taskset", "-c", str(max(os.sched_getaffinity(0))), *command]
    done = subprocess.run(pinned, env=environment, capture_output=True, text=True, check=True, timeout=600)
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def best(measured: Sequence[dict[str, dict[str, Any]]]) -> dict[str, float]:
    """The least of several measurements of one model and number of rows.

    Parameters
    ----------
    measured : sequence of dict
        What `measure` returned each time.
    """
    return {
        "call_s": min(each[kind]["call"] for each in measured for kind in each),
        "cold_s": min(each["cold"]["first"] for each in measured),
        "cached_s": min(each["cached"]["first"] for each in measured),
        "memory_bytes": min(each["cached"]["memory"] for each in measured),
        "cold_peak_bytes": min(each["cold"]["peak"] for each in measured),
        "arena_bytes": min(each["cached"]["arena"] for each in measured),
    }


def main(arguments: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Measure, print a table, and record it if a file is given."""
    options = argparse.ArgumentParser(description="Measure prediction in a process of its own, on one thread.")
    options.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS), help="default: all")
    options.add_argument("--rows", nargs="+", type=int, default=[1, 64], help="rows of a call (default: 1 64)")
    options.add_argument("--windows", type=int, default=200, help="number of windows (default: 200)")
    options.add_argument("--seconds", type=float, default=0.02, help="length of a window (default: 0.02)")
    options.add_argument("--repeats", type=int, default=3, help="measure so often, and take the least (default: 3)")
    record.json_options(options)
    args = options.parse_args(arguments)
    if min(args.windows, args.repeats, *args.rows) < 1 or args.seconds <= 0:
        options.error("--windows, --repeats and --rows are from 1, --seconds above 0")
    try:
        record.check_clean(args.json, args.allow_dirty)
    except record.DirtyError as error:
        options.error(str(error))
    settings = {"windows": args.windows, "seconds": args.seconds, "repeats": args.repeats}
    run = record.provenance("serving.py", sys.argv[1:] if arguments is None else arguments, settings)
    table = Table(*HEADINGS)
    for name in args.models:
        entry: dict[str, Any] = {"run": run, "rows": {}}
        for rows in args.rows:
            found = [measure(MODELS[name], rows, args.windows, args.seconds) for _ in range(args.repeats)]
            entry["rows"][str(rows)] = best(found)
        for cells in table_rows(name, entry):
            table.add_row(*cells)
        if args.json is not None:
            record.store(args.json, ("serving", name), entry)
    (console or Console()).print(table)
    return 0


def table_rows(name: str, entry: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The rows of the table for one model, as text under `HEADINGS`."""
    made = []
    for rows, one in entry["rows"].items():
        times = (f"{one['call_s'] * 1e6:.3g} µs", f"{one['cold_s']:.2f} s", f"{one['cached_s']:.2f} s")
        made.append((name, rows, *times, *(f"{one[key] / 1e6:.0f} MB" for key in ("memory_bytes", "cold_peak_bytes"))))
    return made


if __name__ == "__main__":
    sys.exit(main())
