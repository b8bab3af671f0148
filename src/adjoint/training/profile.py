"""Times of the parts of a step."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from adjoint.compiler import CompileOptions, compiled_graph, host
from adjoint.compiler import compile as compile_module
from adjoint.errors import InvalidValueError, TypeRuleError, plural
from adjoint.ir import Function, IRModule, TensorType, param
from adjoint.lazy_dataclass import dataclass
from adjoint.runtime.accounting import StepAccount
from adjoint.runtime.bound import aligned_together
from adjoint.runtime.report import WARM_UP_RUNS, KernelTime
from adjoint.training.layout import StepLayout
from adjoint.training.parts import kernel_parts

__all__ = ["Profile", "profile_step"]


@dataclass(frozen=True, slots=True, repr=False)
class Profile:
    """The time of a step, by phase and by kernel.

    Fusion combines the optimizer's update with the gradients, and these with the forward pass, so the phases cannot be
    timed separately within a step. Instead, the forward pass, forward plus backward pass, and the whole step are
    compiled and timed alternately, on the trainer's threads; the time of a phase is the difference, at least 0. The
    kernels are those of the step, timed individually on the same threads, each for its slowest one.

    Parameters
    ----------
    forward, backward, optimizer : float
        Microseconds of each phase.
    step : float
        Microseconds of the whole step.
    kernels : tuple of KernelTime
        The kernels of the step, in execution order.
    parts : tuple of str
        The part of the step that each of them belongs to, one of `adjoint.training.parts.PARTS`.
    account : StepAccount
        Why the sum of the kernels is not the time of the step.
    """

    forward: float
    backward: float
    optimizer: float
    step: float
    kernels: tuple[KernelTime, ...]
    parts: tuple[str, ...]
    account: StepAccount

    def __repr__(self) -> str:
        parts = f"forward {self.forward:.1f}, backward {self.backward:.1f}, optimizer {self.optimizer:.1f}"
        return f"<Profile: step {self.step:.1f} us ({parts}), {plural(len(self.kernels), 'kernel')}; print it for all>"

    def __str__(self) -> str:
        phases = (("forward", self.forward), ("backward", self.backward), ("optimizer", self.optimizer))
        lines = [f"{name:<24}{value:>12.1f} us" for name, value in (*phases, ("step", self.step))]
        for timed, part in zip(self.kernels, self.parts, strict=True):
            kernel, micros = timed.kernel, timed.nanoseconds / 1e3
            where = f" [{kernel.listed_lines()}]" if kernel.listed_lines() else ""
            lines.append(f"  {kernel.name:<22}{micros:>12.1f} us  {part:<16}{kernel.listed_operators()}{where}")
        count = "one thread" if self.account.threads == 1 else f"{self.account.threads} threads"
        lines.append(f"the step on {count}:")
        # Adding 0.0 turns a rounded -0.0 into 0.0.
        lines += [
            f"  {name:<48}{round(nanoseconds / 1e3, 1) + 0.0:>12.1f} us" for name, nanoseconds in self.account.lines()
        ]
        lines.append(
            "Measured on copies of the trainer's arrays as they are now, and on the given batch, after "
            f"{WARM_UP_RUNS} runs that warm up the caches. Reading clocks around kernels took another "
            f"{self.account.clocks / 1e3:.1f} us, which no time above contains."
        )
        return "\n".join(lines)


def profile_step(
    module: IRModule, resident: Mapping[str, np.ndarray], batch: Sequence[Any], options: CompileOptions, runs: int
) -> Profile:
    """Time a step and its parts on copies of the arrays, so that nothing is trained.

    Parameters
    ----------
    module : IRModule
        A module created by `SetupTrainer`.
    resident : mapping of str to numpy.ndarray
        Parameters, states, optimizer states and hyperparameters by name.
    batch : sequence of array_like
        Inputs, then targets.
    options : CompileOptions
        Compile options.
    runs : int
        Number of measurements, of which the median is used.
    """
    if runs < 1:
        raise InvalidValueError(f"profile: runs must be at least 1, got {runs}")
    layout = StepLayout(module)
    if len(batch) != len(layout.batch):
        raise TypeRuleError(
            f"profile takes a batch ({', '.join(layout.batch)}), got {plural(len(batch), 'array')}; pass what update "
            "takes"
        )
    functions = (*_parts(module["backbone_loss_adjoint"], layout), module["step"])
    executable = compile_module(IRModule(functions), options=options, entries=[f.name for f in functions])
    bound = [executable[f.name].bind(_copies(f, layout.batch, resident), name="profile") for f in functions]
    arrays = [np.asarray(x) for x in batch]
    forward, backward, step = _medians([b.call for b in bound], arrays, runs)
    entry = executable["step"]
    clocks = entry.clocks(*arrays, resident=resident, runs=runs, threads=entry.used_threads)
    kernels = tuple(KernelTime(k, float(t)) for k, t in zip(entry.kernels, clocks.typical(), strict=True))
    added = max(backward - forward, 0.0), max(step - backward, 0.0)
    parts = kernel_parts(module, compiled_graph(module["step"], host(), options), entry.kernels)
    return Profile(forward, *added, step, kernels, parts, StepAccount.of(clocks, step * 1e3))


def _parts(adjoint: Function, layout: StepLayout) -> tuple[Function, Function]:
    """The forward pass alone, and with gradients, with inputs in the order of the step and results written in place."""
    by_name = {p.label: p for p in adjoint.params}
    counted = (layout.partial.rows,) if layout.partial.rows else ()
    inputs = tuple(by_name[name] for name in (*layout.batch, *layout.params, *layout.states, *counted))
    loss, *rest = adjoint.results
    states, grads = rest[: len(layout.states)], rest[len(layout.states) :]
    donate = tuple((name, i) for i, name in enumerate(layout.states, 1))
    forward = Function("forward", inputs, (loss, *states), {"donate": donate})
    # Gradients go to resident buffers. Returning them would copy them, which the step never does.
    buffers = [param(f"{n}_gradient_buffer", t.shape, t.dtype) for n, t in layout.params.items()]
    both = (*donate, *((b.label, i) for i, b in enumerate(buffers, 1 + len(states))))
    return forward, Function("backward", (*inputs, *buffers), (loss, *states, *grads), {"donate": both})


def _copies(
    function: Function, batch: Mapping[str, TensorType], resident: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Arrays for all parameters except the batch: copies of the resident ones, zeros for buffers."""
    copies = aligned_together({p.label: p.type for p in function.params if p.label not in batch})
    for name, copy in copies.items():
        copy[...] = resident.get(name, 0)
    return copies


def _medians(calls: Sequence[Callable[..., Any]], arrays: Sequence[np.ndarray], runs: int) -> list[float]:
    """Median time of each call in microseconds; the calls alternate, because a machine's speed drifts."""
    for _ in range(WARM_UP_RUNS):
        for call in calls:
            call(*arrays)
    samples = np.zeros((runs, len(calls)))
    for row in samples:
        for i, call in enumerate(calls):
            start = time.perf_counter_ns()
            call(*arrays)
            row[i] = (time.perf_counter_ns() - start) / 1e3
    return [float(m) for m in np.median(samples, axis=0)]
