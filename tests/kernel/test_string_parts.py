"""Parts of strings, and several beginnings and ends at once, as Python has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyebpf import BPF, CompileError, Struct, char, comm, field, u32, u64
from tests.support.needs import needs

TEXTS = ("", "a", "ab", "abc", "abcdefg", "bcdefgh", "ababab", "b")
PARTS = (slice(2), slice(0), slice(2, None), slice(1, 3), slice(3, 1), slice(5, 40), slice(40, 50), slice(None))


class Name(Struct):
    name: str = field(char[12])
    length: u32 = 0


def run(function, *texts):
    """What a program makes of each text, by a number for each question."""
    bpf = BPF()
    names = bpf.array(value=Name, name="names")
    out = bpf.array(value=Name, name="out")
    program = bpf.syscall()(function(names, out))
    found = []
    with bpf:
        for text in texts:
            names[0] = Name(text)
            found.append((program.run().value, out[0].name, out[0].length))
    return found


@pytest.mark.parametrize("part", PARTS, ids=str)
def test_a_part_is_pythons(part):
    """Its text, its length and its truth, whatever the whole's length is."""
    needs("program:syscall")
    start, stop = part.start, part.stop

    def make(names, out):
        def program():
            piece = names[0].name[start:stop]
            out[0].name = piece
            out[0].length = len(piece)
            return 1 if piece else 0

        return program

    expected = [(int(bool(text[part])), text[part], len(text[part])) for text in TEXTS]
    assert run(make, *TEXTS) == expected


def test_parts_are_compared():
    """With literals, with each other, with several at once; as the key of a map."""
    needs("program:syscall")

    def make(names, out):
        def program():
            name = names[0].name
            bits = 0
            if name[:2] == "ab":
                bits |= 1
            if name[2:4] == name[:2]:
                bits |= 2
            if name[1:3] in ("bc", "cd"):
                bits |= 4
            if name.startswith(("b", "abc")):
                bits |= 8
            if name.endswith(("g", "ab")):
                bits |= 16
            if name[1:].startswith("b"):
                bits |= 32
            if "d" in name[2:5]:
                bits |= 64
            return bits

        return program

    def python(name):
        answers = (
            name[:2] == "ab",
            name[2:4] == name[:2],
            name[1:3] in {"bc", "cd"},
            name.startswith(("b", "abc")),
            name.endswith(("g", "ab")),
            name[1:].startswith("b"),
            "d" in name[2:5],
        )
        return sum(answer << number for number, answer in enumerate(answers))

    assert [value for value, _, _ in run(make, *TEXTS)] == [python(text) for text in TEXTS]


def test_parts_of_what_is_still_to_be_read():
    """Of comm(), whose size the part tells."""
    needs("program:syscall")
    bpf = BPF()
    counts = bpf.hash(key=char[16], value=u64)

    @bpf.syscall()
    def program():
        counts[comm()[1:4]] += 1
        return 1 if comm()[:2] == "py" else 2

    name = Path("/proc/self/comm").read_text(encoding="utf-8").rstrip("\n")
    with bpf:
        assert program.run().value == (1 if name[:2] == "py" else 2)
        assert dict(counts) == {name[1:4]: 1}


def test_what_is_refused():
    """A literal that the part can never be, ends that only the event knows, ends that count from the string's."""

    def message(use):
        bpf = BPF()
        names = bpf.array(value=Name, name="names")
        bpf.syscall()(use(names))
        with pytest.raises(CompileError) as caught:
            bpf.specs()
        return caught.value.message

    def longer(names):
        def use():
            return 1 if names[0].name[:2] == "abc" else 0

        return use

    def counted(names):
        def use():
            piece = names[0].name[: names[0].length]
            return 1 if piece else 0

        return use

    def last(names):
        def use():
            return 1 if names[0].name[-2:] == "ab" else 0

        return use

    assert message(longer) == "'abc' can never fit char[3]: at most 2 bytes, none of them NUL"
    assert "slice" in message(counted)
    assert message(last) == "the ends of a string's slice count from its beginning; for its end there is .endswith()"
