"""Numbers and strings that mean nothing, and the largest ones that mean something."""

from __future__ import annotations

import pytest

from pyebpf.bpftrace.literals import LiteralError, integer, string

NUMBERS = {
    "0": 0,
    "00": 0,
    "017": 15,
    "0xffffffffffffffff": 2**64 - 1,
    "18446744073709551615": 2**64 - 1,
    "0xF_F": 255,
    "9e18": 9 * 10**18,
    "1E3": 1000,
    "2e1_0": 2 * 10**10,
    "4294967295u": 2**32 - 1,
    "9223372036854775807l": 2**63 - 1,
    "18446744073709551615ULL": 2**64 - 1,
    "3ns": 3,
    "3us": 3000,
    "2s": 2 * 10**9,
    "2m": 12 * 10**10,
    "1d": 864 * 10**11,
}
REFUSED = {
    "08": "octal",
    "18446744073709551616": "greater than 18446744073709551615",
    "4294967296u": "greater than 4294967295",
    "9223372036854775808LL": "greater than 9223372036854775807",
    "300000000d": "greater than",
    "12e3": "begins with one digit",
    "0e3": "begins with one digit",
    "9e99": "greater than",
    "1e": "not a number",
    "0x": "not a number",
    "0b1": "not a number",
    "1_": "end with `_`",
    "1x": "not a number",
    "1luu": "not a number",
    "1" * 101: "too long",
}


@pytest.mark.parametrize("text", NUMBERS)
def test_numbers(text):
    """The value of each way to write one."""
    assert integer(text) == NUMBERS[text]


@pytest.mark.parametrize("text", REFUSED)
def test_refused_numbers(text):
    """What is wrong with each."""
    with pytest.raises(LiteralError, match=REFUSED[text]):
        integer(text)


def test_escape_sequences():
    """Octal ones have up to three digits, hexadecimal ones up to two; others mean nothing."""
    assert string(r'"\1018\x4142\0\r"') == b"A8A42\0\r"
    for text, start, end in ((r'"a\q"', 2, 4), (r'"\400"', 1, 5), (r'"\x"', 1, 3)):
        with pytest.raises(LiteralError) as caught:
            string(text)
        assert (caught.value.start, caught.value.end) == (start, end)
