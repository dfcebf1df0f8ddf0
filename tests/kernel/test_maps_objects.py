"""Maps of every behaviour in user space: queues, filters, tries, maps of maps, objects, storage, windows, pins."""

from __future__ import annotations

import ctypes
import ipaddress
import json
import mmap
import os
import socket
import subprocess
import threading
from typing import TYPE_CHECKING

import construct
import pytest

from pyebpf import BPF
from pyebpf.asm import build
from pyebpf.cli.map_dump import dump
from pyebpf.errors import InvalidValue, KernelError, NotFound, NotLoaded, NotPermitted, NotSupported
from pyebpf.features import Features, Support
from pyebpf.kernel.cpus import possible_cpus
from pyebpf.kernel.descriptor import Descriptor
from pyebpf.kernel.privileges import security_modules
from pyebpf.objects import Map, Program, make_map
from pyebpf.runtime.open_map import open_map
from pyebpf.specs import Code, FunctionStart, MapSpec, ProgramSpec
from pyebpf.specs.map_traits import MAP_TRAITS
from pyebpf.types import S32, U8, U32, U64, CharArray, Struct, array_of, char, field, s32, type_of, u16, u32, u64
from pyebpf.types.prefix import ipv4_prefix, ipv6_prefix, prefix
from pyebpf.types.special import spin_lock
from pyebpf.uapi.bpf import MapType, ProgramType
from pyebpf.uapi.flags import BPF_F_MMAPABLE, BPF_F_NO_PREALLOC
from tests.support.needs import needs

if TYPE_CHECKING:
    from pathlib import Path


class Flow(Struct):
    port: u16
    bytes: u32
    name: str = field(char[16])


class Locked(Struct):
    lock: None = field(spin_lock, default=None)
    first: s32 = 0
    second: u64 = 0


def need(kind: MapType) -> None:
    needs(f"map:{kind.name.lower()}")


def test_a_queue_gives_the_oldest_and_a_stack_the_newest():
    """Push, peek, pop; empty and full say so; room is made on demand."""
    for kind, order in ((MapType.QUEUE, 1), (MapType.STACK, -1)):
        with make_map(MapSpec("items", kind, None, Flow.layout, 7)) as items:
            flows = [Flow(number, number * 3, f"f{number}") for number in range(7)]
            for flow in flows:
                items.push(flow)
            with pytest.raises(KernelError, match="it holds 7 entries"):
                items.push(flows[0])
            assert items.peek() == items.peek() == flows[::order][0]
            assert [items.pop() for _ in range(7)] == flows[::order]
            with pytest.raises(IndexError, match="pop from map items, which is empty"):
                items.pop()
            with pytest.raises(IndexError, match="peek"):
                items.peek()
            assert items.pop(None) is None
            for flow in [*flows, flows[0]]:
                items.push(flow, make_room=True)
            assert items.drain() == [*flows[1:], flows[0]][::order]
            assert items.drain() == []


def test_a_bloom_filter_never_misses_what_was_added():
    """1,009 values in; of 1,009 others few are taken for them."""
    needs("map:bloom_filter")
    with make_map(MapSpec("seen", MapType.BLOOM_FILTER, None, U64, 1009, extra=7)) as seen:
        for number in range(1009):
            seen.add(number)
        assert all(number in seen for number in range(1009))
        assert sum(number in seen for number in range(5000, 6009)) < 101
        assert seen.info().extra == 7
    with pytest.raises(InvalidValue, match="1 to 15"):
        make_map(MapSpec("seen", MapType.BLOOM_FILTER, None, U64, 1009, extra=16))


