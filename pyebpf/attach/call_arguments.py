"""Types of the arguments of system calls: their tracepoints' records give each 8 bytes, and the name of its C type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.values.kernel_objects import integer_type
from pyebpf.errors import NotFound, NotSupported
from pyebpf.types import U64
from pyebpf.types.integers import INTEGERS

if TYPE_CHECKING:
    from pyebpf.target import Target
    from pyebpf.types import IntType
    from pyebpf.types.tracepoint import TracepointField


def call_argument_type(target: Target, field: TracepointField) -> IntType:
    """Return the type of an argument that is no pointer; u64 where neither its name nor BTF tells."""
    known = field.named
    if known is not None:
        size, signed = known
        return INTEGERS[f"{'s' if signed else 'u'}{8 * size}"]
    try:
        found = integer_type(target.type_named(field.bare_type))
    except (NotFound, NotSupported):
        found = None
    return U64 if found is None else found
