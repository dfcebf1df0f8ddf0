"""Raw tracepoints: the typedef to attach to, arguments by name."""

from __future__ import annotations

import pytest

from pyebpf.btf import Btf, BtfBuilder, RawTracepoint, TracepointArgument, raw_tracepoint, raw_tracepoint_names
from pyebpf.errors import BtfError, NotFound


def test_arguments_come_from_the_iterator_function_without_its_first(either_sample):
    ids = either_sample.ids
    assert raw_tracepoint(either_sample.btf, "job") == RawTracepoint(
        "job",
        ids["btf_trace_job"],
        (
            TracepointArgument("to", ids["outer *"], nullable=False),
            TracepointArgument("in", ids["inner *"], nullable=True),
        ),
    )


def test_a_declaration_tag_makes_a_parameter_nullable(sample):
    assert sample.btf.nullable_parameters(sample.ids["work"]) == {0}
    assert sample.btf.nullable_parameters(sample.ids["__traceiter_job"]) == {2}


def test_an_unknown_one_names_the_closest(sample):
    with pytest.raises(NotFound, match=r"no raw tracepoint 'jobs' \(did you mean job\?\)"):
        raw_tracepoint(sample.btf, "jobs")


def test_all_names_are_listed(sample):
    assert list(raw_tracepoint_names(sample.btf)) == ["job"]


def test_arguments_without_names_are_numbered():
    """Those of a typedef whose functions BTF lacks; all of them nullable where the table knows the tracepoint."""
    b = BtfBuilder()
    number, void = b.add_int("int", 4, signed=True), b.add_ptr(0)
    proto = b.add_func_proto(0, [("", void), ("", number), ("", void)])
    for name in ("cpu_idle", "kfree_skb"):
        b.add_typedef(f"btf_trace_{name}", b.add_ptr(proto))
    btf = Btf(b.to_bytes())
    assert raw_tracepoint(btf, "cpu_idle").arguments == (
        TracepointArgument("arg1", number, nullable=False),
        TracepointArgument("arg2", void, nullable=False),
    )
    assert all(argument.nullable for argument in raw_tracepoint(btf, "kfree_skb").arguments)


def test_a_typedef_of_something_else_is_an_error():
    b = BtfBuilder()
    b.add_typedef("btf_trace_gone", b.add_int("int", 4))
    with pytest.raises(BtfError, match="btf_trace_gone is not a pointer to a function"):
        raw_tracepoint(Btf(b.to_bytes()), "gone")


def test_a_module_has_its_own_tracepoints(sample):
    """And its own function for a name that vmlinux has too."""
    b = BtfBuilder(sample.btf)
    proto = b.add_func_proto(0, [("__data", sample.ids["void *"]), ("queue", sample.ids["int"])])
    b.add_func("__traceiter_job", proto)
    own = b.add_typedef("btf_trace_job", b.add_ptr(proto))
    split = Btf(b.to_bytes(), sample.btf)
    found = raw_tracepoint(split, "job")
    assert (found.type, [argument.name for argument in found.arguments]) == (own, ["queue"])


def test_the_verifiers_own_list_makes_arguments_nullable():
    """BTF says nothing of rx_sk, which Linux 6.13 and later take to be NULL perhaps."""
    b = BtfBuilder()
    void = b.add_ptr(0)
    proto = b.add_func_proto(0, [("__data", void), ("skb", void), ("location", void), ("rx_sk", void)])
    b.add_func("__traceiter_kfree_skb", proto)
    b.add_typedef("btf_trace_kfree_skb", b.add_ptr(proto))
    arguments = raw_tracepoint(Btf(b.to_bytes()), "kfree_skb").arguments
    assert [argument.name for argument in arguments if argument.nullable] == ["rx_sk"]


def test_arguments_of_a_modules_tracepoint_are_all_nullable(sample):
    b = BtfBuilder(sample.btf)
    proto = b.add_func_proto(0, [("__data", sample.ids["void *"]), ("queue", sample.ids["void *"])])
    b.add_func("__traceiter_io", proto)
    b.add_typedef("btf_trace_io", b.add_ptr(proto))
    split = Btf(b.to_bytes(), sample.btf)
    assert raw_tracepoint(split, "io").arguments[0].nullable
    assert not raw_tracepoint(split, "job").arguments[0].nullable
