"""Changes of the kernel that scripts are told about where BTF alone does not tell what to write instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.dataclass import dataclass

if TYPE_CHECKING:
    from pyebpf.bpftrace.ast import Program


@dataclass(frozen=True, slots=True)
class Change:
    """A change: its release, its commit ("" where several made it), and the rest of the sentence."""

    release: str
    commit: str
    text: str

    def __str__(self) -> str:
        commit = f" (commit {self.commit})" if self.commit else ""
        return f"since Linux {self.release}{commit} {self.text}"


_ACCOUNT = "it is inlined; tracepoint:block:block_io_{} (Linux 6.5) and rawtracepoint:block_rq_{} stand in for it"
_RENAMED_ACCOUNT = "it is inline; tracepoint:block:block_io_{} (Linux 6.5) stands in for it"

#: Functions that are gone, or that compilers take apart, by name.
FUNCTIONS = {
    "__blk_account_io_done": Change("5.17", "450b7879e345", _ACCOUNT.format("done", "complete")),
    "__blk_account_io_start": Change("5.17", "450b7879e345", _ACCOUNT.format("start", "issue")),
    "__do_page_cache_readahead": Change("5.10", "", "do_page_cache_ra reads ahead"),
    "__elv_add_request": Change("5.0", "", "every disk has queues of blk-mq: tracepoint:block:block_rq_insert"),
    "__page_cache_alloc": Change("5.16", "", "filemap_alloc_folio allocates pages of files"),
    "blk_account_io_done": Change("5.16", "be6bfe36db17", _RENAMED_ACCOUNT.format("done")),
    "blk_account_io_start": Change("5.16", "be6bfe36db17", _RENAMED_ACCOUNT.format("start")),
    "blk_start_request": Change("5.0", "", "every disk has queues of blk-mq: blk_mq_start_request"),
    "cbq_dequeue": Change("6.3", "", "there is no queueing discipline cbq"),
    "cbq_enqueue": Change("6.3", "", "there is no queueing discipline cbq"),
    "kmem_cache_alloc": Change("6.10", "", "kmem_cache_alloc_noprof allocates: tracepoint:kmem:kmem_cache_alloc"),
    "kmem_cache_alloc_node": Change("6.10", "", "kmem_cache_alloc_node_noprof allocates"),
    "migrate_misplaced_page": Change("6.7", "", "migrate_misplaced_folio moves pages"),
    "swap_readpage": Change("6.8", "c9bdf768dd93", "swap_read_folio reads pages in"),
    "tcp_drop": Change("5.19", "8fbf195798b5", "drops are told by tracepoint:skb:kfree_skb, with their reason"),
}

#: Functions that have few callers left: the one that took their place, and when it did.
REPLACED = {
    "add_to_page_cache_lru": ("filemap_add_folio", Change("5.16", "", "filemap_add_folio adds pages of files")),
    "mark_page_accessed": ("folio_mark_accessed", Change("5.16", "", "folio_mark_accessed marks pages")),
}

#: Functions whose parameters moved, by name.
PARAMETERS = {
    **dict.fromkeys(
        ("vfs_create", "vfs_link", "vfs_mkdir", "vfs_mknod", "vfs_rename", "vfs_rmdir", "vfs_symlink", "vfs_unlink"),
        Change("5.12", "6521f8917082", "its first parameter is a mnt_userns, since 6.3 a mnt_idmap"),
    ),
    "tty_write": Change("5.11", "9bb48c82aced", "it takes a kiocb and an iov_iter: the text is behind its iovec"),
    "oom_kill_process": Change("4.9", "7c5f64f84483", "it takes an oom_control and a message"),
}

#: Members of structs that are gone.
MEMBERS = {
    ("struct cfs_rq", "nr_running"): Change("6.14", "736c55a02c47", "it is nr_queued"),
    ("struct request", "rq_disk"): Change("5.17", "f3fa33acca9f", "the disk is q->disk"),
    ("struct task_struct", "state"): Change("5.14", "2f064a59a11f", "it is __state, an unsigned int"),
    ("struct bio", "bi_disk"): Change("5.12", "309dca309fc3", "the disk is bi_bdev->bd_disk"),
}

#: Structs that stand for each other at one address, whatever BTF says: a folio is its first page.
SAME_ADDRESS = (frozenset(("page", "folio")),)


def concerns(program: Program) -> bool:
    """Whether any of this may be about a script: it probes functions, defines what the kernel has, or names a member.

    All others are not compared with the kernel.
    """
    if program.definitions:
        return True
    points = [point for probe in program.probes for point in probe.attach_points]
    return any(each.provider in ("kprobe", "kretprobe") for each in points) or any(
        name in program.source.text for _, name in MEMBERS
    )
