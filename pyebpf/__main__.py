"""`python -m pyebpf`: the command."""

from __future__ import annotations

import sys

from pyebpf.cli import main

if __name__ == "__main__":
    sys.exit(main())
