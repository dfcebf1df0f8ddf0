"""Filters that tools share: which tasks, ends of sockets and network devices their options ask for.

    def build(options: Options) -> BPF:
        bpf, tasks = BPF(), TaskFilter(options)

        @bpf.system_call("connect")
        def on_connect(retval: int) -> None:
            if tasks.wanted():
                ...

A filter takes the options by name, those that a tool has: `pid`, `tid`, `uid`, `comm`, `cgroup`, `netns`;
`local_ports`, `remote_ports`, `address`, `version`; `interface`. What is not asked for is not compiled.
"""

from __future__ import annotations

import os
import re
from ipaddress import IPv6Address, IPv6Network, ip_network
from pathlib import Path
from typing import TYPE_CHECKING

from pyebpf import InvalidValue, NotFound, comm, current_task, has_field, helpers, pid, tid, uid
from pyebpf.tool.options import PID_MAX, U16_MAX, U32_MAX, check_value

if TYPE_CHECKING:
    from ipaddress import IPv4Network

    from pyebpf import KernelObject
    from pyebpf.endpoints import Endpoints

__all__ = ["DeviceFilter", "SocketFilter", "TaskFilter", "find_cgroup", "find_network_namespace"]

#: The shortest beginning of a container's id that is looked for: what `docker ps` shows.
_SHORTEST_ID = 12
#: Levels of nested groups that are looked at.
_DEEPEST = 16
_MOST_VALUES = 1024  # as many as `in` compares with in a probe
_LONGEST_COMM = 15  # TASK_COMM_LEN, less the NUL
_LONGEST_INTERFACE = 15  # IFNAMSIZ, less the NUL
#: Where records of `pyebpf.endpoints` hold addresses of IPv4.
_MAPPED = IPv6Network("::ffff:0:0/96")


def find_cgroup(name: str) -> Path:
    """The folder of a control group (v2): its path, from / or from the file system's root, or of a container by its id.

    A container's id is at least its first 12 digits, as runtimes name groups: "docker-ID.scope", "ID". Raises NotFound,
    and InvalidValue for an empty name.
    """
    if not name:
        raise InvalidValue("--cgroup: the name is empty: give a control group's path, or / for the root")
    from pyebpf.kernel.mounts import cgroup2_mounts  # here, so that tools can be compiled where there is no kernel

    mounts = [Path(each).resolve() for each in cgroup2_mounts()]
    if not mounts:
        raise NotFound("--cgroup: no file system of control groups is mounted (mount -t cgroup2 none /sys/fs/cgroup)")
    for mount in mounts:
        for path in (Path(name).resolve(), (mount / name.strip("/")).resolve()):
            if path.is_dir() and path.is_relative_to(mount):
                return path
    if re.fullmatch(rf"[0-9a-f]{{{_SHORTEST_ID},64}}", name):
        found = _containers(mounts[0], name)
        if len(found) == 1:
            return found[0]
        if found:
            raise NotFound(f"--cgroup: {len(found)} control groups are named {name}…: give more of the id, or the path")
    raise NotFound(f"--cgroup: there is no control group {name} in {mounts[0]}, and no container of that id")


def _containers(mount: Path, identifier: str) -> list[Path]:
    """The groups named by an id, without those below them."""
    named = re.compile(rf"(?<![0-9a-f]){identifier}")
    found = [Path(folder, each) for folder, folders, _ in os.walk(mount) for each in folders if named.search(each)]
    return [path for path in found if not any(other in path.parents for other in found)]


def find_network_namespace(name: str) -> int:
    """The number of a network namespace: a name of ip-netns(8), a path, or a process's id.

    Raises NotFound, and InvalidValue for a file that is none.
    """
    from pyebpf.kernel.namespaces import CLONE_NEWNET, namespace_number  # here, as above

    if not name:
        raise InvalidValue("--netns: the name is empty: give a name (ip netns list), a path or a process's id")
    path = f"/proc/{name}/ns/net" if name.isdecimal() else name if "/" in name else f"/run/netns/{name}"
    try:
        number = namespace_number(path, CLONE_NEWNET)
    except OSError as error:
        raise NotFound(
            f"--netns: there is no network namespace {name} ({path}: {error.strerror}): ip netns list names them"
        ) from None
    if number is None:
        raise InvalidValue(f"--netns: {path} is not a network namespace: give a file such as /proc/PID/ns/net")
    return number


