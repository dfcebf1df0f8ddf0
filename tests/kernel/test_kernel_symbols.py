"""`ksym()`: functions and variables of the kernel by their names, as addresses, and read as types."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pyebpf import BPF, CompileError, NotFound, VerifierError, ksym, pid, s64, u32, u64
from pyebpf.target import Recorder
from tests.support.needs import lacks, needs


def told(make, size=4):
    """What a program leaves in an array, run once."""
    needs("program:syscall")
    bpf = BPF()
    out = bpf.array(value=s64, size=size, name="out")
    program = make(bpf, out)
    with bpf:
        program.run()
        return list(out.values())


def listed(name):
    """A symbol's address, as s64."""
    lines = Path("/proc/kallsyms").read_text(encoding="utf-8").splitlines()
    address = next(int(address, 16) for address, _, found in (line.split()[:3] for line in lines) if found == name)
    return address - (1 << 64)


def test_a_function_is_its_address():
    """As /proc/kallsyms has it, in comparisons, too."""

    def make(bpf, out):
        @bpf.syscall()
        def program():
            out[0] = ksym("do_exit")
            out[1] = ksym("do_exit") == ksym("schedule")
            out[2] = ksym("do_exit") > u64(out[3])
            return 0

        return program

    assert told(make) == [listed("do_exit"), 0, 1, 0]


def test_a_symbol_that_the_kernel_has_not():
    """Its name, and why a variable may be missing."""
    bpf = BPF()
    out = bpf.array(value=s64, name="out")

    @bpf.raw_tracepoint("sys_enter")
    def on_call() -> None:
        out[0] = ksym("no_such_thing_anywhere")

    with pytest.raises(NotFound, match=r"no variable no_such_thing_anywhere: .*CONFIG_KALLSYMS_ALL"):
        bpf.load()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("ksym(3)", "ksym() takes a name known at compile time, as a string"),
        ('ksym("jiffies", 3)', "ksym(…, 3): give an integer type, or the name of a C type as a string"),
        ('ksym("jiffies", "struct no_such")', "the kernel's BTF has no struct 'no_such'"),
        ("ksym", "ksym is used here without parentheses"),
    ],
)
def test_refusals(source, message):
    """Each at its place."""
    bpf = BPF()
    bpf.define(
        f"from pyebpf import *\n@bpf.raw_tracepoint('sys_enter')\ndef on_call() -> None:\n    out[0] = 1 + {source}\n",
        {"bpf": bpf, "out": bpf.array(value=s64, name="out")},
    )
    with pytest.raises(CompileError) as caught:
        bpf.specs()
    assert message in str(caught.value)


def test_a_variable_reads_as_the_type_that_is_given():
    """The kernel's clock moves on; a struct is read by its members."""
    needs("variable:jiffies", "variable:init_task")

    def make(bpf, out):
        @bpf.syscall()
        def program():
            out[0] = ksym("jiffies", u64)
            out[1] = ksym("jiffies", u32)
            out[2] = ksym("init_task", "struct task_struct").comm == "swapper/0"
            out[3] = ksym("init_task", "struct task_struct").pid + 7
            return 0

        return program

    before = told(make)
    time.sleep(0.1)
    after = told(make)
    assert 0 < after[0] - before[0] < 1_000_000
    assert (before[0] - before[1]) % (1 << 32) in range(10)
    assert before[2:] == [1, 7]


def test_a_variable_of_each_processor_is_this_one():
    """Read as BTF has it: a struct, by its members."""
    needs("variable:runqueues", "btf_variable:runqueues")

    def make(bpf, out):
        @bpf.raw_tracepoint("sched_process_exit")
        def unused() -> None:
            out[2] = ksym("runqueues").nr_running

        @bpf.syscall()
        def program():
            queue = ksym("runqueues")
            out[0] = queue.curr.tgid == pid()
            out[1] = queue.nr_running
            return 0

        return program

    found = told(make)
    assert found[0] == 1
    assert found[1] >= 1


def test_a_kernel_that_keeps_no_addresses_of_variables_says_so():
    """In one line, with the configuration that it lacks."""
    lacks("variable:runqueues")
    needs("btf_variable:runqueues")
    bpf = BPF()
    out = bpf.array(value=s64, name="out")

    @bpf.raw_tracepoint("sys_enter")
    def on_call() -> None:
        out[0] = ksym("runqueues").nr_running

    with pytest.raises(
        VerifierError, match=r"symbol 'runqueues'.*keeps the addresses of functions only.*CONFIG_KALLSYMS_ALL"
    ):
        bpf.load()


def test_a_variable_that_btf_lacks_is_an_address():
    """As in Debian's 5.10: it has no members, and a line says why."""
    lacks("btf_variable:runqueues")
    bpf = BPF()
    out = bpf.array(value=s64, name="out")

    @bpf.raw_tracepoint("sys_enter")
    def on_call() -> None:
        out[0] = ksym("runqueues").nr_running

    with pytest.raises(CompileError, match="this kernel's BTF has no variable runqueues: ksym\\(\\) gives its address"):
        bpf.specs()


def test_what_was_asked_compiles_again_without_the_kernel():
    """The type of a variable, and that there is none, are facts like others."""
    needs("btf_variable:runqueues")
    from pyebpf.kernel.tracefs import Tracefs
    from pyebpf.runtime.host import host_target

    def compiled(target):
        bpf = BPF(target=target)
        out = bpf.array(value=s64, name="out")

        @bpf.raw_tracepoint("sys_enter")
        def on_call() -> None:
            out[0] = ksym("runqueues").nr_running
            out[0] = ksym("do_exit")

        (program,) = bpf.specs().programs
        return program.code

    recorder = Recorder(host_target(Tracefs))
    assert compiled(recorder).instructions == compiled(recorder.recorded()).instructions
