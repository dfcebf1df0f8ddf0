"""The interpreter against the kernel: calls back, tail calls, kernel functions and symbols, arenas."""

from __future__ import annotations

import re
from contextlib import ExitStack

import pytest

from pyebpf.asm import Label, encode, place, resolve
from pyebpf.asm.build import (
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R10,
    add64,
    addr_space_cast,
    alu,
    call,
    call_kfunc,
    exit_,
    jump,
    jump_if,
    lddw,
    ldx,
    load_function,
    load_ksym,
    load_map,
    load_map_value,
    mov64,
    st,
    stx,
)
from pyebpf.btf import Btf, Kind
from pyebpf.errors import VerifierError
from pyebpf.kernel import bpf
from pyebpf.kernel.btf_files import read_btf
from pyebpf.kernel.map_elements import map_lookup_elem, map_update_elem
from pyebpf.objects import Map, Program
from pyebpf.specs import Code, FunctionStart, MapSpec, ProgramSpec
from pyebpf.types import U32, U64, ArrayType
from pyebpf.uapi.bpf import MapType, ProgramType
from pyebpf.uapi.helpers import HELPER_IDS
from pyebpf.vm import Machine
from pyebpf.vm.memory import Region
from tests.support.needs import needs

SLEEPABLE = 1 << 4
RESULT = MapSpec("result", MapType.ARRAY, U32, ArrayType(U64, 4), 1)
NUMBERS = MapSpec(
    "numbers",
    MapType.ARRAY,
    U32,
    U64,
    7,
    initial=tuple((n.to_bytes(4, "little"), (n * n).to_bytes(8, "little")) for n in range(7)),
)


def spec(items, *functions):
    """A program that stores R0 into the map `result` at its end; `functions` are labels of subprograms."""
    placed = place(items)
    index_of, slot = {}, 0
    for index, instruction in enumerate(placed.instructions):
        index_of[slot] = index
        slot += instruction.slots
    subprograms = tuple(FunctionStart(name, index_of[placed.labels[name]]) for name in functions)
    code = Code(placed.instructions, (FunctionStart("main", 0), *subprograms))
    return ProgramSpec("forms", ProgramType.SYSCALL, code, flags=SLEEPABLE)


def in_both(items, body=(), maps=(), cpus=2):
    """The values of the map `result` and the entries of `maps`, in the kernel and in the interpreter.

    `body` is a subprogram of that name. The interpreter has `cpus` processors.
    """
    needs("program:syscall")
    end = [load_map_value(R1, "result"), stx(8, R1, 0, R0), mov64(R0, 0), exit_()]
    program = spec([*items, *end, *body], *(["body"] if body else []))
    specs = [RESULT, *maps]
    with ExitStack() as stack:
        made = {each.name: stack.enter_context(Map(each)) for each in specs}
        try:
            loaded = stack.enter_context(Program(program, made))
        except VerifierError as error:
            # 6.1: "unknown func bpf_x#35" where the kind lacks it; 6.12: "program of this type cannot use helper …".
            if lacking := re.search(r"(?:cannot use helper|unknown func) bpf_(\w+)", str(error)):
                needs(f"helper:{lacking[1]}@syscall")
            raise
        loaded.test_run()
        kernel = [list(made["result"][0]), {each.name: made[each.name].snapshot() for each in maps}]
    return kernel, interpreted(program, specs, cpus)


def interpreted(program, specs, cpus=2):
    """The values of the map `result` and the entries of the other maps, in the interpreter."""
    machine = Machine(specs, cpus=cpus)
    machine.run(program)
    raw = machine.maps["result"].entries()[bytes(4)]
    values = [int.from_bytes(raw[at : at + 8], "little") for at in range(0, 32, 8)]
    entries = {
        each.name: {each.key.decode(k): each.value.decode(v) for k, v in machine.maps[each.name].entries().items()}
        for each in specs
        if each is not RESULT
    }
    return [values, entries]


@pytest.mark.parametrize(("count", "stop"), [(0, 5), (11, 5), (11, 100), (1 << 24, 3)])
def test_bpf_loop(count, stop):
    """The callback gets index and context until it returns 1; the result counts calls. Too many rounds are -E2BIG."""
    body = [
        Label("body"),
        ldx(8, R3, R2, 0),
        add64(R3, R1),
        stx(8, R2, 0, R3),
        mov64(R0, 0),
        jump_if("jne", R1, stop, "go on"),
        mov64(R0, 1),
        Label("go on"),
        exit_(),
    ]
    items = [
        st(8, R10, -8, 1000),
        mov64(R1, count),
        load_function(R2, "body"),
        mov64(R3, R10),
        add64(R3, -8),
        mov64(R4, 0),
        call(HELPER_IDS["loop"]),
        ldx(8, R1, R10, -8),
        load_map_value(R2, "result"),
        stx(8, R2, 8, R1),
    ]
    kernel, vm = in_both(items, body)
    assert kernel == vm


