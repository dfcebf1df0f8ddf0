"""uprobe, uretprobe, uprobe.multi: every kind of file and name, counted exactly, detached for good, refused clearly."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from pyebpf import BPF, NotLoaded, Struct, field, ptr, s8, s16, s32, s64, u8, u32, u64, user_string
from pyebpf.attach.uprobes import Uprobe
from pyebpf.errors import CompileError, InvalidValue, MalformedData, NotFound, NotSupported
from pyebpf.features import Support, _remembered
from pyebpf.link.uprobes import attach_places, locate
from pyebpf.symbols.files import ElfFile
from pyebpf.types import char
from tests.support.needs import needs, perf_way
from tests.support.traced import INSTRUCTION, Traced, binary, kill_often

ENTRIES, RETURNS, OTHERS = 23, 17, 7
ARM64 = os.uname().machine == "aarch64"
#: What stands in a process's code where there is a probe: int3; brk with the number of uprobes.
BREAKPOINT = {"x86_64": b"\xcc", "aarch64": bytes.fromhex("a00020d4")}[os.uname().machine]
KILLS = int(os.environ.get("PYEBPF_KILLS", "5"))
ROUNDS = 5


def counting(decorate, **options):
    """A module that counts how often a probe runs: `counts[0]`."""
    bpf = BPF()
    counts = bpf.array(value=u64)

    @decorate(bpf, **options)
    def probe() -> None:
        counts[0] += 1

    return bpf, counts, probe


def at(path, *functions, returns=False, **options):
    """A module that counts at functions of a file."""
    return counting(lambda bpf: (bpf.uretprobe if returns else bpf.uprobe)(path, *functions, **options))[:2]


def code(pid, path, offset, size=1):
    """Bytes of a process's memory where it has mapped a file's `offset`."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        span, _, start, _, _, *name = line.split(maxsplit=5)
        low, high = (int(part, 16) for part in span.split("-"))
        if name == [path] and 0 <= offset - int(start, 16) < high - low:
            memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
            try:
                return os.pread(memory, size, low + offset - int(start, 16))
            finally:
                os.close(memory)
    raise AssertionError(f"{path} is not mapped")


class Call(Struct):
    """What was passed."""

    a: s64
    g: s64
    b: s32
    e: u32
    h: s32
    c: s16
    d: s8
    i: u8
    text: str = field(char[8])


class Result(Struct):
    """What was returned."""

    value: s32


def take(way, monkeypatch):
    """Have what follows attached by one way: that of newer kernels, or the one of every kernel with uprobes."""
    needs("attach:uprobe")
    if way == "uprobe.multi":
        needs("attach:uprobe_multi")
    else:
        monkeypatch.setitem(_remembered, "attach:uprobe_multi", Support.NO)


@pytest.fixture(params=["uprobe.multi", "uprobe"])
def way(request, monkeypatch):
    """Each way; tests without this take the kernel's best."""
    take(request.param, monkeypatch)
    return request.param


@pytest.mark.every_kernel
@pytest.mark.parametrize(
    ("way", "kind"),
    [("uprobe.multi", "pie"), ("uprobe.multi", "static"), ("uprobe.multi", "library"), ("uprobe", "pie")],
)
def test_arguments_and_results(way, kind, monkeypatch):
    """23 calls with nine arguments, on registers and on the stack, and 17 results; none before, none after."""
    take(way, monkeypatch)
    path = binary(kind)
    inside = "in " if kind == "library" else ""
    bpf = BPF()
    calls = bpf.ringbuf(Call)
    results = bpf.ringbuf(Result)

    @bpf.uprobe(path, "nine")
    def on_entry(a: s64, b: s32, c: s16, d: s8, e: u32, text: ptr[char], g: s64, h: s32, i: u8) -> None:
        calls.emit(Call(a=a, b=b, c=c, d=d, e=e, text=user_string(text), g=g, h=h, i=i))

    @bpf.uretprobe(path, "negative")
    def on_return(retval: s32) -> None:
        results.emit(Result(value=retval))

    with Traced(binary("static" if kind == "static" else "pie")) as traced:
        if inside:
            traced.tell(f"load {path}")
        traced.tell(f"{inside}nine 3")
        with bpf:
            assert [line.partition(", by ")[2] for line in bpf.attachments] == [
                "uprobe.multi link" if way == "uprobe.multi" else perf_way()
            ] * 2
            assert [choice.candidate for choice in bpf.choices] == [way] * 2
            traced.tell(f"{inside}nine {ENTRIES}")
            traced.tell(f"{inside}negative {RETURNS}")
            bpf.detach()
            traced.tell(f"{inside}nine 3")
            traced.tell(f"{inside}negative 3")
            found, returned = calls.poll(0), results.poll(0)
    expected = {"b": -2, "c": -3, "d": -4, "e": 0xFFFF_FFFB, "g": 1 << 40, "h": -8, "i": 200, "text": "six"}
    assert [{name: getattr(call, name) for name in ("a", *expected)} for call in found] == [
        {"a": -n, **expected} for n in range(1, ENTRIES + 1)
    ]
    assert [each.value for each in returned] == [-n for n in range(1, RETURNS + 1)]


