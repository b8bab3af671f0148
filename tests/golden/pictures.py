"""Pictures in docstrings of passes: two programs, in literal blocks behind ``Before::`` and ``After::``."""

import inspect
import re
import sys
import textwrap
from pathlib import Path

from tests.golden.passes import PASSES, made

#: The word in front of a block, and the block, which is indented further and ends before the next line that is not.
_BLOCK = re.compile(r"^( *)(Before|After)::\n\n((?:\1    [^\n]*\n|\n)+)", re.MULTILINE)


def picture_docstring(name):
    """The docstring that has the picture of a pass: that of what implements it, or of its module."""
    function = PASSES[name].function
    for docstring in (function.__doc__, sys.modules[function.__module__].__doc__):
        found = inspect.cleandoc(docstring or "") + "\n"
        if _BLOCK.search(found):
            return found
    raise AssertionError(f"the docstring of {name} needs the blocks Before:: and After::")


def picture(name):
    """Both programs in the docstring of a pass."""
    return programs(picture_docstring(name))


def programs(docstring):
    """Both programs of the picture in a docstring."""
    found = _BLOCK.findall(inspect.cleandoc(docstring) + "\n")
    assert [word for _, word, _ in found] == ["Before", "After"], f"needs one picture, got {len(found)} blocks"
    return [textwrap.dedent(block).strip() for _, _, block in found]


def rewrite(name):
    """Write the second program of a pass's picture anew, in its source file."""
    path = Path(inspect.getsourcefile(PASSES[name].function))
    after = made(name, picture(name)[0])

    def replaced(match):
        indent, word, block = match.groups()
        tail = block[len(block.rstrip("\n")) :]
        kept = block.rstrip("\n") if word == "Before" else textwrap.indent(after, f"{indent}    ")
        return f"{indent}{word}::\n\n{kept}{tail}"

    path.write_text(_BLOCK.sub(replaced, path.read_text()))
