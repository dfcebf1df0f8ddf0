"""Maps that programs which may sleep cannot use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.specs import MapKind

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.specs import MapSpec

__all__ = ["check_sleepable"]

_NOT_SLEEPABLE = "look it up in a program that is not sleepable, or use a hash"
_REDIRECTS = "only programs of the network, which do not sleep, send through them"
#: Kinds that some kernel refuses, what messages call them, and what to do instead.
_REFUSED = {
    MapKind.BLOOM_FILTER: ("Bloom filters", _NOT_SLEEPABLE),
    MapKind.LPM_TRIE: ("LPM tries", _NOT_SLEEPABLE),
    MapKind.PERF_EVENT_ARRAY: ("perf buffers", "use bpf.ringbuf()"),
    MapKind.PROG_ARRAY: ("program arrays", "call a @bpf.subprogram"),
    MapKind.STACK_TRACE: ("stack maps", "keep the addresses in a hash"),
    MapKind.CGROUP_ARRAY: ("arrays of control groups", "compare the number of the control group"),
    MapKind.REUSEPORT_SOCKARRAY: ("arrays of sockets", _REDIRECTS),
    MapKind.SOCKMAP: ("socket maps", _REDIRECTS),
    MapKind.SOCKHASH: ("socket maps", _REDIRECTS),
    MapKind.DEVMAP: ("redirect maps", _REDIRECTS),
    MapKind.DEVMAP_HASH: ("redirect maps", _REDIRECTS),
    MapKind.CPUMAP: ("redirect maps", _REDIRECTS),
    MapKind.XSKMAP: ("redirect maps", _REDIRECTS),
}


def check_sleepable(p: ProgramBuilder, spec: MapSpec) -> None:
    """Refuse a map in a program that may sleep, where this kernel does."""
    if spec.kind not in _REFUSED or p.target.has(f"map:{spec.kind.name.lower()}@sleepable"):
        return
    what, instead = _REFUSED[spec.kind]
    p.fail(
        f"{spec.name}: this kernel lets sleepable programs, as syscall programs are, use no {what}, whose memory "
        f"may be freed while they sleep: {instead}"
    )