def test_the_code_is_as_before_when_detached(way):
    """A breakpoint stands in the process while the probe is attached, and what it replaced once `with` is left."""
    path = binary("pie")
    (symbol,) = ElfFile(path).find("negative")
    with Traced(path) as traced:
        before = code(traced.pid, path, symbol.offset, INSTRUCTION)
        with at(path, "negative")[0]:
            assert code(traced.pid, path, symbol.offset, INSTRUCTION) == BREAKPOINT != before
        assert code(traced.pid, path, symbol.offset, INSTRUCTION) == before


def test_names_of_places():
    """Symbol and offset, offset in the file, pattern; one place named twice is one."""
    path = binary("pie")
    (stepping,) = ElfFile(path).find("stepping")
    cases = {
        (f"stepping+{INSTRUCTION}",): 1,
        ("stepping", f"stepping+{2 * INSTRUCTION}", f"stepping+{3 * INSTRUCTION:#x}"): 3,
        (stepping.offset + INSTRUCTION,): 1,
        (f"{stepping.offset:#x}", "stepping"): 1,
        ("step*",): 1,
    }
    with Traced(path) as traced:
        for names, places in cases.items():
            bpf, counts = at(path, *names)
            with bpf:
                traced.tell(f"stepping {ENTRIES}")
                assert counts[0] == ENTRIES * places, names
    with Traced(path) as traced:
        bpf, counts = at(path, "ma[n]y_00[1-3]", "many_19[89]")
        with bpf:
            traced.tell("many 3")
            assert counts[0] == 3 * (3 + 2)


def test_versions_of_a_symbol():
    """A bare name is every version, "name@VERSION" one; each is counted with the calls of its own."""
    library = binary("library")
    expected = {"versioned": ENTRIES + RETURNS, "versioned@V1": ENTRIES, "versioned@@V2": RETURNS}
    with Traced(binary("pie")) as traced:
        traced.tell(f"load {library}")
        for name, count in expected.items():
            bpf, counts = at(library, name)
            with bpf:
                traced.tell(f"version V1 {ENTRIES}")
                traced.tell(f"version V2 {RETURNS}")
                assert counts[0] == count, name


def test_one_process(way):
    """With pid= only that process is counted, without it every one, also one that starts later."""
    path = binary("pie")
    with Traced(path) as one, Traced(path) as other:
        limited, its = at(path, "negative", pid=one.pid)
        free, all_ = at(path, "negative")
        with limited, free:
            one.tell(f"negative {ENTRIES}")
            other.tell(f"negative {RETURNS}")
            with Traced(path) as late:
                late.tell(f"negative {OTHERS}")
            assert its[0] == ENTRIES
            assert all_[0] == ENTRIES + RETURNS + OTHERS


def test_a_library_of_a_process_by_name():
    """What a process has loaded is found by its name; without the process no such library is known."""
    library = binary("library")
    with Traced(binary("pie")) as traced:
        traced.tell(f"load {library}")
        for name in ("libtraced.so.1", "traced"):
            bpf, counts = at(name, "negative", pid=traced.pid)
            with bpf:
                traced.tell(f"in negative {ENTRIES}")
                traced.tell(f"negative {OTHERS}")  # the program's own function of that name
                assert counts[0] == ENTRIES
        with (
            pytest.raises(NotFound, match=r"there is no library or program libtraced\.so\.1"),
            at("libtraced.so.1", "f")[0],
        ):
            pass


