"""Changes of the kernel that a script is told about, by the recorded BTF of kernels, and on a made-up one."""

from __future__ import annotations

import pytest

from pyebpf.bpftrace.changed import FUNCTIONS, MEMBERS
from pyebpf.script import Script
from pyebpf.target import RecordedTarget
from tests.dsl.fake_target import FakeTarget
from tests.script.record import KERNELS, SCRIPTS

RELEASES = ("5.10", "6.1", "6.12", "7.3")
TARGETS = {each: RecordedTarget.from_json((KERNELS / f"{each}.json").read_text()) for each in RELEASES}

#: Of each script the first release that it is told something on, and what it is told last, shortened.
TOLD = {
    "unlink": (
        "6.1",
        "arg1 of vfs_unlink is a struct inode * (dir), not a struct dentry *: that is arg2; since",
    ),
    "oom": ("5.10", "arg1 of oom_kill_process is a char * (message), not a struct oom_control *: that is arg0; since"),
    "tty": (
        "5.10",
        "arg1 of tty_write is a struct iov_iter * (from), no address of text; since Linux 5.11 ",
    ),
    "keys": ("6.1", "arg1 of vfs_unlink is a struct inode * (dir), and the key of @birth at arg1 of security_inode"),
    "kept": ("6.1", "arg1 of vfs_unlink is a struct inode * (dir), not a struct dentry *: that is arg2; since"),
    "call": ("5.10", "__x64_sys_openat has the address of the saved registers as its only argument: write tracepoint"),
    "runqlen": ("5.10", "struct cfs_rq has no member 'nr_running' (did you mean h_nr_runnable?): since Linux 6.14"),
    "state": (
        "6.1",
        "struct task_struct has no member state on this kernel: since Linux 5.14 (commit 2f064a59a11f)",
    ),
    "disk": (
        "6.1",
        "struct request has no member rq_disk on this kernel: since Linux 5.17 (commit f3fa33acca9f)",
    ),
    "gone": ("6.12", "no function swap_readpage is on this kernel to put a probe on: since Linux 6.8"),
    "close": (
        "6.1",
        "no function blk_throtl_bio is on this kernel to put a probe on (did you mean __blk_throtl_bio",
    ),
    "little": ("6.1", "add_to_page_cache_lru has few callers left on this kernel: since Linux 5.16 filemap_add_folio"),
}
FINE = ("own", "several", "sock", "address", "text", "number")


@pytest.mark.parametrize("name", TOLD)
def test_a_change_is_told_from_its_release_on(name: str) -> None:
    """By the types and the members that BTF has."""
    first, text = TOLD[name]
    for release, target in TARGETS.items():
        told = Script(SCRIPTS[name]).kernel_changes(target)
        assert bool(told) == (RELEASES.index(release) >= RELEASES.index(first)), release
    assert told[0].startswith(f"<script>:1: {text}")


@pytest.mark.parametrize("name", FINE)
def test_what_is_as_it_was_is_not_told(name: str) -> None:
    """A socket as a tcp_sock, an address of any family, text of a process, a function of two names."""
    for release, target in TARGETS.items():
        assert Script(SCRIPTS[name]).kernel_changes(target) == [], release


def test_a_page_is_a_folio() -> None:
    """A cast of a struct folio to its first page is right."""
    assert [bool(Script(SCRIPTS["page"]).kernel_changes(each)) for each in TARGETS.values()] == [True, *[False] * 3]


def test_a_function_may_come_back() -> None:
    """It is inlined in one release, and a function again in another."""
    told = [Script(SCRIPTS["inlined"]).kernel_changes(each) for each in TARGETS.values()]
    assert [len(each) for each in told] == [0, 1, 0, 0]
    assert "since Linux 5.16 (commit be6bfe36db17) it is inline" in told[1][0]


def test_a_member_is_compared_by_its_offset() -> None:
    """Of a struct that the script lays out as another kernel had it."""
    (told,) = Script(SCRIPTS["runqlen"]).kernel_changes(TARGETS["6.12"])
    message, source, carets = told.splitlines()
    assert message == (
        "<script>:1: nr_running is at byte 24 of this struct, and at byte 16 of the kernel's struct cfs_rq: leave the "
        "definition out, and the kernel's own is taken"
    )
    assert source[carets.index("^") : len(carets)] == "unsigned int nr_running"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("kprobe:static_one { }", "the compiler made static_one.isra.0 of static_one, with parameters that may differ"),
        ("kprobe:tcp_sendmsg { print(arg3); }", "tcp_sendmsg has no arg3 on this kernel: the last one is arg2"),
        ("kprobe:rcu_read_lock { print(arg0); }", "rcu_read_lock has no arg0 on this kernel: it has none"),
        ("kprobe:tcp_sendmsg { print((struct sock *)arg2); }", "arg2 of tcp_sendmsg is an int (flags), not a struct"),
        ("kprobe:tcp_sendmsg { print((struct sock *)arg1); }", "not a struct sock *: that is arg0"),
        ("kprobe:tcp_sendmsg { print(((struct task_struct *)arg0)->pid); }", "arg0 of tcp_sendmsg is a struct sock *"),
        ("kprobe:tcp_sendmsg { $x = arg2; print(str($x)); }", "arg2 of tcp_sendmsg is an int (flags), no address"),
        ("struct sock { char a; int sk_ack_backlog; }; kprobe:x { print(((struct sock *)1)->sk_ack_backlog); }", ""),
    ],
)
def test_a_change_is_told_at_its_place(text: str, told: str) -> None:
    """With the line, and carets below it."""
    first = Script(text, file="a.bt").kernel_changes(FakeTarget())[0]
    assert first.startswith("a.bt:1: ")
    assert told in first
    assert "^" in first


def test_arguments_that_fit_are_not_told() -> None:
    """Neither numbers, nor those at a return, at an offset, of several functions, or of processes."""
    for text in (
        "kprobe:tcp_sendmsg { print(arg1 + arg2); $sk = (struct sock *)arg0; @[$sk->sk_family] = count(); }",
        "kprobe:tcp_sendmsg+4 { print(arg7); }",
        "kprobe:tcp_* { print(arg7); }",
        "uprobe:/bin/x:f { print(str(arg7)); }",
        "struct sock { int sk_ack_backlog; }; uprobe:/bin/x:f { print(((struct sock *)arg0)->sk_ack_backlog); }",
    ):
        assert Script(text).kernel_changes(FakeTarget()) == []


def test_the_table_is_right_about_these_kernels() -> None:
    """Each function and member of it is gone in the first kernel from its release on, a member is there before."""

    def number(release: str) -> tuple[int, ...]:
        return tuple(map(int, release.split(".")))

    for name, change in FUNCTIONS.items():
        after = next(each for each in RELEASES if number(each) >= number(change.release))
        if name.startswith("blk_account_io"):
            continue  # inline, and made a function of here and there
        assert not TARGETS[after].has_function(name), name
    for (struct, member), change in MEMBERS.items():
        for release, target in TARGETS.items():
            assert target.has_field(struct, member) == (number(release) < number(change.release)), member
