"""Write down what kernels answer about the scripts of `test_changes`: `python -m tests.script.record 6.1=FILE …`.

A file is a kernel's BTF: /sys/kernel/btf/vmlinux, or the section .BTF of an image.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from pyebpf.bpftrace.changed import FUNCTIONS, MEMBERS
from pyebpf.btf import Btf, Kind
from pyebpf.script import Script
from pyebpf.target import LiveTarget, Recorder

if TYPE_CHECKING:
    from pyebpf.target import Target

KERNELS = Path(__file__).with_name("kernels")

#: A script for each kind of change, by the name of its test.
SCRIPTS = {
    "unlink": "kprobe:vfs_unlink { $d = (struct dentry *)arg1; print($d); }",
    "oom": "kprobe:oom_kill_process { print(((struct oom_control *)arg1)->totalpages); }",
    "tty": 'kprobe:tty_write { printf("%s", str(arg1, arg2)); }',
    "keys": "kprobe:security_inode_create { @birth[arg1] = nsecs; } kprobe:vfs_unlink /@birth[arg1]/ { @ = count(); }",
    "kept": (
        "kprobe:vfs_unlink { @d[tid] = arg1; } "
        "kretprobe:vfs_unlink { print(str(((struct dentry *)@d[tid])->d_name.name)); }"
    ),
    "call": "kprobe:__x64_sys_openat { print(arg1); }",
    "runqlen": (
        "struct cfs_rq_partial { struct load_weight load; unsigned long runnable_weight; unsigned int nr_running; }; "
        "profile:hz:99 { $q = (struct cfs_rq_partial *)curtask->se.cfs_rq; @ = lhist($q->nr_running, 0, 100, 1); }"
    ),
    "own": (
        "struct nameidata { struct path path; struct qstr last; }; "
        "kprobe:lookup_fast { print(str(((struct nameidata *)arg0)->last.name)); }"
    ),
    "state": "profile:hz:99 { @[curtask->state] = count(); }",
    "disk": "kprobe:blk_mq_start_request { print(((struct request *)arg0)->rq_disk->disk_name); }",
    "inlined": "kprobe:blk_account_io_start { @ = count(); }",
    "gone": "kprobe:swap_readpage { @ = count(); }",
    "close": "kprobe:blk_throtl_bio { @ = count(); }",
    "little": "kprobe:add_to_page_cache_lru { @ = count(); }",
    "several": "kprobe:swap_readpage, kprobe:swap_read_folio { @ = count(); }",
    # Those that are as they were.
    "sock": "kprobe:tcp_sendmsg { print(((struct tcp_sock *)arg0)->snd_cwnd); }",
    "address": "kprobe:ip4_datagram_connect { print(((struct sockaddr_in *)arg1)->sin_port); }",
    "text": "kprobe:vfs_read { print(str(arg1, arg2)); }",
    "page": "kprobe:folio_mark_accessed { @[((struct page *)arg0)->flags] = count(); }",
    "number": "kprobe:vfs_read { print(arg2); }",
}


def target_of(btf: Btf) -> Target:
    """A kernel by its BTF alone, which lists its functions but for those that compilers took apart."""
    names = sorted(btf.names((Kind.FUNC,)))
    return LiveTarget(
        btf=lambda: btf, functions=lambda pattern: tuple(name for name in names if fnmatchcase(name, pattern))
    )


def main(arguments: list[str]) -> None:
    """Record each kernel that is named."""
    for argument in arguments:
        name, _, file = argument.partition("=")
        recorder = Recorder(target_of(Btf(Path(file).read_bytes())))
        for text in SCRIPTS.values():
            with suppress(LookupError):
                Script(text).kernel_changes(recorder)
        for function in FUNCTIONS:
            recorder.has_function(function)
        for struct, member in MEMBERS:
            recorder.has_field(struct, member)
        (KERNELS / f"{name}.json").write_text(recorder.to_json())


if __name__ == "__main__":
    main(sys.argv[1:])
