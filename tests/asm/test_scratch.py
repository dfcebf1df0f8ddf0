"""R11, which the verifier uses in what it loads: the slot stays raw, its text is beside it."""

from __future__ import annotations

import pytest

from pyebpf.asm import Raw, assemble, decode, encode, listing

SLOTS = [
    ("bf4b000000000000", "r11 = r4"),
    ("bfb4000000000000", "r4 = r11"),
    ("070b000001000000", "r11 += 1"),
    ("250b040001000000", "if r11 > 1 goto +4"),
    ("79abe8ff00000000", "r11 = *(u64 *)(r10 - 24)"),
    ("7bbae8ff00000000", "*(u64 *)(r10 - 24) = r11"),
    ("0fbb000000000000", "r11 += r11"),
    ("0fb9000000000000", "r9 += r11"),
    ("0c8b000000000000", "w11 += w8"),
]


@pytest.mark.parametrize(("slot", "text"), SLOTS)
def test_a_raw_slot_with_the_scratch_register_says_what_it_is(slot, text):
    """In both byte orders; the text assembles to the same bytes."""
    little = bytes.fromhex(slot)
    big = little[:1] + bytes([(little[1] & 15) << 4 | little[1] >> 4]) + little[3:1:-1] + little[:3:-1]
    for data, order in ((little, "little"), (big, "big")):
        items = decode(data, order, raw=True)
        assert (items, items[0].note) == ((Raw(data),), text)
        shown = listing(items)
        assert shown.endswith(f"  ; {text}\n")
        assert encode(assemble(shown), order) == data


@pytest.mark.parametrize("slot", ["ff0b000000000000", "180b000001000000", "bfcb000000000000", "bf4b000000000001"])
def test_other_raw_slots_say_nothing(slot):
    """An unknown opcode, half a load, a register above R11, a field that is not used."""
    (item,) = decode(bytes.fromhex(slot), raw=True)
    assert (item, item.note) == (Raw(bytes.fromhex(slot)), "")
