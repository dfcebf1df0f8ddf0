"""Helpers: time, processes, packets, output, timers; what the caller gives is what programs see."""

from __future__ import annotations

import pytest

from pyebpf.asm import Form, Instruction, Label, assemble, find_op
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
    alu,
    call,
    exit_,
    jump_if,
    lddw,
    ldx,
    load_function,
    load_map,
    load_map_value,
    load_packet,
    mov64,
    st,
    stx,
)
from pyebpf.errors import InvalidValue, NotFound, VmError
from pyebpf.specs import MapSpec
from pyebpf.types import U32, U64, ArrayType
from pyebpf.uapi.bpf import MapType, ProgramType
from pyebpf.uapi.helpers import HELPER_IDS
from pyebpf.vm import Machine, run
from pyebpf.vm.helpers import HELPERS

COUNTS = MapSpec("counts", MapType.HASH, U32, U64, 8)


def helper(name):
    return call(HELPER_IDS[name])


def test_time_is_the_callers():
    """A number, a function, or one value for each question; one question too many is an error."""
    twice = [helper("ktime_get_ns"), mov64(R6, R0), helper("ktime_get_ns"), alu("sub64", R0, R6), exit_()]
    assert run(twice, time=17).value == 0
    assert run(twice, time=[100, 131]).value == 31
    assert run(twice, time=iter(range(0, 100, 7)).__next__).value == 7
    with pytest.raises(VmError, match="asks for the time once more"):
        run(twice, time=[100])


def test_who():
    """Process, thread, user, group, name, processor."""
    who = {"pid": 42, "tid": 43, "uid": 1000, "gid": 100, "comm": "a name longer than fits", "cpu": 1}
    assert run([helper("get_current_pid_tgid"), exit_()], **who).value == 42 << 32 | 43
    assert run([helper("get_current_uid_gid"), exit_()], **who).value == 100 << 32 | 1000
    assert run([helper("get_smp_processor_id"), exit_()], **who).value == 1
    comm = [mov64(R1, R10), add64(R1, -16), mov64(R2, 16), helper("get_current_comm"), ldx(8, R0, R10, -8), exit_()]
    assert run(comm, **who).value.to_bytes(8, "little") == b"onger t\0"


def test_random_numbers_follow_from_the_seed():
    """The same seed, the same numbers."""
    program = [helper("get_prandom_u32"), mov64(R6, R0), helper("get_prandom_u32"), alu("xor64", R0, R6), exit_()]
    first, again, other = (run(program, seed=seed).value for seed in (3, 3, 4))
    assert first == again != other


def test_printed_lines():
    """What bpf_trace_printk would write to the trace pipe."""
    text = int.from_bytes(b"n=%d %x\0", "little")
    program = [lddw(R1, text), stx(8, R10, -8, R1), mov64(R1, R10), add64(R1, -8), mov64(R2, 8), mov64(R3, -7)]
    result = run([*program, mov64(R4, 255), helper("trace_printk"), exit_()])
    assert (result.printed, result.value) == (("n=-7 ff",), 8)


def text_program(name, size, address):
    """Read text into 16 bytes full of 0xff, and give what is there in the packet's place."""
    fill = [mov64(R1, -1), stx(8, R10, -16, R1), stx(8, R10, -8, R1)]
    read = [mov64(R1, R10), add64(R1, -16), mov64(R2, size), mov64(R3, address), helper(name)]
    out = [load_map_value(R1, "out"), stx(8, R1, 0, R0), ldx(8, R2, R10, -16), stx(8, R1, 8, R2), ldx(8, R2, R10, -8)]
    return [*fill, *read, *out, stx(8, R1, 16, R2), mov64(R0, 0), exit_()]


@pytest.mark.parametrize(
    ("name", "size", "data", "result", "text"),
    [
        ("probe_read_user_str", 16, b"abc\0defg", 4, b"abc\0\0\0\0\0" + b"\xff" * 8),
        ("probe_read_user_str", 3, b"abcdefg", 3, b"ab\0" + b"\xff" * 13),
        ("probe_read_user_str", 16, b"abc", -14, bytes(16)),
        ("probe_read_user", 3, b"abcdefg", 0, b"abc" + b"\xff" * 13),
        ("probe_read_kernel", 3, b"abcdefg", -34, bytes(3) + b"\xff" * 13),
        ("probe_read_kernel_str", 3, b"abcdefg", -34, bytes(3) + b"\xff" * 13),
    ],
)
def test_text_of_user_space(name, size, data, result, text):
    """Copied up to its NUL, ended by one; memory that is not there, or the other kind's, gives zeros and an error."""
    out = MapSpec("out", MapType.ARRAY, U32, ArrayType(U64, 3), 1)
    raw = run(text_program(name, size, 0x7000), memory={0x7000: data}, maps=[out]).maps["out"].entries()[bytes(4)]
    assert (int.from_bytes(raw[:8], "little", signed=True), raw[8:]) == (result, text)