def test_for_each_map_elem():
    """Every entry of an array in order: key, value and context; the callback changes values in place."""
    body = [
        Label("body"),
        ldx(4, R5, R2, 0),
        ldx(8, R1, R3, 0),
        add64(R1, R5),
        stx(8, R3, 0, R1),
        ldx(8, R2, R4, 0),
        alu("mul64", R2, 3),
        add64(R2, R1),
        stx(8, R4, 0, R2),
        mov64(R0, 0),
        jump_if("jne", R5, 5, "go on"),
        mov64(R0, 1),
        Label("go on"),
        exit_(),
    ]
    items = [
        st(8, R10, -8, 1),
        load_map(R1, "numbers"),
        load_function(R2, "body"),
        mov64(R3, R10),
        add64(R3, -8),
        mov64(R4, 0),
        call(HELPER_IDS["for_each_map_elem"]),
        ldx(8, R1, R10, -8),
        load_map_value(R2, "result"),
        stx(8, R2, 8, R1),
    ]
    kernel, vm = in_both(items, body, maps=[NUMBERS])
    assert kernel == vm
    assert vm[0][0] == 6


def test_open_coded_iterator():
    """bpf_iter_num_new, _next and _destroy: called by the name of the kernel's function."""
    needs("kfunc:bpf_iter_num_new")
    items = [
        mov64(R7, 0),
        mov64(R1, R10),
        add64(R1, -8),
        mov64(R2, -3),
        mov64(R3, 10),
        call_kfunc("bpf_iter_num_new"),
        Label("next"),
        mov64(R1, R10),
        add64(R1, -8),
        call_kfunc("bpf_iter_num_next"),
        jump_if("jeq", R0, 0, "done"),
        ldx(4, R1, R0, 0, signed=True),
        alu("mul64", R7, 5),
        add64(R7, R1),
        jump("next"),
        Label("done"),
        mov64(R1, R10),
        add64(R1, -8),
        call_kfunc("bpf_iter_num_destroy"),
        mov64(R0, R7),
    ]
    kernel, vm = in_both(items)
    assert kernel == vm


def test_tail_calls():
    """A program that calls itself ends after 33 tail calls; a missing entry goes on behind the call.

    Before Linux 6.12 calls of missing entries count, too: this program makes them at the end.
    """
    items = [
        mov64(R6, R1),
        load_map_value(R7, "result"),
        ldx(8, R1, R7, 0),
        add64(R1, 1),
        stx(8, R7, 0, R1),
        mov64(R1, R6),
        load_map(R2, "programs"),
        mov64(R3, 0),
        call(12),
        mov64(R1, R6),
        load_map(R2, "programs"),
        mov64(R3, 1),
        call(12),
        st(8, R7, 8, 7),
        mov64(R0, 0),
        exit_(),
    ]
    program = place(items).instructions
    with ExitStack() as stack:
        result = stack.enter_context(bpf.map_create(MapType.ARRAY, 4, 32, 1))
        programs = stack.enter_context(bpf.map_create(MapType.PROG_ARRAY, 4, 4, 3))
        code = encode(resolve(program, {"result": result.fileno(), "programs": programs.fileno()}))
        loaded = bpf.prog_load(ProgramType.SOCKET_FILTER, code, log_level=1, log_size=1 << 16)
        assert loaded.descriptor is not None, loaded.log
        stack.enter_context(loaded.descriptor)
        map_update_elem(programs.fileno(), bytes(4), loaded.descriptor.fileno().to_bytes(4, "little"))
        bpf.prog_test_run(loaded.descriptor.fileno(), data=bytes(64), data_out=64)
        expected = map_lookup_elem(result.fileno(), bytes(4), 32)
    machine = Machine([RESULT, MapSpec("programs", MapType.PROG_ARRAY, U32, None, 3)])
    machine.tail_calls("programs", {0: program})
    machine.run(program, packet=bytes(50), program_type=ProgramType.SOCKET_FILTER)
    assert machine.maps["result"].entries()[bytes(4)] == expected
    assert expected[:8] == (34).to_bytes(8, "little")


