"""`emit(record)`: a record for who reads an iterator, through the kernel's seq_file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.intrinsics.base import intrinsic
from pyebpf.errors import OnlyInProbe

if TYPE_CHECKING:
    from pyebpf.types import Struct


@intrinsic(lambda p, record: p.program_context.emit(p, record))
def emit(record: Struct) -> None:
    """Give a record to who reads the iterator, in the order of the list. Only in programs of `@bpf.iter`."""
    raise OnlyInProbe
