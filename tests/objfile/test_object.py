"""Objects made by clang: maps, programs, relocations, and what cannot be loaded."""

from __future__ import annotations

import re
import sys

import pytest

from pyebpf.asm import Form, listing
from pyebpf.attach.tracepoints import BtfTracepoint, RawTracepoint, Tracepoint
from pyebpf.btf import Btf, BtfBuilder
from pyebpf.errors import MalformedData, NotFound
from pyebpf.objfile import convention, list_section, read_object
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import MapType, ProgramType

SOURCE = """
struct flow { u32 address; u16 port; };
struct { __uint(type, 1); __type(key, struct flow); __type(value, u64); __uint(max_entries, 257); } flows SEC(".maps");
struct { __uint(type, 2); __uint(key_size, 4); __uint(value_size, 24); __uint(max_entries, 3); } slots SEC(".maps");
struct { __uint(type, 6); __type(key, u32); __type(value, char[16]); __uint(max_entries, 1); __uint(map_flags, 4);
} a_map_with_a_long_name SEC(".maps");
struct { __uint(type, 27); __uint(max_entries, 4096); } events SEC(".maps");

int total = 5;
static u32 zeros[7], last[3];
const volatile u32 step = 3;

static __attribute__((noinline)) u32 scaled(u32 x) { last[x % 3] += x; return x * step + zeros[x & 3]; }
__attribute__((noinline)) int twice(int x) { return scaled(x) + scaled(x + 1); }

SEC("tracepoint/syscalls/sys_enter_openat") int on_open(void *context) {
    struct flow key = {1, 2};
    u64 *value = bpf_map_lookup_elem(&flows, &key);
    if (value) __sync_fetch_and_add(value, twice(total));
    return 1;
}
SEC("raw_tp/sys_enter") int on_enter(void *context) { zeros[2]++; last[1]++; return 0; }
SEC("socket") int filter(void *context) { u32 key = 1; return bpf_map_lookup_elem(&slots, &key) != 0; }
"""


@pytest.fixture(scope="module")
def whole(compile_c):
    """The object of SOURCE."""
    return read_object(compile_c(SOURCE))


def test_maps_defined_by_btf(whole):
    """Kinds, sizes, entries, flags; names are cut to what the kernel takes; integers and strings have their codecs."""
    maps = whole.maps
    assert list(maps) == ["flows", "slots", "a_map_with_a_long_name", "events"]
    assert [m.name for m in maps.values()] == ["flows", "slots", "a_map_with_a_lo", "events"]
    assert [m.type for m in maps.values()] == [MapType.HASH, MapType.ARRAY, MapType.PERCPU_ARRAY, MapType.RINGBUF]
    assert [(m.key and m.key.name, m.value and m.value.name) for m in maps.values()] == [
        ("flow", "u64"), (None, "u8[24]"), ("u32", "char[16]"), (None, None),
    ]  # fmt: skip
    assert [(m.max_entries, m.flags) for m in maps.values()] == [(257, 0), (3, 0), (1, 4), (4096, 0)]


def test_global_data_becomes_maps(whole):
    """.data and .rodata with their contents, .bss with zeros; only .rodata is closed to writing."""
    data = {spec.name: spec for spec in whole.data.values()}
    assert sorted(data) == [".bss", ".data", ".rodata"]
    assert data[".data"].initial == ((bytes(4), (5).to_bytes(4, "little")),)
    assert data[".rodata"].initial == ((bytes(4), (3).to_bytes(4, "little")),)
    assert (data[".bss"].initial, data[".bss"].value.size) == ((), 40)
    assert [(spec.frozen, spec.flags) for _, spec in sorted(data.items())] == [
        (False, 1024),
        (False, 1024),
        (True, 1152),
    ]


def test_programs_by_section(whole):
    """Each global function outside of .text is a program, whose section says its kind and place."""
    assert [(p.name, p.section) for p in whole.programs] == [
        ("on_open", "tracepoint/syscalls/sys_enter_openat"), ("on_enter", "raw_tp/sys_enter"), ("filter", "socket"),
    ]  # fmt: skip
    module = whole.module_spec()
    assert [(p.type, p.attach) for p in module.programs] == [
        (ProgramType.TRACEPOINT, Tracepoint("syscalls", "sys_enter_openat")),
        (ProgramType.RAW_TRACEPOINT, RawTracepoint("sys_enter")),
        (ProgramType.SOCKET_FILTER, None),
    ]
    assert {p.license for p in module.programs} == {"GPL"}
    names = [".bss", ".data", ".rodata", "a_map_with_a_lo", "events", "flows", "slots"]
    assert sorted(m.name for m in module.maps) == names  # also those that no program uses, as libbpf


