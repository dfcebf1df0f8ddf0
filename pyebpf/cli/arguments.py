"""The parser of command lines that all commands share: errors are ours, and help is data as any other."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, NoReturn

from pyebpf.cli.report import UsageError
from pyebpf.output.sink import Sink

if TYPE_CHECKING:
    from typing import Any


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are UsageError, and whose help cannot be lost in silence."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(self.prog, message)

    def print_help(self, file: Any = None) -> None:
        """Write the help to standard output. argparse itself takes no notice of a write that fails."""
        Sink.of(sys.stdout if file is None else file).write(self.format_help())
