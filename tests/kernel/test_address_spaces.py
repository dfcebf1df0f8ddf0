"""A pointer's memory, the process's or the kernel's, is part of its type: whatever is done with it, reads go there."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

import pytest

from pyebpf import (
    BPF,
    Struct,
    cast,
    char,
    container_of,
    current_task,
    field,
    pid,
    ptr,
    u8,
    u16,
    u32,
    u64,
    user,
    user_string,
)
from pyebpf.errors import CompileError

PORT = 48_611


class Vector(Struct):
    """struct iovec."""

    base: int = field(ptr[u8])
    size: u64


class Message(Struct):
    """The beginning of struct user_msghdr."""

    name: int = field(ptr[u8])
    name_size: u32
    vectors: int = field(ptr[Vector])


HELPERS = """
def as_internet(address):
    return cast("struct sockaddr_in", address)

def family_of(address):
    return address.sin_family

def second(pair):
    return pair[1].sin_family

through = lambda address: cast("struct sockaddr_in", address).sin_family
"""

#: With `uservaddr`, a void pointer that the tracepoint's record has: what each gives is the family, AF_INET.
FAMILIES = [
    'cast("struct sockaddr_in", uservaddr).sin_family',
    'cast("struct sockaddr_in", user(uservaddr)).sin_family',
    'user(cast("struct sockaddr_in", uservaddr)).sin_family',
    'cast("struct sockaddr_in", user(u64(uservaddr))).sin_family',
    'cast("struct sockaddr_in *", uservaddr).sin_family',
    'cast("struct sockaddr", cast("struct sockaddr_in", uservaddr)).sa_family',
    'cast("struct sockaddr_in", cast("char *", uservaddr)).sin_family',
    'cast("struct sockaddr_in", uservaddr + 0).sin_family',
    'cast("struct sockaddr_in", 8 + uservaddr - 8).sin_family',
    'cast("struct sockaddr_in", cast("char *", uservaddr) + 16 - 16).sin_family',
    'container_of(cast("struct sockaddr_in", uservaddr).sin_addr, "struct sockaddr_in", "sin_addr").sin_family',
    'cast("struct in6_addr", uservaddr).in6_u.u6_addr8[0]',
    'cast("struct in6_addr", uservaddr).in6_u.u6_addr16[pid() & 0] >> 8',
    'cast("struct sockaddr_in", cast("struct in6_addr", uservaddr).in6_u.u6_addr16).sin_family',
    "as_internet(uservaddr).sin_family",
    "family_of(as_internet(uservaddr))",
    "second((0, as_internet(uservaddr)))",
    "through(uservaddr)",
    "(as_internet(uservaddr) if pid() else as_internet(uservaddr + 0)).sin_family",
    "user(uservaddr, u16)[0]",
    "ctx_vaddr[pid() & 0]",
    'cast("struct sockaddr_in", ctx_vaddr).sin_family',
    'cast("u16 *", uservaddr)[0]',
    'cast("u16 *", uservaddr)[pid() & 0]',
    # The kernel's memory stays the kernel's.
    'cast("struct task_struct", current_task()).tgid - pid() + 2',
    'cast("struct task_struct", u64(current_task())).group_leader.tgid - pid() + 2',
    'container_of(current_task().se, "struct task_struct", "se").tgid - pid() + 2',
    'cast("struct task_struct", cast("char *", current_task()) + 0).tgid - pid() + 2',
]

STATEMENTS = """
    kept = cast("struct sockaddr_in", uservaddr)
    found[30] = kept.sin_family
    if pid() & 1:
        kept = cast("struct sockaddr_in", uservaddr + 0)
    found[31] = kept.sin_family
    walking = uservaddr
    for i in range(3):
        walking += 2
        walking -= 2
        found[32] = cast("struct sockaddr_in", walking).sin_family
    one, other = 1, cast("struct sockaddr_in", walking)
    found[33] = other.sin_family
    family, port = other.sin_family, other.sin_port
    found[34] = family + port - PORT
    found[35] = (uservaddr + 7) - uservaddr - 5
    if (again := cast("struct sockaddr_in", uservaddr)) is not None:
        found[36] = again.sin_family