def test_a_program_brings_the_functions_that_it_calls(whole):
    """Directly and through others; calls are by name, and nobody else's functions come along."""
    code = whole.program_spec("on_open").code
    assert [function.name for function in code.subprograms] == ["on_open", "twice", "scaled"]
    called = [i.symbol for i in code.instructions if i.op.form is Form.CALL_LOCAL]
    assert sorted(called) == ["scaled", "scaled", "twice"]
    assert [function.name for function in whole.program_spec("on_enter").code.subprograms] == ["on_enter"]


def test_data_is_addressed_by_map_and_offset(whole):
    """A static variable is told by its place in .bss alone."""
    loads = [i for i in whole.program_spec("on_enter").code.instructions if i.op.form is Form.LDDW_MAP]
    places = {symbol.value for symbol in whole.elf.symbols if symbol.name in ("zeros", "last")}
    assert {(load.op.name, load.symbol) for load in loads} == {("lddw_map_value", ".bss")}
    assert {load.imm >> 32 for load in loads} == places
    assert len(places) == 2


def test_instructions_know_their_c_lines(whole):
    """From line_info: file, line and text, which the listing shows."""
    text = listing(whole.program_spec("on_enter").code.instructions)
    assert re.search(r'; \S*test\.c:\d+: SEC\("raw_tp/sys_enter"\) int on_enter', text)


def test_legacy_maps(compile_c):
    """A `struct bpf_map_def` in section maps."""
    source = """
    struct bpf_map_def { u32 type, key_size, value_size, max_entries, map_flags; };
    struct bpf_map_def SEC("maps") old = { 1, 4, 8, 11, 1 };
    struct bpf_map_def SEC("maps") older = { 2, 4, 6, 13, 0 };
    SEC("socket") int filter(void *context) { u32 key = 1; return bpf_map_lookup_elem(&older, &key) != 0; }
    """
    whole = read_object(compile_c(source, name="legacy"))
    assert {
        name: (m.type, m.key and m.key.size, m.value.size, m.max_entries, m.flags) for name, m in whole.maps.items()
    } == {
        "old": (MapType.HASH, 4, 8, 11, 1),
        "older": (MapType.ARRAY, None, 6, 13, 0),
    }
    assert "map[older]" in listing(whole.program_spec("filter").code.instructions)


LEGACY = """
struct bpf_map_def {{ u32 type, key_size, value_size, max_entries{members}; }};
struct bpf_map_def SEC("{section}") old = {{ .type = 1, .key_size = 4, .value_size = 8, .max_entries = 11 {first} }};
static struct bpf_map_def SEC("{section}") older = {{ .type = 2, .key_size = 4, .value_size = 6, .max_entries = 13 }};
SEC("socket") int filter(void *context)
{{ u32 key = 1; return !bpf_map_lookup_elem(&old, &key) && !bpf_map_lookup_elem(&older, &key); }}
"""


@pytest.mark.parametrize("debug", ["-g", "-g0"])
@pytest.mark.parametrize("section", ["maps", "maps/some"])
@pytest.mark.parametrize("members", ["", ", map_flags", ", map_flags, inner_map_idx, numa_node"])
def test_legacy_maps_of_any_length(compile_c, members, section, debug):
    """Without map_flags, with more behind it that is 0; with BTF and without; each by its own bytes."""
    source = LEGACY.format(members=members, section=section, first="")
    whole = read_object(compile_c(source, debug, name="legacies"))
    found = {name: (m.type, m.value.size, m.max_entries, m.flags) for name, m in whole.maps.items()}
    assert found == {"old": (MapType.HASH, 8, 11, 0), "older": (MapType.ARRAY, 6, 13, 0)}
    loads = [i for i in whole.program_spec("filter").code.instructions if i.op.form is Form.LDDW_MAP]
    assert [load.symbol for load in loads] == ["old", "older"]