def test_the_c_library_by_name():
    """libc.so.6 and c are what the linker's cache says, and what a process has mapped: one file."""
    script = "import os\nfor _ in range(23): os.getppid()"
    for options in ({}, {"pid": os.getpid()}):
        bpf, counts = at("libc.so.6" if options else "c", "getppid", **options)
        with bpf:
            if options:
                for _ in range(ENTRIES):
                    os.getppid()
                assert counts[0] == ENTRIES
            else:
                subprocess.run(["/usr/bin/python3", "-c", script], check=True, timeout=60)
                assert counts[0] >= ENTRIES


def test_files_of_another_mount_namespace(tmp_path):
    """A path is the traced process's own with pid=, also where this process sees nothing at that path."""
    place = tmp_path / "mounted"
    place.mkdir()
    script = f"mount -t tmpfs none {place} && cp {binary('pie')} {place}/program && exec {place}/program"
    with Traced("unshare", "--mount", "sh", "-c", script) as traced:
        assert not any(place.iterdir())
        for name in (f"{place}/program", "program"):
            bpf, counts = at(name, "negative", pid=traced.pid)
            with bpf:
                traced.tell(f"negative {ENTRIES}")
                assert counts[0] == ENTRIES
        with pytest.raises(NotFound, match=r"there is no file .*/program(?m:$)"), at(f"{place}/program", "negative")[0]:
            pass


def test_a_program_that_was_deleted(tmp_path):
    """The file of a process is found where it is mapped, though it has no name any more."""
    program = tmp_path / "deleted"
    shutil.copy(binary("pie"), program)
    with Traced(str(program)) as traced:
        program.unlink()
        bpf, counts = at("deleted", "negative", pid=traced.pid)
        with bpf:
            traced.tell(f"negative {ENTRIES}")
            assert counts[0] == ENTRIES


def test_a_place_named_later():
    """An open probe is loaded by `with bpf:`, attached, detached and attached elsewhere; between nothing is counted."""
    bpf, counts, probe = counting(lambda bpf: bpf.uprobe())
    library = binary("library")
    with Traced(binary("pie")) as traced:
        traced.tell(f"load {library}")
        with bpf:
            assert bpf.attachments == []
            with probe.attach(binary("pie"), "negative", pid=traced.pid) as link:
                assert link.target == f"uprobe {binary('pie')}:negative of process {traced.pid}"
                traced.tell(f"negative {ENTRIES}")
            traced.tell(f"negative {OTHERS}")
            assert counts[0] == ENTRIES
            second = probe.attach(library, "negative", "nine")
            traced.tell(f"in negative {RETURNS}")
            second.detach()
            traced.tell(f"in negative {OTHERS}")
            assert counts[0] == ENTRIES + RETURNS
            for place in ((), (library,), (library, "nine", 1.5)):
                with pytest.raises(InvalidValue):
                    probe.attach(*place)
    with pytest.raises(NotLoaded):
        probe.attach(library, "nine")


def test_which_of_many():
    """`ctx.cookie` is a place's number in the order of the names, registers are there by name."""
    bpf = BPF()
    counts = bpf.hash(key=u64, value=u64)
    addresses = bpf.hash(key=u64, value=u64)
    path = binary("static")
    names = ("negative", "nine", "stepping")

    @bpf.uprobe(path, *names)
    def probe(ctx) -> None:
        counts[ctx.cookie] += 1
        addresses[ctx.pc if ARM64 else ctx.ip] += 1

    with Traced(path) as traced, bpf:
        for number, name in enumerate(names, 3):
            traced.tell(f"{name} {number}")
        assert dict(counts) == {0: 3, 1: 4, 2: 5}
        elf = ElfFile(path)
        assert dict(addresses) == {elf.find(name)[0].value: number for number, name in enumerate(names, 3)}


