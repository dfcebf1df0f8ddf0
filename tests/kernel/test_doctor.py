"""`pyebpf doctor`: what the machine offers, whether a tool runs, what dead processes left."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from pyebpf import BPF
from pyebpf.cli import catalogue, doctor
from pyebpf.dataclass import replace
from pyebpf.features import Features, Support, diagnostics
from pyebpf.kernel.owners import hold, owned_name, owner_of
from pyebpf.kernel.tracefs import Tracefs
from pyebpf.programs import funccount, opensnoop
from pyebpf.runtime.host import kernel_btf
from pyebpf.tool import EventTool, Example
from pyebpf.uapi.helpers import HELPER_IDS
from tests.support.command import pyebpf
from tests.support.needs import lacks, needs, perf_way
from tests.support.traffic import inside
from tests.support.waiting import PATIENCE, wait_until

ROOT = Path(__file__).resolve().parents[2]
PREFIXES = {"instructions": "isa", "attachments": "attach", "programs": "program", "maps": "map"}


def records(*arguments, **options):
    done = pyebpf("doctor", "--json", *arguments, **options)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_every_finding_is_a_line_of_at_most_80_columns():
    """Below the name of its section; what does not fit goes on in the next line."""
    done = pyebpf("doctor")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == list(diagnostics.SECTIONS)
    assert max(map(len, lines)) <= 80
    assert f"  {'release':<26} {os.uname().release}" in lines


def test_all_tools(monkeypatch, capsys):
    """A line for each: it runs, also if it needs a process, or what it needs, without each probe's candidates."""
    lacks("module:nvme")
    monkeypatch.setattr(catalogue, "names", lambda: ["memleak", "nvmelatency", "opensnoop"])
    assert doctor.run_doctor(["--tools"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "tools",
        "  memleak                    yes",
        "  nvmelatency                no (the NVMe driver is not loaded: modprobe nvme,",
        "                             or this kernel has none)",
        "  opensnoop                  yes",
    ]
    monkeypatch.setattr(catalogue, "names", lambda: ["nvmelatency"])
    assert doctor.run_doctor(["--tools", "--json"]) == 1
    (found,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (found["section"], found["name"], found["value"]) == ("tools", "nvmelatency", "no")


def test_the_answers_are_those_of_the_features():
    """As JSON, with the names by which they are asked for."""
    status, found, _ = records()
    assert status == 0
    features = Features(kernel_btf)
    asked = [each for each in found if each["section"] in PREFIXES]
    assert len(asked) > 140
    for each in asked:
        assert features.ask(f"{PREFIXES[each['section']]}:{each['name']}").value == each["value"]
    assert found[-1] == {"section": "summary", "name": "programs can be loaded", "value": "yes", "note": ""}


def test_all_has_every_helper_of_every_kind_of_program():
    """Of those kinds that the kernel has; get_func_ip is for kprobes, not for tracepoints."""
    needs("helper:get_func_ip@kprobe")
    _, found, _ = records("--all", timeout=4 * PATIENCE)  # some 6,000 questions
    kinds = [each["name"] for each in found if each["section"] == "programs" and each["value"] == "yes"]
    helpers = {each["name"]: each["value"] for each in found if each["section"] == "helpers"}
    assert len(helpers) == len(kinds) * len(HELPER_IDS)
    assert helpers["get_func_ip@kprobe"] == "yes"
    assert helpers["get_func_ip@tracepoint"] == "no"
    assert "could not tell" not in [value for name, value in helpers.items() if name.endswith("@tracepoint")]


def test_who_may_nothing_is_told_so():
    """Without capabilities: what needs one could not be told, the reason is one line, the status 1."""
    command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable, "-m", "pyebpf", "doctor", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("pyebpf doctor: loading a program needs root, or CAP_BPF and CAP_PERFMON;")
    found = {(each["section"], each["name"]): each["value"] for each in map(json.loads, done.stdout.splitlines())}
    assert found["privileges", "CAP_BPF"] == "no"
    assert found["attachments", "tp_btf"] == found["maps", "arena"] == "could not tell"
    assert found["summary", "programs can be loaded"] == "no"


def test_who_may_not_see_owners_is_told_so():
    """--clean has looked at nothing then, which is not the same as nothing to remove."""
    command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable, "-m", "pyebpf", "doctor", "--clean"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("pyebpf doctor: whether the owner of an attachment has died can only be determined")


def test_a_host_without_sysfs():
    """What one section cannot tell has its reason there, and the others are asked all the same."""
    command = ["unshare", "--mount", "sh", "-c", f"umount -l /sys; exec {sys.executable} -m pyebpf doctor --json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    reason = "/sys is not mounted, so there is no /sys/devices/system/cpu/online: mount -t sysfs sysfs /sys"
    assert {"section": "kernel", "name": "the rest", "value": "could not tell", "note": reason} in found
    assert {each["section"] for each in found} >= diagnostics.SECTIONS.keys()
    assert (done.returncode, done.stderr) == (1, f"pyebpf doctor: {reason}\n")


def test_a_tool_that_runs():
    """Each probe with what it is attached to, and how."""
    done = pyebpf("doctor", "opensnoop", "-x")
    assert (done.returncode, done.stderr) == (0, "")
    first, *lines = done.stdout.splitlines()
    assert first == "opensnoop runs here"
    assert f"  on_enter: tracepoint syscalls:sys_enter_openat, by {perf_way()}" in lines
    status, found, _ = records("opensnoop")
    assert status == 0
    assert found[-1] == {"tool": "opensnoop", "runs": True, "error": ""}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["opensnop"], "pyebpf: there is no tool 'opensnop', did you mean opensnoop?; see pyebpf list"),
        (["--clean", "opensnoop"], "pyebpf doctor: --clean takes no other arguments; see pyebpf doctor --help"),
        (["--al"], "pyebpf doctor: unrecognized arguments: --al; see pyebpf doctor --help"),
    ],
)
def test_wrong_usage(arguments, line):
    """One line and status 2."""
    done = pyebpf("doctor", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].replace(" - ", ", ") == line or line.split(",")[0] in done.stderr


