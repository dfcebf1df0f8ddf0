"""Programs as objects: loading, what they call, privileges; links and iterators by command."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pyebpf.asm import Instruction, build
from pyebpf.asm.build import R0, R1, R2, R3, R4, R6, R10
from pyebpf.attach.tracepoints import BtfTracepoint, RawTracepoint, Tracepoint
from pyebpf.btf import Btf, Kind
from pyebpf.errors import Location, NotFound, NotLoaded, NotSupported
from pyebpf.kernel import bpf, info
from pyebpf.kernel.btf_files import read_btf
from pyebpf.link import attach
from pyebpf.objects import Map, Program
from pyebpf.specs import Code, FunctionStart, MapSpec, ProgramSpec
from pyebpf.types import U32, U64
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import MapType, ProgramType
from pyebpf.uapi.helpers import helper
from tests.support.needs import needs

RETURN = (build.mov64(R0, 0), build.exit_())


def spec(
    kind: ProgramType,
    *instructions: Instruction,
    functions: tuple[FunctionStart, ...] = (),
    name: str = "probe",
    **more,
) -> ProgramSpec:
    return ProgramSpec(name, kind, Code(instructions, functions or (FunctionStart(name, 0),)), **more)


@pytest.mark.parametrize("name", ["<lambda>", "on_open.<locals>.inner", "größe", "a-b c", "x" * 300, "9lives", ""])
def test_any_python_name_loads(name):
    """The kernel takes few characters and fifteen of them; names are made to fit."""
    with Program(spec(ProgramType.SOCKET_FILTER, *RETURN, name=name), {}) as program:
        assert len(program.info().name) <= 15


@pytest.mark.parametrize(
    "where",
    [
        Location("probe.py", 1, 0, 5, "x = 1\n"),
        Location("<stdin>", 7, 2000, None, "  two\nlines"),
        Location("", 1 << 30, 0, None, ""),
        Location("ü/\udcff.py", 3, 0, None, "naïve \x00 text"),
    ],
)
def test_any_source_place_loads(where):
    """File names and lines are free text for the kernel; columns and line numbers have limits."""
    instructions = (build.mov64(R0, 0, where=where), build.exit_(where=where))
    with Program(spec(ProgramType.SOCKET_FILTER, *instructions), {}) as program:
        assert program.info().type == ProgramType.SOCKET_FILTER


def test_a_subprogram_is_called_by_name():
    """A local call, and its result."""
    code = (
        build.mov64(R1, 20),
        build.call_local("double"),
        build.exit_(),
        build.mov64(R0, R1),
        build.add64(R0, R1),
        build.exit_(),
    )
    functions = (FunctionStart("probe", 0), FunctionStart("double", 3))
    with Program(spec(ProgramType.SOCKET_FILTER, *code, functions=functions), {}) as program:
        assert program.test_run(data=bytes(64)).retval == 40


def test_a_callback_runs_for_each_round():
    """bpf_loop needs func_info of the callback, which every program gets: 101 rounds, counted in a map."""
    needs("helper:loop@socket_filter")
    code = (
        build.mov64(R1, 101), build.load_function(R2, "round"), build.mov64(R3, 0), build.mov64(R4, 0),
        build.call(helper("loop").id), build.exit_(),
        build.st(4, R10, -4, 0), build.load_map(R1, "counts"), build.mov64(R2, R10), build.add64(R2, -4),
        build.call(helper("map_lookup_elem").id), build.jump_if("jeq", R0, 0, 2), build.mov64(R1, 1),
        build.atomic("add", 8, R0, 0, R1), build.mov64(R0, 0), build.exit_(),
    )  # fmt: skip
    functions = (FunctionStart("probe", 0), FunctionStart("round", 6))
    with (
        Map(MapSpec("counts", MapType.ARRAY, U32, U64, 1)) as counts,
        Program(spec(ProgramType.SOCKET_FILTER, *code, functions=functions), {"counts": counts}) as program,
    ):
        assert program.test_run(data=bytes(64)).retval == 101
        assert counts[0] == 101


def iterator_sum() -> tuple[Instruction, ...]:
    """The sum of 0 to 9 by the open-coded number iterator."""
    return (
        build.mov64(R6, 0), build.mov64(R1, R10), build.add64(R1, -8), build.mov64(R2, 0), build.mov64(R3, 10),
        build.call_kfunc("bpf_iter_num_new"),
        build.mov64(R1, R10), build.add64(R1, -8), build.call_kfunc("bpf_iter_num_next"),
        build.jump_if("jeq", R0, 0, 3), build.ldx(4, R1, R0), build.add64(R6, R1), build.jump(-7),
        build.mov64(R1, R10), build.add64(R1, -8), build.call_kfunc("bpf_iter_num_destroy"),
        build.mov64(R0, R6), build.exit_(),
    )  # fmt: skip


def test_kernel_functions_are_found_by_name():
    """In the kernel's BTF, without being asked to."""
    types = Btf(read_btf())
    needs("kfunc:bpf_iter_num_new")
    for btf in (None, lambda: types):
        with Program(spec(ProgramType.SYSCALL, *iterator_sum(), flags=16), {}, btf=btf) as program:
            assert program.test_run(context=bytes(8)).retval == 45


