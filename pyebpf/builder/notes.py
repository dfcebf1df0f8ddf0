"""Keys of a program's notes (`ProgramBuilder.notes`) that the builder and a front end both know."""

from __future__ import annotations

__all__ = ["CALLBACK", "CHANGED", "CHANGING", "MOVED", "MOVING"]

#: The front end's way to build a function that is called back.
CALLBACK = "callbacks: build"
#: A string in memory was written over; the program was found to do so, and is built anew.
CHANGED = "strings: changed"
CHANGING = "strings: changing"
#: A helper that may move the packet was called; the program was found to do so, and is built anew, with the packet's
#: ends read each time.
MOVED = "packets: moved"
MOVING = "packets: moving"
