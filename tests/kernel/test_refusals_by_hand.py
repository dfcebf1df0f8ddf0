"""Verifier refusals that take instructions which the compiler never makes, written by hand in real Python lines.

Each function of the table assembles a program, an instruction a call; the instruction made by the line that ends with
`# <- name` is the one that must be refused. The location in the error is that line of this file.
"""

from __future__ import annotations

import ctypes
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from pyebpf.asm import build
from pyebpf.asm.build import R0, R1, R2, R3, R4, R6, R7, R8, R10
from pyebpf.btf import Kind
from pyebpf.errors import NotPermitted
from pyebpf.runtime.host import kernel_btf
from pyebpf.runtime.loaded import Loaded
from pyebpf.specs import Code, FunctionStart, MapSpec, ModuleSpec, ProgramSpec
from pyebpf.types import U32, U64, array_of
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import MapType, ProgramType
from pyebpf.uapi.helpers import helper
from pyebpf.verifier.messages import VERIFIER_MESSAGES
from tests.support.needs import needs
from tests.support.refused import here, marked, refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyebpf.asm import Instruction
    from pyebpf.errors import VerifierError

MAPS = (
    MapSpec("counts", MapType.HASH, U32, U64, 16),
    MapSpec("table", MapType.ARRAY, U32, array_of(U64, 4), 1),
    MapSpec("ring", MapType.RINGBUF, None, None, 4096),
)
STRETCH, ROUNDS = 3_011, 367


class Assembler:
    """Constructors of `asm.build` as methods: each appends an instruction that comes from the caller's line."""

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self.subprograms = [FunctionStart("main", 0)]

    def __getattr__(self, name: str) -> Callable[..., None]:
        construct = getattr(build, name)

        def append(*operands: Any, **options: Any) -> None:
            self.instructions.append(construct(*operands, **options, where=here(2)))

        return append

    def call(self, name: str) -> None:
        self.instructions.append(build.call(helper(name).id, where=here(2)))

    def function(self, name: str) -> None:
        """What follows is another function."""
        self.subprograms.append(FunctionStart(name, len(self.instructions)))

    # What many programs need; these lines are never to blame.

    def number(self) -> None:
        """R0: any number."""
        self.call("get_prandom_u32")

    def found(self, name: str) -> None:
        """R0: the address of a value of the map, checked."""
        self.st(4, R10, -4, 0)
        self.load_map(R1, name)
        self.mov64(R2, R10)
        self.add64(R2, -4)
        self.call("map_lookup_elem")
        self.jump_if("jne", R0, 0, 1)
        self.exit_()

    def reserved(self) -> None:
        """R6: 16 bytes of the ring buffer."""
        self.load_map(R1, "ring")
        self.mov64(R2, 16)
        self.mov64(R3, 0)
        self.call("ringbuf_reserve")
        self.jump_if("jne", R0, 0, 1)
        self.exit_()
        self.mov64(R6, R0)

    def end(self) -> None:
        self.mov64(R0, 0)
        self.exit_()


def number_as_address(a: Assembler) -> None:
    a.number()
    a.ldx(8, R1, R0)  # <- scalar-deref
    a.end()


def after_submit(a: Assembler) -> None:
    a.reserved()
    a.mov64(R1, R6)
    a.mov64(R2, 0)
    a.call("ringbuf_submit")
    a.st(8, R6, 0, 1)  # <- use after submit
    a.end()


def submitted_twice(a: Assembler) -> None:
    a.reserved()
    a.mov64(R7, R6)
    a.mov64(R1, R6)
    a.mov64(R2, 0)
    a.call("ringbuf_submit")
    a.mov64(R1, R7)
    a.mov64(R2, 0)
    a.call("ringbuf_submit")  # <- submitted twice
    a.end()


def packet_end_as_address(a: Assembler) -> None:
    a.ldx(4, R3, R1, 4)
    a.ldx(1, R0, R3)  # <- wrong-deref
    a.exit_()


