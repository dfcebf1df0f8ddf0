"""Scripts of bpftrace's language, run by the interpreter: what they print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.bpftrace.translate.attachments import TestRun
from pyebpf.script import Script
from pyebpf.testing import Simulation
from tests.dsl.fake_target import FakeTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyebpf.target import Target

__all__ = ["printed", "printed_by"]


def printed(
    text: str,
    events: Callable[[Simulation], object] = lambda _: None,
    arguments: Sequence[str] = (),
    target: Target | None = None,
) -> str:
    """The text of a script: BEGIN runs first, then come the events, END and the maps."""
    return printed_by(Script(text, arguments), events, target)


def printed_by(
    script: Script,
    events: Callable[[Simulation], object] = lambda _: None,
    target: Target | None = None,
    *,
    json: bool = False,
) -> str:
    """The same of a script that was made; with `json` as JSON."""
    printer = script.printer(json=json)
    with Simulation(script, target or FakeTarget()) as kernel:

        def run(event: str) -> None:
            for attach, program in kernel._programs:
                if isinstance(attach, TestRun) and attach.event == event:
                    kernel.machine.run(program, bytes(96))

        run("BEGIN")
        found = "".join(script._printed(printer, 0.0))
        if printer.status is None:
            events(kernel)
            found += "".join(script._printed(printer, 0.0))
        printer.status = None
        run("END")
        found += "".join(script._printed(printer, 0.0))
        return found + printer.maps()
