"""USDT probes: arguments of every form, semaphores, several places; programs, a loaded library, Debian's python3."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from pyebpf import BPF, Struct, field, ptr, s16, s32, s64, u64, user_string
from pyebpf.elf.usdt_notes import usdt_probes
from pyebpf.errors import CompileError, InvalidValue, NotFound
from pyebpf.symbols.files import ElfFile
from pyebpf.types import char
from tests.kernel.test_uprobe import KILLS, code, take
from tests.support.needs import needs, unless
from tests.support.traced import Traced, binary, kill_often

PYTHON = "/usr/bin/python3"
HITS, OTHERS = 23, 7
#: What `forms` in traced.c has in its twelve arguments.
FORMS = [3, -7, -5, 19, 0xDEAD_BEEF, 0x88, 0x7788, -100, 0x5566_7788, 17, 17, 0xDEAD]


ARM64 = os.uname().machine == "aarch64"
#: The arguments of `twice` at its first place, as noted.
TWICE = "-8@x0 -2@x1" if ARM64 else "-8@%rdi -2@%ax"


@pytest.fixture(autouse=True)
def _uprobes():
    """USDT probes are uprobes."""
    needs("attach:uprobe")


@pytest.fixture(params=["uprobe.multi", "uprobe"])
def way(request, monkeypatch):
    """Each way to attach; tests without this take the kernel's best."""
    take(request.param, monkeypatch)
    return request.param


class Arguments(Struct):
    """All of `forms`."""

    a0: s64
    a1: s64
    a2: s64
    a3: s64
    a4: s64
    a5: s64
    a6: s64
    a7: s64
    a8: s64
    a9: s64
    a10: s64
    a11: s64


class Pair(Struct):
    """Both of `twice`."""

    first: s64
    second: s64


@pytest.mark.parametrize(
    ("way", "kind"),
    [("uprobe.multi", "pie"), ("uprobe.multi", "static"), ("uprobe.multi", "library"), ("uprobe", "pie")],
)
def test_every_form_of_argument(way, kind, monkeypatch):
    """Registers, their parts, memory, scaled indices, constants and symbols, at one place, 23 times.

    In a position-independent program, a static one, and a library that is loaded later and found by its path.
    """
    take(way, monkeypatch)
    path = binary(kind)
    bpf = BPF()
    found = bpf.ringbuf(Arguments)
    pairs = bpf.ringbuf(Pair)

    @bpf.usdt(path, "traced:forms")
    def forms(a: s64, b: s64, c: s64, d: s64, e: s64, f: s64, g: s64, h: s64, i: s64, j: s64, k: s64, m: s64) -> None:
        found.emit(Arguments(a0=a, a1=b, a2=c, a3=d, a4=e, a5=f, a6=g, a7=h, a8=i, a9=j, a10=k, a11=m))

    @bpf.usdt(path, "traced:twice", args=("first", "second"))
    def twice(second: s64, first: s64) -> None:
        pairs.emit(Pair(first=first, second=second))

    inside = "in " if kind == "library" else ""
    with bpf, Traced(binary("static" if kind == "static" else "pie")) as traced:
        assert [choice.candidate for choice in bpf.choices] == [way] * 2
        if inside:
            traced.tell(f"load {path}")
        traced.tell(f"{inside}forms {HITS}")
        traced.tell(f"{inside}twice {HITS}")
        bpf.detach()
        traced.tell(f"{inside}forms {OTHERS}")
        traced.tell(f"{inside}twice {OTHERS}")
        every, both = found.poll(0), pairs.poll(0)
    assert [[getattr(each, f"a{n}") for n in range(12)] for each in every] == [FORMS] * HITS
    # Two places of one probe, each with its arguments elsewhere: a register and its part; a constant and the stack.
    expected = [pair for n in range(1, HITS + 1) for pair in ((n, -n), (4242, 1000 * n))]
    assert [(pair.first, pair.second) for pair in both] == expected


def test_types_are_the_authors():
    """An argument is taken in the type that the parameter has, also narrower than the note says; addresses are read."""
    bpf = BPF()
    sums = bpf.hash(key=u64, value=u64)

    @bpf.usdt(binary("pie"), "traced:forms")
    def forms(ctx, a: u64, b: s16, c: s32, d: u64, e: s32) -> None:
        sums[0] += a
        sums[1] += u64(s64(b))
        sums[2] += u64(s64(e))
        sums[3] += ctx.x0 if ARM64 else ctx.di

    with bpf, Traced(binary("pie")) as traced:
        traced.tell("forms 1")
        assert dict(sums) == {0: 3, 1: (1 << 64) - 7, 2: (1 << 64) + struct.unpack("=i", b"\xef\xbe\xad\xde")[0], 3: 3}


def semaphore(pid, path):
    """The value that the program tests before it comes to the probe."""
    (probe,) = [probe for probe in usdt_probes(ElfFile(path)) if probe.name == "guarded"]
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        span, mode, start, _, _, *name = line.split(maxsplit=5)
        low, high = (int(part, 16) for part in span.split("-"))
        offset = probe.semaphore - int(start, 16)
        if name == [path] and "w" in mode and 0 <= offset < high - low:
            memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
            try:
                return int.from_bytes(os.pread(memory, 2, low + offset), sys.byteorder)
            finally:
                os.close(memory)
    raise AssertionError("the semaphore is not mapped")