def test_packets_move():
    """Head and tail are adjusted; the context's members lead to the packet as it is then."""
    grow = [
        mov64(R6, R1),
        mov64(R2, -4),
        helper("xdp_adjust_head"),
        mov64(R1, R6),
        mov64(R2, -10),
        helper("xdp_adjust_tail"),
    ]
    grow += [ldx(4, R1, R6, 0), ldx(4, R0, R6, 4), alu("sub64", R0, R1), st(1, R1, 0, 9), exit_()]
    result = run(grow, packet=bytes(range(64)), program_type=ProgramType.XDP)
    assert (result.value, result.packet) == (58, b"\x09\0\0\0" + bytes(range(54)))
    cut = [mov64(R2, 60), helper("xdp_adjust_head"), exit_()]
    assert run(cut, packet=bytes(64), program_type=ProgramType.XDP).value == (1 << 64) - 22


def test_socket_buffers():
    """Legacy loads are in the network's byte order, and end the program outside the packet."""
    packet = bytes(range(20))
    load = [mov64(R6, R1), load_packet(4, 2), exit_()]
    assert run(load, packet=packet, program_type=ProgramType.SOCKET_FILTER).value == 0x02030405
    beyond = [mov64(R6, R1), mov64(R7, 18), load_packet(4, 0, R7), mov64(R0, 5), exit_()]
    assert run(beyond, packet=packet, program_type=ProgramType.SOCKET_FILTER).value == 0
    link = Instruction(find_op("ldabsh", Form.LOAD_ABSOLUTE), imm=-0x200000 + 6)
    assert run([mov64(R6, R1), link, exit_()], packet=packet, program_type=ProgramType.SOCKET_FILTER).value == 0x0607
    length = [ldx(4, R0, R1, 0), ldx(4, R2, R1, 8), alu("mul64", R0, R2), exit_()]
    machine = Machine()
    assert machine.run(length, packet=packet, fields={"mark": 3}, program_type=ProgramType.SOCKET_FILTER).value == 60


def test_redirect_maps():
    """An entry that is there redirects; else the flags' low bits are the verdict."""
    vm = Machine([MapSpec("ports", MapType.DEVMAP, U32, U32, 3)])
    vm.maps["ports"].write((1).to_bytes(4, "little"), (7).to_bytes(4, "little"))

    def verdict(index, flags):
        program = [load_map(R1, "ports"), mov64(R2, index), mov64(R3, flags), helper("redirect_map"), exit_()]
        return vm.run(program, packet=bytes(64), program_type=ProgramType.XDP).value

    assert [verdict(1, 0), verdict(2, 2), verdict(2, 0), verdict(1, 64)] == [4, 2, 0, 0]


def test_timers_fire_when_the_test_says_so():
    """The callback gets map, key and value; a cancelled timer stays quiet."""
    spec = MapSpec("timers", MapType.ARRAY, U32, ArrayType(U64, 3), 2)
    items = [st(4, R10, -4, 1), load_map(R1, "timers"), mov64(R2, R10), add64(R2, -4), call(1), mov64(R6, R0)]
    items += [jump_if("jne", R0, 0, "found"), mov64(R0, 0), exit_(), Label("found")]
    items += [mov64(R1, R6), load_map(R2, "timers"), mov64(R3, 1), helper("timer_init")]
    items += [mov64(R1, R6), load_function(R2, "due"), helper("timer_set_callback")]
    items += [mov64(R1, R6), mov64(R2, 500), mov64(R3, 0), helper("timer_start"), exit_()]
    items += [Label("due"), ldx(4, R1, R2, 0), stx(8, R3, 16, R1), mov64(R0, 0), exit_()]
    vm = Machine([spec], time=1000)
    assert vm.run(items).value == 0
    assert (vm.fire(1499), vm.fire(1500), vm.fire(9999)) == (0, 1, 0)
    assert vm.maps["timers"].lookup_elem((1).to_bytes(4, "little"))[16:] == (1).to_bytes(8, "little")