@pytest.mark.parametrize("strip", [False, True])
def test_legacy_maps_without_sizes_of_symbols(compile_c, strip):
    """As older clangs left them: the section's size is divided by the number of maps."""
    source = LEGACY.format(members="", section="maps", first="")
    raw = bytearray(compile_c(source, "-g0", name="legacies"))
    whole = read_object(bytes(raw))
    if strip:
        table = next(each for each in whole.elf.sections if each.name == ".symtab")
        for at in range(table.offset, table.offset + table.size, 24):
            raw[at + 16 : at + 24] = bytes(8)  # st_size
        whole = read_object(bytes(raw))
    assert {name: (m.type, m.max_entries) for name, m in whole.maps.items()} == {
        "old": (MapType.HASH, 11), "older": (MapType.ARRAY, 13),
    }  # fmt: skip


def test_definitions_of_other_loaders_are_refused(compile_c):
    """With members that are not 0 behind map_flags, or too few of them."""
    source = LEGACY.format(members=", map_flags, id, pinning", section="maps", first=", .pinning = 2")
    whole = read_object(compile_c(source, name="others"))
    with pytest.raises(
        MalformedData, match=r"^map old has more than a struct bpf_map_def: 28 bytes.*iproute2's struct"
    ):
        whole.maps["old"]
    assert whole.maps["older"].max_entries == 13
    source = """
    struct { u32 type, key_size, value_size; } odd SEC("maps") = { 1, 4, 8 };
    SEC("socket") int filter(void *context) { u32 key = 1; return bpf_map_lookup_elem(&odd, &key) != 0; }
    """
    with pytest.raises(
        MalformedData, match=r"^map odd is not a struct bpf_map_def \(four or five .* it has 12 bytes\)"
    ):
        read_object(compile_c(source, name="odd")).maps["odd"]


def test_more_kinds_of_maps(compile_c):
    """Tries, queues, maps of maps, stacks, storage: each has what its kind wants, and passes its own check."""
    source = """
    struct key { u32 bits; u8 address[4]; };
    struct { __uint(type, 11); __type(key, struct key); __type(value, u64); __uint(max_entries, 7);
             __uint(map_flags, 1); } trie SEC(".maps");
    struct { __uint(type, 22); __type(value, u32); __uint(max_entries, 9); __uint(numa_node, 0); } queue SEC(".maps");
    struct { __uint(type, 30); __type(value, u32); __uint(max_entries, 9); __uint(map_extra, 3); } filter SEC(".maps");
    struct { __uint(type, 13); __type(key, u64); __type(value, u32); __uint(max_entries, 5);
             __array(values, struct { __uint(type, 2); __type(key, u32); __type(value, u16); __uint(max_entries, 3); });
    } outer SEC(".maps");
    struct { __uint(type, 3); __uint(key_size, 4); __uint(value_size, 4); __uint(max_entries, 4);
             __array(values, int (void *)); } jumps SEC(".maps");
    struct { __uint(type, 7); __uint(key_size, 4); __uint(value_size, 80); __uint(max_entries, 8);
    } stacks SEC(".maps");
    SEC("socket") int f(void *c) { return 0; }
    """
    maps = read_object(compile_c(source, name="kinds")).maps
    for spec in maps.values():
        spec.check()
    assert (maps["trie"].key.size, maps["trie"].flags) == (8, 1)
    assert (maps["queue"].key, maps["queue"].value.name, maps["queue"].numa_node) == (None, "u32", 0)
    assert maps["filter"].extra == 3
    inner = maps["outer"].inner_map
    assert (inner.type, inner.value.name, inner.max_entries) == (MapType.ARRAY, "u16", 3)
    assert (maps["jumps"].type, maps["jumps"].inner_map) == (MapType.PROG_ARRAY, None)
    assert maps["stacks"].value.size == 80


def test_static_calls_inside_a_section_and_callbacks(compile_c):
    """A call that clang resolved itself, and the address of a function."""
    source = """
    static long each(u32 index, void *context) { return 0; }
    static __attribute__((noinline)) SEC("socket") int inner(int x) { return x * 3 + (bpf_ktime_get_ns() & 1); }
    SEC("socket") int filter(void *context) { bpf_loop(7, each, 0, 0); return inner(5); }
    """
    code = read_object(compile_c(source, name="calls")).program_spec("filter").code
    assert sorted(function.name for function in code.subprograms) == ["each", "filter", "inner"]
    (load,) = [i for i in code.instructions if i.op.form is Form.LDDW_FUNCTION]
    assert load.symbol == "each"


