"""Who may import whom: the table below is the architecture, and this test keeps it true."""

import ast
import graphlib
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import adjoint

ROOT = Path(adjoint.__file__).parent
GRAPHS = {"errors", "ir", "ops"}
LIBRARIES = {"costs", "paths", "version", "losses", "optim", "transforms", "kernel", "nativelib"}
COMPILER = GRAPHS | LIBRARIES | {"lower", "codegen", "runtime"}
DOORS = COMPILER | {"compiler", "pipeline", "data", "models"}

#: What every package may import, as it may the standard library.
EVERYWHERE = {"lazy_dataclass"}

#: What else each package (a folder or file right under src/adjoint) may import. Nothing but tests imports `testing`.
MAY_IMPORT = {
    "lazy_dataclass": set(),
    "errors": set(),
    "version": set(),
    # What the front door exports, as a table without imports.
    "names": set(),
    # What to use instead of names that are not there, for the modules that have PyTorch's names.
    "missing": {"errors"},
    "paths": {"errors"},
    # Packages whose names are loaded on first access.
    "lazy_names": {"collector", "missing"},
    # Random numbers of the host, by key and counter, for generators and datasets.
    "philox": set(),
    # Planning numbers, as functions of the target.
    "costs": {"kernel"},
    "ir": {"errors"},
    # Costs say whether attention stores its scores.
    "ops": GRAPHS | {"costs"},
    # A loss is a module, and is recorded when it is called with tensors.
    "losses": GRAPHS | {"modules", "tensor"},
    # An optimizer bound to parameters records its update.
    "optim": GRAPHS | {"lazy_names", "missing", "modules", "tensor"},
    # Coordinates of elements, as the index expressions of kernels, say where the batch axis is.
    "transforms": GRAPHS | {"costs", "kernel"},
    "models": GRAPHS,
    "kernel": {"errors"},
    "lower": GRAPHS | {"costs", "kernel"},
    # LLVM text that compiled programs and the thread pool share. A package of its own, because the runtime must not
    # import codegen and kernel IR contains no LLVM. It needs only the target's architecture.
    "nativelib": {"kernel"},
    # Costs say into which cache to prefetch.
    "codegen": {"costs", "errors", "kernel", "nativelib"},
    "runtime": {"errors", "paths", "kernel", "nativelib"},
    # Chooses among programs that lowering makes of recomputing graphs.
    "budget": {"errors", "ir", "kernel", "lower", "transforms"},
    "pipeline": COMPILER | {"tuning", "budget"},
    # Python's garbage collector.
    "collector": set(),
    "compiler": COMPILER | {"collector", "pipeline", "tuning"},
    # Measures kernels before the compiler builds with what it found.
    "tuning": {"costs", "errors", "paths", "kernel", "lower", "codegen", "runtime"},
    "data": {"errors", "lazy_names", "paths", "philox"},
    # The recorder behind the object and the functional door.
    "tensor": (COMPILER | {"compiler", "philox", "pipeline", "missing"}) - {"optim", "losses"},
    # Transformations of functions of tensors, and their compilation as a whole.
    "func": (COMPILER | {"compiler", "missing", "tensor"}) - {"optim", "losses"},
    # Formats of other programs, of arrays alone.
    "interop": {"errors", "paths"},
    # The names of torch.utils.
    "utils": {"data", "errors", "ir", "philox", "tensor"},
    "autograd": {"errors", "func", "missing", "tensor"},
    # The names of torch.linalg.
    "linalg": {"errors", "missing", "tensor"},
    # The names of torch.distributions.
    "distributions": {"errors", "ir", "ops", "tensor"},
    # The names of torch.amp.
    "amp": {"errors", "ir", "optim", "tensor"},
    # The base class of modules, below losses, which are modules, and below layers.
    "modules": {"errors", "ir", "tensor"},
    # Networks that write text compile themselves.
    "nn": GRAPHS | {"func", "losses", "missing", "modules", "tensor"},
    # State dictionaries and modules in files.
    "saving": {"errors", "interop", "modules", "paths", "tensor"},
    # The loop of `Model`, its metrics, callbacks and checkpoints, train modules.
    "training": DOORS | {"amp", "func", "interop", "modules", "nn", "pages", "saving", "tensor", "utils"},
    # The names of other frameworks; they reach everything that users reach.
    "compat": DOORS
    | {"__init__", "amp", "autograd", "distributions", "func", "importers", "interop", "linalg", "modules", "nn"}
    | {"missing", "names", "profiling", "saving", "tensor", "training", "utils"},
    # Models of other frameworks as modules, and their weights; extras, except for the names of weights.
    "importers": DOORS
    | {"amp", "func", "interop", "linalg", "modules", "names", "nn", "saving", "tensor", "training", "utils"},
    # What HTML pages share.
    "pages": set(),
    "profiling": DOORS | {"pages", "training"},
    "cli": DOORS | {"compat", "modules", "nn", "pages", "profiling", "tensor", "training"},
    "testing": DOORS | {"training"},
    "__init__": DOORS
    | {"func", "training", "tensor", "utils", "autograd", "distributions", "linalg", "names", "nn", "saving"}
    | {"amp", "importers", "lazy_names"},
    "__main__": {"cli"},
}


