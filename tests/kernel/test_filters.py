"""Filters that tools share: each keeps exactly what it names, in probes that hold nothing of the others."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pyebpf import BPF, InvalidValue, KernelObject, NotFound, u64
from pyebpf.endpoints import endpoints
from pyebpf.filters import DeviceFilter, SocketFilter, TaskFilter, find_cgroup, find_network_namespace
from tests.support.cgroups import cgroup
from tests.support.namespaces import namespace
from tests.support.traffic import inside

if TYPE_CHECKING:
    from collections.abc import Iterator

ME = os.getpid()
CALLS = 7


@contextmanager
def counting(**options: Any) -> Iterator[Any]:
    """The number of getppid(2) calls that a filter wants, in an array."""
    bpf = BPF()
    tasks = TaskFilter(SimpleNamespace(**options))
    count = bpf.array(value=u64)

    @bpf.tracepoint("syscalls:sys_enter_getppid")
    def on_call() -> None:
        if tasks.wanted():
            count[0] += 1

    with bpf:
        yield count


def call() -> None:
    """So many calls."""
    for _ in range(CALLS):
        os.getppid()


def test_by_process_thread_user_and_name():
    """Each alone and all at once; those of another thread, user or name are not counted."""
    thread = threading.Thread(target=call)
    with (
        counting(pid=ME) as process,
        counting(tid=ME) as main,
        counting(pid=(1 << 21, ME)) as of_two,
        counting(tid=(1 << 21, ME)) as main_of_two,
        counting(pid=ME, uid=os.getuid()) as user,
        counting(pid=ME, uid=os.getuid() + 1) as other,
        counting(pid=ME, comm="nobody has it") as name,
        counting(pid=ME, comm=None, uid=None, tid=None) as nothing_more,
    ):
        call()
        thread.start()
        thread.join()
        counts = [each[0] for each in (process, main, of_two, main_of_two, user, other, name, nothing_more)]
    assert counts == [2 * CALLS, CALLS, 2 * CALLS, CALLS, 2 * CALLS, 0, 0, 2 * CALLS]
    name_of_this = Path("/proc/self/comm").read_text().strip()
    with counting(pid=ME, comm=name_of_this[1:]) as named:
        call()
        assert named[0] == CALLS


def test_by_control_group():
    """Its path, its path in the file system, and its id as a container's; groups below it count, its neighbours not."""
    with cgroup() as group:
        outer = group.path / ("0123456789abcdef" * 4)
        inner = outer / "inner"
        inner.mkdir(parents=True)
        try:
            relative = f"/{group.path.name}/{outer.name}"
            for name in (str(outer), relative, outer.name, outer.name[:12]):
                assert find_cgroup(name) == outer
                with counting(cgroup=name) as count:
                    call()
                    assert count[0] == 0
                    type(group)(outer).run(call)
                    assert count[0] == CALLS
                    type(group)(inner).run(call)
                    assert count[0] == 2 * CALLS
                    group.run(call)
                    assert count[0] == 2 * CALLS
            with pytest.raises(NotFound, match=r"there is no control group nowhere in .* and no container of that id"):
                find_cgroup("nowhere")
            with pytest.raises(NotFound, match="there is no control group"):
                find_cgroup("../../../../etc")  # out of the file system of control groups
            with pytest.raises(NotFound, match="there is no control group 0123456789a in"):
                find_cgroup(outer.name[:11])
        finally:
            inner.rmdir()
            outer.rmdir()


def test_by_network_namespace():
    """By the process that holds it, and by its file."""
    with namespace() as other:
        for name in (str(other.pid), other.path):
            with counting(pid=ME, netns=name) as count:
                call()
                assert count[0] == 0
                with inside(other):
                    call()
                assert count[0] == CALLS
    assert find_network_namespace(str(ME)) == os.stat("/proc/self/ns/net").st_ino  # noqa: PTH116 - as it is found
    with pytest.raises(NotFound, match=r"no network namespace nowhere \(/run/netns/nowhere: No such file"):
        find_network_namespace("nowhere")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "^--netns: the name is empty: give a name"),
        ("/etc/passwd", "^--netns: /etc/passwd is not a network namespace: give a file such as /proc/PID/ns/net"),
        ("/proc/self/ns/mnt", "^--netns: /proc/self/ns/mnt is not a network namespace"),
        ("../../etc", "^--netns: ../../etc is not a network namespace|no network namespace"),
        ("/dev/null", "^--netns: /dev/null is not a network namespace"),
    ],
)
def test_what_is_no_network_namespace(name, message):
    """Any other file, which no task's namespace is."""
    with pytest.raises((InvalidValue, NotFound), match=message):
        TaskFilter(SimpleNamespace(netns=name))
    with pytest.raises((InvalidValue, NotFound), match=message):
        DeviceFilter(SimpleNamespace(netns=name))