def test_two_hundred_functions_at_once():
    """200 functions by one link: attached and detached in less than 0.2 s each at best, every call counted."""
    needs("attach:uprobe_multi")
    bpf, counts = at(binary("pie"), "many_*")
    attached, detached = [], []
    with Traced(binary("pie")) as traced:
        bpf.load()
        for number in range(1, ROUNDS + 1):
            started = time.perf_counter()
            bpf.attach()
            attached.append(time.perf_counter() - started)
            assert bpf.attachments == [f"probe: uprobe {binary('pie')}:200 functions, by uprobe.multi link"]
            traced.tell("many 3")
            assert counts[0] == 600 * number
            started = time.perf_counter()
            bpf.detach()
            detached.append(time.perf_counter() - started)
            traced.tell("many 3")
            assert counts[0] == 600 * number
        bpf.close()
    # Emulated machines are ten times as slow, and share their processor.
    limit = 2.0 if "PYEBPF_VM" in os.environ else 0.2
    assert (min(attached) < limit, min(detached) < limit) == (True, True)


def refusal(*names, **options):
    """The one line that a probe is refused with."""
    with pytest.raises((NotFound, InvalidValue, MalformedData, NotSupported)) as caught, at(*names, **options)[0]:
        pass
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return f"{type(caught.value).__name__}: {message}"


def test_what_is_not_there(tmp_path):
    """A missing function, file, library or process, a text file, a folder: one line each, which says what to do."""
    path, library = binary("pie"), binary("library")
    text = tmp_path / "text"
    text.write_text("#!/bin/sh\n")
    foreign = tmp_path / "foreign"
    foreign.write_bytes(Path(path).read_bytes()[:18] + b"\x16" + Path(path).read_bytes()[19:])  # EM_S390
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    cases = {
        (path, "negativ"): f"NotFound: {path} has no function negativ (did you mean negative?)",
        (path, "nix", "nix2"): f"NotFound: {path} has no function nix (and 1 more that are not there)",
        (path, "nix_*"): f"NotFound: no function of {path} matches nix_*",
        (library, "versioned@V3"): f"NotFound: {library} has no function versioned@V3: its versioned is "
        "versioned@@V2 and versioned@V1",
        (path, "datum"): f"NotFound: datum of {path} is no code: it is data",
        (path, "stepping+99"): f"InvalidValue: stepping+99: stepping of {{path}} is {4 * INSTRUCTION} bytes long",
        (path, "stepping+x"): "InvalidValue: stepping+x: 'x' is not a number of bytes",
        # arm64's linker puts the headers into the segment of the code.
        (path, 3): f"InvalidValue: 0x3 of {path}: no instruction begins there, each has 4 bytes"
        if ARM64
        else f"InvalidValue: offset 0x3 of {path} is not in its code",
        (path, "0xfffffffff"): f"InvalidValue: offset 0xfffffffff of {path} is not in its code",
        (library, "chosen"): f"NotFound: chosen of {library} is chosen among several when a program starts (IFUNC): "
        "they have no symbols in this file",
        ("/no/such/file", "f"): "NotFound: there is no file /no/such/file",
        ("qqqqqqqqqq", "f"): "NotFound: there is no library or program qqqqqqqqqq; a path such as "
        "./qqqqqqqqqq names any file",
        (str(text), "f"): f"MalformedData: {text} is not an ELF file",
        (str(foreign), "nine"): f"InvalidValue: {foreign} is for another machine than {os.uname().machine}: its "
        "arguments are in other places",
        (str(tmp_path), "f"): f"MalformedData: {tmp_path} is not a regular file",
    }
    for names, message in cases.items():
        assert refusal(*names) == message.format(path=path)
    assert refusal(path, "nine", pid=ended.pid) == f"NotFound: there is no process {ended.pid}"
    assert refusal(path, "many_*", max_probes=199) == (
        f"InvalidValue: many_* matches 200 functions of {path}, more than 199: narrow it, or allow more with "
        "max_probes=200 (--max-probes)"
    )
    assert refusal(path, "stepping+4", returns=True) == (
        "InvalidValue: stepping+4: the return is probed at a function's start; leave out +4"
    )
    offset = ElfFile(path).find("stepping")[0].offset
    assert "inside stepping" in refusal(path, offset + 1, returns=True)


def test_one_missing_of_several_is_a_note():
    """The others are attached and counted; `bpf.warnings` has a line on what is missing, closest names included."""
    path = binary("pie")
    bpf, counts = at(path, "negativ", "nine", "datum")
    with Traced(path) as traced, bpf:
        assert list(bpf.warnings) == [
            f"{path} has no function negativ (did you mean negative?)",
            f"datum of {path} is no code: it is data",
        ]
        traced.tell(f"nine {ENTRIES}")
        assert counts[0] == ENTRIES


