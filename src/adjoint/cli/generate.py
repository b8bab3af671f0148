"""``adjoint generate``: text that a trained GPT writes."""

import sys
from pathlib import Path

import click

from adjoint.cli.experiment import trained_experiment
from adjoint.errors import AdjointError
from adjoint.nn.networks import GPT

__all__ = ["command"]


@click.command("generate")
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.option("--prompt", default="\n", help="The text before.  [default: a line end]")
@click.option("--count", type=click.IntRange(1), default=500, show_default=True, help="Characters to write.")
@click.option("--temperature", type=click.FloatRange(0), default=0.8, show_default=True, help="0: no randomness.")
@click.option("--top-k", type=click.IntRange(1), help="Draw among the K most probable characters.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the draws.")
def command(checkpoint: Path, prompt: str, count: int, temperature: float, top_k: int | None, seed: int) -> int:
    """Write text with a GPT from CHECKPOINT, a file of ``adjoint train`` or a folder of them."""
    experiment = trained_experiment(checkpoint)
    network, tokenizer = experiment.model.network, experiment.data.tokenizer
    if tokenizer is None or not isinstance(network, GPT):
        raise click.UsageError(
            f"generate takes a checkpoint of a GPT, got one of {type(network).__name__}; train a gpt"
        )
    try:
        ids = tokenizer.encode(prompt)
    except AdjointError as error:
        raise click.UsageError(f"--prompt: {error.message}") from error
    sys.stdout.write(prompt)
    for token in network.generate(ids.tolist(), count, temperature=temperature, top_k=top_k, seed=seed):
        sys.stdout.write(tokenizer.decode([token]))
        sys.stdout.flush()
    sys.stdout.write("\n")
    return 0
