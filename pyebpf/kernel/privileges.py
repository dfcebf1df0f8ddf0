"""Privileges of this process: capabilities, lockdown, pid namespace."""

from __future__ import annotations

import os

from pyebpf.dataclass import dataclass
from pyebpf.kernel.shortages import raise_shortage

CAPABILITIES: dict[str, int] = {
    "CAP_NET_ADMIN": 12,
    "CAP_SYS_ADMIN": 21,
    "CAP_SYS_RESOURCE": 24,
    "CAP_SYSLOG": 34,
    "CAP_PERFMON": 38,
    "CAP_BPF": 39,
}
"""Bit numbers of include/uapi/linux/capability.h that matter here."""

_INITIAL_PID_NAMESPACE = 0xEFFFFFFC  # PROC_PID_INIT_INO of include/linux/proc_ns.h
_MINOR_BITS = 20  # MINORBITS of include/linux/kdev_t.h


def effective_capabilities() -> int:
    """The effective capability set as a bit mask (CapEff of /proc/self/status); 0 if /proc is not there."""
    try:
        with open("/proc/self/status", encoding="utf-8", errors="surrogateescape") as file:
            status = file.read()
    except OSError as error:
        raise_shortage(error)
        return 0
    for line in status.splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0


def has_capability(name: str) -> bool:
    """Whether `name` is effective; CAP_SYS_ADMIN stands in for CAP_BPF and CAP_PERFMON, as in the kernel."""
    mask = effective_capabilities()
    wanted = 1 << CAPABILITIES[name]
    if name in {"CAP_BPF", "CAP_PERFMON"}:
        wanted |= 1 << CAPABILITIES["CAP_SYS_ADMIN"]
    return bool(mask & wanted)


def lockdown() -> str | None:
    """The lockdown level: "none", "integrity" or "confidentiality"; None if securityfs does not tell."""
    from pyebpf.kernel.mounts import securityfs_file

    chosen = (securityfs_file("lockdown") or "").partition("[")[2].partition("]")[0]
    return chosen or None


def security_modules() -> tuple[str, ...]:
    """The Linux security modules in use, such as "bpf"; none if securityfs does not tell."""
    from pyebpf.kernel.mounts import securityfs_file

    text = (securityfs_file("lsm") or "").strip()
    return tuple(text.split(",")) if text else ()


@dataclass(frozen=True, slots=True)
class PidNamespace:
    """The pid namespace of this process: `dev` and `ino` as bpf_get_ns_current_pid_tgid takes them."""

    dev: int
    ino: int
    initial: bool


def pid_namespace() -> PidNamespace:
    """This process's pid namespace. `dev` is the kernel's own dev_t encoding, not that of stat(2)."""
    found = os.stat("/proc/self/ns/pid")
    dev = os.major(found.st_dev) << _MINOR_BITS | os.minor(found.st_dev)
    return PidNamespace(dev, found.st_ino, found.st_ino == _INITIAL_PID_NAMESPACE)