"""
PLACES = [*range(len(FAMILIES)), *range(30, 37)]


def loaded(text, **names):
    """A BPF with this source, and its array `found`."""
    bpf = BPF()
    known = {
        "bpf": bpf,
        "found": bpf.array(value=u64, size=64),
        "cast": cast,
        "container_of": container_of,
        "current_task": current_task,
        "user": user,
        "user_string": user_string,
        "pid": pid,
        "ptr": ptr,
        "u16": u16,
        "u64": u64,
        "Message": Message,
        "Vector": Vector,
        "me": os.getpid(),
        "PORT": PORT,
        **names,
    }
    bpf.define(text, known)
    return bpf, known["found"]


def test_every_operation_keeps_the_address_space():
    """Casts, arithmetic, members, locals, functions: each reads AF_INET from this process, or the task's own number."""
    lines = [f"    found[{number}] = {expression}" for number, expression in enumerate(FAMILIES)]
    text = HELPERS + '@bpf.tracepoint("syscalls:sys_enter_connect")\ndef on_connect(ctx, uservaddr):\n'
    text += "    if pid() != me:\n        return\n    ctx_vaddr = user(ctx.uservaddr, u16)\n" + "\n".join(lines)
    bpf, found = loaded(text + STATEMENTS)
    with bpf, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connected:
        connected.connect(("127.0.0.1", PORT))
        values = {place: found[place] for place in PLACES}
    wrong = {place: value for place, value in values.items() if value != socket.AF_INET}
    assert {(FAMILIES[place] if place < 30 else place): value for place, value in wrong.items()} == {}


def test_a_pointer_to_text_goes_on_in_a_loop():
    """Bytes further on it points to text, still: one name holds both."""
    bpf = BPF()
    names = bpf.hash(key=char[16], value=u64)
    mine = os.getpid()

    @bpf.tracepoint("syscalls:sys_enter_openat")
    def on_open(filename) -> None:
        if pid() != mine:
            return
        walking = filename
        for _ in range(3):
            walking = walking + 1
        names[user_string(walking)] += 1

    with bpf:
        assert not Path("/12345").exists()
        with contextlib.suppress(FileNotFoundError):
            os.open("/12345", os.O_RDONLY)
        assert names["345"] == 1


def test_pointers_found_in_a_process_lead_there():
    """Members of structs and fields of copied records: their pointers are the process's, as is what those point to."""
    bpf, found = loaded("""
@bpf.tracepoint("syscalls:sys_enter_sendmsg")
def on_send(msg):
    if pid() != me:
        return
    header = cast("struct user_msghdr", msg)
    found[0] = header.msg_iov.iov_len
    found[1] = user_string(header.msg_iov.iov_base) == "hello"
    vector = cast("struct iovec", header.msg_iov)
    found[2] = vector.iov_len
    copied = user(msg, Message)[0]
    found[3] = copied.vectors[0].size
    found[4] = user_string(copied.vectors[0].base) == "hello"
    kept = copied.vectors
    found[5] = kept[0].base[4]
    found[6] = user(msg, Message).vectors.size
    found[7] = cast("struct iovec", copied.vectors).iov_len
""")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with bpf, ours, theirs:
        ours.sendmsg([b"hello\0"])
        assert [found[place] for place in range(8)] == [6, 1, 6, 6, 1, ord("o"), 6, 6]


def test_a_number_that_the_author_calls_a_pointer_is_of_the_process_in_a_system_call():
    """`vec: ptr[Vector]`, whether the record has a pointer there or a number."""
    bpf, found = loaded("""
@bpf.tracepoint("syscalls:sys_enter_writev")
def on_write(vec: ptr[Vector]):
    if pid() == me:
        found[0] = vec[0].size
        found[1] = vec.size
        found[2] = user_string(vec[0].base) == "abc"
""")
    reading, writing = os.pipe()
    try:
        with bpf:
            os.writev(writing, [b"abc\0"])
            assert [found[place] for place in range(3)] == [4, 4, 1]
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("user(uservaddr, u16) + 1", r'has no operator \+: p\[i\] reads the i-th u16; cast\("char \*", p\) \+ n is n'),
        ("uservaddr * 2", r"has no operator \* with 2: u64\(p\) is its number"),
        ("5 - uservaddr", r"has no operator - with 5: u64\(p\) is its number"),
    ],
)
def test_what_arithmetic_pointers_have_not_is_refused(expression, message):
    """C's scaling would surprise as much as its absence: it is written out."""
    bpf, _ = loaded(f'@bpf.tracepoint("syscalls:sys_enter_connect")\ndef on(uservaddr):\n    found[0] = {expression}\n')
    with pytest.raises(CompileError, match=message), bpf:
        pass
