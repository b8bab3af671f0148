"""Absent rows are left out: nothing is read of them, nothing is stored for them, and results have the same bits."""

import numpy as np
import pytest

from adjoint import costs, models
from adjoint.codegen.module import emit_modules
from adjoint.codegen.targets import target_for
from adjoint.compiler import CompileOptions, compile
from adjoint.ir import Function, TensorType
from adjoint.kernel import interpreter
from adjoint.kernel.interpreter import run_kernel
from adjoint.kernel.parser import parse_kernels
from adjoint.losses import CrossEntropyLoss, MSELoss
from adjoint.lower import program as lowering
from adjoint.lower.schedule import bound_rows
from adjoint.optim import SGD
from adjoint.pipeline import finish_program, lower_function
from adjoint.runtime.bound import aligned
from adjoint.training import SetupTrainer
from tests.golden.passes import bounded, halves, without_remarks
from tests.hardware import levels
from tests.training.models import batch_normalised


def classifier(rows, sizes=(8, 16, 4)):
    setup = SetupTrainer(CrossEntropyLoss(), SGD(0.1), [TensorType((rows, sizes[-1])), TensorType((rows,), "i64")])
    return setup(models.mlp(sizes, rows))


def images(rows):
    setup = SetupTrainer(CrossEntropyLoss(), SGD(0.1), [TensorType((rows, 10)), TensorType((rows,), "i64")])
    return setup(models.lenet(rows))


def normalised(rows):
    return SetupTrainer(MSELoss(), SGD(0.05), [TensorType((rows, 2))] * 2)(batch_normalised(rows))


def language_model(rows):
    module = models.gpt(1, 2, 16, length=8, batch_size=rows, vocabulary=20)
    types = [module["backbone"].results[0].type, TensorType((rows * 8,), "i64")]
    return SetupTrainer(CrossEntropyLoss(), SGD(0.1), types)(module)


def wide_language_model(rows):
    """One whose weight gradients pack activations: as wholes, and in panels for blocks of positions."""
    module = models.gpt(1, 4, 128, length=64, batch_size=rows, vocabulary=20)
    types = [module["backbone"].results[0].type, TensorType((rows * 64,), "i64")]
    return SetupTrainer(CrossEntropyLoss(), SGD(0.1), types)(module)


def without_batch(step):
    """The step whose kernels compute all rows."""
    return Function(step.name, step.params, step.results, {k: v for k, v in step.attrs.items() if k != "batch"})


class Counted(np.ndarray):
    """An array that counts what is stored to it."""

    stores = 0

    def __setitem__(self, at, value):
        self.stores += 1
        super().__setitem__(at, value)


def parts(name):
    """The kernels before and after the pass, of a golden text."""
    before = parse_kernels(without_remarks(halves(f"bound_rows/{name}.txt")[0]))
    return before, bounded(before)


def run(kernels, given, rows):
    """Run kernels on arrays by buffer; memory that is not given is full of NaNs. Also the number of stores."""
    memory = {}
    for b in dict.fromkeys(b for k in kernels for b in (*k.reads, *k.writes)):
        filled = np.full(b.size, rows, b.dtype) if b.name == "rows" else np.full(b.size, np.nan, b.dtype)
        memory[b] = given.get(b.name, filled).copy().view(Counted)
    for kernel in kernels:
        run_kernel(kernel, {b: memory[b] for b in (*kernel.reads, *kernel.writes)})
    return {b.name: np.asarray(a) for b, a in memory.items()}, sum(a.stores for a in memory.values())


