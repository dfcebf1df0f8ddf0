"""The targets by name.

Each module has:

target(data)    one execution: returns if the property in its docstring holds, raises if not
COVERS          folders below the checkout whose lines guide the search
TEXT            whether inputs are text, to be changed word by word
DICTIONARY      pieces worth putting in
seeds()         inputs to begin with, made from the project's own data
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["NAMES", "Target", "load"]

NAMES = (
    "instructions",
    "kernel_text",
    "mnemonic_text",
    "btf",
    "elf",
    "tracepoint_format",
    "ring_records",
    "perf_records",
    "verifier_log",
    "compiler",
    "language",
    "source",
    "user_elf",
    "usdt_arguments",
    "linker_cache",
    "bpftrace_script",
    "recording",
)


class Target(Protocol):
    """What a target's module offers."""

    COVERS: Sequence[str]
    TEXT: bool
    DICTIONARY: Sequence[bytes]

    def target(self, data: bytes) -> None:
        """One execution."""

    def seeds(self) -> Iterable[bytes]:
        """Where the search begins."""


def load(name: str) -> Target:
    """The target of that name, imported now."""
    if name not in NAMES:
        raise SystemExit(f"no fuzz target {name!r}: there are {', '.join(NAMES)}")
    return cast("Target", import_module(f"fuzz.targets.{name}"))
