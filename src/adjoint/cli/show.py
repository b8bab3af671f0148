"""``adjoint show``: a compilation stage of a model, as text."""

import re

import click

from adjoint.cli.builtin import LOSSES, OPTIMIZERS, load_model, training_module
from adjoint.cli.options import Name, closest
from adjoint.codegen.targets import TARGETS, target_for
from adjoint.compiler import program_text
from adjoint.ir import Function, IRModule, closure
from adjoint.ir.printer import print_functions, print_module
from adjoint.kernel.program import Program, kernel_symbol
from adjoint.pipeline import PASSES, lower_function, print_passes

__all__ = ["command"]

GRAPH_STAGES = ("graph", "adjoint", "step")
CODE_STAGES = ("kernels", "llvm", "asm")


@click.command("show")
@click.argument("model")
@click.option("--stage", type=Name("stage", GRAPH_STAGES + CODE_STAGES), default="graph", show_default=True)
@click.option("--batch-size", type=click.IntRange(1), help="Batch size of a built-in model.")
@click.option("--loss", type=Name("loss", LOSSES), help="Loss of a file's backbone; a built-in model has its own.")
@click.option("--optimizer", type=Name("optimizer", OPTIMIZERS), help="Optimizer of the step; default: sgd.")
@click.option("--kernel", metavar="NAME", help="Print this kernel only (stages kernels, llvm, asm).")
@click.option("--target", type=Name("target", TARGETS), default="host", show_default=True, help="CPU to compile for.")
@click.option("--lines", is_flag=True, help="Append to each value the line of code that it comes from (graph stages).")
@click.option(
    "--print-after", type=Name("pass", ("all", *PASSES)), help="Print the step after this pass, or all of them."
)
def command(
    model: str,
    stage: str,
    batch_size: int | None,
    loss: str | None,
    optimizer: str | None,
    kernel: str | None,
    target: str,
    lines: bool,
    print_after: str | None,
) -> None:
    """Print a compilation stage of MODEL: mlp, linreg, lenet, resnet20, gpt, or a file.

    A file contains graph text, or is a Python file that defines an IRModule called module, or a function of that name
    that returns one; FILE.py:NAME takes another name. A step in it is used as it is; of a backbone, the stages after
    graph need --loss.

    The stage step is the training step before the graph passes; --print-after prints it after a pass. A value has the
    same name in all stages.
    """
    if print_after is not None and (stage != "graph" or kernel is not None):
        raise click.UsageError("--print-after prints passes instead of a stage; omit --stage and --kernel")
    if kernel is not None and stage not in CODE_STAGES:
        raise click.UsageError(f"--kernel requires one of the stages {', '.join(CODE_STAGES)}, got {stage}; omit it")
    if lines and (stage not in GRAPH_STAGES or print_after is not None):
        raise click.UsageError(f"--lines requires one of the stages {', '.join(GRAPH_STAGES)}; omit it")
    module = load_model(model, batch_size)
    if stage == "graph" and print_after is None:
        click.echo(print_module(module, lines))
        return
    use = f"the stage {stage}" if print_after is None else "--print-after"
    module = training_module(model, module, OPTIMIZERS.get(optimizer or ""), loss, use)
    cpu = target_for(target)
    if print_after is not None:
        for name, text in print_passes(module["step"], cpu):
            if print_after in ("all", name):
                click.echo(f"# after {name}\n{text}\n")
    elif stage == "adjoint":
        click.echo(print_functions(closure((_gradients(model, module),)), lines))
    elif stage == "step":
        click.echo(print_functions(closure((module["step"],)), lines))
    else:
        program = lower_function(module["step"], cpu)
        text = program_text(program, cpu, stage)
        click.echo(text if kernel is None else _only(kernel, stage, text, program))


def _gradients(model: str, module: IRModule) -> Function:
    """The model, loss and gradients."""
    name = "backbone_loss_adjoint"
    if name not in module:
        raise click.UsageError(
            f"the stage adjoint is a module's function {name}, which SetupTrainer makes, but {model} contains "
            f"{', '.join(f.name for f in module)}; choose the stage step"
        )
    return module[name]


#: Regular expressions for the text of one kernel, by stage; NAME stands for its name. One whose units end at run time
#: has a second function, which runs some of them.
_PATTERNS = {
    "kernels": r"^kernel NAME\b.*?(?=^kernel |\Z)",
    "llvm": r"^define [^\n]*@NAME(?:\.units)?\(.*?^\}",
    "asm": r"^NAME(?:\.units)?:.*?(?=^[\w.$]+:|\Z)",
}


def _only(kernel: str, stage: str, text: str, program: Program) -> str:
    """The text of one kernel within the text of a stage."""
    names = [k.name for k in program.kernels]
    if kernel not in names:
        raise click.UsageError(f"no kernel {kernel!r}; {closest(kernel, names)}")
    spelled = kernel if stage == "kernels" else kernel_symbol(program.name, kernel)
    found = re.findall(_PATTERNS[stage].replace("NAME", re.escape(spelled)), text, re.MULTILINE | re.DOTALL)
    if not found:
        raise click.UsageError(
            f"kernel {kernel} has no separate code at the stage {stage}, since it is part of the step or shares the "
            "code of another kernel; omit --kernel"
        )
    return "\n\n".join(part.rstrip() for part in found)