def test_a_trie_finds_the_longest_prefix():
    """IPv4 networks as keys, in whatever form; look-ups of addresses."""
    with make_map(MapSpec("routes", MapType.LPM_TRIE, ipv4_prefix, U32, 101, BPF_F_NO_PREALLOC)) as routes:
        routes.update({"10.0.0.0/8": 8, "10.1.0.0/16": 16, ipaddress.ip_network("0.0.0.0/0"): 0})
        assert routes[ipaddress.ip_address("10.1.2.3")] == 16
        assert routes["10.2.2.3"] == 8
        assert routes["192.0.2.1"] == 0
        assert dict(routes.items()) == {
            ipaddress.ip_network("10.0.0.0/8"): 8,
            ipaddress.ip_network("10.1.0.0/16"): 16,
            ipaddress.ip_network("0.0.0.0/0"): 0,
        }
        assert routes.remove(["10.1.0.0/16", "10.9.0.0/16", "10.0.0.0/8"]) == 2
        assert routes["10.1.2.3"] == 0
        for wrong in ("10.0.0.0/33", "fe80::/64", 1.5, (33, bytes(4)), (8, bytes(5))):
            with pytest.raises(InvalidValue, match="does not fit ipv4_prefix"):
                routes[wrong] = 1
    with make_map(MapSpec("routes", MapType.LPM_TRIE, ipv6_prefix, U32, 101, BPF_F_NO_PREALLOC)) as routes:
        routes["2001:db8::/32"] = 32
        assert routes["2001:db8::1"] == 32
        assert routes.get("2001:db9::1") is None
    with make_map(MapSpec("other", MapType.LPM_TRIE, prefix(2), U32, 11, BPF_F_NO_PREALLOC, with_btf=True)) as other:
        other[4, b"\xab\xcd"] = 1
        assert dict(other.items()) == {(4, b"\xa0\x00"): 1}


INNER = MapSpec("inner", MapType.HASH, U32, U64, 31)


@pytest.mark.parametrize("kind", [MapType.ARRAY_OF_MAPS, MapType.HASH_OF_MAPS], ids=lambda kind: kind.name)
def test_maps_are_values_of_maps(kind):
    """Assigned, opened by key, listed by id, removed; a map of another kind is refused."""
    key = U32 if kind is MapType.HASH_OF_MAPS else None
    outer_spec = MapSpec("outer", kind, key, None, 5, inner_map=INNER)
    with make_map(outer_spec) as outer, Map(INNER) as first, Map(INNER) as second:
        first[7] = 70
        outer[0], outer[3] = first, second
        with outer[0] as opened:
            assert opened[7] == 70
            opened[8] = 80
        assert first[8] == 80
        assert outer.ids() == {0: first.info().id, 3: second.info().id}
        with pytest.raises(InvalidValue, match="ids"):
            outer.items()
        del outer[0]
        assert outer.get(0) is None
        with pytest.raises(KeyError):
            outer[0]
        with (
            make_map(MapSpec("array", MapType.ARRAY, None, U64, 1)) as wrong,
            pytest.raises(InvalidValue, match="ARRAY"),
        ):
            outer[1] = wrong


def test_programs_are_values_of_program_arrays():
    """By descriptor in, by id out; the empty indices are no items."""
    code = Code((build.mov64(build.R0, 0), build.exit_()), (FunctionStart("leaf", 0),))
    with make_map(MapSpec("jumps", MapType.PROG_ARRAY, None, None, 5)) as jumps:
        with Program(ProgramSpec("leaf", ProgramType.RAW_TRACEPOINT, code), {}) as program:
            jumps[3] = program
            assert dict(jumps.snapshot()) == {3: program.info().id}
        with pytest.raises(InvalidValue, match="indices 0 to 4"):
            jumps[5] = 0
        del jumps[3]
        assert jumps.snapshot() == {}


def test_devices_processors_and_sockets_are_values():
    """The loopback's index, processor 0, a listening socket; what only programs may read says so."""
    for kind in (MapType.DEVMAP, MapType.DEVMAP_HASH):
        with make_map(MapSpec("devices", kind, None, None, 3)) as devices:
            devices[1] = 1
            assert devices.snapshot() == {1: 1}
            del devices[1]
            assert devices.snapshot() == {}
    with make_map(MapSpec("processors", MapType.CPUMAP, None, None, 1)) as processors:
        processors[0] = 192
        assert processors[0] == 192
    with socket.socket() as server, socket.socket() as client:
        server.bind(("127.0.0.1", 0))
        server.listen()
        client.connect(server.getsockname())
        for kind, key in ((MapType.SOCKMAP, None), (MapType.SOCKHASH, U32)):
            with make_map(MapSpec("sockets", kind, key, U64, 3)) as sockets:
                sockets[2] = client
                assert sockets[2] > 0
                assert list(sockets.snapshot()) == [2]
    groups = MapSpec("groups", MapType.CGROUP_ARRAY, None, None, 3)
    with make_map(groups) as table, pytest.raises(InvalidValue, match="to programs only"):
        table.snapshot()


