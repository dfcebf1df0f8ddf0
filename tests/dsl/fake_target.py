"""A made-up kernel for tests of the language: a few types, tracepoints, raw tracepoints; all features but may_goto."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pyebpf.errors import NotFound, closest
from pyebpf.target import KernelFunction, KernelMember, KernelParameter, KernelRawTracepoint, KernelType, Target
from pyebpf.types.tracepoint import TracepointFormat, parse_format

if TYPE_CHECKING:
    from collections.abc import Mapping

INT = KernelType("int", 4, "int", signed=True)
U32 = KernelType("int", 4, "unsigned int")
U64 = KernelType("int", 8, "unsigned long long")
BE32 = KernelType("int", 4, "unsigned int", aliases=("__be32", "__u32"))
CHAR = KernelType("int", 1, "char", signed=True)
SOCK = KernelType("struct", 32, "sock", id=1)
TASK = KernelType("struct", 64, "task_struct", id=2)

MEMBERS: Mapping[str, Mapping[str, KernelMember]] = {
    "sock": {
        "sk_family": KernelMember(KernelType("int", 2, "unsigned short"), 0),
        "sk_ack_backlog": KernelMember(U32, 32),
        "sk_max_ack_backlog": KernelMember(U32, 64),
        "sk_cookie": KernelMember(U64, 128),
        "sk_port": KernelMember(KernelType("int", 2, "unsigned short", aliases=("__be16", "__u16")), 96),
        "sk_words": KernelMember(KernelType("array", 8, element=BE32, length=2), 192),
    },
    "task_struct": {
        "pid": KernelMember(INT, 0),
        "flags": KernelMember(U32, 32),
        "start_time": KernelMember(U64, 64),
        "comm": KernelMember(KernelType("array", 16, element=CHAR, length=16), 128),
    },
}

#: Functions that probes can be put on, besides those of BTF.
FUNCTIONS = ("tcp_sendmsg", "tcp_recvmsg", "tcp_close", "rcu_read_lock", "static_one.isra.0")

#: Those of BTF: parameters and result.
SOCK_POINTER = KernelType("pointer", 8, element=SOCK)
PROTOTYPES = {
    "tcp_sendmsg": ((("sk", SOCK_POINTER), ("size", U64), ("flags", INT)), INT),
    "tcp_recvmsg": ((("sk", SOCK_POINTER), ("len", U64), ("flags", INT)), INT),
    "tcp_close": ((("sk", SOCK_POINTER), ("timeout", INT)), KernelType("void", 0, "void")),
    "rcu_read_lock": ((), KernelType("void", 0, "void")),
    "__x64_sys_openat": (
        (("regs", KernelType("pointer", 8, element=KernelType("struct", 168, "pt_regs", id=3))),),
        INT,
    ),
}

ITERATOR = ("bpf_iter_num_new", "bpf_iter_num_next", "bpf_iter_num_destroy")

FORMAT = """name: {name}
ID: 1
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;

\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;
\tfield:int dfd;\toffset:16;\tsize:8;\tsigned:0;
\tfield:const char * filename;\toffset:24;\tsize:8;\tsigned:0;
\tfield:unsigned long count;\toffset:32;\tsize:8;\tsigned:0;
\tfield:unsigned char prio;\toffset:40;\tsize:1;\tsigned:0;
\tfield:s64 delta;\toffset:48;\tsize:8;\tsigned:1;

