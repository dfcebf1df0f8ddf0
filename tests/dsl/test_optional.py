"""Optional probes on kernels that have no way to run them, and functions that are asked for while compiling."""

from __future__ import annotations

import pytest

from pyebpf.builder.intrinsics.kernel import has_function
from pyebpf.errors import NotSupported
from pyebpf.module.linking import link_module
from tests.dsl.fake_target import FakeTarget
from tests.dsl.harness import namespace, run

NONE = frozenset({"attach:fentry", "attach:kprobe", "attach:kprobe_multi"})
BOTH = """
@bpf.raw_tracepoint("sched_process_exit")
def always():
    table[0] += 1

@bpf.{decorator}("tcp_sendmsg", optional={optional})
def sometimes():
    table[1] += 1
"""


def assembled(decorator, *, optional, excluded=None, missing=NONE):
    """The specs of two probes on a kernel without functions to probe."""
    names = run(BOTH.format(decorator=decorator, optional=optional), namespace())
    probes, maps = [names["always"], names["sometimes"]], [names["table"]]
    return link_module(probes, maps, FakeTarget(missing=missing), excluded)[0]


@pytest.mark.parametrize("decorator", ["function", "function_return"])
def test_an_optional_probe_without_a_way_is_left_out(decorator):
    """The others run; the choice says why it does not."""
    spec = assembled(decorator, optional=True)
    assert [program.name for program in spec.programs] == ["always"]
    left = spec.choices[1]
    assert (left.probe, left.candidate, left.optional) == ("sometimes", "left out", True)
    assert left.rejected
    with pytest.raises(NotSupported, match="no candidate works here"):
        assembled(decorator, optional=False)


def test_an_optional_probe_whose_ways_the_kernel_refused_is_left_out():
    """As found by trying: every candidate excluded, with the kernel's words."""
    names = ("fentry", "kprobe.multi", "kprobe", "kprobe_multi")
    excluded = {("sometimes", 0, name): "refused" for name in names}
    spec = assembled("function", optional=True, excluded=excluded, missing=frozenset())
    assert [program.name for program in spec.programs] == ["always"]
    assert {reason for _, reason in spec.choices[1].rejected} == {"refused"}


def test_a_probe_that_has_a_way_runs_optional_or_not():
    """Optional or not, it is there where it can be."""
    assert [program.name for program in assembled("kprobe", optional=True, missing=frozenset()).programs] == [
        "always",
        "sometimes",
    ]


def test_has_function_is_known_while_compiling():
    """By BTF, or by the list of what can be probed; the branch not taken is not looked at."""
    text = """
@bpf.raw_tracepoint("sched_process_exit")
def probe():
    if has_function("tcp_sendmsg") and has_function("static_one.isra.0") and not has_function("no_such"):
        table[0] += 1
    else:
        nothing_of_the_kind
"""
    names = run(text, {**namespace(), "has_function": has_function})
    assert len(link_module([names["probe"]], [names["table"]], FakeTarget())[0].programs) == 1
