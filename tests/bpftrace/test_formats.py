"""Formats of printf: what is taken, and the text of a value."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pyebpf.bpftrace.formats import parse_format
from pyebpf.bpftrace.gfp_flags import words
from pyebpf.bpftrace.value_types import Number, String

TYPES = (Number(signed=True), Number(signed=False), String(16))


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
