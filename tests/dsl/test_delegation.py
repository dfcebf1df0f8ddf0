"""Functions that ask for an event's facts only through an object that they are given: inlined, as others that do."""

from __future__ import annotations

import pytest

from pyebpf.compiler.ir import Op
from pyebpf.errors import CompileError
from pyebpf.uapi.helper_ids import GET_CURRENT_PID_TGID
from tests.dsl.harness import build

OUTSIDE = """
class Inner:
    def __init__(self, table):
        self.table = table
    def here(self):
        return pid()
    def count(self):
        self.table[1] += 1
    def known(self):
        return 5

class Outer:
    def __init__(self, inner):
        self.inner = inner
    def here(self):
        return self.inner.here()
    def count(self):
        self.inner.count()
    def known(self):
        return self.inner.known() + 1
    def both(self):
        seen = []
        seen.append(self.inner.here())
        return seen[0]

outer = Outer(Inner(counts))
"""


def operations(body):
    return [(each.op, each.imm) for block in build(body, outside=OUTSIDE).main.blocks for each in block.instructions]


def test_intrinsics():
    """Through one object and the next."""
    assert (Op.CALL, GET_CURRENT_PID_TGID) in operations("counts[outer.here()] += 1")


def test_maps():
    """A map that the object holds."""
    assert len(operations("outer.count()")) == len(operations("counts[1] += 1"))


def test_what_is_known_stays_known():
    """Python computes what asks for nothing."""
    assert operations("counts[outer.known()] += 1") == operations("counts[6] += 1")


def test_what_a_probe_cannot_do():
    """The error is at its place in the function."""
    with pytest.raises(CompileError, match="seen"):
        build("counts[outer.both()] += 1", outside=OUTSIDE)
