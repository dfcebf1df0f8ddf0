"""One kind of refusal: how to know it in the verifier's log, and what to say about it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Refusal"]


class Refusal(NamedTuple):
    """One row of the table.

    `pattern` is a regular expression; a group `register` names the register meant ("R2"), a group `instruction` the
    slot of the instruction meant. Where the kernel gives no slot: `opcode` is the instruction's first byte in hex,
    `descriptor` the number of the map that it names, `address` the place in its value that it loads; `end` matches if
    the end of a function is meant, `call` if a call out of the program is. `cause` says what is likely wrong and what
    to write instead.
    """

    name: str
    pattern: str
    cause: str