class TaskFilter:
    """The tasks that a tool's options ask for; with none of the options, every task.

    `pid`, `tid`, `uid`: numbers; `pid` and `tid` may be several, in a tuple. `comm`: text that the thread's name
    contains. `cgroup`: as `find_cgroup` takes it, with all groups below. `netns`: as `find_network_namespace` takes it.
    Raises NotFound, InvalidValue.
    """

    def __init__(self, options: object) -> None:
        self.pids = _numbers(options, "pid", 1, PID_MAX)
        self.tids = _numbers(options, "tid", 1, PID_MAX)
        self.uid = _number(options, "uid", 0, U32_MAX)
        self.comm = _text(options, "comm", "nginx")
        raw = os.fsencode("-" if self.comm is None else self.comm)
        if not 0 < len(raw) <= _LONGEST_COMM:
            raise InvalidValue(f"--comm: {self.comm!r}: a thread's name has 1 to {_LONGEST_COMM} bytes, none a NUL")
        group = _text(options, "cgroup", "/system.slice")
        self.cgroup = 0 if group is None else find_cgroup(group).stat().st_ino
        namespace = _text(options, "netns", "blue")
        self.netns = 0 if namespace is None else find_network_namespace(namespace)

    def wanted(self) -> bool:
        """In a probe: whether the current task is one of them."""
        if self.pids and pid() not in self.pids:
            return False
        if self.tids and tid() not in self.tids:
            return False
        if self.uid is not None and uid() != self.uid:
            return False
        if self.comm is not None and self.comm not in comm():
            return False
        if self.cgroup and not self._is_in_cgroup():
            return False
        return not self.netns or current_task().nsproxy.net_ns.ns.inum == self.netns

    def _is_in_cgroup(self) -> bool:
        # Levels count from the kernel's own root, which a container does not see.
        if has_field("struct cgroup", "ancestor_ids"):  # before Linux 6.1; 5.10 has no helper in tracepoint programs
            own = current_task().cgroups.dfl_cgrp
            return any(level <= own.level and own.ancestor_ids[level] == self.cgroup for level in range(_DEEPEST))
        return any(helpers.get_current_ancestor_cgroup_id(level) == self.cgroup for level in range(_DEEPEST))


class SocketFilter:
    """The sockets that a tool's options ask for, by their ends; with none of the options, every socket.

    `local_ports`, `remote_ports`: tuples of numbers. `address`: a remote address or network of either family, as text.
    `version`: 4 or 6. A network of IPv6 holds no address of IPv4, ::/0 neither, unless it is within ::ffff:0:0/96.
    Raises InvalidValue.
    """

    def __init__(self, options: object) -> None:
        self.local_ports = _ports(options, "local_ports")
        self.remote_ports = _ports(options, "remote_ports")
        self.version: int | None = getattr(options, "version", None)
        check_value("version", "int | None", self.version)
        if self.version not in {None, 4, 6}:
            raise InvalidValue(f"version={self.version}: give 4 or 6, or None for both")
        address = _text(options, "address", "192.0.2.0/24")
        network = IPv6Network("::/0")
        if address is not None:
            network = _mapped(address)
            found = 4 if network.subnet_of(_MAPPED) else 6
            if self.version not in {None, found}:
                raise InvalidValue(
                    f"--address: {address} is of IPv{found}, and -{self.version} asks for IPv{self.version} alone: "
                    "leave one of them out"
                )
            if network.supernet_of(_MAPPED):
                self.version = found
        low, mask = int(network.network_address), int(network.netmask)
        self.high_mask, self.low_mask = mask >> 64, mask & (1 << 64) - 1
        self.high, self.low = low >> 64, low & (1 << 64) - 1

    def wanted(self, ends: Endpoints) -> bool:
        """In a probe: whether the socket with these ends is one of them."""
        if self.local_ports and ends.local_port not in self.local_ports:
            return False
        if self.remote_ports and ends.remote_port not in self.remote_ports:
            return False
        if self.high_mask and ends.remote_high & self.high_mask != self.high:
            return False
        if self.low_mask and ends.remote_low & self.low_mask != self.low:
            return False
        if self.version is None:
            return True
        four = ends.remote_high == 0 and ends.remote_low >> 32 == 0xFFFF
        return four == (self.version == 4)


