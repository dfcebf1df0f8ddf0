"""Maps of other programs, opened by their ids and pins: keys and values are of the types that their BTF describes."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import construct
import pytest

from pyebpf import open_map
from pyebpf.btf import BtfBuilder
from pyebpf.objects import make_map
from pyebpf.specs import MapSpec
from pyebpf.specs.maps import MapTypes
from pyebpf.types import U8, U32, U64, array_of
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import BPF_F_NO_PREALLOC
from tests.kernel.test_maps_objects import bpffs as bpffs  # noqa: PLC0414 - a fixture
from tests.support.needs import needs
from tests.support.python import finished

ROOT = Path(__file__).resolve().parents[2]

# A map that libbpf makes of clang's object; its types are the tests' below.
SOURCE = """
#define SEC(name) __attribute__((section(name), used))
enum state { IDLE, BUSY = 7 };
struct endpoint { unsigned char address[4]; unsigned short port; };
struct key { unsigned int number; enum state state; };
struct value {
    struct endpoint ends[2]; char name[8]; _Bool seen; unsigned long long bytes; int change;
    union { unsigned long long whole; unsigned int half; };
};
struct {
    int (*type)[1]; int (*max_entries)[11]; struct key *key; struct value *value;
} flows SEC(".maps");
static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
SEC("socket") int first(void *context) {
    struct key key = {};
    return bpf_map_lookup_elem(&flows, &key) != 0;
}
"""


def described():
    """The same types as BTF, and a map of them."""
    btf = BtfBuilder()
    u8, u16, u32 = btf.add_int("__u8", 1), btf.add_int("__u16", 2), btf.add_int("__u32", 4)
    u64, s32 = btf.add_int("__u64", 8), btf.add_int("int", 4, signed=True)
    char, boolean = btf.add_int("char", 1, signed=True), btf.add_int("_Bool", 1, boolean=True)
    state = btf.add_enum("state", 4, [("IDLE", 0), ("BUSY", 7)])
    address = btf.add_array(u8, u32, 4)
    endpoint = btf.add_struct("endpoint", 6, [("address", address, 0, 0), ("port", u16, 32, 0)])
    either = btf.add_union("", 8, [("whole", u64, 0, 0), ("half", u32, 0, 0)])
    key = btf.add_struct("key", 8, [("number", u32, 0, 0), ("state", state, 32, 0)])
    members = [
        ("ends", btf.add_array(endpoint, u32, 2), 0, 0), ("name", btf.add_array(char, u32, 8), 96, 0),
        ("seen", boolean, 160, 0), ("bytes", u64, 192, 0), ("change", s32, 256, 0), ("", either, 320, 0),
    ]  # fmt: skip
    value = btf.add_struct("value", 48, members)
    types = MapTypes(btf.to_bytes(), key, value)
    return MapSpec("flows", MapType.HASH, array_of(U8, 8), array_of(U8, 48), 11, btf=types)


KEY = (5).to_bytes(4, "little") + (7).to_bytes(4, "little")
VALUE = (
    bytes([10, 0, 0, 1]) + (80).to_bytes(2, "little") + bytes([10, 0, 0, 2]) + (443).to_bytes(2, "little")
    + b"web\0\0\0\0\0" + b"\1\0\0\0" + (1 << 40).to_bytes(8, "little") + (-3).to_bytes(4, "little", signed=True)
    + bytes(4) + bytes(range(8))
)  # fmt: skip


def check(opened):
    """Records by the members' names, to be read and written; the same as a construct object."""
    opened.store.update_elem(KEY, VALUE)
    ((key, value),) = opened.items()
    assert (key.number, key.state.name, key.state) == (5, "BUSY", 7)
    assert [(bytes(end.address), end.port) for end in value.ends] == [(b"\x0a\0\0\1", 80), (b"\x0a\0\0\2", 443)]
    assert (value.name, value.seen, value.bytes, value.change) == ("web", True, 1 << 40, -3)
    assert value.anonymous_40 == bytes(range(8))
    value.change = 17
    key.state = 23  # a number that the enumeration has no name for
    opened[key] = value
    assert opened[key].change == 17
    assert sorted((key.number, int(key.state)) for key in opened) == [(5, 7), (5, 23)]
    parsed = opened.key_type.construct.parse(KEY)
    assert (parsed.number, parsed.state) == (5, "BUSY")
    layout = opened.value_type.construct
    assert isinstance(layout, construct.Struct)
    parsed = layout.parse(VALUE)
    assert (parsed.ends[1].port, parsed.name, parsed.change) == (443, "web", -3)
    assert layout.build(parsed) == VALUE


def test_a_map_with_types_by_hand():
    """Numbers, enumerations, strings, arrays, records in records; a union's bytes, under its offset."""
    with make_map(described()) as made, open_map(made.info().id) as opened:
        check(opened)


