"""Run the command line with ``python -m adjoint``."""

import sys

from adjoint.cli import main

if __name__ == "__main__":
    sys.exit(main())