def packet_unchecked(a: Assembler) -> None:
    a.ldx(4, R2, R1, 0)
    a.ldx(1, R0, R2, 14)  # <- packet-bounds
    a.exit_()


def size_unknown(a: Assembler) -> None:
    a.number()
    a.mov64(R2, R0)
    a.load_map(R1, "ring")
    a.mov64(R3, 0)
    a.call("ringbuf_reserve")  # <- not-constant
    a.end()


def size_from(a: Assembler) -> None:
    """R2 bytes of kernel memory to the stack; R0 is the size."""
    a.mov64(R2, R0)
    a.st(8, R10, -8, 0)
    a.mov64(R1, R10)
    a.add64(R1, -8)
    a.mov64(R3, 0)


def size_negative(a: Assembler) -> None:
    a.number()
    size_from(a)
    a.call("probe_read_kernel")  # <- negative-index
    a.end()


def size_unbounded(a: Assembler) -> None:
    a.number()
    a.rsh64(R0, 1)
    size_from(a)
    a.call("probe_read_kernel")  # <- unbounded-index
    a.end()


def size_zero(a: Assembler) -> None:
    a.mov64(R1, R10)
    a.add64(R1, -16)
    a.mov64(R2, 0)
    a.call("get_current_comm")  # <- zero-size
    a.end()


def size_too_large(a: Assembler) -> None:
    a.mov64(R1, R10)
    a.add64(R1, -8)
    a.mov64(R2, 16)
    a.call("get_current_comm")  # <- size beyond the stack
    a.end()


def place_too_far(a: Assembler) -> None:
    a.found("table")
    a.add64(R0, (1 << 29) - 1)
    a.add64(R0, (1 << 29) - 1)  # <- arithmetic-out-of-bounds
    a.end()


def half_a_pointer(a: Assembler) -> None:
    a.stx(8, R10, -8, R1)
    a.ldx(4, R0, R10, -8)  # <- stack-spill
    a.end()


def context_moved(a: Assembler) -> None:
    a.mov64(R6, R1)
    a.number()
    a.and64(R0, 8)  # Linux 7.3 lets it be moved by a known number
    a.add64(R6, R0)
    a.ldx(8, R0, R6, 8)  # <- context-modified
    a.end()


def context_written(a: Assembler) -> None:
    a.mov64(R2, 1)
    a.stx(8, R1, 8, R2)  # <- write to the context
    a.end()


def context_atomic(a: Assembler) -> None:
    a.mov64(R2, 1)
    a.atomic("add", 4, R1, 0, R2)  # <- context-store
    a.end()


def context_misaligned(a: Assembler) -> None:
    a.ldx(4, R0, R1, 9)  # <- misaligned context
    a.end()


def map_moved(a: Assembler) -> None:
    a.load_map(R1, "counts")
    a.add64(R1, 8)  # <- arithmetic on a map
    a.end()


def pointer_subtracted(a: Assembler) -> None:
    a.mov64(R0, 5)
    a.sub64(R0, R10)  # <- pointer-subtract
    a.end()


def kinds_mixed(a: Assembler) -> None:
    a.st(8, R10, -8, 0)
    a.mov64(R6, R1)
    a.number()
    a.jump_if("jeq", R0, 0, 2)
    a.mov64(R6, R10)
    a.add64(R6, -16)
    a.ldx(8, R0, R6, 8)  # <- mixed-pointers
    a.end()


def into_a_wide_load(a: Assembler) -> None:
    a.number()
    a.jump_if("jeq", R0, 0, 1)
    a.lddw(R1, 1 << 40)  # <- into a wide load
    a.end()


def packet_load(a: Assembler) -> None:
    a.mov64(R6, R1)
    a.load_packet(4, 0)  # <- instruction-kind
    a.end()


def result_out_of_range(a: Assembler) -> None:
    a.mov64(R0, 7)
    a.exit_()  # <- return-range


def callback_out_of_range(a: Assembler) -> None:
    a.mov64(R1, 3)
    a.load_function(R2, "each")
    a.mov64(R3, 0)
    a.mov64(R4, 0)
    a.call("loop")
    a.end()
    a.function("each")
    a.mov64(R0, 7)
    a.exit_()  # <- callback's result


