"""Sample inputs of PyTorch's OpInfo database, run by PyTorch and by adjoint, and how far the results agree.

All samples of an OpInfo are recorded on tensors before any result is read, so they are one program and compiled once.
"""

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo import core

import adjoint
from adjoint.nn import functional
from tests.pytorch.tables import ADAPTED, ANY_OF_TIES, COMPARED, GRADIENTS_DIFFER, SHAPES_ONLY

__all__ = ["DTYPES", "Outcome", "agreement", "counterpart", "full_name", "op_db", "reason"]

#: The dtypes of samples. Gradients are compared for floats.
DTYPES = (torch.float32, torch.int64, torch.bool)

#: Samples of each dtype, evenly spread over those of an OpInfo: a few have more than a thousand.
MOST = 60

#: Elements may differ by this, relative to themselves.
RELATIVE = 1e-5

#: Elements may also differ by what rounding the largest element of the result 16 times amounts to, because sums of
#: terms that cancel are as exact as their largest term is,
OF_LARGEST = 16 * 2.0**-24

#: and by this multiple of the largest error of PyTorch itself in float32: that is how ill-conditioned a sample is.
OF_PYTORCH = 8


#: and by rounding of numbers near 1, for functions that cross 0 between them.
ABSOLUTE = 4 * 2.0**-24


@dataclass
class Outcome:
    """What became of the samples of an OpInfo."""

    samples: int = 0
    agree: int = 0
    refused: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


@dataclass
class _Run:
    """Results and gradients of one sample, as arrays; None for a gradient that is not there."""

    results: list
    gradients: list


def full_name(info):
    """The name of an OpInfo with that of its variant, such as ``norm.nuc``."""
    return ".".join(filter(None, (info.name, info.variant_test_name)))


def counterpart(name):
    """What adjoint has under the name of an OpInfo: a function, or a method of tensors; None if neither."""
    if name in ADAPTED:
        return ADAPTED[name]
    if name.startswith("nn.functional."):
        return getattr(functional, name.removeprefix("nn.functional."), None)
    found = adjoint
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if found is not None or "." in name else getattr(adjoint.Tensor, name, None)


def reason(message):
    """The sentence of a refusal without what differs between samples."""
    sentence = message.split("\n")[0].split(" [at ")[0]
    sentence = re.sub(r"\b(f|i|u|bf)\d+(\[[\d,]*\])?|bool(\[[\d,]*\])|\([\d, ]*\)|\[[\d, ]*\]", "_", sentence)
    return re.sub(r"-?\b\d[\d.e+-]*", "_", sentence)