def tool_of(declare):
    """A tool whose program `declare(bpf)` declares."""

    def build(_):
        bpf = BPF()
        declare(bpf)
        return bpf

    return EventTool(
        name="made", doc="", section="0", tracing="nothing", options=opensnoop.TOOL.options, build=build,
        records=opensnoop.TOOL.records, columns=opensnoop.TOOL.columns, examples=(),
    )  # fmt: skip


@pytest.mark.any_kernel
def test_a_tool_is_asked_with_its_first_example_where_it_needs_an_argument():
    """Said in a line of its own; what is given is taken, and what is wrong is wrong."""
    done = pyebpf("doctor", "funccount", "t:syscalls:sys_enter_getpgid")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("funccount runs here\n")
    _, found, _ = records("qdisclat")
    assert found[0] == {"note": "qdisclat needs NAME: asked with that of its first example, NAME 'fq'"}
    done = pyebpf("doctor", "funccount", "x:y:z")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("pyebpf funccount: 'x:y:z': write 'tcp_*'")
    done = pyebpf("doctor", "funccount", "--nix")
    assert done.stderr.endswith("unrecognized arguments: --nix; see pyebpf funccount --help\n")


@pytest.mark.any_kernel
def test_a_tool_is_asked_with_an_example_of_each_kind_of_target():
    """Each kind has its answer, and the tool runs if one of them does: without kprobes tracepoints are counted."""
    kinds = ["kernel functions", "tracepoints", "functions of files", "USDT probes"]
    done = pyebpf("doctor", "funccount", "-p", str(os.getpid()))
    lacking, runs, *lines = re.sub(r"\n( {6,}|  (?='))", " ", done.stdout).splitlines()
    assert lacking == (
        "funccount needs PATTERN: asked with an example of each kind of target, 'tcp_*', "
        "'t:syscalls:sys_enter_re*', 'c:mal*', 'u:stdc++:*'"
    )
    assert (runs, done.returncode, done.stderr) == ("funccount runs here", 0, "")
    answers = [line for line in lines if not line.startswith("    ")]
    assert [answer.strip().partition(":")[0] for answer in answers] == kinds
    assert answers[1] == "  tracepoints: yes"
    assert "    on_tracepoint: tracepoint syscalls:sys_enter_read, by perf link" in lines
    assert re.match(
        r"  kernel functions: (yes$|no \(needs kernel functions, and this kernel has no kprobes:)", answers[0]
    )
    status, found, _ = records("funccount")
    each = {line["target"]: line for line in found if "target" in line}
    assert (status, list(each), found[-1]) == (0, kinds, {"tool": "funccount", "runs": True, "error": ""})
    assert each["tracepoints"] == {
        "target": "tracepoints", "example": "'t:syscalls:sys_enter_re*'", "runs": True, "error": "",
    }  # fmt: skip
    assert each["kernel functions"]["runs"] is not bool(each["kernel functions"]["error"])


