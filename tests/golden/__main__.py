"""Write everything that passes print anew: ``python -m tests.golden``, or ``python -m tests.golden PASS`` for one pass.

That is the golden texts, the pictures in the docstrings of passes and, without an argument, the stages printed in
docs/from-graph-to-machine-code.md. Look at the difference before you commit it.
"""

import sys
from pathlib import Path

from tests.golden import passes, pictures, walkthrough

chosen = sys.argv[1:] or list(passes.PASSES)
if unknown := set(chosen) - set(passes.PASSES):
    sys.exit(f"passes are {', '.join(passes.PASSES)}, got {', '.join(sorted(unknown))}")
for case in passes.CASES:
    if Path(case).parent.name in chosen:
        passes.rewrite(case)
for name in chosen:
    pictures.rewrite(name)
if not sys.argv[1:]:
    walkthrough.rewrite()
