"""The parser of command lines that all commands share: errors are ours, and help is data as any other."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, NoReturn

from pyebpf.cli.report import UsageError
from pyebpf.errors import most_like
from pyebpf.output.sink import Sink

if TYPE_CHECKING:
    from typing import Any


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are UsageError, and whose help cannot be lost in silence."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(self.prog, message)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; an option that there is not is named as such, before the word behind it is taken for an argument.

        Options may stand between arguments.
        """
        passes_on = any(action.nargs == argparse.REMAINDER for action in self._actions)  # to a tool's own parser
        for word in [] if passes_on else sys.argv[1:] if args is None else args:
            if word == "--":
                break
            name = word.partition("=")[0] if word.startswith("--") else word[:2]
            is_option = len(name) > 1 and name[0] == "-" and name[1] not in "0123456789." and " " not in word
            if is_option and name not in self._option_string_actions:
                # By the words behind the dashes, which all have.
                known = {each.lstrip("-"): each for each in self._option_string_actions if each.startswith("--")}
                meant = most_like(name.lstrip("-"), known) if word.startswith("--") else []
                hint = f" (did you mean {known[meant[0]]}?)" if meant else ""
                self.error(f"unrecognized arguments: {word}{hint}")
        if passes_on:
            return super().parse_args(args, namespace)
        return self.parse_intermixed_args(args, namespace)  # `TOOL PATTERN --json 1 5`, too

    def print_help(self, file: Any = None) -> None:
        """Write the help to standard output. argparse itself takes no notice of a write that fails."""
        Sink.of(sys.stdout if file is None else file).write(self.format_help())