def agreement(info):
    """Run the samples of an OpInfo (``torch.testing._internal.opinfo.core.OpInfo``)."""
    outcome = Outcome()
    for dtype in DTYPES:
        if dtype in info.supported_dtypes("cpu"):
            torch.manual_seed(0)
            differentiable = dtype.is_floating_point and info.supports_autograd
            samples = list(info.sample_inputs("cpu", dtype, requires_grad=differentiable))
            _compare(info, samples[:: -(-len(samples) // MOST) or 1], outcome)
    return outcome


def _wrapper(info):
    """What makes arguments triangular or symmetric where the function takes only such."""
    positive = core.gradcheck_wrapper_triangular_input_real_positive_diagonal
    # It calls functions of PyTorch, and samples are positive anyway.
    is_positive = info.gradcheck_wrapper is positive
    return core.gradcheck_wrapper_triangular_input if is_positive else info.gradcheck_wrapper


def _compared(info):
    """What is compared of results."""
    return COMPARED.get(info.name, lambda found: found)


def _compare(info, samples, outcome):
    wanted = [(sample, *expected) for sample in samples if (expected := _expected(info, sample)) is not None]
    wrapper, own = _wrapper(info), counterpart(info.name)

    def function(*args, **kwargs):
        return _compared(info)(wrapper(own, *args, **kwargs))

    found = _found_together(function, [sample for sample, *_ in wanted])
    for (sample, single, double), run in zip(wanted, found, strict=True):
        outcome.samples += 1
        if isinstance(run, adjoint.AdjointError) and not isinstance(run, adjoint.errors.InternalError):
            outcome.refused.append(f"{type(run).__name__}: {run.message}\n    {_described(sample)}")
            continue
        failed = isinstance(run, Exception)
        problem = f"{type(run).__name__}: {run}" if failed else _differ(info, sample, run, single, double)
        if problem:
            outcome.wrong.append(f"{problem}\n    {_described(sample)}")
        else:
            outcome.agree += 1


def _described(sample):
    return " ".join(str(sample.summary()).split())[:400]


# PyTorch


def _expected(info, sample):
    """What PyTorch computes, in the dtype of the sample and in float64; None for dtypes and layouts of PyTorch only."""
    given = [sample.input, *sample.args, *sample.kwargs.values()]
    if any(t.layout != torch.strided or t.dtype.is_complex for t in _tensors(given)):
        return None
    if any(isinstance(x, complex) or x in (torch.complex64, torch.complex128, torch.complex32) for x in _leaves(given)):
        return None
    try:
        single = _run_torch(info, sample, lambda t: t)
    except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError):
        return None
    if any(result.dtype.kind == "c" for result in single.results):
        return None
    try:
        double = _run_torch(info, sample, lambda t: t.double() if t.dtype == torch.float32 else t)
    except RuntimeError:
        double = single
    return single, double


def _run_torch(info, sample, convert):
    leaves = []

    def converted(x):
        if isinstance(x, torch.Tensor):
            copy = convert(x.detach().clone()).requires_grad_(x.requires_grad)
            if x.requires_grad:
                leaves.append(copy)
            return copy
        return _mapped(x, converted)

    args, kwargs = _arguments(sample, converted)
    torch.manual_seed(0)
    results = list(_results(_compared(info)(_wrapper(info)(info.op, *args, **kwargs))))
    outputs = [r for r in results if isinstance(r, torch.Tensor) and r.requires_grad and not r.dtype.is_complex]
    gradients = []
    if outputs and leaves:
        seeds = [torch.from_numpy(seed).to(out.dtype) for out, seed in zip(outputs, _seeds(outputs), strict=True)]
        gradients = torch.autograd.grad(outputs, leaves, seeds, allow_unused=True)
    return _Run([_array(r) for r in results], [None if g is None else _array(g) for g in gradients])


# adjoint


def _found_together(function, samples):
    """What adjoint computes for samples in one program, or one by one if that fails."""
    recorded = [_recorded(function, sample) for sample in samples]
    try:
        return [run if isinstance(run, Exception) else _read(run) for run in recorded]
    except Exception:
        return [_alone(function, sample) for sample in samples]


def _alone(function, sample):
    run = _recorded(function, sample)
    try:
        return run if isinstance(run, Exception) else _read(run)
    except Exception as error:
        return error


def _recorded(function, sample):
    """Results and gradients of a sample as tensors that have not been computed, or what was raised."""
    leaves = []

    def converted(x):
        if isinstance(x, torch.Tensor):
            tensor = adjoint.from_numpy(_array(x).copy())
            if x.requires_grad:
                leaves.append(tensor.requires_grad_())
            return tensor
        if isinstance(x, torch.dtype):
            return getattr(adjoint, str(x).removeprefix("torch."))
        if isinstance(x, torch.device):
            return adjoint.device(str(x))
        if isinstance(x, torch.nn.PairwiseDistance):
            return adjoint.nn.PairwiseDistance()
        return _mapped(x, converted)

    args, kwargs = _arguments(sample, converted)
    try:
        results = list(_results(function(*args, **kwargs)))
        outputs = [r for r in results if isinstance(r, adjoint.Tensor) and r.requires_grad]
        gradients = ()
        if outputs and leaves:
            seeds = [adjoint.from_numpy(s).to(o.dtype) for o, s in zip(outputs, _seeds(outputs), strict=True)]
            gradients = adjoint.autograd.grad(outputs, leaves, seeds, allow_unused=True, retain_graph=True)
    except Exception as error:
        return error
    return _Run(results, gradients)


def _read(run):
    return _Run([_array(r) for r in run.results], [None if g is None else _array(g) for g in run.gradients])


# Both


def _arguments(sample, convert):
    """Positional and keyword arguments of a sample, without those that have no effect on results in PyTorch."""
    kwargs = {name: convert(x) for name, x in sample.kwargs.items() if name not in ("layout", "memory_format")}
    return [convert(x) for x in (sample.input, *sample.args)], kwargs


def _mapped(x, convert):
    """A sequence, mapping or slice whose parts have been converted; anything else as it is."""
    if isinstance(x, torch.Size):
        return tuple(x)
    if isinstance(x, list | tuple):
        parts = [convert(part) for part in x]
        return type(x)(parts) if type(x) in (list, tuple) else type(x)(*parts)
    if isinstance(x, Mapping):
        return {name: convert(part) for name, part in x.items()}
    if isinstance(x, slice):
        return slice(*(convert(part) for part in (x.start, x.stop, x.step)))
    return x


def _leaves(x):
    """The parts of nested sequences and mappings that are neither."""
    if isinstance(x, list | tuple):
        return list(itertools.chain.from_iterable(map(_leaves, x)))
    return _leaves(list(x.values())) if isinstance(x, Mapping) else [x]


def _tensors(x):
    return [part for part in _leaves(x) if isinstance(part, torch.Tensor)]


def _results(x) -> Iterator:
    """The tensors and numbers of a result."""
    return (part for part in _leaves(x) if part is not None)


def _array(x):
    if isinstance(x, torch.Tensor):
        x = x.detach().resolve_conj().resolve_neg()
        if x.dtype == torch.bfloat16:
            return adjoint.tensor(x.float().numpy()).to(adjoint.bfloat16).numpy()
        return x.numpy()
    return x.detach().numpy() if isinstance(x, adjoint.Tensor) else np.asarray(x)


def _seeds(outputs):
    """Cotangents of outputs: the same for both libraries."""
    rng = np.random.default_rng(0)
    return [np.asarray(rng.uniform(0.5, 1.5, tuple(out.shape)), np.float32) for out in outputs]


def _differ(info, sample, run, single, double):
    """How a run of adjoint differs from those of PyTorch, or None."""
    if len(run.results) != len(single.results):
        return f"{len(run.results)} results instead of {len(single.results)}"
    random = info.name in SHAPES_ONLY and SHAPES_ONLY[info.name](sample.kwargs)
    ties = info.name in ANY_OF_TIES and not sample.input.dtype.is_floating_point
    for number, (found, one, two) in enumerate(zip(run.results, single.results, double.results, strict=True)):
        values = not random and not (ties and one.dtype == np.int64 and (number or info.name == "argsort"))
        problem = _differs(found, one, two, values)
        if problem:
            return f"result {number}: {problem}"
    values = not random and not {info.name, full_name(info)} & GRADIENTS_DIFFER.keys()
    if not run.gradients and any(gradient is not None and gradient.any() for gradient in single.gradients):
        return "no gradient"
    for number, (found, one, two) in enumerate(zip(run.gradients, single.gradients, double.gradients, strict=False)):
        if found is None and one is None:
            continue
        # No gradient is a gradient of zeros.
        zeros = np.zeros_like(one if found is None else found)
        given = (zeros if gradient is None else gradient for gradient in (found, one, two))
        problem = _differs(*given, values, _largest(double.gradients))
        if problem:
            return f"gradient {number}: {problem}"
    return None


def _largest(arrays):
    """The largest finite element of several arrays."""
    return max((abs(a[np.isfinite(a)]).max(initial=0.0) for a in arrays if a is not None), default=0.0)


def _differs(found, single, double, values, largest=0.0):
    if found.shape != single.shape:
        return f"shape {found.shape} instead of {single.shape}"
    if found.dtype != single.dtype:
        return f"{found.dtype} instead of {single.dtype}"
    if not values or not found.size:
        return None
    if found.dtype.kind in "biu":
        off = found != single
        return f"{off.sum()} of {off.size} differ: {found[off][:4]} instead of {single[off][:4]}" if off.any() else None
    if double.shape != single.shape:
        double = single
    wide, one = found.astype(np.float64), single.astype(np.float64)
    # An overflow is one of float32: also infinite in PyTorch's float32.
    two = np.where(np.isfinite(one), double.astype(np.float64), one)
    odd = ~np.isfinite(two)
    if not np.array_equal(wide[odd], two[odd], equal_nan=True) or not np.isfinite(wide[~odd]).all():
        return f"{wide.ravel()[:8]} instead of {two.ravel()[:8]}"
    wide, one, two = wide[~odd], one[~odd], two[~odd]
    if not wide.size:
        return None
    unit = 1 if found.dtype.itemsize >= 4 else 2.0**24 * float(adjoint.finfo(found.dtype).eps)
    largest = max(largest, abs(two).max())
    allowed = unit * (RELATIVE * abs(two) + OF_LARGEST * largest) + OF_PYTORCH * abs(one - two).max() + ABSOLUTE
    off = abs(wide - two)
    worst = int(np.argmax(off / allowed))
    if off[worst] <= allowed[worst]:
        return None
    return f"{(off > allowed).sum()} of {off.size} are off, {wide[worst]} instead of {two[worst]}"
