"""Findings about this machine, one after the other: `pyebpf doctor` prints them, bug reports quote them."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING, NamedTuple

from pyebpf.features.support import Support

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyebpf.features import Features


class Diagnostic(NamedTuple):
    """One fact: what it is about, what was found, and what that means, where somebody may ask."""

    name: str
    value: str
    note: str = ""


def _kernel(_: Features) -> Iterator[Diagnostic]:
    from pyebpf.kernel.cpus import online_cpus, possible_cpus
    from pyebpf.kernel.privileges import lockdown, pid_namespace, security_modules

    yield Diagnostic("release", platform.release())
    yield Diagnostic("architecture", platform.machine())
    yield Diagnostic("processors", f"{len(online_cpus())} online, {possible_cpus()} possible")
    try:
        size = os.stat("/sys/kernel/btf/vmlinux").st_size  # noqa: PTH116 - one stat
        yield Diagnostic("types (BTF)", f"{size / 1e6:.1f} MB")
    except OSError:
        yield Diagnostic("types (BTF)", "no", "kernel types need CONFIG_DEBUG_INFO_BTF")
    level = lockdown()
    notes = {
        "integrity": "may refuse kprobes' files and trampolines",
        "confidentiality": "kernel memory is not readable",
    }
    yield Diagnostic("lockdown", level or "unknown", notes.get(level or "", ""))
    yield Diagnostic("security modules", ", ".join(security_modules()) or "unknown")
    yield Diagnostic("pid namespace", "the first" if pid_namespace().initial else "a container's")


_MEANINGS = {
    "CAP_BPF": "make maps, load programs",
    "CAP_PERFMON": "trace, and read kernel memory",
    "CAP_NET_ADMIN": "programs of networking",
    "CAP_SYS_ADMIN": "mount tracefs, ids of programs and maps",
    "CAP_SYSLOG": "addresses of kernel symbols",
    "CAP_SYS_RESOURCE": "raise limits",
}


def _privileges(_: Features) -> Iterator[Diagnostic]:
    from pyebpf.kernel.privileges import has_capability

    yield Diagnostic("user", str(os.geteuid()))
    for name, meaning in _MEANINGS.items():
        yield Diagnostic(name, "yes" if has_capability(name) else "no", "" if has_capability(name) else meaning)


def _files(_: Features) -> Iterator[Diagnostic]:
    from pyebpf.errors import PyebpfError
    from pyebpf.kernel.mounts import mount_points
    from pyebpf.kernel.shortages import SHORTAGES
    from pyebpf.kernel.tracefs import Tracefs

    places: dict[str, str] = {}
    for kind, place in mount_points():
        places.setdefault(kind, place)
    note = ""
    try:
        Tracefs().close()
        note = "" if "tracefs" in places else "not needed: pyebpf mounts one of its own while it reads"
    except PyebpfError as error:
        note = str(error)
    yield Diagnostic("tracefs", places.get("tracefs", "not mounted"), note)
    yield Diagnostic("bpffs", places.get("bpf", "not mounted"), "" if "bpf" in places else "needed to pin only")
    yield Diagnostic("control groups", places.get("cgroup2", "not mounted"))
    yield Diagnostic("securityfs", places.get("securityfs", "not mounted"))
    try:
        with open("/proc/kallsyms", encoding="ascii", errors="replace") as symbols:  # noqa: PTH123 - as above
            hidden = all(int(line.split(" ", 1)[0], 16) == 0 for line in (symbols.readline() for _ in range(9)) if line)
        yield Diagnostic(
            "kernel symbols", "without addresses" if hidden else "yes", "needs CAP_SYSLOG" if hidden else ""
        )
    except OSError as error:
        if error.errno in SHORTAGES:
            yield Diagnostic("kernel symbols", "cannot be read", error.strerror or "")
        else:
            yield Diagnostic("kernel symbols", "no", "CONFIG_KALLSYMS")


_SETTINGS = (
    "kernel/perf_event_paranoid",
    "kernel/perf_event_max_sample_rate",
    "kernel/perf_event_max_stack",
    "kernel/unprivileged_bpf_disabled",
    "kernel/kptr_restrict",
    "kernel/bpf_stats_enabled",
    "net/core/bpf_jit_enable",
    "net/core/bpf_jit_harden",
)


def _limits(_: Features) -> Iterator[Diagnostic]:
    import resource

    def shown(number: int) -> str:
        return "unlimited" if number == resource.RLIM_INFINITY else str(number)

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield Diagnostic("open files", f"{shown(soft)} of {shown(hard)}", "each attachment takes one or two")
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    yield Diagnostic("locked memory", f"{shown(soft)} of {shown(hard)}", "maps are charged to it before Linux 5.11")
    for name in _SETTINGS:
        try:
            with open(f"/proc/sys/{name}", encoding="ascii") as file:  # noqa: PTH123 - as above
                yield Diagnostic(name.replace("/", "."), file.read().strip())
        except OSError:
            yield Diagnostic(name.replace("/", "."), "unknown")


def _asked(prefix: str, names: Callable[[], list[str]]) -> Callable[[Features], Iterator[Diagnostic]]:
    def ask(features: Features) -> Iterator[Diagnostic]:
        for name in names():
            yield Diagnostic(name, features.ask(f"{prefix}:{name}").value)

    return ask


def _instructions() -> list[str]:
    from pyebpf.features.instructions import INSTRUCTIONS, LEVELS

    return [*LEVELS, *INSTRUCTIONS, "addr_space_cast"]


def _attachments() -> list[str]:
    from pyebpf.features.attachments import ATTACHMENTS

    return list(ATTACHMENTS)


def _programs() -> list[str]:
    from pyebpf.uapi.bpf import ProgramType

    return [name.lower() for name, kind in ProgramType.__members__.items() if kind]


def _maps() -> list[str]:
    from pyebpf.uapi.bpf import MapType

    return [name.lower() for name, kind in MapType.__members__.items() if kind]


SECTIONS: dict[str, Callable[[Features], Iterator[Diagnostic]]] = {
    "kernel": _kernel,
    "privileges": _privileges,
    "files": _files,
    "limits": _limits,
    "instructions": _asked("isa", _instructions),
    "attachments": _asked("attach", _attachments),
    "programs": _asked("program", _programs),
    "maps": _asked("map", _maps),
}
"""By name: what each section finds, as name, value and note."""


def helpers(features: Features) -> Iterator[Diagnostic]:
    """Each helper of each kind of program that the kernel has: some thousands of questions."""
    from pyebpf.uapi.helpers import HELPER_IDS

    for kind in _programs():
        if features.ask(f"program:{kind}") is not Support.YES:
            continue
        for helper in HELPER_IDS:
            yield Diagnostic(f"{helper}@{kind}", features.ask(f"helper:{helper}@{kind}").value)


def why_not() -> str | None:
    """Reason why this process cannot load any program, in a line; None if it can."""
    from pyebpf.features.loading import attempt, finish
    from pyebpf.kernel.errors_in_words import kernel_error
    from pyebpf.uapi.bpf import ProgramType

    outcome = attempt(finish(), ProgramType.TRACEPOINT)
    if not outcome.errno:
        return None
    error = OSError(outcome.errno, os.strerror(outcome.errno))
    return str(kernel_error(error, "loading a program", needs=("CAP_BPF", "CAP_PERFMON")))