def test_a_tool_that_runs_for_no_kind_of_target_does_not_run(monkeypatch, capsys):
    """Then the exit status is 1, and each kind has its reason."""
    made = funccount.TOOL
    examples = (Example("funccount t:no:a*", "", "one"), Example("funccount t:none:b*", "", "other"))
    monkeypatch.setattr(catalogue, "find", lambda _: replace(made, examples=examples))
    assert doctor.run_doctor(["funccount"]) == 1
    _, _, runs, one, *_ = capsys.readouterr().out.splitlines()
    assert (runs, one[:11]) == ("funccount does not run here", "  one: no (")


def test_the_ways_that_a_probe_does_not_take_have_their_reasons(monkeypatch, capsys, make_namespace):
    """XDP by link where there are links; where a feature is said to be lacking, by netlink, and why."""

    def declare(bpf):
        @bpf.xdp("lo")
        def passes(ctx) -> int:
            return 2

    monkeypatch.setattr(catalogue, "find", lambda _: tool_of(declare))
    needs("attach:xdp")
    asked = Features.ask
    with inside(make_namespace()):
        assert doctor.run_doctor(["made"]) == 0
        links = capsys.readouterr().out
        monkeypatch.setattr(Features, "ask", lambda self, it: Support.NO if it == "attach:xdp" else asked(self, it))
        assert doctor.run_doctor(["made"]) == 0
    assert links == "made runs here\n  passes: xdp lo, by xdp link\n"
    assert capsys.readouterr().out == (
        "made runs here\n  passes: xdp lo, by netlink\n  passes: @xdp('lo') not by link: this kernel lacks attach:xdp\n"
    )