def test_a_control_group_without_a_name():
    """It is not the root."""
    with pytest.raises(InvalidValue, match=r"^--cgroup: the name is empty: give a control group's path, or /"):
        TaskFilter(SimpleNamespace(cgroup=""))


@pytest.mark.parametrize(
    ("address", "version", "message"),
    [
        ("::1", 4, "^--address: ::1 is of IPv6, and -4 asks for IPv4 alone: leave one of them out$"),
        ("::/0", 4, "^--address: ::/0 is of IPv6"),
        ("127.0.0.1", 6, "^--address: 127.0.0.1 is of IPv4, and -6 asks for IPv6 alone"),
        ("::ffff:127.0.0.1", 6, "^--address: ::ffff:127.0.0.1 is of IPv4"),
    ],
)
def test_filters_that_contradict_each_other(address, version, message):
    """An address of one family and the other family's option."""
    with pytest.raises(InvalidValue, match=message):
        SocketFilter(SimpleNamespace(address=address, version=version))


def test_a_name_that_no_thread_can_have():
    """Longer than the kernel's."""
    with pytest.raises(InvalidValue, match="--comm: 'xxxxxxxxxxxxxxxx': a thread's name has 1 to 15 bytes"):
        TaskFilter(SimpleNamespace(comm="x" * 16))


PORT = 47_113


def established(**options: Any) -> int:
    """How many ends of two connections a filter wants: one of each family, to ports that `options` may name."""
    bpf = BPF()
    sockets = SocketFilter(SimpleNamespace(**options))
    count = bpf.array(value=u64)

    @bpf.raw_tracepoint("inet_sock_set_state")
    def on_state(sk: KernelObject, newstate: int) -> None:
        # By the ports: the one end's handshake may be over in whatever thread the other's packet interrupts.
        ends = endpoints(sk)
        if newstate == 1 and PORT in (ends.local_port, ends.remote_port) and sockets.wanted(ends):
            count[0] += 1

    with bpf:
        for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            with (
                socket.create_server((address, PORT), family=family) as server,
                socket.create_connection((address, PORT)),
            ):
                accepted, _ = server.accept()
                accepted.close()
        return int(count[0])


@pytest.mark.parametrize(
    ("options", "ends"),
    [
        ({}, 4),
        ({"local_ports": (PORT,)}, 2),
        ({"remote_ports": (1, PORT)}, 2),
        ({"local_ports": (PORT,), "remote_ports": (PORT,)}, 0),
        ({"version": 4}, 2),
        ({"version": 6}, 2),
        ({"address": "127.0.0.1"}, 2),
        ({"address": "127.0.0.0/8", "local_ports": (PORT,)}, 1),
        ({"address": "10.0.0.0/8"}, 0),
        ({"address": "::1"}, 2),
        ({"address": "::/64"}, 2),
        ({"address": "::/0"}, 2),
        ({"address": "::ffff:127.0.0.0/104"}, 2),
        ({"address": "::ffff:127.0.0.1", "version": 4}, 2),
        ({"address": "::/0", "version": 6}, 2),
        ({"address": "0.0.0.0/0"}, 2),
        ({"address": "2001:db8::/32"}, 0),
    ],
)
def test_sockets_by_their_ends(options, ends):
    """Ports of either end, remote addresses and networks of either family; ::/0 holds no mapped addresses."""
    assert established(**options) == ends


@pytest.mark.parametrize("option", ["local_ports", "remote_ports"])
def test_more_ports_than_a_filter_takes(option):
    """The message is for who runs a tool."""
    with pytest.raises(InvalidValue, match=r"^3,000 ports are too many for a filter, which takes 1,024: choose fewer"):
        SocketFilter(SimpleNamespace(**{option: tuple(range(1, 3001))}))
    assert len(SocketFilter(SimpleNamespace(**{option: (80,) * 3000})).__dict__[option]) == 1


