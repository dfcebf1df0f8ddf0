"""The command: `python -m pyebpf`, and the script `pyebpf`."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # what `signal` wraps, which typeshed does not list
import sys

# Before anything else is imported (`signal` imports a dozen modules): Ctrl-C is not to show in which import Python is.
# Commands that need the exception get it back (`cli.main`); who ignores the signal goes on doing so.
if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

from pyebpf.cli import main

if __name__ == "__main__":
    sys.exit(main())