def test_kernel_functions_and_variables(compile_c):
    """Externs of .ksyms keep their names until the kernel's BTF tells their ids."""
    source = """
    extern void bpf_rcu_read_lock(void) SEC(".ksyms");
    extern const int runqueues SEC(".ksyms");
    SEC("socket") int filter(void *context) { bpf_rcu_read_lock(); return (long)&runqueues != 0; }
    """
    code = read_object(compile_c(source, name="externs")).program_spec("filter").code
    symbols = {i.op.form: i.symbol for i in code.instructions if i.symbol}
    assert symbols[Form.CALL_KFUNC] == "bpf_rcu_read_lock"


USE_M = ' m SEC(".maps"); SEC("socket") int f(void *c) { return bpf_map_lookup_elem(&m, c) != 0; }'
REFUSED = [
    (
        'extern u32 KERNEL_VERSION SEC(".kconfig"); SEC("socket") int f(void *c) { return KERNEL_VERSION; }',
        "socket, slot 0: KERNEL_VERSION is an extern of .kconfig: give the kernel's KernelConfig",
    ),
    (
        """struct s { int a, b; } __attribute__((preserve_access_index));
        SEC("raw_tp/x") int f(struct s *c) { return c->b; }""",
        "function f has CO-RE relocations: give the BTF of the kernel to load into",
    ),
    (
        "struct { __uint(type, 1); __uint(max_entires, 3); }" + USE_M,
        "map m has the unknown attribute 'max_entires' (did you mean max_entries or map_extra?)",
    ),
    (
        "struct { __uint(type, 99); __uint(max_entries, 3); }" + USE_M,
        "map m is of type 99, which no kernel up to Linux 6.18 has",
    ),
    (
        "struct { __uint(type, 2); __type(key, u32); __uint(key_size, 8); }" + USE_M,
        "map m: key_size is 8, but the key's type has 4 bytes",
    ),
]


