"""BTF that a map or a program is loaded with, where there is some already: that of an object."""

from __future__ import annotations

from pyebpf.dataclass import dataclass

__all__ = ["CodeTypes", "MapTypes"]


@dataclass(frozen=True, slots=True)
class MapTypes:
    """BTF for BTF_LOAD, and the ids for MAP_CREATE (0: none)."""

    btf: bytes
    key: int
    value: int


@dataclass(frozen=True, slots=True)
class CodeTypes:
    """BTF for BTF_LOAD, and the FUNC ids of a program's functions, in the order of `Code.subprograms`."""

    btf: bytes
    functions: tuple[int, ...]