def test_a_tool_that_does_not_run(monkeypatch, capsys):
    """One line says why; status 1."""

    def declare(bpf):
        @bpf.tracepoint("syscalls:sys_enter_opemat")
        def on_enter() -> None:
            pass

    monkeypatch.setattr(catalogue, "find", lambda _: tool_of(declare))
    assert doctor.run_doctor(["made"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("made does not run here: ")
    assert "sys_enter_openat" in " ".join(out.split())
    assert doctor.run_doctor(["--json", "made"]) == 1
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["runs"] is False
    assert "sys_enter_opemat" in last["error"]


@pytest.mark.every_kernel
def test_an_event_of_a_dead_owner_is_removed_and_no_other(capsys):
    """A living owner's event stays, and so does one that is not named by pyebpf."""
    needs("attach:kprobe")
    mine, group = owned_name("probes"), f"doctor{os.getpid()}"
    dead = "pyebpf_" + "".join(random.choices("abcdefghij", k=8)) + "_probes"
    events = [f"{dead}/entry_1", f"{mine}/entry_1", f"{group}/entry"]
    with Tracefs() as files, hold(owner_of(mine)):

        def write(line):
            fd = os.open("../kprobe_events", os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, dir_fd=files.fileno())
            try:
                os.write(fd, line.encode())
            finally:
                os.close(fd)

        try:
            for event in events:
                write(f"p:{event} do_nanosleep\n")
            write(f"p:{events[0]} hrtimer_nanosleep\n")  # a second probe of the same event
            assert doctor.run_doctor([]) == 0
            text = capsys.readouterr().out
            assert text.replace("\n", "").count(f"{dead}/entry_1") == 1
            assert "left behind" in text
            assert mine not in text
            done = pyebpf("doctor", "--clean")
            assert (done.returncode, done.stderr) == (0, "")
            assert f"{dead}/entry_1" in done.stdout
            assert "removed" in done.stdout
            content = read_events(files)
            assert [f":{event} " in content for event in events] == [False, True, True]
            assert doctor.run_doctor(["--clean"]) == 0
            assert capsys.readouterr().out == ""
        finally:
            content = read_events(files)
            for event in events:
                if f":{event} " in content:
                    write(f"-:{event}\n")


def read_events(files):
    fd = os.open("../kprobe_events", os.O_RDONLY | os.O_CLOEXEC, dir_fd=files.fileno())
    with os.fdopen(fd) as lines:
        return lines.read()


OWNER = """\
import sys, time
from pyebpf import BPF

bpf = BPF()


@bpf.tc("lo", "ingress", by="clsact")
def classify(ctx) -> int:
    return -1


@bpf.xdp("lo", mode="generic", by="netlink")
def passes(ctx) -> int:
    return 2


with bpf:
    print("attached", flush=True)
    time.sleep(1000)
"""


def guards_of(owner):
    """The guard processes of a process: started by it, and called so."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue
        if "(pyebpf-guard)" in text and int(text.rpartition(")")[2].split()[1]) == owner:
            found.append(int(path.parent.name))
    return found


def test_network_programs_of_a_dead_owner_are_removed(tmp_path, make_namespace):
    """After SIGKILL for the process and for its guard: what stays is listed, and swept."""
    needs("attach:clsact", "attach:xdp_netlink")
    namespace = make_namespace()
    script = tmp_path / "owner.py"
    script.write_text(OWNER)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    owner = subprocess.Popen(
        namespace.inside(sys.executable, str(script)), stdout=subprocess.PIPE, text=True, env=environment
    )
    assert owner.stdout is not None
    with owner.stdout as stream:
        assert stream.readline() == "attached\n"
    for guard in wait_until(lambda: guards_of(owner.pid)):
        os.kill(guard, signal.SIGKILL)
    owner.kill()
    owner.wait(PATIENCE)
    command = namespace.inside(sys.executable, "-m", "pyebpf", "doctor", "--clean")

    def clean():
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout

    (name,) = re.findall(r"pyebpf_[a-z0-9]{8}_", namespace.run("tc", "filter", "show", "dev", "lo", "ingress"))
    assert "xdp" in namespace.run("ip", "link", "show", "dev", "lo")
    out = clean()
    assert len(re.findall(rf"lo (?:ingress )?{name[:-1]}", out)) == 2
    assert out.replace("\n", " ").count("removed") == 2
    assert "pyebpf" not in namespace.run("tc", "filter", "show", "dev", "lo", "ingress")
    assert "xdp" not in namespace.run("ip", "link", "show", "dev", "lo")
    assert clean() == ""


PAGE = (ROOT / "docs" / "doctor.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"(?:^    .*\n)+", PAGE, re.MULTILINE)


def test_the_page_says_what_is_so(capsys):
    """Its Python runs, its commands are understood."""
    (source,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    exec(compile(source, "docs/doctor.md", "exec"), {"__name__": "doctor"})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert all(line.split(" ", 1)[1] in {"yes", "no"} for line in lines)
    commands = [block.split()[1:] for block in BLOCKS if block.startswith("    pyebpf ")]
    assert commands == [["doctor"], ["doctor", "--tools"], ["doctor", "opensnoop", "-x"], ["doctor", "--clean"]]


def test_the_page_shows_what_is_printed():
    """Its example of a tool; arm64 has no open(2)."""
    needs("tracepoint:syscalls:sys_enter_open")
    example, of_kinds = [textwrap.dedent(block) for block in BLOCKS if "runs here" in block]
    out = pyebpf("doctor", "opensnoop", "-x").stdout
    assert all(line in out.splitlines() for line in example.replace("perf link", perf_way()).splitlines())
    lacks("attach:kprobe", "attach:kprobe_multi")
    out = pyebpf("doctor", "funccount").stdout
    assert [line for line in out.splitlines() if not line.startswith("    on_")] == of_kinds.splitlines()


def test_a_tool_of_a_file(capsys, tmp_path):
    """It is asked as one of pyebpf's own is, with its options."""
    file = tmp_path / "mine.py"
    file.write_text("from pyebpf.programs.opensnoop import TOOL\n", encoding="utf-8")
    assert doctor.run_doctor([str(file), "-p", str(os.getpid())]) == 0
    assert capsys.readouterr().out.startswith("opensnoop runs here")
