"""Blocks at one place run in the order of the script, whatever the kernel does with programs there."""

from __future__ import annotations

import os

import pytest

from pyebpf.errors import PyebpfError
from pyebpf.script import Script
from tests.support.needs import needs
from tests.support.system_calls import getpgid

#: Attach points in getpgid(2), by the feature that they need.
PLACES = {
    "kprobe:__x64_sys_getpgid": "attach:kprobe",
    "kprobe:vmlinux:__x64_sys_getpgi*": "attach:kprobe",
    "kretprobe:__x64_sys_getpgid": "attach:kprobe",
    "fentry:__x64_sys_getpgid": "attach:fentry",
    "fexit:__x64_sys_getpgid": "attach:fentry",
    "tracepoint:syscalls:sys_enter_getpgid": "",
    "rawtracepoint:sys_enter": "",
}


@pytest.mark.parametrize("place", PLACES)
def test_blocks_of_one_place(place: str) -> None:
    """The second has what the first has written; a third one both."""
    if PLACES[place]:
        needs("arch:x86_64", PLACES[place])
    of_call = f"args.id == {155 if os.uname().machine == 'aarch64' else 121} && " if place.startswith("raw") else ""
    blocks = " ".join(f"{place} /{of_call}pid == $1/ {{ @n = @n * 10 + {number}; }}" for number in (1, 2, 3))
    script = Script(blocks, [str(os.getpid())])
    with script:
        getpgid(5)
        assert script["@n"].snapshot() == {0: 123}


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("tracepoint:nope:nope", "no tracepoint category 'nope'"),
        ("uprobe:/bin/nothere:f", "there is no file /bin/nothere"),
        ("usdt:/bin/nothere:f", "there is no file /bin/nothere"),
    ],
)
def test_a_place_that_is_missing_is_told_where_begin_ends_the_script(place: str, message: str) -> None:
    """As where it goes on; nothing is printed before."""
    with pytest.raises(PyebpfError, match=message):
        next(iter(Script(f"{place} {{ @ = count(); }} BEGIN {{ print(1); exit(); }}").output()))