def test_a_semaphore(way):
    """It is raised while the probe is attached, so that the program comes by the place; then it is as before."""
    path = binary("pie")
    bpf = BPF()
    counts = bpf.array(value=u64, size=2)

    @bpf.usdt(path, "traced:guarded")
    def guarded(n: s32) -> None:
        counts[0] += 1
        counts[1] += n

    with Traced(path) as traced:
        assert semaphore(traced.pid, path) == 0
        with bpf:
            assert semaphore(traced.pid, path) == 1
            traced.tell(f"guarded {HITS}")
            with Traced(path) as late:
                assert semaphore(late.pid, path) == 1
                late.tell(f"guarded {OTHERS}")
            assert [counts[0], counts[1]] == [HITS + OTHERS, HITS * (HITS + 1) // 2 + OTHERS * (OTHERS + 1) // 2]
        assert semaphore(traced.pid, path) == 0


def test_one_process_and_a_place_named_later():
    """With pid= only that process is counted, its libraries are found by name; an open probe goes elsewhere later."""
    bpf = BPF()
    counts = bpf.hash(key=s64, value=u64)

    @bpf.usdt()
    def probe(first: s64) -> None:
        counts[first] += 1

    with Traced(binary("pie")) as one, Traced(binary("pie")) as other, bpf:
        for traced in (one, other):
            traced.tell(f"load {binary('library')}")
        assert bpf.attachments == []
        with probe.attach("traced", "traced:forms", pid=one.pid) as link:
            assert link.target == f"usdt traced:traced:forms of process {one.pid}"
            one.tell(f"in forms {HITS}")
            other.tell(f"in forms {OTHERS}")
            assert dict(counts) == {3: HITS}
        one.tell(f"in forms {OTHERS}")
        with probe.attach(binary("pie"), "traced:twice"):
            other.tell("twice 2")
        assert dict(counts) == {3: HITS, 1: 1, 2: 1, 4242: 2}
        for place in ((), (binary("pie"),), (binary("pie"), "twice"), (binary("pie"), "a:b", "c:d")):
            with pytest.raises(InvalidValue):
                probe.attach(*place)


class Audited(Struct):
    """An event that a Python program tells of."""

    event: str = field(char[32])


def test_probes_of_debians_python():
    """/usr/bin/python3 by its notes: 23 collections with their generation, on the stack; 17 events with their name."""
    needs(f"setting:{PYTHON}")
    names = {f"{probe.provider}:{probe.name}" for probe in usdt_probes(ElfFile(PYTHON))}
    unless({"python:gc__start", "python:audit"} <= names, "setting:USDT-probes-of-python3")
    bpf = BPF()
    collections = bpf.hash(key=s32, value=u64)
    events = bpf.ringbuf(Audited)

    @bpf.usdt(PYTHON, "python:gc__start", args=("generation",))
    def start(generation: s32) -> None:
        collections[generation] += 1

    @bpf.usdt(PYTHON, "python:audit")
    def audit(event: ptr[char], _: u64) -> None:
        name = user_string(event, size=32)
        if name.startswith("traced."):
            events.emit(Audited(event=name))

    script = (
        "import gc, sys\n"
        "gc.disable()\n"
        "for _ in range(23): gc.collect(1)\n"
        "for number in range(17): sys.audit(f'traced.{number}')\n"
    )
    with bpf:
        subprocess.run([PYTHON, "-I", "-S", "-c", script], check=True, timeout=60)
        assert collections[1] == HITS
        assert [each.event for each in events.poll(0)] == [f"traced.{number}" for number in range(17)]


def refusal(binary_, probe, function=None, **options):
    """The one line that a probe is refused with."""
    bpf = BPF()

    def nothing() -> None:
        pass

    bpf.usdt(binary_, probe, **options)(function or nothing)
    with pytest.raises((NotFound, InvalidValue, CompileError)) as caught, bpf:
        pass
    return str(caught.value).splitlines()[0]


def test_what_is_not_there():
    """A missing probe or file, a file without probes, more arguments than there are: one line each."""
    path = binary("pie")

    def three(a: s64, b: s64, c: s64) -> None:
        pass

    assert refusal(path, "traced:twic").startswith(f"{path} has no USDT probe traced:twic (did you mean traced:twice")
    assert refusal("/usr/bin/true", "a:b") == (
        "/usr/bin/true has no USDT probes: it was built without them (no .note.stapsdt); a function takes a uprobe"
    )
    # A name was looked for in directories: which file was found is told.
    assert refusal("true", "a:b") == (
        f"true ({shutil.which('true')}) has no USDT probes: it was built without them (no .note.stapsdt); "
        "a function takes a uprobe"
    )
    assert refusal("/no/such/file", "a:b") == "there is no file /no/such/file"
    assert refusal(path, "traced:twice", three) == (
        f"usdt {path}:traced:twice: the probe has 2 arguments, not 3: {TWICE}"
    )
    assert "the probe has no argument c: args= names a, b" in refusal(path, "traced:twice", three, args=("a", "b"))
    for wrong in (
        lambda: BPF().usdt(path),
        lambda: BPF().usdt("", "a:b"),
        lambda: BPF().usdt(path, "a"),
        lambda: BPF().usdt(path, "a:b", args="ab"),
        lambda: BPF().usdt(path, "a:b", args=("a", "a")),
        lambda: BPF().usdt(path, "a:b", pid=-7),
    ):
        with pytest.raises(InvalidValue):
            wrong()


def test_nothing_is_left_by_a_process_that_is_killed():
    """SIGKILL at some moment, by either way: the semaphore is soon 0 again, and the code as it was."""
    path = binary("pie")
    (probe,) = [probe for probe in usdt_probes(ElfFile(path)) if probe.name == "guarded"]
    bpf = BPF()

    @bpf.usdt(path, "traced:guarded")
    def guarded(n: s32) -> None:
        pass

    with Traced(path) as traced:
        before = code(traced.pid, path, probe.offset)
        kill_often(bpf, lambda: semaphore(traced.pid, path) or code(traced.pid, path, probe.offset) != before, KILLS)
        traced.tell("guarded 3")
