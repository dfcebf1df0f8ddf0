"""The files of docs/examples that stand on pages of their own subjects do what they say."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import runpy
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import pyebpf
from pyebpf.kernel.config import read_config
from tests.support.command import running
from tests.support.folded import parse_folded
from tests.support.needs import needs
from tests.support.python import ENVIRONMENT, ROOT, finished, python
from tests.support.traffic import inside
from tests.support.waiting import PATIENCE, wait_until

EXAMPLES = ROOT / "docs" / "examples"


def output(*command):
    """What a command prints, which succeeds."""
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_by_hand():
    """Both runs return the length, and the map has their sum."""
    assert finished(EXAMPLES / "by_hand.py", env=ENVIRONMENT).stdout == "returned 50\nreturned 100\n150 bytes\n"


def test_intervals():
    """The read of each second, the average so far, and the histogram of all three."""
    *lines, last = finished(EXAMPLES / "intervals.py", env=ENVIRONMENT).stdout.splitlines()
    assert lines[:3] == [
        "1 more, 100 bytes on average",
        "1 more, 550 bytes on average",
        "1 more, 700 bytes on average",
    ]
    assert last.split(":", 1)[0].split() == ["512", "->", "1023"]
    assert last.split()[4] == "2"


def test_the_struct_of_the_page_on_maps():
    """Its fields have the Python values that the table says, are decoded as such, and it is as large as in C."""
    page = (ROOT / "docs" / "maps.md").read_text(encoding="utf-8")
    (source,) = re.findall(r"^```python\n(class Flow\(Struct\):\n.*?)^```$", page, re.MULTILINE | re.DOTALL)
    names = {"__name__": "maps", **{name: getattr(pyebpf, name) for name in pyebpf.__all__}}
    exec(f"class Endpoint(Struct):\n    port: be16\n\n{source}", names)
    peer = names["Endpoint"](port=443)
    flow = names["Flow"](port=80, comm="wget", address=bytes(range(16)), counts=[1, 2, 3, 4], peer=peer)
    assert names["Flow"].from_bytes(flow.to_bytes()) == flow
    assert flow.as_dict() == {
        "port": 80,
        "bytes_sent": 0,
        "comm": "wget",
        "address": bytes(range(16)),
        "counts": [1, 2, 3, 4],
        "peer": {"port": 443},
    }
    assert names["Flow"].layout.size == 72
    with pytest.raises(pyebpf.InvalidValue, match="needs a value for comm"):
        names["Flow"](port=80)


PERSONALITIES = """
#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int (*name)[value]
#define __type(name, type) __typeof__(type) *name
typedef unsigned int u32; typedef unsigned long long u64;
static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
struct { __uint(type, 2); __type(key, u32); __type(value, u64); __uint(max_entries, 2); } calls SEC(".maps");
SEC("raw_tp/sys_enter") int count(u64 *arguments) {
    u32 key = 1;
    u64 *found = bpf_map_lookup_elem(&calls, &key);
    if (found && arguments[1] == 135) __sync_fetch_and_add(found, 1);
    return 0;
}
char _license[] SEC("license") = "GPL";
"""


def test_clang_object(tmp_path):
    """Attached where its section says; 17 calls of personality(2) are in its map at the end."""
    needs("command:clang-19")
    (tmp_path / "calls.c").write_text(PERSONALITIES)
    made = tmp_path / "calls.o"
    output("clang-19", "-O2", "-g", "-target", "bpf", "-c", tmp_path / "calls.c", "-o", made)
    with python(EXAMPLES / "clang_object.py", made, "1", stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as example:
        assert example.stdout.readline() == "count is attached: raw_tp sys_enter\n"
        libc = ctypes.CDLL(None)
        for _ in range(17):
            libc.personality(0xFFFFFFFF)  # asks, and changes nothing
        assert example.stdout.read() == "calls {0: 0, 1: 17}\n"


def test_clang_object_with_options(tmp_path):
    """A `const volatile` variable that is given on the command line: another system call is counted, 13 times."""
    needs("command:clang-19")
    source = PERSONALITIES.replace('SEC("raw_tp', 'const volatile u64 wanted = 135;\nSEC("raw_tp', 1)
    (tmp_path / "calls.c").write_text(source.replace("== 135", "== wanted"))
    made = tmp_path / "calls.o"
    output("clang-19", "-O2", "-g", "-target", "bpf", "-c", tmp_path / "calls.c", "-o", made)
    with python(
        *(EXAMPLES / "clang_object.py", made, "1", "wanted=134"),
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    ) as example:
        assert example.stdout.readline() == "count is attached: raw_tp sys_enter\n"
        libc = ctypes.CDLL(None)
        for _ in range(13):
            libc.syscall(134)  # uselib, which no kernel has any more
            libc.personality(0xFFFFFFFF)
        assert "calls {0: 0, 1: 13}" in example.stdout.read().splitlines()


OF_ALL_KINDS = """
#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int (*name)[value]
#define __type(name, type) __typeof__(type) *name
#define __array(name, ...) __typeof__(__VA_ARGS__) *name[]
typedef unsigned int u32; typedef unsigned long long u64;
static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_tail_call)(void *context, void *map, u32 index) = (void *)12;
extern int LINUX_KERNEL_VERSION SEC(".kconfig");
struct { __uint(type, 27); __uint(max_entries, 4096); } events SEC(".maps");
struct counts { __uint(type, 2); __type(key, u32); __type(value, u64); __uint(max_entries, 1); } calls SEC(".maps");
struct { __uint(type, 12); __type(key, u32); __uint(max_entries, 3); __array(values, struct counts);
} outer SEC(".maps") = { .values = { [2] = &calls } };
int last(u64 *);
struct { __uint(type, 3); __uint(key_size, 4); __uint(max_entries, 3); __array(values, int (u64 *));
} steps SEC(".maps") = { .values = { [1] = (void *)&last } };
struct { __uint(type, 2); __type(key, u32); __type(value, u32); __uint(max_entries, 1); } versions SEC(".maps");
SEC("raw_tp/sys_enter") int count(u64 *arguments) {
    u32 key = 2, zero = 0;
    void *inner = bpf_map_lookup_elem(&outer, &key);
    u64 *found = inner ? bpf_map_lookup_elem(inner, &zero) : 0;
    if (found && arguments[1] == 135) { __sync_fetch_and_add(found, 1); bpf_tail_call(arguments, &steps, 1); }
    return 0;
}
SEC("raw_tp") int last(u64 *arguments) {
    u32 zero = 0, *version = bpf_map_lookup_elem(&versions, &zero);
    if (version) *version = LINUX_KERNEL_VERSION;
    return 0;
}
char _license[] SEC("license") = "GPL";
"""


def test_clang_object_of_all_kinds(tmp_path):
    """Maps of maps and of programs are filled, .kconfig too; what cannot be listed, a ring buffer, is left out."""
    needs("command:clang-19")
    (tmp_path / "kinds.c").write_text(OF_ALL_KINDS)
    made = tmp_path / "kinds.o"
    output("clang-19", "-O2", "-g", "-target", "bpf", "-c", tmp_path / "kinds.c", "-o", made)
    with python(EXAMPLES / "clang_object.py", made, "1", stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as example:
        assert example.stdout.readline() == "count is attached: raw_tp sys_enter\n"
        libc = ctypes.CDLL(None)
        for _ in range(17):
            libc.personality(0xFFFFFFFF)  # asks, and changes nothing
        lines = example.stdout.read().splitlines()
    assert example.returncode == 0
    assert lines[0] == "calls {0: 17}"
    assert f"versions {{0: {read_config()[0]}}}" in lines
    assert not [line for line in lines if line.startswith("events")]


@pytest.fixture
def listener():
    """A function that listens on an address of loopback."""
    opened = []

    def listen(host, family):
        opened.append(socket.create_server((host, 0), family=family))
        return opened[-1].getsockname()

    yield listen
    for each in opened:
        each.close()


def test_connects(listener):
    """Three connections over IPv4 and two over IPv6 are five lines, each with its address and port."""
    places = [listener("127.0.0.1", socket.AF_INET)] * 3 + [listener("::1", socket.AF_INET6)] * 2
    with python(EXAMPLES / "connects.py", stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as example:
        try:
            assert example.stdout.readline().startswith("PID ")
            for place in places:
                socket.create_connection(place[:2]).close()
            found = []
            while len(found) < len(places):
                line = example.stdout.readline()
                assert line
                if line.split()[0] == str(os.getpid()):
                    found.append(line.split()[-3:])
        finally:
            example.kill()
    assert found == [[place[0], "port", str(place[1])] for place in places]


def test_connects_are_tested_without_root(tmp_path):
    """The page's command records this kernel; the page's test passes from that file alone, and notices a wrong port."""
    for name in ("connects.py", "test_connects.py"):
        shutil.copy(EXAMPLES / name, tmp_path)
    page = (ROOT / "docs" / "vm.md").read_text(encoding="utf-8")
    (command,) = [line for line in page.splitlines() if line.startswith("python3 -c") and "connects.json" in line]
    command = command.replace("python3", sys.executable, 1)
    subprocess.run(["/bin/sh", "-c", command], check=True, cwd=tmp_path, timeout=PATIENCE, env=ENVIRONMENT)
    tested = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_connects.py"]

    def passes():
        return subprocess.run(
            tested, check=False, cwd=tmp_path, timeout=PATIENCE, env=ENVIRONMENT, stdout=subprocess.DEVNULL
        ).returncode

    assert passes() == 0
    source = (tmp_path / "connects.py").read_text()
    (tmp_path / "connects.py").write_text(source.replace("dport == only_port", "dport != only_port"))
    assert passes() == 1


SHARED = """
mount --make-rprivate / && mount -t bpf bpf "$2" || exit
"$0" "$1" count "$2/forks" | { read line; echo "$line"; "$0" -c "$3"; "$0" "$1" show "$2/forks"; }
"""
FORKS = """
import os
open("/proc/self/comm", "w").write("forks-23")
for _ in range(23):
    os.waitpid(os.fork() or os._exit(0), 0)
