"""Every type as a construct object: it parses what the type encodes, and builds the same bytes."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import construct
import pytest
from hypothesis import given, strategies as st

from pyebpf.types import INTEGERS, Struct, char, field, ptr, type_of, u8, u16, u32, u64
from pyebpf.types.arrays import array_of
from pyebpf.types.prefix import ipv4_prefix, ipv6_prefix, prefix
from pyebpf.types.special import spin_lock


class Endpoint(Struct):
    """A record with padding inside and at its end."""

    port: u16
    address: u32
    flags: u8


class Flow(Struct):
    """A record of every kind of member."""

    count: u64
    name: str = field(char[7])
    raw: bytes = field(array_of(type_of(u8), 5))
    slots: list[int] = field(array_of(type_of(u16), 3))
    peer: Endpoint = field(Endpoint)


FOREIGN = construct.Struct("port" / construct.Int16ub, "tail" / construct.Bytes(3))
TEXT = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=6).filter(
    lambda text: len(text.encode()) < 7
)
ENDPOINTS = st.builds(
    Endpoint, st.integers(0, (1 << 16) - 1), st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 8) - 1)
)
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    **{INTEGERS[name]: st.integers(kind.minimum, kind.maximum) for name, kind in INTEGERS.items()},
    type_of(char[7]): TEXT,
    array_of(type_of(u8), 5): st.binary(min_size=5, max_size=5),
    array_of(type_of(u32), 3): st.lists(st.integers(0, (1 << 32) - 1), min_size=3, max_size=3),
    type_of(ptr[u64]): st.integers(0, (1 << 64) - 1),
    type_of(Endpoint): ENDPOINTS,
    type_of(Flow): st.builds(
        Flow,
        st.integers(0, (1 << 64) - 1),
        TEXT,
        st.binary(min_size=5, max_size=5),
        st.lists(st.integers(0, (1 << 16) - 1), min_size=3, max_size=3),
        ENDPOINTS,
    ),
    type_of((u32, char[7])): st.tuples(st.integers(0, (1 << 32) - 1), TEXT),
    type_of(FOREIGN): st.fixed_dictionaries(
        {"port": st.integers(0, (1 << 16) - 1), "tail": st.binary(min_size=3, max_size=3)}
    ),
    ipv4_prefix: st.ip_addresses(v=4).map(lambda address: f"{address}/32"),
    ipv6_prefix: st.ip_addresses(v=6).map(lambda address: f"{address}/128"),
    prefix(3): st.tuples(st.integers(0, 24), st.binary(min_size=3, max_size=3)),
}


@pytest.mark.parametrize("type_", VALUES, ids=str)
@given(data=st.data())
def test_bytes_are_parsed_and_built(type_: Any, data: st.DataObject) -> None:
    """Both sides have the same size, and what construct makes of the bytes it builds into the same bytes."""
    encoded = type_.encode(data.draw(VALUES[type_]))
    assert type_.construct.sizeof() == type_.size == len(encoded)
    assert type_.construct.build(type_.construct.parse(encoded)) == encoded


@given(
    count=st.integers(0, (1 << 64) - 1), name=TEXT, raw=st.binary(min_size=5, max_size=5),
    slots=st.lists(st.integers(0, (1 << 16) - 1), min_size=3, max_size=3), peer=ENDPOINTS,
)  # fmt: skip
def test_members_have_their_names(count: int, name: str, raw: bytes, slots: list[int], peer: Endpoint) -> None:
    """Parsed, a record's members are those of the Struct, nested ones too."""
    parsed = Flow.layout.construct.parse(Flow(count, name, raw, slots, peer).to_bytes())
    assert (parsed.count, parsed.name, parsed.raw, list(parsed.slots)) == (count, name, raw, slots)
    assert (parsed.peer.port, parsed.peer.address, parsed.peer.flags) == (peer.port, peer.address, peer.flags)


def test_a_construct_is_part_of_another() -> None:
    """A dump of several records is parsed by one description."""
    dump = construct.Struct("count" / construct.Int8ub, "flows" / Endpoint.layout.construct[construct.this.count])
    ends = [Endpoint(80, 1, 2), Endpoint(443, 3, 4)]
    parsed = dump.parse(bytes([2]) + b"".join(end.to_bytes() for end in ends))
    assert [(flow.port, flow.address) for flow in parsed.flows] == [(80, 1), (443, 3)]


def test_a_construct_is_made_once() -> None:
    """It is a property that is kept."""
    assert Endpoint.layout.construct is Endpoint.layout.construct
    assert type_of(FOREIGN).construct is FOREIGN


def test_what_the_kernel_owns_is_padding() -> None:
    """A lock has no value that anybody but the kernel may see."""
    lock = type_of(spin_lock)
    assert lock.construct.sizeof() == lock.size
    assert lock.construct.parse(bytes(lock.size)) is None


def test_the_example_on_the_page_of_maps() -> None:
    """It prints what the page says."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "maps.md").read_text(encoding="utf-8")
    section = page.partition("## With construct\n")[2].partition("\n## ")[0]
    source, shown = re.findall(r"^```(?:python|text)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(source, {"__name__": "page"})
    assert printed.getvalue() == shown