def package_of(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def own_imports(tree):
    """(statement, dotted name of a module of adjoint, whether it is in a function) for each import of a syntax tree."""
    stack = [(tree, False)]
    while stack:
        node, inside = stack.pop()
        if isinstance(node, ast.ImportFrom):
            relative = "." * node.level
            names = [f"adjoint.{a.name}" for a in node.names] if node.module == "adjoint" else [node.module or ""]
            names = [relative + name for name in names]
        elif isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        else:
            inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            children = ast.iter_child_nodes(node)
            stack += [(child, inside) for child in children if not isinstance(child, ast.expr)]  # which import nothing
            continue
        yield from ((node, name, inside) for name in names if name.split(".")[0] in ("adjoint", ""))


@cache
def statements():
    """(file, statement, dotted name, whether it is in a function) for each import of a module of adjoint."""
    return [(path, *found) for path in sorted(ROOT.rglob("*.py")) for found in own_imports(ast.parse(path.read_text()))]


def edges():
    """(file, line, package it is in, package it imports) for each import between packages."""
    for path, node, name, _ in statements():
        target = [*name.split("."), "__init__"][1]
        if target != package_of(path):
            yield path, node.lineno, package_of(path), target


def test_imports_are_absolute():
    relative = [f"{path}:{node.lineno}" for path, node, _, _ in statements() if getattr(node, "level", 0)]
    assert relative == [], "write the whole name"


def test_every_package_is_in_the_table():
    packages = {package_of(path) for path in ROOT.rglob("*.py")}
    assert packages <= MAY_IMPORT.keys(), "say in MAY_IMPORT what the new package may import"


def test_imports_follow_the_table():
    wrong = [f"{p.relative_to(ROOT)}:{n}: {a} -> {b}" for p, n, a, b in edges() if b not in MAY_IMPORT[a] | EVERYWHERE]
    assert wrong == []


def test_no_packages_import_each_other_in_a_circle():
    graph = {package: set() for package in MAY_IMPORT}
    for _, _, package, target in edges():
        graph[package].add(target)
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError


def test_own_modules_are_imported_at_the_top_of_a_file():
    inside = [f"{path.relative_to(ROOT)}:{node.lineno}" for path, node, _, inside in statements() if inside]
    assert inside == []


@cache
def loaded_by(statement):
    """Names of the modules that are loaded after `statement` in a fresh interpreter."""
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "heavy",
    ["llvmlite", "rich", "click", "matplotlib", "jinja2", "pooch", "platformdirs", "adjoint.compiler", "adjoint.ops"],
)
def test_importing_adjoint_loads_nothing_heavy(heavy):
    assert heavy not in loaded_by("import adjoint")


@pytest.mark.parametrize(
    ("statement", "rare"),
    [("from adjoint.data import fashion_mnist", "pooch"), ("from adjoint.profiling import page_text", "jinja2")],
)
def test_what_few_calls_need_is_loaded_by_them(statement, rare):
    assert rare not in loaded_by(statement)


def test_an_unknown_name_of_the_front_door_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"adjoint has no compil; did you mean compile\?"):
        adjoint.compil  # noqa: B018