def test_storage_belongs_to_its_object():
    """A socket's, a task's and an inode's value, by descriptor; no listing."""
    for kind, make in (
        (MapType.SK_STORAGE, socket.socket),
        (MapType.TASK_STORAGE, lambda: Descriptor(os.pidfd_open(os.getpid()), "this process")),
        (MapType.INODE_STORAGE, lambda: Descriptor(os.open("/proc/self/exe", os.O_RDONLY), "a file")),
        (MapType.CGRP_STORAGE, None),
    ):
        if Features().ask(f"map:{kind.name.lower()}") is Support.NO:
            continue
        with make_map(MapSpec("values", kind, None, Flow.layout, 0, BPF_F_NO_PREALLOC)) as values:
            with pytest.raises(InvalidValue, match="look its keys up one by one"):
                values.snapshot()
            if make is None:
                with pytest.raises(KernelError):
                    values[0x7FFF] = Flow(1, 2, "x")
                continue
            if kind is MapType.INODE_STORAGE and "bpf" not in (security_modules() or ("bpf",)):
                with make() as owner, pytest.raises(NotSupported, match="where bpf is among the security modules"):
                    values[owner] = Flow(80, 17, "http")
                continue
            with make() as owner:
                assert owner not in values
                values[owner] = Flow(80, 17, "http")
                assert values[owner] == Flow(80, 17, "http")
                assert values.pop(owner) == Flow(80, 17, "http")
                assert values.pop(owner, None) is None
                with pytest.raises(KeyError):
                    del values[owner]


@pytest.mark.parametrize("kind", [U8, U32, S32, U64, Flow.layout, array_of(U32, 3), CharArray(5)], ids=str)
def test_a_window_shows_the_map_without_system_calls(kind):
    """What either side writes the other reads; values stand every 8 bytes."""
    samples = {
        U8: [1, 255, 0], U32: [7, 1 << 31, 0], S32: [-1, 5, 0], U64: [1 << 63, 3, 0],
        Flow.layout: [Flow(1, 2, "a"), Flow(3, 4, "bc"), Flow(0, 0, "")],
        array_of(U32, 3): [[1, 2, 3], [4, 5, 6], [0, 0, 0]], CharArray(5): ["ab", "cdef", ""],
    }[kind]  # fmt: skip
    with make_map(MapSpec("shared", MapType.ARRAY, None, kind, 1009, BPF_F_MMAPABLE)) as shared:
        window = shared.window()
        assert shared.window() is window
        assert len(window) == 1009
        window[0] = samples[0]
        shared[1008] = samples[1]
        assert (shared[0], window[1008], window[-1]) == (samples[0], samples[1], samples[1])
        assert window.tolist()[:2] == [samples[0], samples[2]]
        assert list(window) == window.tolist()
        for index in (1009, -1010):
            with pytest.raises(IndexError, match="0 to 1008"):
                window[index]
        with pytest.raises(InvalidValue):
            window[0] = object()
        with pytest.raises(KernelError, match="mapped for writing"):
            shared.freeze()
        window.close()
        shared.freeze()
        with shared.window(writable=False) as reading:
            assert reading[0] == samples[0]
            with pytest.raises(TypeError):
                reading[0] = samples[1]
        with pytest.raises(NotLoaded):
            reading.memory  # noqa: B018 - that it raises is the fact


def test_only_mappable_maps_have_windows():
    """The message names the flag, or the kinds."""
    with (
        make_map(MapSpec("plain", MapType.ARRAY, None, U64, 1)) as plain,
        pytest.raises(InvalidValue, match="MMAPABLE"),
    ):
        plain.window()
    with Map(INNER) as table, pytest.raises(InvalidValue, match="arrays and arenas can"):
        table.window()


def test_an_arena_is_memory():
    """Its pages are made when user space touches them."""
    need(MapType.ARENA)
    with make_map(MapSpec("arena", MapType.ARENA, None, None, 16, BPF_F_MMAPABLE)) as arena:
        memory = arena.window().memory
        assert len(memory) == 16 * mmap.PAGESIZE
        memory[4096:4101] = b"pages"
        assert bytes(memory[4095:4102]) == b"\0pages\0"
        with pytest.raises(InvalidValue, match=r"use \.memory"):
            arena.window()[0]


def test_struct_ops_maps_have_the_kernels_layout():
    """Made and shown; what fills them is the matter of their programs."""
    with make_map(MapSpec("ops", MapType.STRUCT_OPS, None, None, 1, struct_ops="tcp_congestion_ops")) as ops:
        assert ops.info().value_size > 64
        assert ops.info().vmlinux_value_type > 0
    with pytest.raises(NotFound):
        make_map(MapSpec("ops", MapType.STRUCT_OPS, None, None, 1, struct_ops="tcp_congestion_opz"))


