"""The list of passes, and what each of them prints."""

from dataclasses import replace

import pytest

from adjoint import Function, TensorType, ops, param, pipeline
from adjoint.cli import main
from adjoint.compiler import host
from adjoint.errors import InternalError
from adjoint.ir.verifier import verify
from adjoint.kernel.ir import Kernel
from adjoint.kernel.parser import parse_kernels
from adjoint.kernel.printer import print_kernels
from adjoint.kernel.program import Program
from adjoint.lower import passes
from adjoint.ops.text import parse_function
from adjoint.pipeline import GRAPH_PASSES, PASSES, finish_program, lower_function, print_passes
from tests.runtime.networks import NETWORKS, module_of


def test_the_list_is_complete():
    assert PASSES == (
        "inline_calls", "polyphase", "simplify", "cse", "fuse_cross_entropy", "merge_loops", "keep_padded",
        "separate_results",
        "fuse", "build_kernels", "order_kernels", "eliminate_dead_kernels", "compute_at", "fuse_horizontally",
        "fuse_producers", "unroll_and_jam", "serialize_small", "coalesce_serial", "name_kernels",
        "bound_rows", "plan_memory", "expand_math", "interleave",
    )  # fmt: skip
    assert len(set(PASSES)) == len(PASSES)


@pytest.mark.parametrize("name", [name for name in NETWORKS if name != "resnet8"])  # it takes seconds to print
def test_every_pass_of_the_list_runs_once_and_prints(name):
    step = module_of(name)["step"]
    found = list(print_passes(step, host()))
    assert tuple(pass_name for pass_name, _ in found) == PASSES
    texts = dict(found)
    for graph_pass in GRAPH_PASSES:
        text = texts[graph_pass.__name__]
        function = parse_function(text)
        verify(function)
        assert str(function) == text
    for kernel_pass in ("build_kernels", "expand_math", "interleave"):
        assert print_kernels(parse_kernels(texts[kernel_pass])) == texts[kernel_pass]
    assert texts["fuse"].startswith("group at level ")
    assert texts["plan_memory"].startswith("program step\n  slot 0: ")


def test_what_is_observed_is_what_code_is_generated_from():
    step, seen = module_of("mlp")["step"], {}
    program = finish_program(lower_function(step, host(), after=seen.__setitem__), seen.__setitem__)
    assert tuple(seen) == PASSES
    assert isinstance(seen["plan_memory"], Program)
    assert seen["plan_memory"].kernels == tuple(seen["bound_rows"])
    assert tuple(seen["interleave"]) == program.kernels
    assert all(isinstance(kernel, Kernel) for kernel in seen["build_kernels"])


@pytest.mark.parametrize("each", [False, True], ids=["after the last pass", "after each"])
@pytest.mark.parametrize("broken", list(passes.KERNEL_PASSES))
def test_kernels_that_a_pass_breaks_are_refused(monkeypatch, broken, each):
    """A pass that makes a kernel read outside its buffers is found by default too, without `ADJOINT_VERIFY_EACH`."""
    monkeypatch.setattr(pipeline, "_VERIFY_EACH", each)
    whole = passes.KERNEL_PASSES[broken]

    def wrong(kernels, context):
        shorter = print_kernels(whole(kernels, context)).replace("x f32[256]", "x f32[200]")
        return list(parse_kernels(shorter))

    monkeypatch.setitem(passes.KERNEL_PASSES, broken, wrong)
    x = param("x", (4, 64))
    with pytest.raises(InternalError, match="an access is inside its buffer"):
        lower_function(Function("f", (x,), (ops.exp(x),)), host())


@pytest.mark.parametrize(("each", "reached"), [(False, ["cse", "separate_results"]), (True, ["cse"])])
def test_a_graph_that_a_pass_breaks_is_refused(monkeypatch, each, reached):
    """After the last graph pass by default, and after the one to blame with `ADJOINT_VERIFY_EACH`."""
    x, seen = param("x", (4,)), []

    def cse(function):
        seen.append("cse")
        (result,) = function.results
        return Function(function.name, function.params, (replace(result, type=TensorType((5,))),), function.attrs)

    def separate_results(function):
        seen.append("separate_results")
        return function

    monkeypatch.setattr(pipeline, "_VERIFY_EACH", each)
    monkeypatch.setattr(pipeline, "GRAPH_PASSES", (cse, separate_results))
    with pytest.raises(InternalError):
        lower_function(Function("f", (x,), (ops.exp(x),)), host())
    assert seen == reached


def test_the_command_prints_all_passes_or_one(capsys):
    assert main(["show", "linreg", "--print-after", "all"]) == 0
    out = capsys.readouterr().out
    assert [line.removeprefix("# after ") for line in out.splitlines() if line.startswith("# after ")] == list(PASSES)
    assert main(["show", "linreg", "--print-after", "cse"]) == 0
    assert capsys.readouterr().out.startswith("# after cse\nfunc @step(")


def test_passes_and_stages_are_not_mixed(capsys):
    assert main(["show", "mlp", "--print-after", "cse", "--stage", "llvm"]) == 2
    assert "--print-after prints passes instead of a stage; omit --stage and --kernel" in capsys.readouterr().err
    assert main(["show", "mlp", "--print-after", "cs"]) == 2
    assert "cse" in capsys.readouterr().err