"""


def test_shared(tmp_path):
    """While one process counts another reads 23 forks from the pinned map, in a mount namespace of their own."""
    printed = output(
        "unshare", "-m", "/bin/sh", "-c", SHARED, sys.executable, EXAMPLES / "shared.py", tmp_path, FORKS
    ).splitlines()
    assert printed[0] == "counting"
    assert [line.split()[1] for line in printed if line.startswith("forks-23 ")] == ["23"]


class Timespec(pyebpf.Struct):
    """C's struct timespec, behind its address."""

    seconds: pyebpf.s64
    nanoseconds: pyebpf.s64


class Vector(pyebpf.Struct):
    """C's struct iovec: a pointer and a length."""

    base: pyebpf.u64
    length: pyebpf.u64


def test_a_struct_that_a_function_is_given_the_address_of():
    """Its fields, and the text behind a pointer in it, as the page on uprobes has them."""
    bpf, libc = pyebpf.BPF(), ctypes.CDLL(None)

    class Seen(pyebpf.Struct):
        number: pyebpf.u64
        text: str = pyebpf.field(pyebpf.char[16], default="")

    seen = bpf.ringbuf(Seen)

    @bpf.uprobe("libc.so.6", "nanosleep", pid=os.getpid())
    def on_sleep(request: pyebpf.ptr[Timespec]) -> None:
        asked = request[0]
        seen.emit(Seen(number=asked.seconds * 1_000_000_000 + asked.nanoseconds))

    @bpf.uprobe("libc.so.6", "writev", pid=os.getpid())
    def on_write(fd: pyebpf.s32, vector: pyebpf.ptr[Vector]) -> None:
        second = vector[1]
        seen.emit(Seen(number=second.length, text=pyebpf.user_string(pyebpf.user(second.base, pyebpf.char))))

    class Piece(ctypes.Structure):
        _fields_ = (("base", ctypes.c_char_p), ("length", ctypes.c_size_t))

    with bpf, Path(os.devnull).open("wb") as null:
        libc.nanosleep((ctypes.c_int64 * 2)(0, 1013), None)
        libc.writev(null.fileno(), (Piece * 2)((b"first", 5), (b"second", 6)), 2)
        assert seen.poll(0) == [Seen(number=1013), Seen(number=6, text="second")]


