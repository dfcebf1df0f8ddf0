"""Maps that programs which may sleep cannot use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.uapi.bpf import MapType

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.specs import MapSpec

_NOT_SLEEPABLE = "look it up in a program that is not sleepable, or use a hash"
_REDIRECTS = "only programs of the network, which do not sleep, send through them"
#: Kinds that some kernel refuses, what messages call them, and what to do instead.
_REFUSED = {
    MapType.BLOOM_FILTER: ("Bloom filters", _NOT_SLEEPABLE),
    MapType.LPM_TRIE: ("LPM tries", _NOT_SLEEPABLE),
    MapType.PERF_EVENT_ARRAY: ("perf buffers", "use bpf.ringbuf()"),
    MapType.PROG_ARRAY: ("program arrays", "call a @bpf.subprogram"),
    MapType.STACK_TRACE: ("stack maps", "keep the addresses in a hash"),
    MapType.CGROUP_ARRAY: ("arrays of control groups", "compare the number of the control group"),
    MapType.REUSEPORT_SOCKARRAY: ("arrays of sockets", _REDIRECTS),
    MapType.SOCKMAP: ("socket maps", _REDIRECTS),
    MapType.SOCKHASH: ("socket maps", _REDIRECTS),
    MapType.DEVMAP: ("redirect maps", _REDIRECTS),
    MapType.DEVMAP_HASH: ("redirect maps", _REDIRECTS),
    MapType.CPUMAP: ("redirect maps", _REDIRECTS),
    MapType.XSKMAP: ("redirect maps", _REDIRECTS),
}


def check_sleepable(p: ProgramBuilder, spec: MapSpec) -> None:
    """Refuse a map in a program that may sleep, where this kernel does."""
    if spec.type not in _REFUSED or p.target.has(f"map:{spec.type.name.lower()}@sleepable"):
        return
    what, instead = _REFUSED[spec.type]
    p.fail(
        f"{spec.name}: sleepable programs, such as syscall programs, cannot use {what} on this kernel, because their "
        f"memory may be freed while a program sleeps: {instead}"
    )
