"""Attach points: the parts of each kind, and parameters of the command line in them."""

from __future__ import annotations

import pytest

from pyebpf.bpftrace import ast
from pyebpf.bpftrace.parser import parse
from pyebpf.dataclass import fields

LONG_NAMES = {
    "k:f": "kprobe",
    "kr:f": "kretprobe",
    "u:/x:f": "uprobe",
    "ur:/x:f": "uretprobe",
    "U:/x:f": "usdt",
    "t:a:b": "tracepoint",
    "p:hz:9": "profile",
    "i:s:1": "interval",
    "s:cpu:1": "software",
    "h:cycles:1": "hardware",
    "w:0x10:8:w": "watchpoint",
    "f:x": "fentry",
    "kfunc:x": "fentry",
    "fr:x": "fexit",
    "kretfunc:x": "fexit",
    "it:task": "iter",
    "rt:x": "rawtracepoint",
    "BEGIN": "begin",
    "END": "end",
    "begin": "begin",
    "KPROBE:f": "kprobe",
    "*:f": "*",
    "k*:f": "k*",
}

FIELDS = {
    "begin": {},
    "end:*": {},
    "self:signal:SIGUSR1": {"target": "signal", "function": "SIGUSR1"},
    "test:okay": {"function": "okay"},
    "bench:count": {"function": "count"},
    "kprobe:vfs_*": {"function": "vfs_*"},
    "kprobe:kvm:x86_emulate_insn": {"target": "kvm", "function": "x86_emulate_insn"},
    "kprobe:f+0x10": {"function": "f", "offset": 16},
    "kprobe:0xffffffff81000000": {"address": 0xFFFFFFFF81000000},
    "kretprobe:m:f": {"target": "m", "function": "f"},
    "fentry:f": {"function": "f"},
    "fexit:m:f": {"target": "m", "function": "f"},
    "fentry:bpf:prog": {"target": "bpf", "function": "prog"},
    "fentry:bpf:123:*": {"target": "bpf", "namespace": "123", "function": "*"},
    "uprobe:readline": {"function": "readline"},
    "uprobe:/bin/bash:readline": {"target": "/bin/bash", "function": "readline"},
    "uprobe:/bin/x:cpp:f": {"target": "/bin/x", "namespace": "cpp", "function": "f"},
    'uprobe:/bin/x:cpp:"V::operator+"': {"target": "/bin/x", "namespace": "cpp", "function": "V::operator+"},
    'uretprobe:/bin/x:cpp:"V::operator+=(int)"': {
        "target": "/bin/x",
        "namespace": "cpp",
        "function": "V::operator+=(int)",
    },
    'uprobe:/bin/x:cpp:"V::operator++"+4': {
        "target": "/bin/x",
        "namespace": "cpp",
        "function": "V::operator++",
        "offset": 4,
    },
    'uprobe:"/a b,c":"ns::f(int, char)"+8': {"target": "/a b,c", "function": "ns::f(int, char)", "offset": 8},
    "uprobe:/bin/x:0x4010": {"target": "/bin/x", "address": 0x4010},
    "uprobe:/proc/17/exe:main": {"target": "/proc/17/exe", "function": "main"},
    "uprobe:/bin/x@file.c:12:3": {"target": "/bin/x", "source_file": "file.c", "source_line": 12, "source_column": 3},
    "uretprobe:libc:malloc": {"target": "libc", "function": "malloc"},
    "usdt:/bin/x:name": {"target": "/bin/x", "function": "name"},
    "usdt:/bin/x:provider:name": {"target": "/bin/x", "namespace": "provider", "function": "name"},
    "tracepoint:syscalls:sys_enter_open*": {"target": "syscalls", "function": "sys_enter_open*"},
    "rawtracepoint:kfree_skb": {"function": "kfree_skb"},
    "rawtracepoint:vmlinux:kfree_skb": {"target": "vmlinux", "function": "kfree_skb"},
    "profile:hz:99": {"target": "hz", "count": 99},
    "profile:10ms": {"target": "us", "count": 10_000},
    "interval:s:1": {"target": "s", "count": 1},
    "software:faults:": {"target": "faults"},
    "software:faults:100": {"target": "faults", "count": 100},
    "hardware:cache-misses:1e6": {"target": "cache-misses", "count": 1_000_000},
    "hardware:cycles:*": {"target": "cycles"},
    "watchpoint:0x10000000:8:rw": {"address": 0x10000000, "length": 8, "mode": "rw"},
    "iter:task": {"function": "task"},
    "iter:task_file:/sys/fs/bpf/files": {"function": "task_file", "pin": "/sys/fs/bpf/files"},
    "mine=kprobe:f": {"name": "mine", "function": "f"},
}
_ALWAYS = {"start", "end", "text", "provider", "parts"}


def attach_point(text: str, *parameters: str) -> ast.AttachPoint:
    """The one attach point of a script."""
    (found,) = parse(f"{text} {{ }}", "script.bt", parameters).probes[0].attach_points
    return found


@pytest.mark.parametrize("text", LONG_NAMES)
def test_providers_have_short_and_old_names(text):
    """The tree has the long name of today."""
    assert attach_point(text).provider == LONG_NAMES[text]


@pytest.mark.parametrize("text", FIELDS)
def test_parts_of_each_kind(text):
    """The fields that the kind has are set, and no others."""
    found = attach_point(text)
    set_fields = {each.name: getattr(found, each.name) for each in fields(found) if each.name not in _ALWAYS}
    empty = {each.name: each.default for each in fields(found) if each.name not in _ALWAYS}
    assert set_fields == empty | FIELDS[text]
    assert found.text == text


def test_parts_are_without_quotes():
    """All that colons separate, whatever the kind makes of it."""
    assert attach_point('u:"/a:b":"c\\"d"').parts == ("/a:b", 'c"d')
    assert attach_point("*:/x:f").parts == ("/x", "f")


def test_parameters_of_the_command_line():
    """They may be parts, or parts of parts; one that is missing is 0; within quotes there are none."""
    assert attach_point("profile:hz:$1", "49").count == 49
    assert attach_point("uprobe:/bin/$2:f$1", "9", "x").parts == ("/bin/x", "f9")
    assert attach_point("kprobe:f$3", "9").parts == ("f0",)
    assert attach_point('uprobe:/bin/x:"f$1"', "9").function == "f$1"


def test_several_stand_before_one_block():
    """Commas separate them, one may follow the last, and comments may stand between."""
    (probe,) = parse("k:f,kr:g , // two\nt:a:b, /* three */ /pid/ { }").probes
    assert [each.provider for each in probe.attach_points] == ["kprobe", "kretprobe", "tracepoint"]
    assert probe.predicate == ast.Identifier(0, 0, "pid")
