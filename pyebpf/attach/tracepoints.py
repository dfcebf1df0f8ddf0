"""`@bpf.tracepoint`, `@bpf.raw_tracepoint`, `@bpf.btf_tracepoint`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.attach.decorators import Decorators
from pyebpf.errors import InvalidValue
from pyebpf.specs import BtfTracepoint, RawTracepoint, Tracepoint

if TYPE_CHECKING:
    from pyebpf.attach.decorators import TracingDecorator

__all__ = ["TracepointDecorators"]


class TracepointDecorators(Decorators):
    """Probes at the kernel's tracepoints."""

    def tracepoint(self, *targets: str, optional: bool = False, max_probes: int = 1000) -> TracingDecorator:
        """Run at tracepoints, each "category:name" as under tracefs `events/`. Parameters are fields of its record.

        With `*`, `?` or `[...]` a name stands for all of its category that match, at most `max_probes`. With
        `optional`, targets that the kernel lacks are left out.
        """
        places = []
        for target in targets:
            category, colon, name = target.partition(":")
            if not colon or not category or not name or ":" in name:
                raise InvalidValue(
                    f'@bpf.tracepoint({target!r}): write "category:name", such as "syscalls:sys_enter_openat"'
                )
            places.append(Tracepoint(category, name, max_probes))
        return self._tracing("tracepoint", targets, places, optional=optional)

    def raw_tracepoint(self, *targets: str, optional: bool = False) -> TracingDecorator:
        """Run at tracepoints by their bare names, before any record is made; cheaper to attach.

        Parameters are the kernel's arguments. With `optional`, targets that the kernel lacks are left out.
        """
        _bare("raw_tracepoint", targets)
        return self._tracing("raw_tracepoint", targets, map(RawTracepoint, targets), optional=optional)

    def btf_tracepoint(self, *targets: str, optional: bool = False) -> TracingDecorator:
        """`raw_tracepoint` whose pointers the verifier knows (tp_btf, since Linux 5.5): objects load directly."""
        _bare("btf_tracepoint", targets)
        return self._tracing("btf_tracepoint", targets, map(BtfTracepoint, targets), optional=optional)

    def raw_tracepoint_writable(self, *targets: str, optional: bool = False) -> TracingDecorator:
        """`raw_tracepoint` at one that was declared writable, such as "nbd_send_request" (since Linux 5.2).

        What the first argument points to is read and written directly: `request.flags = 0`; a number is `error[0]`.
        """
        from pyebpf.specs.attach.tracepoints import WritableRawTracepoint

        places = map(WritableRawTracepoint, targets)
        return self._tracing("raw_tracepoint_writable", targets, places, optional=optional)


def _bare(decorator: str, targets: tuple[str, ...]) -> None:
    for target in targets:
        if ":" in target:
            raise InvalidValue(f'@bpf.{decorator}({target!r}): write the bare name, "{target.rpartition(":")[2]}"')
