"""The printed stages in docs/from-graph-to-machine-code.md, from the code that makes them.

What is between the lines ``<!-- stage: NAME -->`` and ``<!-- end -->`` of the page is a stage, whose text `stages`
makes. The rest of the page is written by hand. ``python -m tests.golden`` writes the stages anew.
"""

import inspect
import re
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path

from adjoint import Function, param
from adjoint.codegen.module import emit_modules
from adjoint.codegen.native import NativeCode
from adjoint.lower.passes import KERNEL_PASSES
from adjoint.pipeline import GRAPH_PASSES, finish_program, lower_function, print_passes
from tests.golden.passes import PASSES, TARGET
from tests.golden.pictures import picture_docstring

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "from-graph-to-machine-code.md"

_SECTION = re.compile(r"(<!-- stage: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def layer():
    """The example: one layer of a network."""
    x, w, b = param("x", (8, 16)), param("w", (16, 16)), param("b", (16,))
    return Function("layer", (x, w, b), ((x @ w + b).tanh().named("y"),))


@cache
def stages():
    """The text of every stage, by name, as it is in the page."""
    function = layer()
    texts = dict(print_passes(function, TARGET))
    (llvm,) = emit_modules(finish_program(lower_function(function, TARGET)), TARGET)
    in_order = [("", str(function)), *texts.items()]
    same = {name: text == before for (_, before), (name, text) in pairwise(in_order)}
    return {
        "graph": _fenced("text", str(function)),
        "graph_passes": _table([each.__name__ for each in GRAPH_PASSES], same),
        "fuse": _fenced("text", texts["fuse"]),
        "build_kernels": _fenced("text", texts["build_kernels"]),
        "kernel_passes": _table(list(KERNEL_PASSES), same),
        "plan_memory": _fenced("text", texts["plan_memory"].partition("\n\n")[0]),
        "expand_math": _fenced("text", last_loop(texts["expand_math"])),
        "llvm": _fenced("llvm", start_of(inner_block(llvm))),
        "assembly": _fenced("asm", inner_loop(NativeCode(llvm, TARGET).assembly())),
    }


def sections():
    """The stages in the page, by name."""
    return {match[2]: match[3].strip() for match in _SECTION.finditer(PAGE.read_text())}


def rewrite():
    """Write the stages of the page anew."""
    found = stages()
    page = _SECTION.sub(lambda match: f"{match[1]}\n{found[match[2]]}\n\n{match[4]}", PAGE.read_text())
    PAGE.write_text(page)


def _fenced(language, text):
    return f"```{language}\n{text}\n```"


def _table(names, same):
    """Passes, what they do, and whether they change the example."""
    rows = ["| pass | what it does | the example |", "| --- | --- | --- |"]
    for name in names:
        source = Path(inspect.getsourcefile(PASSES[name].function)).relative_to(ROOT).as_posix()
        summary = picture_docstring(name).partition("\n")[0].removesuffix(".")
        rows.append(f"| [`{name}`](../{source}) | {summary} | {'unchanged' if same[name] else 'changed'} |")
    return "\n".join(rows)


def last_loop(kernel):
    """The last of the loops of a kernel's units."""
    lines = kernel.splitlines()
    start = max(n for n, line in enumerate(lines) if re.match(r"    for ", line))
    return "\n".join(line.removeprefix("    ") for line in lines[start:])


def inner_block(llvm):
    """The first basic block of the innermost loop of LLVM text that multiplies and adds."""
    blocks = re.split(r"^(?=[\w.]+:$)", llvm, flags=re.MULTILINE)
    return next(block for block in blocks if "@llvm.fmuladd" in block and block.startswith("head")).rstrip()


def start_of(block):
    """A basic block up to the second sum that it stores, and how many there are."""
    lines = block.splitlines()
    stores = [n for n, line in enumerate(lines) if line.startswith("  store ")]
    return "\n".join([*lines[: stores[1] + 1], f"  ; and {len(stores) - 2} more sums"])


def inner_loop(assembly):
    """The shortest loop of assembly that multiplies and adds."""
    lines = assembly.splitlines()
    at = {line[:-1]: n for n, line in enumerate(lines) if line.endswith(":")}
    jumps = [(at.get(line.split()[-1], n), n) for n, line in enumerate(lines) if line.startswith("\tj")]
    loops = [lines[start : end + 1] for start, end in jumps if start < end]
    loop = min((loop for loop in loops if any("vfmadd" in line for line in loop)), key=len)
    return "\n".join(line.replace("\t", "    ", 1).replace("\t", " ") for line in loop)


def vector_instructions(loop):
    """How often which vector instruction occurs: what versions of LLVM agree on, other than registers and order."""
    names = re.findall(r"^ +(v\w+)", loop, re.MULTILINE)
    return Counter(re.sub(r"^(vfmadd)\d+", r"\1", name) for name in names)
