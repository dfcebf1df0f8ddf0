"""A small kernel: BTF of vmlinux and of a module, one tracepoint format, one feature."""

from __future__ import annotations

import pytest

from pyebpf.btf import Btf, BtfBuilder
from pyebpf.errors import NotFound
from pyebpf.target import LiveTarget

FORMAT = """name: start
ID: 7
format:
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:dev_t dev;	offset:8;	size:4;	signed:0;
	field:char comm[16];	offset:12;	size:16;	signed:0;
	field:__data_loc char[] cmd;	offset:28;	size:4;	signed:0;
"""


def vmlinux():
    b = BtfBuilder()
    integer = b.add_int("int", 4, signed=True)
    character = b.add_int("char", 1)
    u16 = b.add_typedef("__u16", b.add_int("short unsigned int", 2))
    u64 = b.add_typedef("u64", b.add_int("long unsigned int", 8))
    be16 = b.add_typedef("__be16", u16)
    boolean = b.add_typedef("bool", b.add_int("_Bool", 1, boolean=True))
    name = b.add_array(character, integer, 32)
    disk = b.add_struct("disk", 40, [("major", integer, 0, 0), ("name", name, 64, 0)])
    disk_pointer = b.add_ptr(b.add_const(disk))
    state = b.add_enum("state", 4, [("IDLE", 0), ("BUSY", 5)])
    port = b.add_union("", 4, [("port", be16, 0, 0), ("both", integer, 0, 0)])
    bits = b.add_struct("", 4, [("dead", integer, 0, 1), ("mode", integer, 1, 3)])
    user = b.add_ptr(b.add_type_tag("user", character))
    call = b.add_ptr(b.add_func_proto(integer, [("x", integer)]))
    queue = b.add_struct(
        "queue",
        72,
        [
            ("disk", disk_pointer, 0, 0),
            ("", port, 64, 0),
            ("", bits, 96, 0),
            ("state", state, 128, 0),
            ("alive", boolean, 160, 0),
            ("text", user, 192, 0),
            ("call", call, 256, 0),
            ("counts", b.add_array(b.add_array(u64, integer, 2), integer, 1), 320, 0),
            ("hidden", b.add_ptr(b.add_fwd("hidden")), 448, 0),
            ("later", b.add_ptr(b.add_fwd("later")), 512, 0),
        ],
    )
    b.add_struct("later", 4, [("x", integer, 0, 0)])
    queue_pointer = b.add_ptr(queue)
    proto = b.add_func_proto(integer, [("q", queue_pointer), ("key__nullable", disk_pointer), ("", 0)])
    b.add_func("submit", proto)
    void = b.add_ptr(0)
    traced = b.add_func_proto(0, [("__data", void), ("q", queue_pointer), ("disk__nullable", disk_pointer)])
    b.add_func("__traceiter_start", traced)
    b.add_typedef("btf_trace_start", b.add_ptr(traced))
    return Btf(b.to_bytes())


def module(base):
    b = BtfBuilder(base)
    queue = base.struct("queue").id
    b.add_enum("nvme_state", 4, [("NVME_LIVE", 3)])
    own = b.add_struct("nvme", 16, [("queue", b.add_ptr(queue), 0, 0), ("id", 1, 64, 0)])
    traced = b.add_func_proto(0, [("__data", b.add_ptr(0)), ("nvme", b.add_ptr(own))])
    b.add_func("__traceiter_nvme_sq", traced)
    b.add_typedef("btf_trace_nvme_sq", b.add_ptr(traced))
    b.add_func("nvme_submit", b.add_func_proto(1, [("nvme", b.add_ptr(own))]))
    return Btf(b.to_bytes(), base)


def read_format(category, name):
    if (category, name) != ("block", "start"):
        raise NotFound(f"no tracepoint {category}:{name}")
    return FORMAT


@pytest.fixture(scope="session")
def kernel():
    base = vmlinux()
    return LiveTarget(
        possible_cpus=3,
        pid_namespace=(4, 4026531836),
        btf=lambda: base,
        modules=lambda: [("nvme", module(base))],
        formats=read_format,
        features=lambda feature: feature == "isa:v4",
        tracepoints=lambda category: {"block": ("finish", "start"), "bus": ("start",)}[category],
        categories=lambda: ("block", "bus"),
    )
