"""Formats of printf: many records at once have the text that each has by itself."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given, settings, strategies as st

from pyebpf.bpftrace.formats import Format, Specifier, parse_format, record_format
from pyebpf.bpftrace.gfp_flags import words
from pyebpf.bpftrace.value_types import Boolean, Number, String
from pyebpf.output.escape import escaped
from pyebpf.types import U64, TupleType

TYPES = (Number(signed=True), Number(signed=False), String(16))
WORDS = st.integers(0, 2**64 - 1)
TEXTS = st.binary(max_size=15).map(lambda raw: raw.partition(b"\0")[0])


@st.composite
def specifiers(draw: st.DrawFn) -> tuple[str, int]:
    """A specifier, and which of the types it prints."""
    flags = draw(st.sampled_from(["", "-", "0", "+", "-0", "+0", "#"]))
    width = draw(st.sampled_from(["", "1", "7", "23"]))
    if draw(st.booleans()):
        precision = draw(st.sampled_from(["", ".0", ".3", ".40"]))
        return f"%{flags}{width}{precision}s", 2
    length = draw(st.sampled_from(["", "hh", "h", "l", "ll"]))
    return f"%{flags}{width}{length}{draw(st.sampled_from('diuxXc'))}", draw(st.integers(0, 1))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(specifiers(), st.sampled_from(["", " ", "%%", "é {}\n"])), max_size=4),
    st.lists(st.tuples(WORDS, TEXTS), min_size=4, max_size=4),
)
def test_records_at_once_have_the_text_of_one(parts, values):
    """Of all specifiers that Python has, with flags, widths, lengths and precisions."""
    format_ = parse_format("".join(f"{specifier}{piece}" for (specifier, _), piece in parts))
    types = [TYPES[index] for (_, index), _ in parts]
    layout = TupleType([U64, *(each.storage for each in types)])
    stored = [
        text if isinstance(type_, String) else word - (word >> 63 << 64) if type_.signed else word
        for type_, (word, text) in zip(types, values, strict=False)
    ]
    record = layout.encode((5, *stored))
    for shown in (str, escaped):
        one = format_.apply(layout.decode(record)[1:], types, SimpleNamespace(shown=shown))
        form = record_format(format_, types, layout, None if shown is str else shown)
        assert form is None or form.each([record] * 20) == [one] * 20
        assert form is None or form.together([record] * 300) == one * 300
    assert (form is None) == any("#" in specifier and index != 2 for (specifier, index), _ in parts)


def test_what_python_has_no_specifier_for_is_left_to_one_at_a_time():
    """A boolean as text."""
    layout = TupleType([U64, Boolean().storage])
    assert record_format(Format(("", ""), (Specifier("s"),)), [Boolean()], layout) is None


def test_flags_of_allocations_have_names():
    """Those of many bits first; what has no name, or none on this kernel, is a number."""
    bits = {"DMA": 0, "IO": 6, "FS": 7, "DIRECT_RECLAIM": 10, "KSWAPD_RECLAIM": 11, "COMP": 18}
    names = SimpleNamespace(gfp_flags=lambda flags: words(flags, bits.get))
    found = parse_format("%gr %gr %gr %8gr|%gr").apply(
        (0xCC0, 0x40CC1, 1 << 63, 0, 0x440), [Number(signed=False)] * 5, names
    )
    assert found == "GFP_KERNEL GFP_KERNEL|GFP_DMA|__GFP_COMP 0x8000000000000000        0|__GFP_IO|__GFP_DIRECT_RECLAIM"
    assert words(0xCC0, lambda _: None) == "0xcc0"


@pytest.mark.parametrize("text", ["%*d", "%.*s", "%-5.*lld", "%*.*u", "%*.3x"])
def test_widths_are_no_arguments(text):
    """They would be printed as they stand, and the value a place later."""
    with pytest.raises(ValueError, match="a width or precision is written as a number"):
        parse_format(f"1 {text}\n")


def test_a_percent_that_no_specifier_follows_is_text():
    """With a star behind it, too."""
    assert parse_format("5%* of all, 100%\n").pieces == ("5%* of all, 100%\n",)


def test_a_number_s_precision_has_no_effect():
    """As with bpftrace; a text is cut by it."""
    format_ = parse_format("%.3d|%5.3u|%#10.4x|%.2s|%05.3d")
    types = [TYPES[0], TYPES[1], TYPES[1], TYPES[2], TYPES[0]]
    names = SimpleNamespace(shown=lambda text: text)
    assert format_.apply([5, 5, 6, "abc", 5], types, names) == "5|    5|       0x6|ab|00005"


def test_a_precision_of_a_point_alone_is_0():
    """As in C: nothing of a text is printed, and a number as without it."""
    format_ = parse_format("%.s|%3.s|%-3.s|%.d")
    types = [TYPES[2], TYPES[2], TYPES[2], TYPES[0]]
    names = SimpleNamespace(shown=lambda text: text)
    assert format_.apply(["abc", "abc", "abc", 5], types, names) == "|   |   |5"