@pytest.mark.parametrize("kind", [MapType.HASH, MapType.ARRAY], ids=lambda kind: kind.name)
def test_values_with_a_spin_lock_are_read_and_written_whole(kind):
    """BPF_F_LOCK by itself; the lock is None to user space. A writer thread never shows a half-written value."""
    with Map(MapSpec("pairs", kind, U32, Locked.layout, 211)) as pairs:
        pairs.update({number: Locked(None, number, number * 3) for number in range(101)})
        assert pairs[7] == Locked(None, 7, 21)
        assert {key: value.second for key, value in pairs.items() if key and value.second} == {
            number: number * 3 for number in range(1, 101)
        }
        stop = threading.Event()

        def write() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                pairs[7] = Locked(None, number, number * 3)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(503):
                value = pairs[7]
                assert value.second == value.first * 3
        finally:
            stop.set()
            writer.join()


PACKET = construct.Struct("port" / construct.Int16ub, "pad" / construct.Int16ub, "address" / construct.Int32ub)


def test_an_lru_map_takes_no_lock():
    """The kernel's own answer, as NotSupported."""
    with pytest.raises(NotSupported, match="creating map pairs"):
        Map(MapSpec("pairs", MapType.LRU_HASH, U32, Locked.layout, 211))


def test_construct_objects_are_keys_and_values():
    """Built and parsed by construct; bytes of that size to the kernel."""
    key, value = type_of(construct.Int32ub), type_of(PACKET)
    with Map(MapSpec("packets", MapType.HASH, key, value, 17, with_btf=True)) as packets:
        packets[258] = {"port": 80, "pad": 0, "address": 0x7F000001}
        assert packets[258] == {"port": 80, "pad": 0, "address": 0x7F000001}
        assert packets[258].port == 80
        assert dict(packets.raw_items()) == {b"\0\0\1\2": bytes.fromhex("00500000 7f000001")}
        for wrong in ({"port": 1}, {"port": 1 << 16, "pad": 0, "address": 0}, 5):
            with pytest.raises(InvalidValue, match="does not fit Struct"):
                packets[1] = wrong
    with Map(MapSpec("keyed", MapType.HASH, value, U32, 17)) as keyed:
        keyed[{"port": 1, "pad": 2, "address": 3}.items() and construct.Container(port=1, pad=2, address=3)] = 4
        (found,) = keyed
        assert (found.port, keyed[found]) == (1, 4)
    with pytest.raises(InvalidValue, match="no fixed size"):
        type_of(construct.GreedyBytes)


def test_dumps_are_json_whatever_the_bytes():
    """Records, bytes, per-CPU values, characters that are no UTF-8."""
    with Map(MapSpec("flows", MapType.PERCPU_HASH, CharArray(8), Flow.layout, 5)) as flows:
        flows["\udcff\x01"] = [Flow(cpu, 2, "n\udc80") for cpu in range(possible_cpus())]
        parsed = json.loads(json.dumps(dump(flows)))
        assert parsed == [
            {
                "key": "\\xff\x01",
                "values": [
                    {"cpu": cpu, "value": {"port": cpu, "bytes": 2, "name": "n\\x80"}} for cpu in range(possible_cpus())
                ],
            }
        ]
    with make_map(MapSpec("routes", MapType.LPM_TRIE, ipv4_prefix, array_of(U8, 3), 5, BPF_F_NO_PREALLOC)) as routes:
        routes["10.0.0.0/8"] = b"\xff\0\1"
        assert dump(routes) == [{"key": "10.0.0.0/8", "value": "ff0001"}]
    with (
        make_map(MapSpec("queue", MapType.QUEUE, None, U32, 5)) as queue,
        pytest.raises(InvalidValue, match="no items"),
    ):
        dump(queue)


