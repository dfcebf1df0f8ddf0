"""Global variables of an object, set before it is loaded."""

from __future__ import annotations

import struct

import pytest

from pyebpf.errors import InvalidValue, MalformedData, NotFound
from pyebpf.objfile import read_object

SOURCE = """
struct range { u32 from, to; };
const volatile u8 level = 3;
const volatile u64 wanted;
static const volatile struct range ports = { 7, 11 };
enum mode { QUIET = 1, LOUD = 5 };
const volatile enum mode modes[2] = { QUIET, LOUD };
const volatile char comm[8] = "init";
volatile int limit = -5;
volatile u64 runs;
SEC("tc") int f(void *context) {
    runs++;
    return level + wanted + ports.from + ports.to + comm[0] + modes[1] + limit;
}
"""


@pytest.fixture
def whole(compile_c):
    return read_object(compile_c(SOURCE, name="variables"))


def values(whole):
    """Bytes of each variable, by name, in the maps that are made with them."""
    sections = {section.number: section.name for section in whole.elf.sections}
    data = {spec.name: spec.initial[0][1] for spec in whole.map_specs() if spec.initial}
    return {
        symbol.name: data[sections[symbol.section]][symbol.value : symbol.value + symbol.size]
        for symbol in whole.elf.symbols
        if symbol.kind == "STT_OBJECT" and sections.get(symbol.section) in data
    }


def test_values_are_of_their_types(whole):
    """Numbers, records, strings; what is not given stays, and the object that was read does, too."""
    before = values(whole)
    assert before["level"] == b"\3"
    assert before["ports"] == struct.pack("<II", 7, 11)
    ports = read_object(whole.elf.data).with_variables(
        {"wanted": 1 << 40, "comm": "bash", "limit": -17, "modes": (5, 13)}
    )
    after = values(ports)
    assert after["wanted"] == (1 << 40).to_bytes(8, "little")
    assert (after["comm"], after["limit"]) == (b"bash\0\0\0\0", struct.pack("<i", -17))
    assert after["modes"] == struct.pack("<2I", 5, 13)
    assert {name for name in after if after[name] != before[name]} == {"wanted", "comm", "limit", "modes"}
    assert values(whole) == before
    assert values(ports.with_variables({"level": 255}))["level"] == b"\xff"
    pair = struct.pack("<II", 13, 17)
    assert values(ports.with_variables({"ports": pair}))["ports"] == pair


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"wnated": 1}, NotFound, r"^the object has no variable 'wnated' \(did you mean wanted\?\)$"),
        ({"level": 256}, InvalidValue, "^variable level: .*256"),
        ({"ports": (1, 2)}, InvalidValue, "^variable ports: give the 8 bytes of a struct range"),
        ({"comm": 5}, InvalidValue, "^variable comm: "),
        ({"runs": 1}, MalformedData, r"^variable runs is in section \.bss, which has no bytes in the object"),
        (["level"], InvalidValue, "^values: give a dictionary"),
    ],
)
def test_what_cannot_be_set(whole, given, error, message):
    """One line names the variable, and says what is wrong."""
    with pytest.raises(error, match=message):
        whole.with_variables(given)


def test_without_types(compile_c):
    """The types of variables are in BTF."""
    plain = read_object(compile_c(SOURCE, "-g0", name="untyped"))
    with pytest.raises(MalformedData, match="compile it with -g"):
        plain.with_variables({"level": 1})
    assert values(plain)["level"] == b"\3"
