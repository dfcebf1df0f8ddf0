"""`UserFiles`: what a script asks about programs and libraries that it probes. This one reads none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.attach.uprobes import Uprobe
    from pyebpf.bpftrace.translate.user_memory import UserVariable
    from pyebpf.bpftrace.translate.user_types import UserFunction


class UserFiles:
    """Answers about files; `pid` is the process whose files are meant, or -1."""

    def variable(self, binary: str, function: str, name: str, pid: int) -> UserVariable:  # noqa: ARG002 - for others
        """A symbol of a file, and the place of a probe at one of its functions. Raises NotFound."""
        raise NotFound(f"{binary}: no files are read here")

    def function(self, binary: str, functions: Sequence[str], pid: int) -> UserFunction:  # noqa: ARG002 - as above
        """The parameters of functions of a file, and its types. Raises NotFound where nothing tells them."""
        raise NotFound(f"{binary}: no files are read here")

    def path(self, binary: str, pid: int) -> str:  # noqa: ARG002 - as above
        """The path of a program or library that a script names. Raises NotFound."""
        return binary

    def check(self, attach: Uprobe) -> None:
        """Raise NotFound unless a file and functions in it are there."""

    def matching(self, kind: str, pattern: str, name: str, pid: int) -> Sequence[str]:  # noqa: ARG002 - as above
        """The files whose path matches a pattern, and that have attach points of a `kind` and name, itself a pattern.

        With a process they are those that it has code of.
        """
        return ()

    def named(self, kind: str, binary: str, pattern: str, pid: int) -> Sequence[str]:  # noqa: ARG002 - as above
        """The names in a file that match a pattern: functions, or "provider:name" of USDT probes.

        Functions of one place have one name. Raises NotFound for none.
        """
        raise NotFound(f"{binary}: no files are read here")