def test_bpftool_shows_fields_of_typed_maps():
    """The BTF made from the types is what another program reads."""
    needs("command:bpftool")
    with Map(MapSpec("flows", MapType.HASH, U32, Flow.layout, 5, with_btf=True)) as flows:
        flows[9] = Flow(80, 17, "http")
        shown = subprocess.run(
            ["/usr/sbin/bpftool", "-j", "map", "dump", "id", str(flows.info().id)],
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        (entry,) = json.loads(shown.stdout)
        assert entry["formatted"] == {"key": 9, "value": {"port": 80, "bytes": 17, "name": "http"}}


@pytest.fixture
def bpffs(tmp_path):
    """A bpf file system in a mount namespace that only a thread of this test is in."""
    libc = ctypes.CDLL(None, use_errno=True)

    def run(work) -> None:
        failures: list[BaseException] = []

        def inside() -> None:
            try:
                assert libc.unshare(0x0002_0000) == 0, os.strerror(ctypes.get_errno())
                assert libc.mount(None, b"/", None, 0x4_4000, None) == 0  # MS_REC | MS_PRIVATE
                target = os.fsencode(tmp_path)
                assert libc.mount(b"bpf", target, b"bpf", 0, None) == 0, os.strerror(ctypes.get_errno())
                try:
                    work(tmp_path)
                finally:
                    libc.umount2(target, 2)
            except BaseException as error:  # noqa: BLE001 - raised again in the test's own thread
                failures.append(error)

        thread = threading.Thread(target=inside)
        thread.start()
        thread.join()
        if failures:
            raise failures[0]

    return run


def test_a_pinned_map_is_found_again(bpffs):
    """By path and by id, with types or as bytes; of another shape it is refused; unlinked it is gone."""

    def work(directory: Path) -> None:
        path = str(directory / "flows")
        with Map(MapSpec("flows", MapType.HASH, U32, Flow.layout, 5)) as flows:
            flows[9] = Flow(80, 17, "http")
            flows.pin(path)
            with pytest.raises(KernelError, match="unlink it first"):
                flows.pin(path)
            with pytest.raises(KernelError, match="make it first"):
                flows.pin(str(directory / "none" / "flows"))
        with open_map(path, key=U32, value=Flow.layout) as found:
            assert found[9] == Flow(80, 17, "http")
            assert (found.name, found.max_entries) == ("flows", 5)
            with open_map(found.info().id) as again:
                assert again[U32.encode(9)] == Flow(80, 17, "http").to_bytes()
        with pytest.raises(InvalidValue, match="key size 4, not 8"):
            open_map(path, key=U64, value=Flow.layout)
        with open_map(path, key=u32, value=Flow) as found:  # as declarations have them
            assert found[9] == Flow(80, 17, "http")
        with pytest.raises(
            InvalidValue, match=r"value=<class 'int'> is not a BPF type: give an integer " r"type, char\[N\]"
        ):
            open_map(path, key=u32, value=int)
        with open_map(directory / "flows") as found:  # a pathlib path, too
            found.pin(directory / "again")
        with pytest.raises(NotPermitted, match="no map is pinned there"):
            open_map(directory)
        (directory / "flows").unlink()
        with pytest.raises(NotFound, match="no map is pinned"):
            open_map(path)

    bpffs(work)


def test_a_map_cannot_be_pinned_elsewhere(tmp_path):
    """The message says what kind of file system it takes."""
    with Map(INNER) as table, pytest.raises(KernelError, match="bpf file system"):
        table.pin(str(tmp_path / "table"))


@pytest.mark.parametrize("kind", list(MAP_TRAITS), ids=lambda kind: kind.name)
def test_every_kind_is_opened_by_its_id(kind):
    """As the class that fits it, its types bytes where the kind leaves them open."""
    from tests.kernel.test_maps_kinds import made

    with made(kind) as table, open_map(table.info().id) as found:
        assert type(found) is type(table)
        assert found.info() == table.info()
        assert found.fileno() != table.fileno()


def test_an_id_that_is_no_map():
    """NotFound."""
    with pytest.raises(NotFound, match="id 4294967295"):
        open_map((1 << 32) - 1)


def test_a_loaded_map_that_is_not_there_is_told_with_the_closest():
    """As the declared one is."""
    bpf = BPF()
    bpf.hash(key=u32, value=u64, name="shared")
    with bpf:
        assert bpf.loaded_map("shared").max_entries == bpf["shared"].spec.max_entries
        with pytest.raises(NotFound, match=r"no map is called 'shred' \(did you mean shared"):
            bpf.loaded_map("shred")


def test_a_program_in_place_of_a_function_needs_the_function():
    """An object's `SEC("freplace/x")` names it, and no program."""
    code = Code((build.mov64(build.R0, 0), build.exit_()), (FunctionStart("instead", 0),))
    with pytest.raises(InvalidValue, match="type EXT replaces a function: give its ProgramSpec"):
        Program(ProgramSpec("instead", ProgramType.EXT, code), {})