print fmt: ""
"""


@dataclass
class FakeTarget(Target):
    """Answers from the tables above."""

    arch: str = "x86_64"
    byteorder: Literal["little", "big"] = "little"
    page_size: int = 4096
    possible_cpus: int = 2
    pid_namespace: tuple[int, int] | None = None
    #: With may_goto any `while` is accepted: without, those that nothing bounds are refused.
    missing: frozenset[str] = frozenset({"isa:may_goto"})

    def type_named(self, name: str) -> KernelType:
        types = {"struct sock": SOCK, "struct task_struct": TASK, "int": INT}
        if name not in types:
            raise NotFound(f"the kernel has no type {name}{closest(name, types)}")
        return types[name]

    def member(self, owner: KernelType, name: str) -> KernelMember:
        members = MEMBERS[owner.name]
        if name not in members:
            raise NotFound(f"{owner.c_name} has no member {name}{closest(name, members)}")
        return members[name]

    def has_field(self, struct: str, path: str) -> bool:
        return path in MEMBERS.get(struct.removeprefix("struct "), {})

    def enumerator(self, name: str, enum: str = "") -> int:  # noqa: ARG002 - the interface's
        values = {"TCP_LISTEN": 10, "TCP_CLOSE": 7}
        if name not in values:
            raise NotFound(f"the kernel has no enumerator {name}{closest(name, values)}")
        return values[name]

    def function(self, name: str) -> KernelFunction:
        if name in PROTOTYPES:
            parameters, returns = PROTOTYPES[name]
            number = 300 + list(PROTOTYPES).index(name)
            return KernelFunction(name, number, tuple(KernelParameter(n, t) for n, t in parameters), returns)
        if name not in ITERATOR:
            raise NotFound(f"the kernel has no function {name}{closest(name, ITERATOR)}")
        return KernelFunction(name, 200 + ITERATOR.index(name), (), INT)

    def has_function(self, name: str) -> bool:
        if name == "bpf_prog_inc_misses_counter":
            return f"function:{name}" not in self.missing
        return name in ITERATOR or name in PROTOTYPES

    def functions(self, pattern: str) -> tuple[str, ...]:
        from fnmatch import fnmatchcase

        return tuple(name for name in FUNCTIONS if fnmatchcase(name, pattern))

    def members(self, owner: KernelType) -> tuple[str, ...]:
        return tuple(MEMBERS[owner.name])

    def named_members(self, owner: KernelType) -> tuple[str, ...]:
        return self.members(owner)

    def prototype(self, type_: KernelType) -> KernelFunction:
        raise NotFound(f"the kernel has no function type {type_.name}")

    def raw_tracepoint(self, name: str) -> KernelRawTracepoint:
        pointer = {
            "sock": KernelType("pointer", 8, element=SOCK),
            "task": KernelType("pointer", 8, element=TASK),
            "void": KernelType("pointer", 8, element=KernelType("void", 0)),
        }
        known = {
            "inet_sock_set_state": (("sk", pointer["sock"]), ("oldstate", INT), ("newstate", INT)),
            "tcp_a": (("sk", pointer["sock"]),),
            "tcp_b": (("sk", pointer["task"]),),
            "sched_process_exit": (("p", pointer["task"]),),
            "page_fault_user": (("address", KernelType("int", 8, "unsigned long")),),
            "sched_switch": (
                ("preempt", KernelType("int", 1, "_Bool")),
                ("prev", pointer["task"]),
                ("next", pointer["task"]),
            ),
        }
        if name not in known:
            raise NotFound(f"the kernel has no raw tracepoint {name}{closest(name, known)}")
        return KernelRawTracepoint(name, 100 + len(name), tuple(KernelParameter(n, t) for n, t in known[name]))

    def raw_tracepoints(self, pattern: str) -> tuple[str, ...]:
        from fnmatch import fnmatchcase

        known = ("inet_sock_set_state", "page_fault_user", "sched_process_exit", "sched_switch", "tcp_a", "tcp_b")
        return tuple(name for name in known if fnmatchcase(name, pattern))

    def tracepoint_format(self, category: str, name: str) -> TracepointFormat:
        known = {"syscalls": {"sys_enter_openat", "sys_enter_open", "sys_enter_write", "sys_exit_openat"}}
        if name not in known.get(category, ()):
            raise NotFound(f"the kernel has no tracepoint {category}:{name}{closest(name, known.get(category, ()))}")
        return parse_format(FORMAT.format(name=name))

    def tracepoints(self, category: str, pattern: str) -> tuple[str, ...]:
        from fnmatch import fnmatchcase

        known = {"syscalls": ("sys_enter_open", "sys_enter_openat", "sys_enter_write")}
        return tuple(name for name in known.get(category, ()) if fnmatchcase(name, pattern))

    def tracepoint_categories(self, pattern: str) -> tuple[str, ...]:
        from fnmatch import fnmatchcase

        return tuple(name for name in ("syscalls",) if fnmatchcase(name, pattern))

    def has(self, feature: str) -> bool:
        return feature not in self.missing
