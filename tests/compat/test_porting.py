"""What scripts of other frameworks need changed: import lines, and names that are not covered."""

import json
from pathlib import Path

import pytest

from adjoint.compat.porting import Uncovered, port, port_file
from adjoint.errors import InvalidValueError


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import torch\n", "import adjoint.compat.torch as torch\n"),
        ("import torch as th  # kept\n", "import adjoint.compat.torch as th  # kept\n"),
        ("import os, torch\r\n", "import os, adjoint.compat.torch as torch\r\n"),
        ("import torch.nn as nn\n", "import adjoint.compat.torch.nn as nn\n"),
        ("import torch.nn.functional\n", "import adjoint.compat.torch as torch\n"),  # binds torch
        ("from torch import nn as n\n", "from adjoint.compat.torch import nn as n\n"),
        (
            "from torch.utils.data import (\n    DataLoader,  # a\n    Dataset,\n)\n",
            "from adjoint.compat.torch.utils.data import (\n    DataLoader,  # a\n    Dataset,\n)\n",
        ),
        ("é = 'ü'; import torch\n", "é = 'ü'; import adjoint.compat.torch as torch\n"),
        ("def f():\n    from torch import optim\n", "def f():\n    from adjoint.compat.torch import optim\n"),
        (
            "try:\n    import oneflow as flow\nexcept ImportError:\n    import torch as flow",
            "try:\n    import adjoint.compat.oneflow as flow\n"
            "except ImportError:\n    import adjoint.compat.torch as flow",
        ),
        ("from torch.nn.functional import *\n", "from adjoint.compat.torch.nn.functional import *\n"),
        (
            "import torchscript, numpy as np\nfrom .torch import x\n",
            "import torchscript, numpy as np\nfrom .torch import x\n",
        ),
        ("s = 'import torch'\n", "s = 'import torch'\n"),
        ("%matplotlib inline\nimport torch\n!ls\n", "%matplotlib inline\nimport adjoint.compat.torch as torch\n!ls\n"),
    ],
)
def test_import_lines_change_and_nothing_else(before, after):
    found = port(before)
    assert found.after == after
    assert found.uncovered == ()
    if before != after:
        exec(compile(after.replace("%", "#").replace("!", "#").replace("from .", "from "), "ported", "exec"), {})


SCRIPT = """\
import torch
from torch import nn as n
from torch.utils.data import DataLoader, IterDataPipe

def f(x):
    from torch import linalg as la
    torch.fft.rfft(x).abs()
    return la.eig(x), la.svd(x), n.functional.relu(x), torch.Tensor.anything, torch.float32.anything

class N(n.SyncBatchNorm): ...
"""


def test_names_that_are_not_covered_are_found_through_aliases():
    found = port(SCRIPT)
    assert [(one.line, one.name) for one in found.uncovered] == [
        (3, "torch.utils.data.IterDataPipe"),
        (7, "torch.fft"),
        (8, "torch.linalg.eig"),
        (10, "torch.nn.SyncBatchNorm"),
    ]
    assert found.uncovered[0] == Uncovered(
        "torch.utils.data.IterDataPipe",
        3,
        "torch.utils.data.IterDataPipe is not covered; did you mean IterableDataset?",
    )
    assert found.uncovered[1].advice.startswith("torch.fft is not covered, because there is no operator for it yet")


def test_packages_beside_a_framework_are_named():
    found = port("import torchvision\nfrom torchvision import datasets as d\nd.MNIST\n")
    assert found.before == found.after
    assert {(one.line, one.name) for one in found.uncovered} == {
        (1, "torchvision"),
        (2, "torchvision"),
        (3, "torchvision"),
    }
    assert found.uncovered[0].advice.startswith("torchvision is not covered; use adjoint.data")


def test_a_module_that_does_not_exist_is_not_covered():
    assert [one.name for one in port("import torch.nothing.more\nfrom torch.nil import a\n").uncovered] == [
        "torch.nothing",
        "torch.nil",
    ]


def test_the_difference_has_the_changed_lines():
    assert port("x = 1\nimport torch").diff("a.py") == (
        "--- a.py\n+++ a.py\n@@ -2 +2 @@\n-import torch\n+import adjoint.compat.torch as torch\n"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"print 'x'\n", r"^port: .*s\.py must be Python 3, got Missing parentheses .* in line 1; correct it first"),
        (b"x = 1\0\n", r"^port: .*s\.py must be Python 3, got .*null bytes.*; correct it first"),
        (b"x = '\xe9'\n", r"^port: .*s\.py must be text in UTF-8, got byte 0xe9 at 5; convert it"),
        (b"(" * 5000 + b")" * 5000, r"^port: .*s\.py must be Python 3, got "),
        (
            b"from \\\n torch import nn\n",
            r"^port: the module must be in the line of `from`, got a line break in line 1",
        ),
    ],
)
def test_files_that_cannot_be_read_are_refused(content, message, tmp_path):
    path = tmp_path / "s.py"
    path.write_bytes(content)
    with pytest.raises(InvalidValueError, match=message):
        port_file(path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InvalidValueError, match=r"^port: .*none\.py must be readable, got No such file or directory; "):
        port_file(tmp_path / "none.py")


def test_cells_of_notebooks_are_ported_together(tmp_path):
    path = tmp_path / "n.ipynb"
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["import torch"]},
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": ["%time\n", "import torch"]},
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": "torch.fft\nx = 'é'"},
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": []},
    ]
    path.write_text(json.dumps({"cells": cells, "nbformat": 4}))
    found, content = port_file(path)
    assert [(one.line, one.name) for one in found.uncovered] == [(3, "torch.fft")]
    new = json.loads(content)
    assert [cell["source"] for cell in new["cells"]] == [
        ["import torch"],
        ["%time\n", "import adjoint.compat.torch as torch"],
        ["torch.fft\n", "x = 'é'"],
        [],
    ]
    path.write_text("[]")
    with pytest.raises(InvalidValueError, match=r"^port: .*n\.ipynb must be a notebook with cells, got TypeError at"):
        port_file(Path(path))
