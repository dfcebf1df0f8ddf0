"""`pyebpf list PATTERN` on this machine: what it lists can be attached to, and has the types that the kernel says."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path

import pytest

from pyebpf import BPF
from pyebpf.features import Features
from pyebpf.kernel.tracefs import Tracefs
from tests.support.command import pyebpf
from tests.support.needs import lacks, needs
from tests.support.traced import binary

SAMPLE = 7


def lines(*arguments):
    done = pyebpf("list", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def records(*arguments):
    return [json.loads(line) for line in lines("--json", *arguments)]


def attached(add):
    """The number of attachments of a probe that `add` declares; they end at once."""
    bpf = BPF()
    add(bpf)
    with bpf:
        return len(bpf.links)


def probe() -> None:
    """Nothing."""


def test_all_tracepoints_are_those_with_a_number_for_perf():
    """Those of ftrace's own records and of the work of perf events, which these refuse, are left out."""
    with Tracefs() as tracefs:
        every = [(category, name) for category in tracefs.categories() for name in tracefs.events(category)]
        numbered = set()
        for category, name in every:
            if category != "ftrace" and Path(f"/proc/self/fd/{tracefs.fileno()}/{category}/{name}/id").exists():
                numbered.add(f"tracepoint:{category}:{name}")
    assert set(lines("t:*")) == numbered - {"tracepoint:irq_vectors:irq_work_exit"}
    assert len(numbered) > 100


@pytest.mark.parametrize(("pattern", "decorator"), [("t:*:*", "tracepoint"), ("rt:*", "raw_tracepoint")])
def test_tracepoints_that_are_listed_can_be_attached_to(pattern, decorator):
    """Some of them, which ones is chance."""
    chosen = random.sample(lines(pattern), SAMPLE)
    targets = [line.removeprefix(f"{decorator}:") for line in chosen]
    assert attached(lambda bpf: getattr(bpf, decorator)(*targets)(probe)) == SAMPLE, targets


def test_fields_are_those_of_the_format_file():
    """Names in their order, sizes, and the type as the kernel writes it."""
    (found,) = records("t:sched:sched_switch")
    with Tracefs() as tracefs:
        text = tracefs.event_format("sched", "sched_switch")
    declared = [line.split(";") for line in text.splitlines() if line.startswith("\tfield:") and "common_" not in line]
    sizes = [int(parts[2].partition("size:")[2]) for parts in declared]
    assert [field["size"] for field in found["fields"]] == sizes
    words = [parts[0].removeprefix("\tfield:").strip() for parts in declared]
    shown = [line.strip().rsplit("  ", 1)[0].strip() for line in lines("-v", "t:sched:sched_switch")[1:]]
    assert shown == words


def test_arguments_of_a_raw_tracepoint():
    """Those that the kernel passes since 5.10, with their types."""
    (found,) = records("rt:sched_process_fork")
    assert [(each["name"], each["type"]) for each in found["arguments"]] == [
        ("parent", "struct task_struct *"),
        ("child", "struct task_struct *"),
    ]