@pytest.mark.parametrize(("source", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_cannot_be_loaded(compile_c, source, message):
    """One line with the name and what to do; never a silently different program."""
    with pytest.raises(MalformedData, match="^" + re.escape(message)):
        read_object(compile_c(source, name="refused")).module_spec()


def test_optional_programs(compile_c):
    """A section's name that begins with a question mark: loaded only when it is asked for, as by libbpf."""
    source = """
        SEC("?socket") int f(void *c) { return 1; }
        SEC("?tp/a/b") int g(void *c) { return 2; }
        SEC("xdp") int h(void *c) { return 1; }
    """
    whole = read_object(compile_c(source, name="optional"))
    assert [(program.name, program.optional) for program in whole.programs] == [("f", True), ("g", True), ("h", False)]
    assert [program.name for program in whole.module_spec().programs] == ["h"]
    assert whole.program_spec("f").type is ProgramType.SOCKET_FILTER
    assert whole.program_spec("g").attach == Tracepoint("a", "b")


@pytest.mark.skipif(sys.byteorder == "big", reason="probe machine:little-endian: no")
def test_an_object_of_the_other_byte_order(compile_c):
    """It is read and listed; as a program of this machine its data would be the wrong way round."""
    source = 'int n = 1; SEC("socket") int f(void *c) { return n; }'
    whole = read_object(compile_c(source, "-target", "bpfeb", name="big"))
    assert "exit" in list_section(whole, "socket")
    for wanted in (whole.module_spec, whole.map_specs, lambda: whole.program_spec("f")):
        with pytest.raises(MalformedData, match=r"^the object is big-endian and this machine is not: list it"):
            wanted()


def test_an_extern_without_type_information(compile_c):
    """Nothing says that it is of .ksyms: the remedy is named."""
    source = 'extern int x __attribute__((section(".ksyms"))); SEC("socket") int f(void *c) { return (long)&x; }'
    whole = read_object(compile_c(source, "-g0", name="plain"))
    with pytest.raises(
        MalformedData, match="nothing defines `x`; without BTF nothing says where to look: compile with"
    ):
        whole.module_spec()


def test_a_section_that_names_nothing(compile_c):
    """The closest names are given."""
    whole = read_object(compile_c('SEC("kprobes/x") int f(void *c) { return 0; }', name="section"))
    said = r"section 'kprobes/x' names no program type \(did you mean kprobe"
    with pytest.raises(NotFound, match="^" + said):
        _ = whole.programs[0].convention
    with pytest.raises(NotFound, match=rf"^program f: {said}.*: give its type, program_spec\('f', program_type="):
        whole.module_spec()


def test_a_program_that_is_not_there(whole):
    """The closest names are given."""
    with pytest.raises(NotFound, match=r"^the object has no program 'on_opem' \(did you mean on_open"):
        whole.program_spec("on_opem")


def test_targets_by_btf(compile_c):
    """A program attached to a function of the kernel carries that function's BTF id."""
    source = """
    SEC("fentry/do_unlinkat") int enter(u64 *c) { return 0; }
    SEC("fexit/do_unlinkat") int leave(u64 *c) { return 0; }
    SEC("lsm/file_open") int opened(u64 *c) { return 0; }
    SEC("iter/task") int each(u64 *c) { return 0; }
    SEC("tp_btf/sched_switch") int switched(u64 *c) { return 0; }
    SEC("kprobe/do_unlinkat") int probe(u64 *c) { return 0; }
    """
    builder = BtfBuilder()
    builder.add_int("unsigned long", 8)
    proto = builder.add_func_proto(0, [("__data", builder.add_ptr(0)), ("flag", 1)])
    functions = ("do_unlinkat", "bpf_lsm_file_open", "bpf_iter_task", "__traceiter_sched_switch")
    ids = {name: builder.add_func(name, proto) for name in functions}
    typedef = builder.add_typedef("btf_trace_sched_switch", builder.add_ptr(proto))
    whole = read_object(compile_c(source, name="targets"))
    specs = {spec.name: spec for spec in whole.module_spec(Btf(builder.to_bytes())).programs}
    assert {name: spec.attach_btf for name, spec in specs.items()} == {
        "enter": ids["do_unlinkat"],
        "leave": ids["do_unlinkat"],
        "opened": ids["bpf_lsm_file_open"],
        "each": ids["bpf_iter_task"],
        "switched": typedef,
        "probe": 0,
    }
    assert specs["switched"].attach == BtfTracepoint("sched_switch")
    assert {spec.attach_btf for spec in whole.module_spec().programs} == {0}
    assert (specs["opened"].type, specs["opened"].expected_attach_type) == (ProgramType.LSM, AttachType.LSM_MAC)


@pytest.mark.parametrize(
    ("section", "program_type", "attach_type", "flags", "target"),
    [
        ("kprobe/do_unlinkat", ProgramType.KPROBE, None, 0, "do_unlinkat"),
        ("kprobe", ProgramType.KPROBE, None, 0, ""),
        ("uprobe.s//bin/true:main", ProgramType.KPROBE, None, 16, "/bin/true:main"),
        ("tp_btf/sched_switch", ProgramType.TRACING, AttachType.TRACE_RAW_TP, 0, "sched_switch"),
        ("fentry.s/f", ProgramType.TRACING, AttachType.TRACE_FENTRY, 16, "f"),
        ("?fexit/f", ProgramType.TRACING, AttachType.TRACE_FEXIT, 0, "f"),
        ("xdp.frags/devmap", ProgramType.XDP, AttachType.XDP_DEVMAP, 32, ""),
        ("xdp", ProgramType.XDP, AttachType.XDP, 0, ""),
        ("tcx/egress", ProgramType.SCHED_CLS, AttachType.TCX_EGRESS, 0, ""),
        ("cgroup/connect4", ProgramType.CGROUP_SOCK_ADDR, AttachType.CGROUP_INET4_CONNECT, 0, ""),
        ("syscall", ProgramType.SYSCALL, None, 16, ""),
        ("struct_ops/ssthresh", ProgramType.STRUCT_OPS, None, 0, "ssthresh"),
        ("sk_reuseport/migrate", ProgramType.SK_REUSEPORT, AttachType.SK_REUSEPORT_SELECT_OR_MIGRATE, 0, ""),
    ],
)
def test_section_names(section, program_type, attach_type, flags, target):
    """As libbpf reads them: kind, attach type, sleepable and frags marks, target."""
    said = convention(section)
    assert (said.program_type, said.attach_type, said.flags, said.target) == (program_type, attach_type, flags, target)


@pytest.mark.parametrize("section", ["socketx", "socket/x", "tc/x", "nonsense", ""])
def test_section_names_without_meaning(section):
    """A kind without targets takes none."""
    with pytest.raises(NotFound):
        convention(section)