def test_arena_casts():
    """addr_space_cast gives the lower half for the kernel and the user's address for user space; NULL stays NULL."""
    needs("isa:addr_space_cast")
    base = 1 << 40
    items = [
        load_map(R1, "arena"),
        load_map_value(R7, "result"),
        ldx(8, R2, R7, 24),
        addr_space_cast(R3, R2, 0, 1),
        ldx(8, R4, R3, 16),
        addr_space_cast(R5, R3, 1, 0),
        stx(8, R7, 0, R5),
        stx(8, R7, 8, R4),
        mov64(R0, 0),
        exit_(),
    ]
    arena = MapSpec("arena", MapType.ARENA, None, None, 2, flags=1 << 10, extra=base)
    program = place(items).instructions
    for low in (0, 8):
        given = bytes(24) + (base + low).to_bytes(8, "little")
        with ExitStack() as stack:
            result = stack.enter_context(bpf.map_create(MapType.ARRAY, 4, 32, 1))
            shared = stack.enter_context(bpf.map_create(MapType.ARENA, 0, 0, 2, flags=1 << 10, map_extra=base))
            map_update_elem(result.fileno(), bytes(4), given)
            code = encode(resolve(program, {"result": result.fileno(), "arena": shared.fileno()}))
            loaded = bpf.prog_load(ProgramType.SYSCALL, code, flags=SLEEPABLE, log_level=1, log_size=1 << 16)
            assert loaded.descriptor is not None, loaded.log
            stack.enter_context(loaded.descriptor)
            bpf.prog_test_run(loaded.descriptor.fileno(), in_place=True)
            expected = map_lookup_elem(result.fileno(), bytes(4), 32)
        machine = Machine([RESULT, arena])
        machine.maps["result"].write(bytes(4), given)
        machine.run(program)
        assert machine.maps["result"].entries()[bytes(4)] == expected


def test_kernel_symbols():
    """The address of a function or a variable of the kernel, by its BTF id; the interpreter is told what it is."""
    needs("program:syscall")
    btf = Btf(read_btf())
    # Linux 6.1 takes variables only; a kernel without CONFIG_KALLSYMS_ALL cannot find them, but functions.
    candidates = [btf.function("schedule").id, *btf.find("runqueues", {Kind.VAR})]
    program = [load_ksym(R1, "symbol"), mov64(R0, 7), jump_if("jne", R1, 0, "done"), mov64(R0, 3)]
    program += [Label("done"), exit_()]
    placed = place(program).instructions
    returned = []
    for identifier in candidates:
        code = encode(resolve(placed, ksyms={"symbol": (identifier, 0)}))
        loaded = bpf.prog_load(ProgramType.SYSCALL, code, flags=SLEEPABLE)
        if loaded.descriptor is not None:
            with loaded.descriptor:
                returned.append(bpf.prog_test_run(loaded.descriptor.fileno(), in_place=True).retval)
    machine = Machine()
    machine.ksyms["symbol"] = machine.memory.add(Region("kernel", "symbol", bytearray(64)))
    assert returned
    assert {*returned} == {machine.run(placed).value} == {7}


TEXTS = [
    *(
        b"0x",
        b"0X1",
        b"-0x1f",
        b"0",
        b"08",
        b"-0",
        b"- 1",
        b"+1",
        b" 12",
        b"\t-7z",
        b"",
        b"00x1",
        b"0xg",
        b"\xa012",
        b"1_0",
    ),
    *(b"18446744073709551615", b"18446744073709551616", b"9223372036854775807", b"9223372036854775808"),
    *(b"-9223372036854775808", b"-9223372036854775809", b"777777777777777777777777"),
]


@pytest.mark.parametrize("base", [0, 8, 10, 16])
def test_numbers_in_text(base):
    """Strtol and strtoul: signs, blanks, prefixes, overflow."""
    for text in TEXTS:
        for helper in ("strtol", "strtoul"):
            for length in {len(text) or 1, 2, 32}:
                raw = text.ljust(32, b"\0")
                items = []
                for at in range(0, 32, 8):
                    items += [lddw(R1, int.from_bytes(raw[at : at + 8], "little")), stx(8, R10, at - 40, R1)]
                items += [mov64(R1, R10), add64(R1, -40), mov64(R2, length), mov64(R3, base), mov64(R4, R10)]
                items += [st(8, R10, -8, 0), add64(R4, -8), call(HELPER_IDS[helper]), ldx(8, R1, R10, -8)]
                items += [load_map_value(R2, "result"), stx(8, R2, 8, R1)]
                kernel, vm = in_both(items)
                assert kernel == vm, (text, helper, length)


FORMATS = [
    (b"%d %u %x\0", (-5, 1 << 63, 0xBEEF)),
    (b"%lld %llu %llx %%\0", (-5, (1 << 64) - 1, 0xABCDEF0123)),
    (b"%5d|%-5d|%05d|\0", (42, 42, 42)),
    (b"%c%c%c\0", (0x41, 0x62, 0x33)),
    (b"%hd %i %ld\0", (70000, 7, -1)),
    (b"%X %#x\0", (0xAB, 0xAB)),
    (b"plain\0", ()),
    (b"%d %d\0", (1,)),
    (b"%y\0", (1,)),
]