def recursion(a: Assembler) -> None:
    a.call_local("main")  # <- recursion
    a.exit_()


def lock_without_one(a: Assembler) -> None:
    a.found("table")
    a.mov64(R1, R0)
    a.call("spin_lock")  # <- lock-map
    a.end()


def kernel_function_not_for_it(a: Assembler) -> None:
    a.mov64(R1, 0)
    a.call_kfunc("tcp_slow_start")  # <- kfunc-kind
    a.end()


def million(a: Assembler) -> None:
    # Long stretches without a branch: comparing states would take the most time.
    a.mov64(R6, 0)
    for _ in range(STRETCH):
        a.add64(R6, 1)  # <- too-large
    a.jump_if("jne", R6, STRETCH * ROUNDS, -STRETCH - 1)
    a.end()


def branches(a: Assembler) -> None:
    a.number()
    for _ in range(9001):
        a.jump_if("jeq", R0, 0, 0)  # <- too-complex
        a.call("get_prandom_u32")
    a.end()


# Without CAP_PERFMON:


def stack_unwritten(a: Assembler) -> None:
    a.load_map(R1, "counts")
    a.st(1, R10, -4, 0)
    a.mov64(R2, R10)
    a.add64(R2, -4)
    a.call("map_lookup_elem")  # <- stack-uninitialised
    a.end()


def address_returned(a: Assembler) -> None:
    a.mov64(R0, R10)
    a.exit_()  # <- return-pointer


def address_stored(a: Assembler) -> None:
    a.mov64(R8, R1)
    a.found("counts")
    a.stx(8, R0, 0, R8)  # <- address in a map
    a.end()


@dataclass(frozen=True)
class Row:
    """One refusal: the row of VERIFIER_MESSAGES, the program, its tag (the row's name, if not given), what kind it is.

    Where kernels find the same fault in different ways, the row's names have `|` between.
    """

    name: str
    program: Callable[[Assembler], None]
    tag: str = ""
    kind: ProgramType = ProgramType.TRACEPOINT
    options: dict[str, Any] = field(default_factory=dict)
    words: str = ""
    needs: str = ""

    def __str__(self) -> str:
        return self.program.__name__


XDP, FILTER, TRACEPOINT = ProgramType.XDP, ProgramType.SOCKET_FILTER, ProgramType.TRACEPOINT
ROWS = (
    Row("scalar-deref", number_as_address, words="R0 is any number"),
    Row("scalar-deref", after_submit, "use after submit"),
    Row("release", submitted_twice, "submitted twice"),
    Row("wrong-deref", packet_end_as_address, kind=XDP, words="the end of the packet"),
    Row("packet-bounds", packet_unchecked, kind=XDP),
    Row("not-constant", size_unknown),
    Row("negative-index", size_negative),
    Row("unbounded-index", size_unbounded),
    Row("zero-size", size_zero),
    Row("stack-bounds", size_too_large, "size beyond the stack"),
    Row("arithmetic-out-of-bounds", place_too_far),
    Row("stack-spill", half_a_pointer),
    Row("context-modified", context_moved),
    Row("context-access", context_written, "write to the context"),
    Row("context-store", context_atomic, kind=XDP),
    Row("context-access", context_misaligned, "misaligned context"),
    Row("pointer-operator", map_moved, "arithmetic on a map"),
    Row("pointer-subtract", pointer_subtracted),
    Row("mixed-pointers", kinds_mixed),
    Row("jump-into-load", into_a_wide_load, "into a wide load"),
    Row("instruction-kind", packet_load),
    Row("return-range", result_out_of_range, kind=ProgramType.TRACING, options={"iterator": "bpf_iter_task"}),
    Row("return-range", callback_out_of_range, "callback's result", needs="helper:loop@tracepoint"),
    Row("call-depth|back-edge", recursion, "recursion"),  # Linux 6.1 sees it before the walk
    Row("lock-map", lock_without_one, kind=XDP),
    Row("kfunc-kind", kernel_function_not_for_it, needs="kernel:5.13"),
    Row("too-complex", branches),
)
UNPRIVILEGED = (
    Row("stack-uninitialised", stack_unwritten, kind=FILTER),
    Row("return-pointer", address_returned, kind=FILTER),
    Row("return-pointer", address_stored, "address in a map", kind=FILTER),
)