def test_what_is_no_address():
    """The line shows one."""
    with pytest.raises(InvalidValue, match=r"--address: .*: write an address, such as 192\.0\.2\.1, or a network"):
        SocketFilter(SimpleNamespace(address="example.org"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pid": -1}, r"^pid=-1: give a number from 1 to 4194304$"),
        ({"pid": "1"}, "^pid='1': give an integer or None, not str$"),
        ({"pid": True}, "^pid=True: give an integer or None, not bool$"),
        ({"pid": (7, 0)}, r"^pid=\(7, 0\): 0 is not a number from 1 to 4194304$"),
        ({"pid": (7, "8")}, r"^pid=\(7, '8'\): give an integer, not str$"),
        ({"tid": 1 << 40}, r"^tid=1099511627776: give a number from 1"),
        ({"uid": 1 << 32}, r"^uid=4294967296: give a number from 0 to 4294967295$"),
        ({"uid": -1}, r"^uid=-1: give a number from 0"),
        ({"comm": 5}, "^comm=5: give text without NUL, such as 'nginx'$"),
        ({"comm": ""}, "^--comm: '': a thread's name has 1 to 15 bytes"),
        ({"netns": ME}, rf"^netns={ME}: give text"),
        ({"cgroup": Path("/")}, r"^cgroup=PosixPath\('/'\): give text without NUL, such as '/system.slice'$"),
        ({"cgroup": "a\0"}, r"^cgroup='a\\x00': give text"),
    ],
)
def test_options_of_tasks_that_make_no_sense(options, message):
    """Where no command has checked them before: refused by their names."""
    with pytest.raises(InvalidValue, match=message):
        TaskFilter(SimpleNamespace(**options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"local_ports": 80}, r"^local_ports=80: give a tuple of ports, such as \(80, 443\)$"),
        ({"local_ports": "80"}, r"^local_ports='80': give a tuple of ports"),
        ({"local_ports": (80, 70000)}, r"^local_ports=\(80, 70000\): 70000 is no port: they are 0 to 65535$"),
        ({"remote_ports": (-1,)}, r"^remote_ports=\(-1,\): -1 is no port"),
        ({"remote_ports": ("80",)}, r"^remote_ports=\('80',\): give an integer, not str$"),
        ({"version": 5}, "^version=5: give 4 or 6, or None for both$"),
        ({"version": 0}, "^version=0: give 4 or 6"),
        ({"version": "4"}, "^version='4': give an integer or None, not str$"),
        ({"address": 5}, "^address=5: give text without NUL, such as '192.0.2.0/24'$"),
    ],
)
def test_options_of_sockets_that_make_no_sense(options, message):
    """A number that the kernel's could never equal would leave the tool silent."""
    with pytest.raises(InvalidValue, match=message):
        SocketFilter(SimpleNamespace(**options))


def test_by_network_device():
    """The interface's name, the namespace that it is in, and both; a datagram over loopback is handed over once."""
    with namespace() as other:
        cases: list[tuple[dict[str, Any], int]] = [
            ({"interface": "lo", "netns": other.path}, CALLS),
            ({"netns": str(other.pid)}, CALLS),
            ({"interface": "lo0", "netns": other.path}, 0),
            ({"interface": "l", "netns": other.path}, 0),
            ({"interface": "lo", "netns": "/proc/self/ns/net"}, 0),
        ]
        bpf = BPF()
        counts = bpf.array(value=u64, size=len(cases))
        for number, (options, _) in enumerate(cases):
            count_devices(bpf, counts, number, DeviceFilter(SimpleNamespace(**options)))
        with bpf:
            with inside(other), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
                end.bind(("127.0.0.1", 0))
                for _ in range(CALLS):
                    end.sendto(b"x", end.getsockname())
            assert list(counts.values()) == [expected for _, expected in cases]


def count_devices(bpf: BPF, counts: Any, number: int, devices: DeviceFilter) -> None:
    """Count packets of devices that a filter wants."""

    @bpf.btf_tracepoint("net_dev_queue")
    def on_packet(skb: KernelObject) -> None:
        if devices.wanted(skb.dev):
            counts[number] += 1


@pytest.mark.parametrize("name", ["", "eth0/1", "..", "a b", "eth0:1", "sixteen-letters-"])
def test_names_that_no_interface_can_have(name):
    """They are refused with the rule."""
    with pytest.raises(InvalidValue, match=r"^--interface: '.*': an interface's name has 1 to 15 bytes"):
        DeviceFilter(SimpleNamespace(interface=name))