@pytest.mark.parametrize(("text", "values"), FORMATS, ids=range(len(FORMATS)))
def test_snprintf(text, values):
    """What bpf_snprintf makes of a format, or which error; in the interpreter the same."""
    size = 48
    initial = ((bytes(4), text.ljust(24, b"\0")),)
    frozen = MapSpec("format", MapType.ARRAY, U32, ArrayType(U64, 3), 1, flags=1 << 7, frozen=True, initial=initial)
    items = [st(8, R10, -place, 0) for place in range(8, 97, 8)]
    for index, value in enumerate(values):
        items += [lddw(R1, value), stx(8, R10, -96 + 8 * index, R1)]
    items += [mov64(R1, R10), add64(R1, -size), mov64(R2, size), load_map_value(R3, "format"), mov64(R4, R10)]
    items += [add64(R4, -96), mov64(R5, 8 * len(values)), call(HELPER_IDS["snprintf"])]
    for index in range(3):
        items += [ldx(8, R1, R10, -size + 8 * index), load_map_value(R2, "result"), stx(8, R2, 8 + 8 * index, R1)]
    try:
        kernel, vm = in_both(items, maps=[frozen])
    except VerifierError:
        end = [load_map_value(R1, "result"), stx(8, R1, 0, R0), mov64(R0, 0), exit_()]
        kernel = vm = interpreted(spec([*items, *end]), [RESULT, frozen])
        assert vm[0][0] == (1 << 64) - 22
    assert kernel[0] == vm[0]


@pytest.mark.parametrize(("old", "new"), [(0, 8), (8, 0), (8, 8), (4, 12), (0, 0)])
def test_csum_diff(old, new):
    """The checksum of what changed, folded."""
    items = [
        lddw(R1, 0x1122_3344_5566_7788),
        stx(8, R10, -24, R1),
        lddw(R1, 0xFEDC_BA98_7654_3210),
        stx(8, R10, -16, R1),
    ]
    items += [st(8, R10, -8, 0x7FFF), mov64(R1, R10), add64(R1, -24), mov64(R2, old), mov64(R3, R10), add64(R3, -16)]
    items += [mov64(R4, new), mov64(R5, 0x1234), call(HELPER_IDS["csum_diff"])]
    program = spec([*items, load_map_value(R1, "result"), stx(8, R1, 0, R0), mov64(R0, 0), exit_()])
    program = ProgramSpec("csum", ProgramType.XDP, program.code)
    with Map(RESULT) as result, Program(program, {"result": result}) as loaded:
        loaded.test_run(data=bytes(64), data_out=64)
        kernel = result[0][0]
    machine = Machine([RESULT])
    machine.run(program, packet=bytes(64))
    value = int.from_bytes(machine.maps["result"].entries()[bytes(4)][:8], "little")
    folded = kernel & 0xFFFF_FFFF
    while folded >> 16:  # before Linux 6.13 it is not folded
        folded = (folded & 0xFFFF) + (folded >> 16)
    assert value == folded


@pytest.mark.parametrize(("offset", "length", "flags"), [(0, 8, 0), (9, 8, 0), (0, 8, 1), (3, 5, 0)])
def test_dynamic_pointers(offset, length, flags):
    """From a map's value: written, read back, with the errors of places outside and of flags."""
    pool = MapSpec("pool", MapType.ARRAY, U32, ArrayType(U64, 2), 1)
    items = [load_map_value(R1, "pool"), mov64(R2, 16), mov64(R3, 0), mov64(R4, R10), add64(R4, -16)]
    items += [call(HELPER_IDS["dynptr_from_mem"]), mov64(R6, R0), lddw(R1, 0x1122334455667788), stx(8, R10, -24, R1)]
    items += [mov64(R1, R10), add64(R1, -16), mov64(R2, offset), mov64(R3, R10), add64(R3, -24), mov64(R4, length)]
    items += [mov64(R5, flags), call(HELPER_IDS["dynptr_write"]), alu("lsh64", R6, 16), add64(R6, R0)]
    items += [st(8, R10, -32, 5), mov64(R1, R10), add64(R1, -32), mov64(R2, length), mov64(R3, R10), add64(R3, -16)]
    items += [mov64(R4, offset + 1), mov64(R5, 0), call(HELPER_IDS["dynptr_read"])]
    items += [alu("lsh64", R6, 16), add64(R6, R0), ldx(8, R1, R10, -32), load_map_value(R2, "result")]
    items += [stx(8, R2, 8, R1), mov64(R0, R6)]
    kernel, vm = in_both(items, maps=[pool])
    assert kernel == vm