def test_an_address_from_the_kernels_own_object(listener):
    """The pages' members of a socket: the array of 16 bytes, whole, and the port as a number."""
    host, port, *_ = listener("::1", socket.AF_INET6)
    bpf, me = pyebpf.BPF(), os.getpid()

    class Place(pyebpf.Struct):
        port: pyebpf.u16
        address: bytes = pyebpf.field(pyebpf.array(pyebpf.u8, 16))

    places = bpf.ringbuf(Place)

    @bpf.btf_tracepoint("inet_sock_set_state")
    def on_state(sk, newstate) -> None:
        if pyebpf.pid() == me and newstate == pyebpf.TcpState.SYN_SENT:
            common = sk.__sk_common
            places.emit(Place(port=common.skc_dport, address=common.skc_v6_daddr.in6_u.u6_addr8))

    with bpf:
        socket.create_connection((host, port)).close()
        assert places.poll(0) == [Place(port=port, address=socket.inet_pton(socket.AF_INET6, host))]


def send(namespace, address, count):
    """Datagrams from a network namespace, at once: an emulated processor takes seconds to start another Python."""
    with inside(namespace), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(count):
            sender.sendto(b"x", (address, 9))


@contextlib.contextmanager
def counting(namespace, *command):
    """A process in a network namespace that has said `counting`; its output is read by `communicate()`."""
    line = namespace.inside(sys.executable, *command)
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        try:
            assert process.stdout.readline() == "counting\n"
            yield process
        finally:
            process.kill()


