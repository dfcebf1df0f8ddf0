"""super() in what a probe calls: refused where it stands, with what to write instead, which works."""

from __future__ import annotations

import pytest

from pyebpf.asm import listing
from pyebpf.errors import CompileError
from pyebpf.types import Struct, u64
from tests.dsl.fake_target import FakeTarget
from tests.dsl.harness import namespace, run

CLASSES = """
class Base:
    def more(self, number):
        return number + 7

class Derived(Base):
    def more(self, number):
        return super().more(number) * 2

    def named(self, number):
        return Base.more(self, number) * 2

class Pair(Struct):
    first: u64
    second: u64

    def total(self):
        return super().total() + self.first

derived = Derived()
"""
PROBE = """
@bpf.raw_tracepoint("sched_process_exit")
def probe():
    table[1] = {}
"""


def compiled(expression):
    """A probe's listing."""
    names = run(CLASSES + PROBE.format(expression), namespace() | {"Struct": Struct, "u64": u64})
    return listing(names["bpf"].compile(FakeTarget()).programs[0].code.instructions)


@pytest.mark.parametrize(
    "expression", ["derived.more(pid())", "Pair(first=pid(), second=2).total()"], ids=["method", "struct"]
)
def test_super_is_refused_with_what_to_write(expression):
    """At the call itself."""
    with pytest.raises(CompileError) as caught:
        compiled(expression)
    assert caught.value.message == (
        "super() is not supported in probes: name the class whose method it is, as in Base.method(self)"
    )
    assert caught.value.location.line in {8, 18}
    assert "super()" in caught.value.location.excerpt()


def test_the_named_class_works():
    """As Python does it; and super() does where all is known when the probe is compiled."""
    assert "+= 7" in compiled("derived.named(pid())")
    compiled("derived.more(3)")
