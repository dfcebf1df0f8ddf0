"""Single cases that random ones seldom meet, each found by a change to the source that no other test noticed."""

from __future__ import annotations

import pytest

from pyebpf.asm import build, decode, encode
from pyebpf.asm.build import R3


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("number", [0x8000_0000, 0x1_8000_0000, 0x7FFF_FFFF_FFFF_FFFF, 1 << 63, 0xFFFF_FFFF])
def test_the_lower_half_of_a_wide_number_has_no_sign(order, number):
    """Its highest bit does not reach into the upper half."""
    instruction = build.lddw(R3, number)
    assert decode(encode([instruction], order), order) == (instruction,)