def test_a_kernel_function_that_is_missing_is_named():
    """With the closest ones."""
    code = (build.call_kfunc("bpf_iter_num_mew"), *RETURN)
    with pytest.raises(NotFound, match="bpf_iter_num_mew"):
        Program(spec(ProgramType.TRACEPOINT, *code), {})


def test_a_closed_program_is_not_loaded():
    """NotLoaded, for whatever is asked."""
    program = Program(spec(ProgramType.SOCKET_FILTER, *RETURN), {})
    program.close()
    program.close()
    for use in (program.fileno, program.info, program.test_run):
        with pytest.raises(NotLoaded, match="probe"):
            use()


def test_a_tracepoint_program_has_no_test_run():
    """The kernel's ENOTSUPP, which the C library cannot name."""
    with Program(spec(ProgramType.TRACEPOINT, *RETURN), {}) as program, pytest.raises(NotSupported, match="ENOTSUPP"):
        program.test_run()


def test_links_are_found_by_their_ids_and_know_their_program():
    """A raw tracepoint's link, by id."""
    with (
        Program(spec(ProgramType.RAW_TRACEPOINT, *RETURN), {}) as program,
        attach(program, RawTracepoint("sched_process_exit")) as link,
    ):
        (held,) = link._links
        about = info.link_info(held.fileno())
        assert about.program_id == program.info().id
        numbers = set()
        number = bpf.link_get_next_id(0)
        while number is not None:
            numbers.add(number)
            number = bpf.link_get_next_id(number)
        assert about.id in numbers
        with bpf.link_get_fd_by_id(about.id) as again:
            assert info.link_info(again.fileno()) == about
            with pytest.raises(OSError, match="Invalid argument"):
                bpf.link_update(again.fileno(), program.fileno())


def test_program_and_btf_ids_lead_to_their_objects():
    """Vmlinux's BTF is among all BTF objects; a program is opened by its id."""
    with Program(spec(ProgramType.SOCKET_FILTER, *RETURN), {}) as program:
        number = program.info().id
        assert bpf.prog_get_next_id(number - 1) == number
        with bpf.prog_get_fd_by_id(number) as again:
            assert info.program_info(again.fileno()).id == number
    needs("kernel:5.11")  # vmlinux's BTF has an id
    first = bpf.btf_get_next_id(0)
    assert first is not None
    bpf.btf_get_fd_by_id(first).close()


def test_an_iterator_is_read_to_its_end():
    """A task iterator that writes nothing ends at once."""
    target = Btf(read_btf()).find("bpf_iter_task", {Kind.FUNC})[0]
    described = spec(ProgramType.TRACING, *RETURN, expected_attach_type=AttachType.TRACE_ITER, attach_btf=target)
    with (
        Program(described, {}) as program,
        bpf.link_create(program.fileno(), 0, AttachType.TRACE_ITER) as link,
        bpf.iter_create(link.fileno()) as iterator,
    ):
        assert os.read(iterator.fileno(), 4096) == b""


