"""The golden texts of the passes: ``<pass>/<case>.txt`` holds a program, a line ``=== after`` and what becomes of it.

``python -m tests.golden.passes`` writes the second part anew; look at the difference before you commit it.
"""

from pathlib import Path

from adjoint import ops, transforms
from adjoint.transforms.rematerialize import rematerialize

FOLDER = Path(__file__).parent
MARK = "\n=== after\n"

#: What is done with the program, by the name of the folder.
PASSES = {
    "append_loss": lambda m: transforms.append_loss(m["backbone"], m["loss"]),
    "cse": lambda m: transforms.cse(m["main"]),
    "differentiate": lambda m: transforms.gradient(m["main"]),
    "inline_calls": lambda m: transforms.inline_calls(m["main"]),
    "prune_params": lambda m: transforms.prune_params(m["main"]),
    "rematerialize": lambda m: rematerialize(m["main"], 0),
    "simplify": lambda m: transforms.simplify(m["main"]),
}

CASES = sorted(str(path.relative_to(FOLDER)) for name in PASSES for path in (FOLDER / name).glob("*.txt"))


def halves(case):
    """The program and what is recorded, each without blanks around it."""
    before, _, after = (FOLDER / case).read_text().partition(MARK)
    return before.strip(), after.strip()


def made(case):
    """What the pass makes of the program today."""
    return PASSES[Path(case).parent.name](ops.parse(halves(case)[0]))


if __name__ == "__main__":
    for each in CASES:
        (FOLDER / each).write_text(f"{halves(each)[0]}\n{MARK}\n{made(each)}\n")
