"""Large programs are several modules, compiled by threads and linked into one product."""

import subprocess
import sys
from dataclasses import replace
from functools import cache

import llvmlite.binding as llvm
import numpy as np
import pytest

from adjoint import ops
from adjoint.codegen import native
from adjoint.codegen.module import emit_modules
from adjoint.codegen.native import compile_native
from adjoint.compiler import CompileOptions, compile, host
from adjoint.errors import VerifyError
from adjoint.ir import Function, param
from adjoint.pipeline import finish_program, lower_function
from adjoint.runtime.library import Library
from tests.closeness import agrees_with_graph
from tests.runtime.networks import program_of

LAYERS = 14


@pytest.fixture(scope="module")
def deep():
    """Products of different sizes, each a kernel of its own, whose text is more than one module's."""
    x = out = param("x", (30, 20))
    weights = []
    for i in range(LAYERS):
        weights.append(param(f"w{i}", (out.shape[1], 20 + 3 * (i + 1))))
        out = ops.tanh(ops.matmul(out, weights[-1]))
    return Function("deep", (x, *weights), (out,))


@pytest.fixture(scope="module")
def texts(deep):
    return tuple(emit_modules(finish_program(lower_function(deep, host())), host()))


@pytest.fixture(scope="module")
def objects(texts):
    return compile_native(texts, host(), threads=1)


@pytest.fixture(scope="module")
def compiled(deep, tmp_path_factory):
    """The function compiled as users do, and then found in the cache."""
    folder = tmp_path_factory.mktemp("compiled")
    made = [compile(deep, options=CompileOptions(cache_directory=folder, threads=threads)) for threads in (2, 1)]
    assert [one.cached for one in made] == [False, True]
    return made


def functions(text):
    """Names of a module's functions, defined and declared, and how they are linked."""
    module = llvm.parse_assembly(text, llvm.create_context())
    found = [f for f in module.functions if not f.name.startswith("llvm.")]
    return {f.name for f in found if not f.is_declaration}, {f.name for f in found if f.is_declaration}, found


def test_a_small_program_is_one_module():
    x = param("x", (8,))
    program = finish_program(lower_function(Function("f", (x,), (ops.exp(x),)), host()))
    assert len(tuple(emit_modules(program, host()))) == 1


def test_the_barrier_is_a_module_that_a_process_compiles_once(texts, objects):
    """It is that of other programs too, which can be linked together."""
    other = tuple(emit_modules(finish_program(program_of("mlp", host())), host()))
    assert other[0] == texts[0]
    assert "barrier" in functions(texts[0])[0]
    others = compile_native(other, host())
    assert others[0] is objects[0]
    both = Library((*objects, *others), ("adjoint.deep", "adjoint.step"))
    assert both["adjoint.deep"] != both["adjoint.step"]


def test_modules_define_every_kernel_once_and_declare_what_others_define(texts):
    assert len(texts) > 1
    defined = [functions(text)[0] for text in texts]
    assert sum(map(len, defined)) == len(set.union(*defined))
    declared = set.union(*(functions(text)[1] for text in texts))
    assert declared <= set.union(*defined) | {"syscall", "usleep"}
    assert {"adjoint.deep", "adjoint.deep.check"} <= defined[-1]


def test_modules_get_longer(texts):
    """The first ones, after the barrier's, are short: several threads have something to do in small programs, too."""
    before = 0
    for text in texts[1:-1]:
        assert len(text) > 0.9 * min(max(80_000, before / 2), 400_000)
        before += len(text)
    assert len(texts[1]) < 200_000 < max(map(len, texts))


def test_only_entry_points_are_exported(texts):
    visible = {
        f.name
        for text in texts
        for f in functions(text)[2]
        if not f.is_declaration and f.visibility.name == "default" and f.linkage.name == "external"
    }
    assert visible == {"adjoint.deep", "adjoint.deep.check"}


def test_any_number_of_threads_makes_the_same_objects(texts, objects, compiled):
    assert len(objects) == len(texts) > 3
    assert compile_native(texts, host(), threads=3) == objects
    assert [made["deep"].objects for made in compiled] == [objects, objects]


def test_linked_modules_compute_what_the_graph_says(deep, compiled):
    rng = np.random.default_rng(0)
    arrays = [(rng.standard_normal(p.shape) / 5).astype("f4") for p in deep.params]
    for made in compiled:
        agrees_with_graph(made(*arrays), deep, *arrays)


def test_an_error_in_one_module_is_raised(texts):
    with pytest.raises(VerifyError, match="generated code is not valid LLVM"):
        compile_native((*texts[:1], "define nonsense"), host(), threads=2)


def test_jumps_are_kept_apart_for_cpus_that_need_it(texts, monkeypatch):
    """Once in a process: LLVM ends the process at an option that is set twice."""
    options = []
    monkeypatch.setattr(native, "_set_option", cache(options.append))
    compile_native(texts, replace(host(), cpu="znver4" if host().architecture == "x86_64" else host().cpu), threads=2)
    assert not options
    if host().architecture == "x86_64":
        compile_native(texts, replace(host(), cpu="cascadelake"), threads=2)
        assert options == ["--x86-branches-within-32B-boundaries"]


@pytest.mark.skipif(host().architecture != "x86_64", reason="the option is of LLVM for x86-64")
def test_llvm_pads_code_whose_jumps_are_kept_apart(tmp_path):
    """In a process of its own, since LLVM keeps its options."""
    script = """if True:
        from dataclasses import replace
        from adjoint import ops
        from adjoint.codegen import native
        from adjoint.codegen.module import emit_modules
        from adjoint.codegen.targets import target_for
        from adjoint.ir import Function, param
        from adjoint.pipeline import finish_program, lower_function

        target = replace(target_for("avx512"), cpu="cascadelake")
        x, w = param("x", (90, 70)), param("w", (70, 50))
        program = finish_program(lower_function(Function("f", (x, w), (ops.matmul(x, w),)), target))
        texts = tuple(emit_modules(program, target))
        cpus, native._JUMPS_APART = native._JUMPS_APART, frozenset()
        as_it_comes = native.compile_native(texts, target, threads=1)
        native._JUMPS_APART = cpus
        padded = native.compile_native(texts, target, threads=1)
        assert padded != as_it_comes
        assert native.compile_native(texts, target, threads=2) == padded
    """
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
