"""A second front end: bodies written by hand are linked, run by the interpreter, and mixed with Python's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyebpf.attach.tracepoints import Tracepoint
from pyebpf.builder.intrinsics.callbacks import loop
from pyebpf.builder.values.comparisons import compare
from pyebpf.dsl.module import Module
from pyebpf.errors import CompileError, InvalidValue, OnlyInProbe
from pyebpf.maps.keyed import HashMap
from pyebpf.module.module import BaseModule
from pyebpf.module.probe import Attachment, Candidate, Probe, Request, request_decorator
from pyebpf.types import U32, U64, Struct, u64
from pyebpf.uapi.bpf import MapType, ProgramType
from pyebpf.vm import Machine
from tests.dsl.fake_target import FakeTarget
from tests.support.by_hand import HERE, HandBody, HandSubprogram, leave

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.specs import ModuleSpec

OPENAT = Tracepoint("syscalls", "sys_enter_openat")
ROOT = Path(__file__).resolve().parents[2]


class Call(Struct):
    """What a program that Python runs is given."""

    count: u64
    answer: u64


def counting(opens: Any) -> HandBody:
    """`opens[dfd] += 1`, of descriptors below 100."""

    def build(p: ProgramBuilder) -> None:
        dfd = p.parameter("dfd")
        with p.b.if_(compare(p, "<", dfd, 100)):
            opens.augment_item(p, dfd, "+", 1)
        leave(p)

    return HandBody("count_opens", build, ("dfd",), {"opens": opens})


def table(name: str = "") -> HashMap[int, int]:
    return HashMap(name, MapType.HASH, U32, U64, 10)


def ask_openat(module: BaseModule, body: HandBody) -> Probe[Any, Any]:
    """What a decorator does: a request for the tracepoint, at the body."""
    candidate = Candidate("tracepoint", (Attachment(ProgramType.TRACEPOINT, OPENAT),))
    return request_decorator(module, Request("tracepoint", ("syscalls:sys_enter_openat",), (candidate,)))(body)


def context(dfd: int) -> bytes:
    """The record of the tracepoint."""
    return bytes(16) + dfd.to_bytes(8, "little") + bytes(32)


def counts(spec: ModuleSpec, dfds: list[int]) -> Mapping[int, int]:
    """The first map after one event for each descriptor, in the interpreter."""
    machine = Machine(spec.maps)
    (program,) = [machine.load(each) for each in spec.programs]
    for dfd in dfds:
        machine.run(program, context(dfd))
    found = machine.maps[spec.maps[0].name]
    return {
        key: int.from_bytes(found.entries()[key.to_bytes(4, "little")][:8], "little") for key in set(dfds) if key < 100
    }


def test_a_body_written_by_hand_is_linked_and_runs() -> None:
    """Its name is the program's, its name for a map is the map's, its location every instruction's."""
    module = BaseModule()
    opens = module.declare(table())
    probe: Any = ask_openat(module, counting(opens))
    assert module.probes == [probe]
    assert probe.__name__ == "count_opens"
    with pytest.raises(OnlyInProbe, match="count_opens is a probe"):
        probe()
    spec = module.compile(FakeTarget())
    assert [each.name for each in spec.maps] == ["opens", ".drops"]
    (program,) = spec.programs
    assert (program.name, program.type, program.attach) == ("count_opens", ProgramType.TRACEPOINT, OPENAT)
    assert {each.where for each in program.code.instructions} == {HERE}
    assert [(each.probe, each.request) for each in spec.choices] == [
        ("count_opens", "@tracepoint('syscalls:sys_enter_openat')")
    ]
    assert counts(spec, [3, 5, 3, 7, 3, 100]) == {3: 3, 5: 1, 7: 1}


def test_linking_it_needs_no_python_syntax() -> None:
    """Neither `ast` nor the front end for Python is imported, by the package."""
    program = """
import sys
from pyebpf.maps.keyed import KeyedMap
from pyebpf.module.module import BaseModule
from pyebpf.module.probe import Attachment, Request, Candidate, request_decorator
from pyebpf.attach.tracepoints import Tracepoint
from pyebpf.types import U32, U64
from pyebpf.uapi.bpf import MapType, ProgramType
print("ast" in sys.modules)
sys.path.insert(0, ".")
from tests.dsl.fake_target import FakeTarget
from tests.support.by_hand import HandBody, leave

opens = KeyedMap("opens", MapType.HASH, U32, U64, 10)
def build(p):
    opens.augment_item(p, p.parameter("dfd"), "+", 1)
    leave(p)
module = BaseModule()
candidate = Candidate("tracepoint", (Attachment(ProgramType.TRACEPOINT, Tracepoint("syscalls", "sys_enter_openat")),))
request_decorator(module, Request("tracepoint", (), (candidate,)))(HandBody("count_opens", build, ("dfd",)))
assert module.compile(FakeTarget()).programs
print([name for name in sys.modules if name.startswith("pyebpf.dsl")])
"""
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("False\n[]\n", "")