def test_a_stripped_program(tmp_path):
    """Names come from a debug file beside it, by .gnu_debuglink; without one a line says what can be probed."""
    program = tmp_path / "stripped"
    shutil.copy(binary("static"), program)
    subprocess.run(["objcopy", "--only-keep-debug", program, f"{program}.debug"], check=True, timeout=60)
    subprocess.run(["strip", program], check=True, timeout=60)
    offset = ElfFile(binary("static")).find("negative")[0].offset
    assert refusal(str(program), "negative") == (
        f"NotFound: {program} has no symbols: it was stripped; an offset in the file such as 0x1234 can be probed"
    )
    subprocess.run(["objcopy", f"--add-gnu-debuglink={program}.debug", program], check=True, timeout=60)
    for name in ("negative", offset):
        bpf, counts = at(program, name)
        with Traced(str(program)) as traced, bpf:
            traced.tell(f"negative {ENTRIES}")
            assert counts[0] == ENTRIES


def test_a_process_that_ends_while_it_is_attached_to(way):
    """One line that says so, whether it ends before the kernel is asked or the file goes with it."""
    spec = Uprobe(binary("pie"), ("negative",))
    bpf, _, _ = counting(lambda bpf: bpf.uprobe())
    with Traced(binary("pie")) as traced, bpf:
        target = Uprobe(spec.binary, spec.functions, pid=traced.pid)
        located = locate(target)
        traced.process.kill()
        traced.process.wait(60)
        (program,) = bpf.programs.values()
        if way == "uprobe.multi":
            from pyebpf.link.uprobes import link_places as attach
        else:
            attach = attach_places
        with pytest.raises(NotFound, match=rf"^uprobe of it: process {traced.pid} has ended(?m:$)"):
            attach(program, target, "uprobe of it", located, [0])
        gone = located._replace(path=f"/proc/{traced.pid}/root{binary('pie')}")
        with pytest.raises(NotFound, match=f"process {traced.pid} has ended"):
            attach(program, target, "uprobe of it", gone, [0])


def test_what_a_decorator_refuses():
    """What cannot be meant is refused before anything is compiled; parameters without a type when it is."""
    bpf = BPF()
    for wrong in (
        lambda: bpf.uprobe("", "f"),
        lambda: bpf.uprobe("c", ""),
        lambda: bpf.uprobe("c", 1.5),
        lambda: bpf.uprobe("c", "f", pid=0),
        lambda: bpf.uprobe("c", "f", pid="1"),
    ):
        with pytest.raises(InvalidValue):
            wrong()

    def compiled(decorate, probe):
        bpf = BPF()
        decorate(bpf)(probe)
        with pytest.raises(CompileError) as caught:
            bpf.specs()
        return str(caught.value).splitlines()[0]

    def bare(first) -> None:
        pass

    def of_result(retval: s32) -> None:
        pass

    def of_argument(first: s32) -> None:
        pass

    def of_bool(first: bool) -> None:
        results[0] += first

    made = BPF()
    results = made.array(value=u64)
    made.uprobe("c", "f")(of_bool)
    assert made.specs()
    assert "annotate it, first: u32 or first: ptr[char]" in compiled(lambda b: b.uprobe("c", "f"), bare)
    assert "write a probe with @bpf.uretprobe" in compiled(lambda b: b.uprobe("c", "f"), of_result)
    assert "at a return there is only `retval`" in compiled(lambda b: b.uretprobe("c", "f"), of_argument)


def test_nothing_is_left_by_a_process_that_is_killed():
    """SIGKILL at some moment, by either way: the code is soon as it was before, and the program goes on."""
    path = binary("pie")
    offset = ElfFile(path).find("negative")[0].offset
    bpf, counts = at(path, "negative", "nine")
    with Traced(path) as traced:
        before = code(traced.pid, path, offset)
        kill_often(bpf, lambda: code(traced.pid, path, offset) != before, KILLS)
        with bpf:
            traced.tell(f"negative {ENTRIES}")
            assert counts[0] == ENTRIES