def test_locks():
    """One at a time, and given back."""
    spec = MapSpec("m", MapType.ARRAY, U32, U64, 1)
    lock = [load_map_value(R1, "m"), helper("spin_lock")]
    with pytest.raises(VmError, match="bpf_spin_lock is still held"):
        run([*lock, mov64(R0, 0), exit_()], maps=[spec])
    with pytest.raises(VmError, match="Locking two bpf_spin_locks"):
        run([*lock, *lock, mov64(R0, 0), exit_()], maps=[spec])
    unlock = [load_map_value(R1, "m"), helper("spin_unlock")]
    assert run([*lock, *unlock, mov64(R0, 3), exit_()], maps=[spec]).value == 3


def test_helpers_are_those_of_the_kernel():
    """Each emulation takes as many arguments as the kernel's prototype says."""
    from pyebpf.uapi.helpers import helper as prototype

    for number, function in HELPERS.items():
        declared = prototype(number)
        code = function.__code__
        assert code.co_argcount - 1 == len(declared.parameters), declared.name


def test_the_user_ring_buffer():
    """A program takes samples out one by one, through a dynamic pointer, until its function returns 1."""
    vm = Machine(
        [MapSpec("samples", MapType.USER_RINGBUF, None, None, 4096), MapSpec("sum", MapType.ARRAY, U32, U64, 1)]
    )
    vm.maps["samples"].samples.extend(n.to_bytes(8, "little") for n in (3, 5, 7, 11))
    items = [load_map(R1, "samples"), load_function(R2, "take"), mov64(R3, 0), mov64(R4, 0)]
    items += [helper("user_ringbuf_drain"), exit_(), Label("take"), mov64(R3, R1), mov64(R4, 0), mov64(R5, 0)]
    items += [mov64(R1, R10), add64(R1, -8), mov64(R2, 8), helper("dynptr_read"), ldx(8, R2, R10, -8)]
    items += [load_map_value(R1, "sum"), ldx(8, R3, R1, 0), add64(R3, R2), stx(8, R1, 0, R3), mov64(R0, 0)]
    items += [jump_if("jne", R2, 7, "on"), mov64(R0, 1), Label("on"), exit_()]
    assert vm.run(items).value == 3
    assert vm.maps["sum"].entries()[bytes(4)] == (15).to_bytes(8, "little")
    assert len(vm.maps["samples"].samples) == 1


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Machine(helpers={"ktime_get": lambda _: 1}), NotFound, "no helper 'ktime_get' .*did you mean"),
        (lambda: Machine(cpu=2, cpus=2), InvalidValue, "cpu=2: there are 2 processors, from 0"),
        (lambda: Machine([COUNTS]).tail_calls("count", {}), NotFound, "no map is called 'count' .*did you mean"),
        (lambda: Machine([COUNTS]).tail_calls("counts", {}), InvalidValue, "counts is not a program array"),
    ],
)  # fmt: skip
def test_what_a_machine_cannot_have(make, error, message):
    """A misspelt name would silently do nothing."""
    with pytest.raises(error, match=message):
        make()


def test_an_emulation_by_the_kernels_own_name():
    """With the prefix bpf_, as without."""
    machine = Machine(helpers={"bpf_jiffies64": lambda _: 42}, seed=1 << 200)
    assert machine.run(assemble("call bpf_jiffies64\nexit")).value == 42


def test_a_socket_of_the_reuseport_group_is_chosen():
    """What the map holds under the key; -ENOENT without an entry."""
    sockets = MapSpec("sockets", MapType.REUSEPORT_SOCKARRAY, U32, U64, 4)
    program = [st(4, R10, -4, 2), load_map(R2, "sockets"), mov64(R3, R10), add64(R3, -4), mov64(R4, 0)]
    program += [call(HELPER_IDS["sk_select_reuseport"]), exit_()]
    machine = Machine([sockets])
    assert machine.run(program, bytes(8)).value == (1 << 64) - 2
    assert machine.selected is None
    machine.maps["sockets"].write((2).to_bytes(4, "little"), (7).to_bytes(8, "little"))
    assert machine.run(program, bytes(8)).value == 0
    assert machine.selected == (7).to_bytes(8, "little")


def test_the_class_and_the_size_of_a_packet():
    """As the machine and the run were given them."""
    classed, size = ([call(HELPER_IDS[name]), exit_()] for name in ("get_cgroup_classid", "xdp_get_buff_len"))
    machine = Machine()
    machine.cgroup_classid = 0x10001
    assert machine.run(classed, packet=bytes(60), program_type=ProgramType.SCHED_CLS).value == 0x10001
    assert machine.run(size, packet=bytes(61), program_type=ProgramType.XDP).value == 61
