"""Text behind a mangled name: suffixes of compilers, and a version."""

from __future__ import annotations

import re

#: All of it, in time that is linear in its length.
_SUFFIXES = re.compile(r"((?:\.(?:[a-z_A-Z]+|[0-9]+))*)(@.*)?\Z", re.DOTALL)
#: One suffix, as c++filt takes them apart: `.isra.0`, `.cold`.
_SUFFIX = re.compile(r"\.[a-z_A-Z]+(?:\.[0-9]+)*|(?:\.[0-9]+)+")
#: Mangled parameters that are not read.
_PARAMETERS = re.compile(r"[0-9A-Za-z_$]*")


def with_suffixes(shown: str, rest: str, *, parameters: bool, llvm: bool) -> str | None:
    """The name with what stands behind it; None if that is nothing which compilers and linkers put there.

    `parameters`: mangled parameters precede it. `llvm`: `.llvm.123` is shown, too.
    """
    if parameters and (unread := _PARAMETERS.match(rest)):
        rest = rest[unread.end() :]
    found = _SUFFIXES.match(rest)
    if not found:
        return None
    suffixes = [each for each in _SUFFIX.findall(found[1]) if llvm or not each.startswith(".llvm.")]
    return f"{shown}{''.join(f' [clone {each}]' for each in suffixes)}{found[2] or ''}"