def test_a_pattern_without_a_kind_looks_everywhere():
    """In tracepoints of both kinds, and in functions where those can be traced; what cannot be traced is told."""
    done = pyebpf("list", "*sched_proc*exec*")
    features = Features()
    kinds = [line.partition(":")[0] for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert {"tracepoint", "raw_tracepoint"} <= set(kinds)
    refused = {line.split(": ")[1] for line in done.stderr.splitlines()}
    assert ("kprobe" in refused) == (features.promise("attach:kprobe").value == "no")
    assert kinds == sorted(kinds, key=["tracepoint", "raw_tracepoint", "kprobe", "fentry"].index)


def test_functions_that_are_listed_can_be_probed():
    """All that match."""
    needs("attach:kprobe")
    found = lines("k:tcp_v4_s*")
    names = [line.removeprefix("kprobe:") for line in found]
    assert "tcp_v4_syn_recv_sock" in names
    assert attached(lambda bpf: bpf.kprobe(*names)(probe)) >= 1


def test_functions_for_fentry_are_those_with_types():
    """A function's arguments and result are BTF's."""
    needs("attach:fentry")
    assert "fentry:tcp_v4_syn_recv_sock" in lines("f:tcp_v4_s*")
    (found,) = records("f:tcp_v4_connect")
    assert [each["name"] for each in found["arguments"]] == ["sk", "uaddr", "addr_len"]
    assert found["arguments"][0] == {"name": "sk", "type": "struct sock *", "size": 8}
    assert found["returns"] == {"type": "int", "size": 4}


def test_a_system_calls_function_has_the_calls_arguments():
    """Those that a probe is given, not the address of its saved registers."""
    needs("attach:kprobe")
    (found,) = records("k:sys_openat")
    assert [each["name"] for each in found["arguments"]] == ["dfd", "filename", "flags", "mode"]


def test_where_functions_cannot_be_traced_the_reason_is_told():
    """One line, status 1."""
    lacks("attach:kprobe")
    lacks("attach:kprobe_multi")
    done = pyebpf("list", "k:tcp_*")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "pyebpf list: k:tcp_*: this kernel has no kprobes\n"


def test_functions_of_a_file():
    """As nm(1) has them, with places that a probe is put on."""
    needs("attach:uprobe", "command:nm")
    path = binary("library")
    table = subprocess.run(["nm", "-D", "--defined-only", path], check=True, capture_output=True, text=True).stdout
    functions = {line.split()[2].partition("@")[0] for line in table.splitlines() if line.split()[1] in "TtWw"}
    done = pyebpf("list", "--json", f"u:{path}:*")
    assert "leaves out 1 function that is chosen among several when a program starts (IFUNC)" in done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert functions <= {each["name"] for each in found}
    assert {each["file"] for each in found} == {path}
    names = [each["name"] for each in found if each["name"] in functions][:SAMPLE]
    assert attached(lambda bpf: bpf.uprobe(path, *names)(probe)) == 1


def test_usdt_probes_of_a_file():
    """With each place, and the operands of the first with their sizes."""
    needs("attach:uprobe")
    (found,) = records(f"usdt:{binary('pie')}:*:twice")
    assert found["name"].endswith(":twice")
    assert len(found["offsets"]) == 2
    assert [(each["name"], each["type"], each["size"]) for each in found["arguments"]] == [
        ("arg0", "s64", 8),
        ("arg1", "s16", 2),
    ]


def test_a_processs_own_files():
    """With -p names mean what that process has mapped."""
    needs("attach:uprobe")
    (found,) = records("-p", str(os.getpid()), "u:libc.so.6:getenv")
    assert found["name"] == "getenv"
    assert found["file"] in Path("/proc/self/maps").read_text()


def completed(word):
    return pyebpf("completion", "probes", word).stdout.splitlines()


def test_words_are_completed_with_what_is_there():
    """Categories, then their tracepoints; raw tracepoints; nothing where nothing is."""
    assert set(completed("t:sched")) - {"t:sched_ext:"} == {"t:sched:"}
    assert set(completed("t:sched:sched_sw")) >= {"t:sched:sched_switch"}
    assert "raw_tracepoint:sched_switch" in completed("raw_tracepoint:sched_sw")
    assert completed("t:nosuch:x") == []


def test_functions_of_the_kernel_are_completed_where_they_can_be_traced():
    """By the beginning of their names."""
    needs("attach:kprobe")
    assert "k:tcp_v4_connect" in completed("k:tcp_v4_con")


def test_usdt_probes_are_completed_by_their_provider():
    """As `usdt:FILE:PROVIDER:NAME`; where a name is begun, as `usdt:FILE:NAME`, too."""
    path = binary("pie")
    found = completed(f"usdt:{path}:")
    assert any(each.endswith(":twice") for each in found)
    assert all(each.startswith(f"usdt:{path}:") and each.count(":") == 3 for each in found)
    assert completed(f"usdt:{path}:twi") == [f"usdt:{path}:twice"]
    (provider,) = {each.split(":")[2] for each in found if each.endswith(":twice")}
    assert completed(f"usdt:{path}:{provider}:twi") == [f"usdt:{path}:{provider}:twice"]


def test_a_word_is_looked_for_in_the_tools_too():
    """In names and summaries, before attach points of that name; one of neither is an error as ever."""
    assert [line.split()[0] for line in lines("DNS")] == ["gethostlatency"]
    assert {"biomerge", "biotop"} <= {line.split()[0] for line in lines("disk")}
    assert "opensnoop" in [line.split()[0] for line in lines("opensnoop")]
    assert pyebpf("list", "sched_switch").stdout.startswith("tracepoint:sched:sched_switch\n")
    assert pyebpf("list", "no-such-word").returncode == 1
