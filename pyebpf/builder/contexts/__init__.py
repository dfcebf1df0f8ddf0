"""Contexts of programs, by attach point: one file a family of attachments."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pyebpf.builder.contexts.base import Context, LoadAttributes, ProgramContext

if TYPE_CHECKING:
    from pyebpf.specs import AttachSpec

__all__ = ["PROGRAM_CONTEXTS", "Context", "LoadAttributes", "ProgramContext", "program_context"]

#: For classes of pyebpf.specs.attach their ProgramContext: the module beside this one, and the class in it. Those of
#: pyebpf.attach have a method.
PROGRAM_CONTEXTS = {
    "TailCalled": ("tail_calls", "TailCalledProgramContext"),
}


def program_context(attach: AttachSpec | None) -> ProgramContext[Any]:
    """Return the meaning of an attachment to a program; without one nothing has a name."""
    if attach is None:
        return ProgramContext[Any](attach)
    place = PROGRAM_CONTEXTS.get(type(attach).__name__)
    if place is None:
        own: ProgramContext[Any] = attach.program_context()
        return own
    found: ProgramContext[Any] = getattr(import_module(f"{__name__}.{place[0]}"), place[1])(attach)
    return found