def spec_of(row: Row) -> ModuleSpec:
    a = Assembler()
    row.program(a)
    options = dict(row.options)
    iterator = options.pop("iterator", None)
    if iterator is not None:
        options["expected_attach_type"] = AttachType.TRACE_ITER
        options["attach_btf"] = kernel_btf().find(iterator, {Kind.FUNC})[0]
    code = Code(tuple(a.instructions), tuple(a.subprograms))
    return ModuleSpec(MAPS, (ProgramSpec("main", row.kind, code, **options),))


def check(row: Row, error: VerifierError | None) -> None:
    assert error is not None, "the verifier takes it"
    causes = {each.cause for each in VERIFIER_MESSAGES if each.name in row.name.split("|")}
    line = marked(__file__, row.tag or row.name)
    first, source, caret = str(error).splitlines()
    assert any(cause in first for cause in causes), f"{first}\n{error.log[-600:]}"
    assert row.words in first
    assert error.location is not None
    assert (error.location.file, error.location.line) == (__file__, line), first
    assert source.strip().startswith("a.")
    assert set(caret.strip()) == {"^"}


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_refusal_points_to_the_line_that_assembled_it(row: Row) -> None:
    """The kernel's words, the likely cause, the line that made the instruction."""
    needs(*row.needs.split())
    with Loaded() as loaded:
        check(row, refusal(loaded, spec_of(row)))


@contextmanager
def only_cap_bpf() -> Iterator[None]:
    """Give up, in this thread and for good, all effective capabilities but CAP_BPF."""
    libc = ctypes.CDLL(None, use_errno=True)
    version_3, cap_bpf = 0x20080522, 39
    header = (ctypes.c_uint32 * 2)(version_3, 0)
    data = (ctypes.c_uint32 * 6)(0, 0, 0, 1 << cap_bpf - 32, 1 << cap_bpf - 32, 0)
    if libc.capset(header, data) != 0:
        raise OSError(ctypes.get_errno(), "capset")
    yield


@pytest.mark.parametrize("row", UNPRIVILEGED, ids=str)
def test_a_refusal_for_want_of_cap_perfmon(row: Row) -> None:
    """What the verifier lets privileged programs do, and refuses to those with CAP_BPF alone."""
    outcome: list[VerifierError | BaseException | None] = []

    def run() -> None:
        # Capabilities belong to threads: this one ends without them.
        try:
            with only_cap_bpf(), Loaded() as loaded:
                outcome.append(refusal(loaded, spec_of(row)))
        except NotPermitted as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    (error,) = outcome
    assert not isinstance(error, NotPermitted), error
    check(row, error)


def test_a_million_steps_end_in_one_line() -> None:
    """The verifier gives up, its log has megabytes: one line all the same, for little more than the kernel's time."""
    row = Row("too-large", million)
    with Loaded() as loaded:
        error = refusal(loaded, spec_of(row))
    assert error is not None
    assert len(error.log) > 1 << 24
    assert len(str(error)) < 1000
    check(row, error)


def test_sixty_distinct_refusals() -> None:
    """Counted by rows of the table of refusals, each asserted above and in test_refusals.py."""
    from tests.kernel import test_refusals

    by_hand = {row.name for row in (*ROWS, *UNPRIVILEGED)}
    from_probes = {row.name for row in test_refusals.ROWS}
    assert len(from_probes) >= 35
    assert len(by_hand | from_probes) >= 60
    known = {row.name for row in VERIFIER_MESSAGES}
    assert all(set(name.split("|")) <= known for name in by_hand | from_probes)