def test_it_is_built_until_nothing_new_is_learnt() -> None:
    """An analysis lasts from build to build of one program; what its last build made is taken."""

    class Largest:
        """The largest number that the body has met: it changes twice."""

        changed = False
        number = 0

    built: list[int] = []

    def build(p: ProgramBuilder) -> None:
        largest = p.analysis(Largest)
        assert not largest.changed
        built.append(largest.number)
        if largest.number < 2:
            largest.number += 1
            largest.changed = True
        if len(built) == 2:
            p.fail("an error of a build that is not the last means nothing")
        opens.set_item(p, 1, largest.number)
        leave(p)

    module = BaseModule()
    opens = module.declare(table("opens"))
    ask_openat(module, HandBody("learning", build))
    assert counts(module.compile(FakeTarget()), [1]) == {1: 2}
    assert built == [0, 1, 2]
    module.compile(FakeTarget())
    assert built == [0, 1, 2] * 2


def test_decorators_take_a_body_as_they_take_a_function() -> None:
    """With and without parentheses, on their own kinds of probe, on each other."""

    def build(p: ProgramBuilder) -> None:
        leave(p, None if p.program_context.default_return(p.program_type) is not None else 2)

    bpf: Any = Module()
    body = HandBody("nothing", build)
    stacked = bpf.raw_tracepoint("sched_switch")(bpf.tracepoint("syscalls:sys_enter_openat")(body))
    assert [str(each) for each in stacked.requests] == [
        "@tracepoint('syscalls:sys_enter_openat')",
        "@raw_tracepoint('sched_switch')",
    ]
    assert bpf.xdp(HandBody("passes", build)).body.name == "passes"
    called = bpf.syscall()(HandBody("called", build))
    assert type(called).__name__ == "SyscallProbe"
    third = bpf.usdt("/bin/true", "a:b", args=("one", "two"))(HandBody("third", build, ("two",)))
    (first,) = third.requests[0].candidates[0].attachments
    assert first.attach.wanted == 2
    with pytest.raises(InvalidValue, match=r"@bpf.kprobe decorates a function, not 5"):
        bpf.kprobe("tcp_close")(5)
    with pytest.raises(InvalidValue, match=r"@bpf.entry takes a body \(pyebpf.module.body.Body\), not 5"):
        request_decorator(BaseModule(), Request("entry", (), ()))(5)


def test_errors_are_at_the_bodys_place() -> None:
    """A refused operation names the location that the front end gave."""
    module = BaseModule()
    opens = module.declare(table("opens"))
    ask_openat(module, HandBody("wrong", lambda p: opens.item(p, 1)))
    with pytest.raises(CompileError, match="may be missing") as caught:
        module.compile(FakeTarget())
    assert caught.value.location == HERE


def test_parameters_are_of_one_type_at_all_places() -> None:
    """As in a Python probe."""
    bpf: Any = Module()

    def build(p: ProgramBuilder) -> None:
        p.parameter("size" if p.attach is not None and "sendmsg" in str(p.attach) else "timeout", declared="number")
        leave(p)

    bpf.fentry("tcp_sendmsg", "tcp_close")(HandBody("either", build, ("size", "timeout")))
    with pytest.raises(CompileError, match="number is a u64 with fentry tcp_sendmsg and an s32 with fentry tcp_close"):
        bpf.compile(FakeTarget())


def called(bpf: Any, build: Callable[[ProgramBuilder], None]) -> Callable[..., int]:
    """Run a program that Python calls, with numbers; what it returned."""
    bpf.syscall(Call)(HandBody("called", build))
    spec = bpf.compile(FakeTarget())
    machine = Machine(spec.maps)
    program = machine.load(spec.programs[-1])
    return lambda *words: machine.run(program, b"".join(word.to_bytes(8, "little") for word in words)).value


def doubling(p: ProgramBuilder, number: Any) -> None:
    """Return twice the number."""
    leave(p, p.binary("*", number, 2))


def test_a_subprogram_by_hand_is_called_from_both_front_ends() -> None:
    """Built once, called like a Python one."""
    double: Any = HandSubprogram("double", {"number": U64}, U64, doubling)
    bpf: Any = Module()

    def build(p: ProgramBuilder) -> None:
        leave(p, double.call(p, [double.call(p, [p.program_context.attribute(p, "count")], {})], {}))

    assert called(bpf, build)(5, 0) == 20

    @bpf.syscall(Call)
    def in_python(ctx: Call) -> int:
        ctx.answer = double(ctx.count)
        return 0

    (_, python) = bpf.compile(FakeTarget()).programs
    machine = Machine(())
    data = (21).to_bytes(8, "little") + bytes(8)
    assert machine.run(machine.load(python), data).context[8:] == (42).to_bytes(8, "little")


def test_a_subprogram_in_python_is_called_from_a_body_by_hand() -> None:
    """With its binding times: the program is built until those are known, too."""
    bpf: Any = Module()

    @bpf.subprogram
    def up_to(count: u64) -> u64:
        total = 0
        number = 0
        for each in range(8):
            if each < count:
                number = each
                total += number
        return total

    def build(p: ProgramBuilder) -> None:
        leave(p, up_to.call(p, [p.program_context.attribute(p, "count")], {}))

    assert called(bpf, build)(5, 0) == 0 + 1 + 2 + 3 + 4


def test_what_only_python_has_is_refused_by_hand() -> None:
    """A Python function that a helper is to call, where no Python is being built."""

    def build(p: ProgramBuilder) -> None:
        word: Any = loop
        word.call(p, [3, lambda _: None], {})
        leave(p, 0)

    with pytest.raises(CompileError, match="is a Python function, and this program does not come from Python source"):
        called(Module(), build)
