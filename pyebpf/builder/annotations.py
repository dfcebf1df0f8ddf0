"""Annotations of a probe's parameters, beyond the types of the language."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["KernelObject", "PerfEventContext", "RawTracepointContext", "TracepointContext"]


class KernelObject:
    """A struct of the kernel.

    Answers any attribute that the running kernel's BTF gives it, each read where it is written.
    """

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


class TracepointContext:
    """A tracepoint's record, as its `format` describes it: `ctx.filename`. `ctx.target` is "category:name"."""

    target: str

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


class RawTracepointContext:
    """A raw tracepoint's arguments by name. `ctx.target` is the tracepoint's name."""

    target: str

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


class PerfEventContext:
    """The context of a perf event's program.

    `ip` is the interrupted instruction's address, `sample_period` events since the last one, `addr` the data address
    where the event has one (struct bpf_perf_event_data).
    """

    target: str
    ip: int
    sample_period: int
    addr: int
