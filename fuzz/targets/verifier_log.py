"""The verifier's log, explained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuzz.mutation import words
from pyebpf.verifier.log import describe, explain

if TYPE_CHECKING:
    from collections.abc import Iterable

COVERS = ("pyebpf/verifier/log.py",)
TEXT = True
DICTIONARY = words(
    r"""
    R0 R10=fp0 R1_w=scalar( smin= umax=63 umax=0x3f ) ctx() map_value_or_null(id=1,off=0,ks=4,vs=8) map_ptr ptr_
    invalid mem access 'scalar' frame1: caller: safe from 3 to 5: (85) (95) exit call processed insns ; @ x.py:12
    unreachable insn unbounded back-edge 0: 99999999999 -1 inv -0x var_off=(0x0; 0x3f) map= Pscalar fp-8= {} [ ] ÿ
    """
)


def target(data: bytes) -> None:
    """Any log has an explanation or none, of one line; nothing is raised, whatever stands in it."""
    log = data.decode("utf-8", "replace")
    explanation = explain(log)
    describe(log[:600])
    if explanation is None:
        return
    line = str(explanation)
    assert line.strip()
    assert len(line.splitlines()) == 1, line
    assert explanation.instruction is None or explanation.instruction >= 0


def seeds() -> Iterable[bytes]:
    """The logs of the tests."""
    from tests.verifier import test_log as logs

    for name, text in sorted(vars(logs).items()):
        if name.isupper() and isinstance(text, str):
            yield text.encode()