def test_keys_that_differ_behind_a_nul_are_two():
    """Keys of C programs need not end with a NUL: each is found, changed and deleted by what iterating gave."""
    btf = BtfBuilder()
    char, u32, u64 = btf.add_int("char", 1, signed=True), btf.add_int("__u32", 4), btf.add_int("__u64", 8)
    key = btf.add_struct("key", 8, [("name", btf.add_array(char, u32, 4), 0, 0), ("__pad", u32, 32, 0)])
    types = MapTypes(btf.to_bytes(), key, u64)
    spec = MapSpec("named", MapType.HASH, array_of(U8, 8), U64, 11, btf=types)
    names = [b"abcd", b"ab\0x", b"ab\0y", b"ab\0\0"]
    with make_map(spec) as made, open_map(made.info().id) as opened:
        for number, name in enumerate(names):
            opened.store.update_elem(name + bytes(4), number.to_bytes(8, "little"))
        assert sorted(dict(opened).values()) == sorted(opened.snapshot().values()) == [0, 1, 2, 3]
        for entry in list(opened):
            opened[entry] += 10
        assert sorted(opened.values()) == [10, 11, 12, 13]
        printed = json.loads(pyebpf("id", made.info().id)[1])
        assert {each["key"]["name"] for each in printed} == {"abcd", "ab\0x", "ab\0y", "ab"}
        for entry in list(opened):
            del opened[entry]
        assert len(opened) == 0


def test_numbers_that_python_has_and_the_language_lacks():
    """Printed as numbers; what JSON has no number for as text."""
    needs("kernel:5.13")  # BTF_KIND_FLOAT
    btf = BtfBuilder()
    u32, wide, double = btf.add_int("__u32", 4), btf.add_int("__int128", 16, signed=True), btf.add_float("double", 8)
    flags = btf.add_array(btf.add_int("_Bool", 1, boolean=True), u32, 8)
    value = btf.add_struct("value", 32, [("sum", wide, 0, 0), ("mean", double, 128, 0), ("seen", flags, 192, 0)])
    types = MapTypes(btf.to_bytes(), u32, value)
    spec = MapSpec("numbers", MapType.HASH, array_of(U8, 4), array_of(U8, 32), 11, btf=types)
    rows = {1: (-(1 << 100), 0.1), 2: (1 << 90, float("inf"))}
    with make_map(spec) as made, open_map(made.info().id) as opened:
        for key, (total, mean) in rows.items():
            raw = total.to_bytes(16, "little", signed=True) + struct.pack("<d", mean) + b"\1\0" * 4
            opened.store.update_elem(key.to_bytes(4, "little"), raw)
        assert {key: (each.sum, each.mean) for key, each in opened.items()} == rows
        assert opened[1].seen == [True, False] * 4
        printed = {each["key"]: each["value"] for each in json.loads(pyebpf("id", made.info().id)[1])}
    assert printed[1] == {"sum": -(1 << 100), "mean": 0.1, "seen": [True, False] * 4}
    assert printed[2] == {"sum": 1 << 90, "mean": "inf", "seen": [True, False] * 4}


def test_a_map_of_libbpf(tmp_path_factory, bpffs):
    """Clang compiles it, bpftool loads and pins it."""
    needs("command:clang-19", "command:bpftool")
    folder = tmp_path_factory.mktemp("object")  # the fixture mounts its file system on the other one
    path, target = folder / "flows.c", folder / "flows.o"
    path.write_text(SOURCE)
    subprocess.run(["clang-19", "-target", "bpf", "-O2", "-g", "-c", path, "-o", target], check=True)

    def work(directory: Path) -> None:
        programs, maps = directory / "programs", directory / "maps"
        command = ["/usr/sbin/bpftool", "prog", "loadall", target, programs, "pinmaps", maps]
        subprocess.run(command, check=True, timeout=60)
        with open_map(maps / "flows") as opened:
            check(opened)

    bpffs(work)


GLOBALS = """
#define SEC(name) __attribute__((section(name), used))
enum colour { RED = 1, BLUE = -2 };
struct pair { short a; char b; };
int count = -3;
char name[10] = "a\\\\b\\xff";
struct pair both = {7, 8};
enum colour chosen = BLUE;
SEC("socket") int f(void *context) { count += name[0] + both.a; chosen = RED; return 0; }
char _license[] SEC("license") = "GPL";
"""


