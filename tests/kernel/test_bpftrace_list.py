"""`pyebpf -l` on the running kernel: tracepoints with their fields, iterators, functions, types."""

from __future__ import annotations

from pyebpf import BPF
from tests.support.command import pyebpf
from tests.support.needs import needs
from tests.support.traced import binary


def listed(*arguments: str) -> list[str]:
    """The lines of a list."""
    done = pyebpf("-l", *arguments)
    assert done.returncode == 0
    return done.stdout.splitlines()


def test_tracepoints_and_their_fields() -> None:
    """By category and by name, with -v the fields of the record."""
    assert listed("t:raw_syscalls:*") == ["tracepoint:raw_syscalls:sys_enter", "tracepoint:raw_syscalls:sys_exit"]
    assert listed("-v", "t:sys_exit") == ["tracepoint:raw_syscalls:sys_exit", "    long id", "    long ret"]


def test_raw_tracepoints_have_their_module_and_arguments() -> None:
    """Without the first one, which is the kernel's own."""
    lines = listed("-v", "rawtracepoint:sys_exit")
    assert lines == ["rawtracepoint:vmlinux:sys_exit", "    struct pt_regs * regs", "    long int ret"]


def test_iterators() -> None:
    """All that there are."""
    assert listed("iter:*") == [f"iter:{name}" for name in BPF.iterators()]
    assert listed("-v", "iter:task") == ["iter:task", "    struct task_struct * task"]


def test_functions_of_a_file() -> None:
    """By the path of the file that is meant."""
    path = binary("pie")
    assert f"uprobe:{path}:main" in listed(f"uprobe:{path}:*")


def test_functions_of_the_kernel() -> None:
    """By their names."""
    needs("attach:kprobe")
    assert listed("k:vfs_unlink", "kr:vfs_unlink") == ["kprobe:vfs_unlink", "kretprobe:vfs_unlink"]


def test_functions_of_the_kernel_for_fentry() -> None:
    """Always with the module, with arguments and result."""
    needs("attach:fentry")
    assert listed("fentry:vfs_fsync")[0] == "fentry:vmlinux:vfs_fsync"
    lines = listed("-v", "fexit:vmlinux:vfs_fsync")
    assert lines == ["fexit:vmlinux:vfs_fsync", "    struct file * file", "    int datasync", "    int retval"]


def test_types() -> None:
    """By names; with -v as libbpf writes their definitions."""
    assert "struct task_struct" in listed("struct task_s*")
    lines = listed("-lv", "struct hlist_node")
    assert lines == [
        "vmlinux: struct hlist_node {",
        "\tstruct hlist_node *next;",
        "\tstruct hlist_node **pprev;",
        "};",
        "",
    ]


def test_what_nothing_matches_is_told() -> None:
    """A name like it of tracepoints and of types; a pattern without a kind is one of all."""
    for pattern, told in (
        ("tracepoint:sched:sched_swich", "matches 'tracepoint:sched:sched_swich' (did you mean sched_switch"),
        ("rawtracepoint:sched_swich", "matches 'rawtracepoint:sched_swich' (did you mean"),
        ("sched_swich", "nothing matches 'sched_swich' (did you mean sched_switch"),
        ("struct task_strct", "no struct 'task_strct' (did you mean task_struct"),
    ):
        done = pyebpf("-l", pattern)
        assert (done.returncode, done.stdout) == (0, "")
        assert told in done.stderr


def test_usdt_probes_have_their_arguments() -> None:
    """With -v, by the names that scripts have for them."""
    path = binary("pie")
    first, *values = listed("-v", f"usdt:{path}:traced:twice")
    assert first == f"usdt:{path}:traced:twice"
    assert values
    assert values[0].split()[1] == "arg0"


def test_a_category_alone_is_told_how_its_tracepoints_are_named() -> None:
    """By the pattern that lists them; one that is misspelt, too."""
    for name, told in (("sched", "tracepoint:sched:*"), ("shed", "sched:*")):
        done = pyebpf("-l", f"tracepoint:{name}")
        assert done.stderr == f"pyebpf -l: no tracepoint matches 'tracepoint:{name}' (did you mean {told}?)\n"
