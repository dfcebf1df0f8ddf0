"""`available_filter_functions` as tracefs writes it, with and without addresses: patterns, modules, names."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from pyebpf.kernel.functions import Traceable, glob

if TYPE_CHECKING:
    from pyebpf.kernel.tracefs import Tracefs

PLAIN = b"tcp_one\ntcp_two.isra.0\nadd\nadd [sch_fq]\nfq_enqueue [sch_fq]\n"
ADDRESSES = b"ffffffff81000004 tcp_one\nffffffff81000024 add\nffffffffc0000004 add [sch_fq]\n"


class Files:
    """A tracefs with one file or the other."""

    def __init__(self, text: bytes, *, addresses: bool) -> None:
        self.text, self.addresses = text, addresses

    def read_top(self, name: str) -> bytes:
        if name.endswith("_addrs") and not self.addresses:
            raise FileNotFoundError
        return self.text


def traceable(text: bytes, *, addresses: bool = False) -> Traceable:
    return Traceable(cast("Tracefs", Files(text, addresses=addresses)))


def test_patterns_match_whole_names() -> None:
    """A name that looks like a number in hexadecimal is one all the same."""
    found = traceable(PLAIN)
    assert [name for name, *_ in found.matching("tcp_*")] == ["tcp_one", "tcp_two.isra.0"]
    assert list(found.matching("a?d")) == [("add", "", 0), ("add", "sch_fq", 0)]
    assert list(found.matching("*", "sch_*")) == [("add", "sch_fq", 0), ("fq_enqueue", "sch_fq", 0)]
    assert list(found.matching("tcp")) == list(found.matching("[!t]cp_one")) == []
    assert found.names() == {b"tcp_one", b"tcp_two.isra.0", b"add", b"fq_enqueue"}


def test_a_range_from_its_end_to_its_start_has_no_character() -> None:
    """As in a shell; without it all characters are left."""
    found = traceable(PLAIN)
    assert list(found.matching("[z-a]dd")) == []
    assert [name for name, *_ in found.matching("[!z-a]dd")] == ["add", "add"]


def test_addresses_have_names() -> None:
    """A function's first byte is a few before ftrace's instruction."""
    found = traceable(ADDRESSES, addresses=True)
    assert found.name_at(0xFFFFFFFF81000000) is None  # nothing was read yet
    assert list(found.matching("tcp_*")) == [("tcp_one", "", 0xFFFFFFFF81000004)]
    assert found.name_at(0xFFFFFFFF81000000) == found.name_at(0xFFFFFFFF81000004) == "tcp_one"
    assert found.name_at(0xFFFFFFFFC0000000) == "add"
    assert found.name_at(0xFFFFFFFF81000010) is None
    assert found.names() == {b"tcp_one", b"add"}


@pytest.mark.parametrize(
    ("pattern", "expression"),
    [("a*b", rb"a[^ \n]*b"), ("a.b?", rb"a\.b[^ \n]"), ("[!ab]", rb"[^ \nab]"), ("a[", rb"a\[")],
)
def test_patterns_are_a_shells(pattern: str, expression: bytes) -> None:
    """Within a line and a name."""
    assert glob(pattern) == expression
