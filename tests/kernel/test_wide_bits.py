"""bits() of fields of 64 bits, whose top bit is one of them: as probes and Python read and write them."""

from __future__ import annotations

import pytest

from pyebpf import BPF, Struct, bits, s64, u64
from tests.support.needs import needs

NUMBERS = (0, 1, 5, 1 << 63, (1 << 64) - 1, 0xF123_4567_89AB_CDE5, 0x7FFF_FFFF_FFFF_FFFC)


class Word(Struct):
    word: u64
    low = bits("word", 0, 4)
    high = bits("word", 60, 4)
    top = bits("word", 63)
    whole = bits("word", 0, 64)
    steps = bits("word", 8, 56, unit=4)


@pytest.mark.parametrize("name", ["low", "high", "top", "whole", "steps"])
def test_of_u64(name):
    """What is read, is compared, and becomes of the others when these are written, by a constant and by a number."""
    needs("program:syscall")
    bpf = BPF()
    words = bpf.array(value=Word, size=3, name="words")
    given = bpf.array(value=u64, name="given")
    found = bpf.array(value=u64, size=2, name="found")
    part = getattr(Word, name)
    constant = part.mask * part.unit

    source = {
        "low": lambda: (words[0].low, words[0].low > 9),
        "high": lambda: (words[0].high, words[0].high > 9),
        "top": lambda: (words[0].top, words[0].top > 9),
        "whole": lambda: (words[0].whole, words[0].whole > 9),
        "steps": lambda: (words[0].steps, words[0].steps > 9),
    }[name]

    @bpf.syscall()
    def read():
        value, larger = source()
        found[0] = value
        found[1] = 1 if larger else 0
        return 0

    def write_low():
        words[1].low, words[2].low = given[0], constant
        return 0

    def write_high():
        words[1].high, words[2].high = given[0], constant
        return 0

    def write_top():
        words[1].top, words[2].top = given[0], constant
        return 0

    def write_whole():
        words[1].whole, words[2].whole = given[0], constant
        return 0

    def write_steps():
        words[1].steps, words[2].steps = given[0], constant
        return 0

    write = bpf.syscall()(locals()[f"write_{name}"])
    with bpf:
        for number in NUMBERS:
            word = Word(number)
            for index in range(3):
                words[index] = word
            read.run()
            assert (found[0], found[1]) == (getattr(word, name), int(getattr(word, name) > 9))
            for other in NUMBERS:
                words[1], given[0] = word, other
                write.run()
                expected = Word(number)
                setattr(expected, name, (other // part.unit & part.mask) * part.unit)
                assert words[1] == expected
                setattr(expected, name, constant)
                assert words[2] == expected


def test_of_s64():
    """The sign is a bit like the others."""
    needs("program:syscall")

    class Signed(Struct):
        word: s64
        top = bits("word", 63)

    bpf = BPF()
    words = bpf.array(value=Signed, size=2, name="words")

    @bpf.syscall()
    def turn():
        words[0].top = 1
        words[1].top = 0
        return words[0].top * 2 + words[1].top

    with bpf:
        words[0], words[1] = Signed(5), Signed(-5)
        assert turn.run().value == 2
        assert (words[0].word, words[1].word) == (5 - (1 << 63), (1 << 63) - 5)
