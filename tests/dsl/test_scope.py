"""When free names get their meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pyebpf.builder.drop_counters import DropCounters
from pyebpf.compiler.ir import Op
from pyebpf.errors import CompileError
from pyebpf.module.program import build_program
from pyebpf.uapi.helper_ids import GET_SMP_PROCESSOR_ID
from tests.dsl.fake_target import FakeTarget
from tests.dsl.harness import namespace, run

if TYPE_CHECKING:
    from pyebpf.dsl.module import Module

PROBE = '@bpf.tracepoint("syscalls:sys_enter_openat")\n'


def constants(probe: Any) -> set[int]:
    """Numbers in a probe's code."""
    built = build_program(probe.body, probe.attachments[0], FakeTarget(), DropCounters(), "probe")
    return {i.imm for block in built.module.main.blocks for i in block.instructions if i.op is Op.CONST}


def test_probes_made_in_a_loop_each_see_their_own_value() -> None:
    """The loop rebinds the name for the next round, which the earlier probes don't see."""
    text = (
        f"probes = []\nfor limit in (101, 102, 103):\n    {PROBE}    def probe(): results[0] = limit\n "
        "   probes.append(probe)\n"
    )
    names = run(text, namespace())
    assert [{101, 102, 103} & constants(probe) for probe in names["probes"]] == [{101}, {102}, {103}]


def test_what_a_loop_computes_belongs_to_its_round() -> None:
    """Not only the loop's target: any name that the loop binds, in a function, too."""
    text = f"""
def make():
    probes = []
    for n in (1, 2):
        limit = n * 1000
        {PROBE}        def probe(): results[0] = limit
        probes.append(probe)
    return probes
probes = make()
"""
    names = run(text, namespace())
    assert [{1000, 2000} & constants(probe) for probe in names["probes"]] == [{1000}, {2000}]


def test_a_name_rebound_after_the_probe_is_an_error() -> None:
    """Which of the two was meant can't be known."""
    names = run(f"limit = 101\n{PROBE}def probe(): results[0] = limit\nlimit = 102\n", namespace())
    with pytest.raises(CompileError) as caught:
        constants(names["probe"])
    assert caught.value.message == (
        "limit was 101 when the probe was made, and is 102 now: a probe keeps the value that it saw; "
        "give the other one "
        "another name"
    )


def test_a_closure_s_name_rebound_after_the_probe_is_an_error() -> None:
    """The same for the local of a function around."""
    text = (
        f"def make():\n    limit = 101\n    {PROBE}    def probe(): results[0] = limit\n    limit = "
        "102\n    return probe\nprobe = make()\n"
    )
    with pytest.raises(CompileError, match="limit was 101 when the probe was made, and is 102 now"):
        constants(run(text, namespace())["probe"])


def test_a_name_bound_to_an_equal_number_is_no_change() -> None:
    """Two objects for one number mean the same."""
    names = run(f"limit = int('1001')\n{PROBE}def probe(): results[0] = limit\nlimit = int('1001')\n", namespace())
    assert 1001 in constants(names["probe"])


def test_a_name_bound_later_is_looked_up_when_compiling() -> None:
    """A helper may stand below the probe that calls it."""
    text = f"{PROBE}def probe(): results[0] = helper(77)\ndef helper(x): return pid() + x\n"
    assert 77 in constants(run(text, namespace())["probe"])


def test_a_closure_s_name_bound_later() -> None:
    """An empty cell is looked up when compiling, too."""
    text = (
        f"def make():\n    {PROBE}    def probe(): results[0] = limit\n    limit = 101\n    return "
        "probe\nprobe = make()\n"
    )
    assert 101 in constants(run(text, namespace())["probe"])


def test_an_inlined_function_sees_its_own_names() -> None:
    """Its globals and closure, not those of the probe."""
    text = (
        "def make(limit):\n    def helper(): return limit + pid()\n    return helper\nhelper = "
        f"make(101)\nlimit = 5\n{PROBE}def probe(): results[0] = helper()\n"
    )
    found = constants(run(text, namespace())["probe"])
    assert 101 in found
    assert 5 not in found


@pytest.mark.parametrize(
    "body",
    [
        "any(helpers.get_smp_processor_id() == n for n in range(3))",
        "sum(helpers.get_smp_processor_id() for _ in range(3))",
        "(lambda: helpers.get_smp_processor_id())()",
    ],
)
def test_helpers_within_what_a_function_holds_are_called_on_each_event(body: str) -> None:
    """A generator or lambda in a function of known arguments: its names are the function's."""
    text = f"def helper(k): return {body}\n{PROBE}def probe(): results[0] = helper(1)\n"
    names = run(f"from pyebpf import helpers\n{text}", namespace())
    module = build_program(names["probe"].body, names["probe"].attachments[0], FakeTarget(), DropCounters(), "p").module
    called = [each for block in module.main.blocks for each in block.instructions if each.op is Op.CALL]
    assert any(each.imm == GET_SMP_PROCESSOR_ID for each in called)


def test_compiling_twice_gives_the_same() -> None:
    """Nothing that one compilation finds changes the next."""
    names = run(f"{PROBE}def probe(): opens[comm()] += 1\n", namespace())
    bpf: Module = names["bpf"]
    assert bpf.compile(FakeTarget()) == bpf.compile(FakeTarget())


def test_a_loop_around_the_function_that_makes_the_probe_counts_too() -> None:
    """Each round defines and calls the maker anew."""
    text = f"""
probes = []
for limit in (101, 102):
    def make():
        {PROBE}        def probe(): results[0] = limit
        return probe
    probes.append(make())
"""
    names = run(text, namespace())
    assert [{101, 102} & constants(probe) for probe in names["probes"]] == [{101}, {102}]
