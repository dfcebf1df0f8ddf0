"""Breakpoints: a program that runs when the processor touches a place in memory."""

from __future__ import annotations

import errno
from functools import partial
from typing import TYPE_CHECKING

from pyebpf.errors import InvalidValue, NotFound, NotSupported, closest
from pyebpf.kernel import perf
from pyebpf.link.perf_event import attach_events

if TYPE_CHECKING:
    from pyebpf.link.base import Link
    from pyebpf.link.host import Host
    from pyebpf.objects import Program
    from pyebpf.specs.attach.perf_events import Breakpoint

__all__ = ["attach_breakpoint"]

_PERF_TYPE_BREAKPOINT = 5
_ACCESS = {"w": 2, "rw": 3, "x": 4}  # HW_BREAKPOINT_R is 1, _W 2, _X 4: include/uapi/linux/hw_breakpoint.h
_KERNEL = 1 << 63


def attach_breakpoint(program: Program, target: Breakpoint, _: Host) -> Link:
    """Attach `program` (kind PERF_EVENT) to a place in memory: on each processor, or in all threads of `target.pid`.

    Raises NotFound for an unknown symbol, InvalidValue for one of several places, NotSupported where the processor or
    the kernel cannot, NotPermitted, KernelError.
    """
    what = str(target)
    address = target.place if isinstance(target.place, int) else _address(target)
    if target.access != "x" and address % target.length:
        raise InvalidValue(f"{what}: {address:#x} is not aligned to its length of {target.length} bytes")

    open_event = partial(
        perf.perf_event_open,
        _PERF_TYPE_BREAKPOINT,
        0,
        period=1,
        config1=address,
        config2=target.length,
        bp_type=_ACCESS[target.access],
        what=what,
    )

    in_kernel = address >= _KERNEL and target.access == "x"
    return attach_events(
        program,
        what,
        target.pid,
        open_event,
        {
            errno.ENOSPC: "the processor's breakpoint registers are all in use (x86-64 has four): close a debugger",
            errno.ENOENT: NotSupported(f"{what}: this machine has no hardware breakpoints"),
            errno.EOPNOTSUPP: NotSupported(f"{what}: this machine has no such hardware breakpoint"),
            errno.EINVAL: (
                "this kernel allows no breakpoint at that instruction (none at all without CONFIG_KPROBES)"
                if in_kernel
                else f"no place for a breakpoint of {target.length} bytes"
            ),
        },
    )


def _address(target: Breakpoint) -> int:
    assert isinstance(target.place, str)
    if target.pid >= 0:
        from pyebpf.symbols.places import address_in_process

        return address_in_process(target.pid, target.place)
    from pyebpf.symbols.search import SymbolText

    symbols = SymbolText()
    found = {symbol.address for symbol in symbols.find(target.place)}
    if not found:
        near = closest(target.place, symbols.similar(target.place, data=True))
        raise NotFound(
            f"{target}: the kernel lists no symbol {target.place}{near}; variables are listed with CONFIG_KALLSYMS_ALL"
        )
    if found == {0}:
        from pyebpf.symbols.kernel import KernelSymbols

        raise NotSupported(f"{target}: {KernelSymbols().hidden}")
    if len(found) > 1:
        places = ", ".join(f"{address:#x}" for address in sorted(found)[:4])
        raise InvalidValue(f"{target}: the kernel has {len(found)} symbols {target.place}: give an address ({places})")
    return found.pop()