WITH_TWO_CAPABILITIES = """
import ctypes, os, struct, sys
import pyebpf.verifier.log, pyebpf.verifier.messages, pyebpf.link.tracepoints
import pyebpf.kernel.memlock, pyebpf.kernel.tracefs
from pyebpf.asm import build
from pyebpf.attach.tracepoints import RawTracepoint, Tracepoint
from pyebpf.errors import PyebpfError
from pyebpf.link import attach
from pyebpf.objects import Map, Program
from pyebpf.specs import *
from pyebpf.types import U32, U64

libc = ctypes.CDLL(None, use_errno=True)
PR_SET_KEEPCAPS, VERSION_3 = 8, 0x20080522
wanted = 0
for bit in map(int, sys.argv[1:]):
    wanted |= 1 << bit
assert libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0
os.setgid(65534)
os.setuid(65534)
low, high = wanted & 0xFFFFFFFF, wanted >> 32
header = ctypes.create_string_buffer(struct.pack("=Ii", VERSION_3, 0))
data = ctypes.create_string_buffer(struct.pack("=6I", low, low, 0, high, high, 0))
assert libc.capset(header, data) == 0

code = Code((build.mov64(build.R0, 0), build.exit_()), (FunctionStart("probe", 0),))
def attempt(kind, target):
    try:
        with Program(ProgramSpec("probe", kind, code), {}) as program, attach(program, target):
            print("attached")
    except PyebpfError as error:
        print(type(error).__name__, error)
try:
    Map(MapSpec("counts", MapType.HASH, U32, U64, 8)).close()
    print("made")
except PyebpfError as error:
    print(type(error).__name__, error)
attempt(ProgramType.RAW_TRACEPOINT, RawTracepoint("sched_process_exit"))
attempt(ProgramType.TRACEPOINT, Tracepoint("sched", "sched_process_exit"))
"""


def lines_with(*capabilities: int, before: tuple[str, ...] = ()) -> list[str]:
    command = [*before, sys.executable, "-W", "error", "-c", WITH_TWO_CAPABILITIES, *map(str, capabilities)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def test_two_capabilities_are_enough_for_raw_tracepoints():
    """CAP_BPF and CAP_PERFMON without root: maps and raw tracepoints work, tracefs is what needs root."""
    made, raw, tracepoint = lines_with(38, 39)
    assert (made, raw) == ("made", "attached")
    assert tracepoint.startswith("NotPermitted tracefs needs root")


def test_a_mounted_tracefs_takes_one_capability_more():
    """CAP_DAC_READ_SEARCH reads its formats, as the error without it says."""
    _, _, without = lines_with(38, 39)
    assert without.endswith("or CAP_DAC_READ_SEARCH where it is mounted and CAP_SYS_ADMIN where it is not")
    # In a mount namespace of its own, so that there is a mounted one.
    mounted = 'mount -t tracefs none /sys/kernel/tracing && exec "$@"'
    _, _, tracepoint = lines_with(38, 39, 2, before=("unshare", "--mount", "sh", "-c", mounted, "sh"))
    # Perf events, which come next, may need more: kernel.perf_event_paranoid decides.
    assert tracepoint == "attached" or "tracefs" not in tracepoint


def test_without_capabilities_each_is_named():
    """One line each, with what is missing."""
    made, raw, _ = lines_with()
    missing = "needs root, or CAP_BPF and CAP_PERFMON; missing here: CAP_BPF, CAP_PERFMON (EPERM)"
    assert raw == f"NotPermitted loading program probe {missing}"
    assert made == "NotPermitted creating map counts needs root, or CAP_BPF; missing here: CAP_BPF (EPERM)"


def test_with_one_capability_the_other_is_named():
    """CAP_BPF alone."""
    _, raw, _ = lines_with(39)
    assert raw.startswith(
        "NotPermitted loading program probe needs root, or CAP_BPF and CAP_PERFMON; missing here: CAP_PERFMON"
    )


def test_a_btf_tracepoint_is_what_its_load_says():
    """The spec's name is for people; the BTF id decides."""
    target = Btf(read_btf()).find("btf_trace_sched_process_exit", {Kind.TYPEDEF})[0]
    described = spec(ProgramType.TRACING, *RETURN, expected_attach_type=AttachType.TRACE_RAW_TP, attach_btf=target)
    with Program(described, {}) as program, attach(program, BtfTracepoint("sched_process_exit")) as link:
        assert str(link.target) == "tp_btf sched_process_exit"
    assert str(Tracepoint("a", "b")) == "tracepoint a:b"
