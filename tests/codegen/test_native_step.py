"""The step is one native function: it calls nothing of Python's or NumPy's, and allocates nothing."""

import tracemalloc

import llvmlite.binding as llvm
import numpy as np
import pytest

from adjoint.codegen.module import emit_modules
from adjoint.codegen.native import NativeCode
from adjoint.compiler import CompileOptions, compile, host
from adjoint.ir import TensorType
from adjoint.losses import CrossEntropyLoss
from adjoint.models import mlp
from adjoint.optim import SGD
from adjoint.pipeline import finish_program, lower_function
from adjoint.training import SetupTrainer, Trainer


@pytest.fixture(scope="module")
def trained():
    setup = SetupTrainer(CrossEntropyLoss(), SGD(0.1), [TensorType((16, 10)), TensorType((16,), "i64")])
    return setup(mlp((20, 32, 10), 16))


def undefined_symbols(code):
    """Names that object code wants from elsewhere."""
    symbols = llvm.ObjectFileRef.from_data(code)
    assert symbols.sections() is not None
    text = code.decode("latin1")
    return {name for name in ("malloc", "calloc", "realloc", "free", "Py", "cblas", "expf", "logf") if name in text}


def test_the_step_declares_no_function_but_the_one_that_sleeps(trained):
    program = finish_program(lower_function(trained["step"], host()))
    modules = [llvm.parse_assembly(NativeCode(text, host()).llvm()) for text in emit_modules(program, host())]
    functions = [f for module in modules for f in module.functions if not f.name.startswith("llvm.")]
    outside = {f.name for f in functions if f.is_declaration} - {f.name for f in functions if not f.is_declaration}
    assert outside <= {"syscall", "usleep"}


def test_object_code_names_no_allocator_and_no_library(trained):
    objects = compile(trained, entries=("step",), options=CompileOptions(cache=False))["step"].objects
    assert objects
    assert not any(map(undefined_symbols, objects))


def test_one_native_call_a_step_and_no_bytes_allocated(trained):
    trainer = Trainer(trained, threads=1, options=CompileOptions(cache=False))
    trainer.init_parameters()
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((16, 20)).astype("f4"), rng.integers(0, 10, 16)
    trainer.update(x, y)
    step = trainer.compile()._bound.call
    assert type(step).__name__ == "builtin_function_or_method"
    tracemalloc.start()
    for _ in range(3):
        step(x, y)
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(1000):
        step(x, y)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    # The loss is a Python float, 24 bytes that are freed before the next one is made.
    assert after - before < 1000