def test_every_interface(pair):
    """13 packets at the interface that was there, 7 at the one that came; IPv6 sends some of its own."""
    needs("attach:tcx")
    here, there = pair
    with counting(here, EXAMPLES / "every_interface.py", "veth1") as process:
        here.connect(there, name="veth1", network="10.251.1")
        links = here.inside(sys.executable, "-c", "import pyebpf; print(*pyebpf.links())")
        wait_until(lambda: "veth1" in output(*links))
        send(there, "10.251.0.1", 13)
        send(there, "10.251.1.1", 7)
        here.run("ip", "link", "delete", "veth1")
        found = dict(re.findall(r"(\w+): (\d+) packets", process.communicate(timeout=PATIENCE)[0]))
    assert int(found["veth0"]) >= 13
    assert int(found["veth1"]) >= 7


def test_egress_queue(pair):
    """The program sees each packet that the queue sends."""
    needs("attach:tcx")
    here, _ = pair
    here.run("tc", "qdisc", "add", "dev", "veth0", "root", "pfifo")
    with counting(here, EXAMPLES / "egress_queue.py", "veth0", "2") as process:
        send(here, "10.251.0.2", 17)
        line = process.communicate(timeout=PATIENCE)[0]
    seen, sent, dropped = map(int, re.findall(r"\d+", line))
    assert (seen, dropped) == (sent, 0)
    assert seen >= 17


def test_listeners(pair):
    """Sockets at two ports listen: the kernel's list and sock_diag have both."""
    needs("attach:iter")
    here, _ = pair
    with inside(here), socket.create_server(("10.251.0.1", 5003)), socket.create_server(("10.251.0.1", 5011)):
        assert output(*here.inside(sys.executable, EXAMPLES / "listeners.py")) == "[5003, 5011] the same\n"


@pytest.mark.parametrize(
    "name",
    [path.name for path in sorted(EXAMPLES.glob("*.py")) if "usage: " in path.read_text(encoding="utf-8")],
)
def test_an_example_without_its_arguments_prints_its_usage(name):
    """One line, at once; status 1."""
    done = finished(EXAMPLES / name)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(rf"usage: {re.escape(name)} .+\n", done.stderr)


def test_call_names(monkeypatch, capsys):
    """The call that is made most often comes first, by its name; a number that no call has is told as such."""

    def work(_):
        for _ in range(200_000):
            os.getppid()

    monkeypatch.setattr("time.sleep", work)
    runpy.run_path(str(EXAMPLES / "call_names.py"), run_name="__main__")
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert len(lines) <= 10
    counts = {name: int(count) for name, count in lines}
    assert counts["getppid"] >= 200_000
    assert list(counts.values()) == sorted(counts.values(), reverse=True)
    assert pyebpf.syscall_name(9999) == "[unknown: 9999]"


def test_connect_stacks():
    """Each connect(2) of this process is in a stack that ends in the library's function."""
    # It ends by itself: behind Ctrl-C there is a second for names, which an emulated processor needs for itself.
    with running("run", str(EXAMPLES / "connect_stacks.py"), "-f", "-p", str(os.getpid()), "2") as command:
        with socket.socket() as end:
            for _ in range(7):
                end.connect_ex(("127.0.0.1", 0))
        assert command.wait() == 0
    stacks = parse_folded(command.out.splitlines())
    assert sum(stacks.values()) == 7
    assert all("connect" in stack[-1] for stack in stacks), stacks