@pytest.mark.parametrize("rows", range(9))
def test_units_store_present_rows_and_the_rest_of_their_tile(rows):
    before, after = parts("units")
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=24).astype(np.float32), rng.normal(size=48).astype(np.float32)
    tile = -(-rows // 2) * 2
    poisoned = x.copy()
    poisoned[tile * 3 :] = np.nan
    (wanted, _), (found, stores) = run(before, {"x": x, "w": w}, 8), run(after, {"x": poisoned, "w": w}, rows)
    np.testing.assert_array_equal(found["x1"][: rows * 3], wanted["x1"][: rows * 3])
    np.testing.assert_array_equal(found["x2"][: tile * 16], wanted["x2"][: tile * 16])
    assert np.isnan(found["x1"][rows * 3 :]).all()
    assert np.isnan(found["x2"][tile * 16 :]).all()
    assert stores == rows * 3 + tile * 16


@pytest.mark.parametrize("rows", range(1, 9))
def test_sums_leave_out_what_was_not_computed(rows):
    """Rows are computed in pairs, as a unit reads them; the row of the last pair that is absent holds valid data."""
    before, after = parts("sums")
    x = np.random.default_rng(rows).normal(size=32).astype(np.float32)
    x[rows * 4 :] = 0.0  # neutral terms, as those of rows that are absent are
    poisoned = x.copy()
    poisoned[-(-rows // 2) * 8 :] = np.nan
    (wanted, most), (found, stores) = run(before, {"x": x}, 8), run(after, {"x": poisoned}, rows)
    np.testing.assert_array_equal(found["result0"], wanted["result0"])
    assert stores == (most if rows == 8 else -(-rows // 2) * (8 + 4) + 4)


def test_what_a_step_executes_falls_with_the_rows(monkeypatch):
    """Assignments of a perceptron's step, counted by the interpreter; the update of the weights is the same."""
    monkeypatch.setattr(costs, "BOUNDED_WORK", 0)
    program = lower_function(classifier(16)["step"], target_for("avx2"))
    store, executed = interpreter._Run.store, []
    monkeypatch.setattr(interpreter._Run, "store", lambda self, of: (executed.append(of), store(self, of)))
    counts = {}
    for rows in (16, 8, 2):
        buffers = dict.fromkeys(b for k in program.kernels for b in (*k.reads, *k.writes, *k.scratch))
        memory = {b: np.full(b.size, rows if b.name == "rows" else 1, b.dtype) for b in buffers}
        for kernel in program.kernels:
            run_kernel(kernel, {b: memory[b] for b in (*kernel.reads, *kernel.writes, *kernel.scratch)})
        counts[rows] = len(executed)
        executed.clear()
    assert counts[8] < 0.65 * counts[16]
    assert counts[2] < 0.4 * counts[16]


def test_kernels_that_differ_in_names_only_are_bounded_once(monkeypatch):
    """The others get the same statements with names of their own, as if they had been bounded themselves."""
    monkeypatch.setattr(costs, "BOUNDED_WORK", 0)
    step, target = classifier(24, (8, 16, 16, 16, 16, 4))["step"], target_for("avx2")
    rename, renamed = bound_rows._renamed, []
    monkeypatch.setattr(bound_rows, "_renamed", lambda *given: renamed.append(given) or rename(*given))
    once = lower_function(step, target)
    assert len(renamed) > 0
    monkeypatch.setattr(bound_rows, "_representatives", lambda kernels, _: {kernel: kernel for kernel in kernels})
    alone = lower_function(step, target)
    texts = ["\n".join(emit_modules(finish_program(program), target)) for program in (once, alone)]
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("build", "rows", "target"),
    [
        (lambda rows: classifier(rows, (256, 1024, 1024, 10)), 128, "avx512"),
        (lambda rows: classifier(rows, (128, 640, 640, 10)), 96, "avx2"),
        (wide_language_model, 12, "avx512"),
        (wide_language_model, 12, "avx2"),
    ],
    ids=["operands packed as wholes", "in panels", "in panels for blocks", "for blocks that begin inside a row"],
)
def test_no_kernel_that_reads_packed_operands_keeps_absent_rows(build, rows, target, monkeypatch):
    unbounded = []

    def spied(kernels, batch):
        made = bound_rows.bound_rows(kernels, batch)
        unbounded.extend(k.name for k in made.kernels if not batch.layouts.keys().isdisjoint(k.reads) and not reads(k))
        return made

    def reads(kernel):
        return "rows" in [b.name for b in kernel.reads]

    monkeypatch.setattr(lowering, "bound_rows", spied)
    lower_function(build(rows)["step"], target_for(target))
    assert unbounded == []


def results(entry, step, rows, poisoned):
    """What a compiled step computes from the same data; with `poisoned`, all that it must not read is NaN."""
    rng, each = np.random.default_rng(0), {name: n for name, _, n in step.attrs["batch"][1]}
    resident = {}
    for argument in entry.arguments:
        array = aligned(argument.shape, argument.dtype)
        drawn = rng.integers(0, 4, array.shape) if array.dtype.kind in "iu" else rng.normal(size=array.shape)
        array[...] = np.abs(drawn) if "variance" in argument.name else drawn
        if argument.name in each:
            present = rows * each[argument.name]
            array[present:] = array[present - 1]
            tile = argument.together * each[argument.name]
            if poisoned and tile:
                array[-(-present // tile) * tile :] = np.nan if array.dtype.kind == "f" else -(1 << 30)
        resident[argument.name] = array
    resident["rows"][()] = rows
    bound = entry.bind(resident)
    bound.arena[:] = 255 if poisoned else 0
    bound()
    return {a.name: resident[a.name] for a in entry.arguments if a.donated} | {"loss": bound.outputs[0].copy()}


@pytest.mark.parametrize(
    ("build", "most", "counts"),
    [
        (lambda rows: classifier(rows, (32, 32, 10)), 64, (64, 63, 17, 1)),
        (images, 8, (8, 5, 1)),
        (normalised, 64, (64, 33, 2)),
        (language_model, 8, (8, 3)),
    ],
    ids=["mlp", "lenet", "batch norm", "gpt"],
)
def test_a_step_reads_nothing_of_absent_rows(build, most, counts, monkeypatch):
    reads_nothing_of_absent_rows(build(most)["step"], counts, monkeypatch)


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize(
    ("build", "most", "counts"),
    [(lambda rows: classifier(rows, (128, 640, 640, 10)), 96, (96, 41)), (wide_language_model, 12, (12, 5))],
    ids=["mlp", "gpt"],
)
def test_a_step_that_packs_activations_reads_nothing_of_absent_rows(build, most, counts, level, monkeypatch):
    reads_nothing_of_absent_rows(build(most)["step"], counts, monkeypatch, level)


def reads_nothing_of_absent_rows(step, counts, monkeypatch, target="host"):
    """The bits are those of a step that computes all rows, of which absent ones are copies."""
    monkeypatch.setattr(costs, "BOUNDED_WORK", 0)
    options = CompileOptions(cache=False, threads=2)
    bound, whole = (compile(f, target, options)["step"] for f in (step, without_batch(step)))
    assert "cast(rows[0] as i64)" in bound.text("kernels")
    assert "cast(rows[0] as i64)" not in whole.text("kernels")
    for rows in counts:
        found, wanted = results(bound, step, rows, poisoned=True), results(whole, step, rows, poisoned=False)
        for name, array in wanted.items():
            assert found[name].tobytes() == array.tobytes(), (rows, name)