class DeviceFilter:
    """The network devices that a tool's options ask for; with none of the options, every device.

    `interface`: a name. `netns`: as `find_network_namespace` takes it; the device's, whatever task runs. Raises
    NotFound, InvalidValue.
    """

    def __init__(self, options: object) -> None:
        self.interface = _text(options, "interface", "eth0")
        raw = os.fsencode("eth0" if self.interface is None else self.interface)
        # As the kernel's dev_valid_name().
        if not 0 < len(raw) <= _LONGEST_INTERFACE or raw in {b".", b".."} or re.search(rb"[/:\s\0]", raw):
            raise InvalidValue(
                f"--interface: {self.interface!r}: an interface's name has 1 to {_LONGEST_INTERFACE} bytes, none of "
                "them a slash, colon or space (ip link names them)"
            )
        namespace = _text(options, "netns", "blue")
        self.netns = 0 if namespace is None else find_network_namespace(namespace)

    def wanted(self, dev: KernelObject) -> bool:
        """In a probe: whether a `struct net_device *` is one of them."""
        if self.interface is not None and dev.name != self.interface:
            return False
        return not self.netns or dev.nd_net.net.ns.inum == self.netns


def _number(options: object, name: str, least: int, most: int) -> int | None:
    """An option that is a number, or None. Raises InvalidValue for anything else, and for one out of bounds."""
    value: int | None = getattr(options, name, None)
    check_value(name, "int | None", value)
    if value is not None and not least <= value <= most:
        raise InvalidValue(f"{name}={value}: give a number from {least} to {most}")
    return value


def _numbers(options: object, name: str, least: int, most: int) -> tuple[int, ...]:
    """An option that is a number, several, or None. Raises InvalidValue as `_number`."""
    value: object = getattr(options, name, None)
    if not isinstance(value, tuple | list):
        one = _number(options, name, least, most)
        return () if one is None else (one,)
    check_value(name, "tuple[int, ...]", value)
    if wrong := [each for each in value if not least <= each <= most]:
        raise InvalidValue(f"{name}={value!r}: {wrong[0]} is not a number from {least} to {most}")
    return _few(tuple(dict.fromkeys(value)), "numbers")


def _ports(options: object, name: str) -> tuple[int, ...]:
    """An option that is several ports. Raises InvalidValue for anything else."""
    value = getattr(options, name, ())
    if not isinstance(value, tuple | list):
        raise InvalidValue(f"{name}={value!r}: give a tuple of ports, such as (80, 443)")
    check_value(name, "tuple[int, ...]", value)
    if wrong := [port for port in value if not 0 <= port <= U16_MAX]:
        raise InvalidValue(f"{name}={value!r}: {wrong[0]} is no port: they are 0 to {U16_MAX}")
    return _few(tuple(dict.fromkeys(value)), "ports")


def _few(values: tuple[int, ...], what: str) -> tuple[int, ...]:
    """Values that a probe compares with one by one. Raises InvalidValue."""
    if len(values) > _MOST_VALUES:
        raise InvalidValue(
            f"{len(values):,} {what} are too many for a filter, which takes {_MOST_VALUES:,}: choose fewer, or leave "
            "the option out and filter the output"
        )
    return values


def _text(options: object, name: str, example: str) -> str | None:
    """An option that is text, or None. Raises InvalidValue for anything else, and for text with a NUL."""
    value: object = getattr(options, name, None)
    if value is None:
        return None
    if not isinstance(value, str) or "\0" in value:
        raise InvalidValue(f"{name}={value!r}: give text without NUL, such as {example!r}")
    return value


def _mapped(text: str) -> IPv6Network:
    """A network of addresses as records of `pyebpf.endpoints` hold them. Raises InvalidValue."""
    try:
        found: IPv4Network | IPv6Network = ip_network(text)
    except ValueError as error:
        raise InvalidValue(
            f"--address: {error}: write an address, such as 192.0.2.1, or a network, 192.0.2.0/24"
        ) from None
    if isinstance(found, IPv6Network):
        return found
    mapped = IPv6Address(f"::ffff:{found.network_address}")
    return IPv6Network((mapped, 96 + found.prefixlen))
