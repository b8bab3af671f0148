"""The command line: ``adjoint COMMAND ...``.

A command's module is loaded when the command is called, so that ``adjoint --help`` is fast. Every error is one sentence
on standard error with exit status 2, followed by the graph if it is a bug in adjoint; after Ctrl-C the exit status is
130.
"""

import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module

import click

from adjoint.cli.options import INTERRUPTED, REFUSED, closest
from adjoint.errors import AdjointError, InternalError
from adjoint.version import __version__

__all__ = ["main"]

#: Commands by name, with the descriptions that ``adjoint --help`` prints without loading them.
_COMMANDS = {
    "train": "Train a model on a dataset.",
    "eval": "Print the metrics of a trained model.",
    "predict": "Classify images with a trained model.",
    "generate": "Write text with a trained GPT.",
    "show": "Print a compilation stage of a model.",
    "profile": "Time each kernel of a model's training step.",
    "ops": "Print the operators that a model can use.",
    "port": "Print what scripts of other frameworks need changed.",
    "doctor": "Print versions, CPU, threads, and whether the cache is usable.",
    "cache": "Print the contents of the cache, or clear it.",
}


class _Commands(click.Group):
    """A group that loads a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = import_module(f"adjoint.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in _COMMANDS:
            raise click.UsageError(f"no command {args[0]!r}; {closest(args[0], _COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="adjoint %(version)s")
def _adjoint() -> None:
    """A training compiler: forward, loss, gradients and optimizer in one native function."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        The arguments after ``adjoint``; default: those of this process.

    Returns
    -------
    int
        Exit status: 0, 2 for an error, 130 after Ctrl-C.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default", UserWarning)
            warnings.showwarning = _warn  # type: ignore[assignment]
            status = _adjoint.main(arguments, prog_name="adjoint", standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        return _refuse("interrupted", INTERRUPTED)
    except click.exceptions.NoArgsIsHelpError as help_text:
        print(help_text.format_message(), file=sys.stderr)
        return REFUSED
    except click.NoSuchOption as error:
        # In adjoint's own words, because click's change from version to version.
        near = " or ".join(sorted(error.possibilities or ()))
        hint = f"did you mean {near}?" if near else "--help lists those that there are"
        return _refuse(f"no option {error.option_name!r}; {hint}", REFUSED)
    except click.ClickException as error:
        return _refuse(error.format_message(), REFUSED)
    except InternalError as error:
        return _refuse("\n".join((error.message, *error.__notes__)), REFUSED)
    except AdjointError as error:
        return _refuse(error.message, REFUSED)
    except BrokenPipeError:
        # The reader of the pipe has exited. Without this, Python would print another error when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status if isinstance(status, int) else 0


def _warn(message: Warning | str, *_place: object) -> None:
    print(f"adjoint: warning: {message}", file=sys.stderr)


def _refuse(message: str, status: int) -> int:
    print(f"adjoint: {message}", file=sys.stderr)
    return status