def test_variables_of_a_section_have_their_names(tmp_path_factory, bpffs):
    """Global data that bpftool loaded: an object of the variables, enumerators by name."""
    needs("command:clang-19", "command:bpftool")
    folder = tmp_path_factory.mktemp("object")
    path, target = folder / "vars.c", folder / "vars.o"
    path.write_text(GLOBALS)
    subprocess.run(["clang-19", "-target", "bpf", "-O2", "-g", "-c", path, "-o", target], check=True)

    def work(directory: Path) -> None:
        programs, maps = directory / "programs", directory / "maps"
        command = ["/usr/sbin/bpftool", "prog", "loadall", target, programs, "pinmaps", maps]
        subprocess.run(command, check=True, timeout=60)
        (pin,) = [each for each in maps.iterdir() if each.name.endswith("data")]
        status, out, err = pyebpf(pin)
        assert (status, err) == (0, "")
        (entry,) = json.loads(out)
        assert entry["value"] == {
            "count": -3,
            "name": "a\\\\b\\xff",
            "both": {"a": 7, "b": 8},
            "chosen": "BLUE",
        }

    bpffs(work)


def test_the_example_of_the_page(bpffs):
    """It stands on docs/maps.md, and prints the entries by names."""
    source = (ROOT / "docs" / "examples" / "foreign_map.py").read_text(encoding="utf-8")
    assert f"```python\n{source}```" in (ROOT / "docs" / "maps.md").read_text(encoding="utf-8")

    def work(directory: Path) -> None:
        with make_map(described()) as made:
            made.store.update_elem(KEY, VALUE)
            made.pin(directory / "flows")
        command = [sys.executable, "docs/examples/foreign_map.py", directory / "flows"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, cwd=ROOT, timeout=60, env=environment
        )
        entry, members = done.stdout.splitlines()
        assert entry.startswith("{'number': 5, 'state': <state.BUSY: 7>} -> {'ends': [{'address': b'\\n")
        assert members == "['ends', 'name', 'seen', 'bytes', 'change', 'anonymous_40']"

    bpffs(work)


def test_given_types_come_first():
    """BTF says what nobody else does."""
    with make_map(described()) as made, open_map(made.info().id, key=U64, value=array_of(U8, 48)) as opened:
        opened[1] = bytes(48)
        assert opened.store.lookup_elem((1).to_bytes(8, "little")) == bytes(48)


def test_a_trie_with_types_has_networks_as_keys():
    """The kernel's BTF of a trie's key is a prefix length and bytes."""
    from pyebpf.types.prefix import ipv4_prefix

    spec = MapSpec("routes", MapType.LPM_TRIE, ipv4_prefix, U32, 5, BPF_F_NO_PREALLOC, with_btf=True)
    with make_map(spec) as made, open_map(made.info().id) as opened:
        opened["10.0.0.0/8"] = 3
        assert {str(network): value for network, value in opened.items()} == {"10.0.0.0/8": 3}


def test_processors_have_records_each():
    """A per-CPU map's slots are of the type."""
    btf = BtfBuilder()
    number = btf.add_int("__u32", 4)
    value = btf.add_struct("pair", 8, [("first", number, 0, 0), ("second", number, 32, 0)])
    types = MapTypes(btf.to_bytes(), number, value)
    spec = MapSpec("pairs", MapType.PERCPU_ARRAY, None, array_of(U8, 8), 1, btf=types)
    with make_map(spec) as made, open_map(made.info().id) as opened:
        opened[0] = [opened.value_type.cls(cpu, 2 * cpu) for cpu in range(opened.processors)]
        assert [(each.first, each.second) for each in opened[0]] == [(n, 2 * n) for n in range(opened.processors)]


def pyebpf(*arguments):
    """Status, output and error of the command."""
    done = finished("-m", "pyebpf", "map", *arguments)
    return done.returncode, done.stdout, done.stderr


def test_the_command_prints_json():
    """By id, with the names of BTF; a map that is not there is an error of one line."""
    with make_map(described()) as made:
        made.store.update_elem(KEY, VALUE)
        status, out, err = pyebpf("id", made.info().id)
        assert (status, err) == (0, "")
        (entry,) = json.loads(out)
        assert entry["key"] == {"number": 5, "state": "BUSY"}
        assert entry["value"]["ends"][1] == {"address": "0a000002", "port": 443}
        assert entry["value"]["name"] == "web"
    assert pyebpf("/nowhere") == (1, "", "pyebpf map: no map is pinned at /nowhere\n")
    assert pyebpf("id", (1 << 32) - 1) == (1, "", "pyebpf map: no map has the id 4294967295\n")


@pytest.mark.parametrize("arguments", [["id"], ["/some/pin", "5"]])
def test_wrong_usage_of_the_command(arguments):
    """An id, or a path."""
    status, out, err = pyebpf(*arguments)
    assert (status, out) == (2, "")
    assert err == "pyebpf map: give the path of a pin, or `id` and a number; see pyebpf map --help\n"
