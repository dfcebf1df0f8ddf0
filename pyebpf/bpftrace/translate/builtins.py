"""Builtins: `pid`, `comm`, `nsecs`, `args.x`, `arg0` and others, and the constants that belong to an attach point."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyebpf.attach import registers
from pyebpf.attach.iterators import KernelIterator
from pyebpf.attach.kprobes import Kprobe, KprobeMulti
from pyebpf.attach.tracepoints import BareTracepoint, Tracepoint
from pyebpf.attach.trampolines import Fentry, Fexit
from pyebpf.attach.uprobes import Uprobe
from pyebpf.attach.usdt import Usdt
from pyebpf.bpftrace.translate.comm import comm
from pyebpf.bpftrace.translate.enums import of_kernel
from pyebpf.bpftrace.translate.values import (
    Condition,
    Group,
    Integer,
    Reference,
    Special,
    Text,
    constant,
    kernel_target,
    literal_text,
    of_entity,
)
from pyebpf.bpftrace.value_types import Username, UserSymbol
from pyebpf.builder.intrinsics import task
from pyebpf.builder.intrinsics.processes import tell_process
from pyebpf.builder.ssa.conditions import Always, Compare
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.kernel_numbers import as_number
from pyebpf.builder.values.kernel_objects import cast
from pyebpf.builder.values.memory import Space
from pyebpf.builder.values.pointers import Pointer
from pyebpf.builder.values.strings import StringSource
from pyebpf.compiler.ir import Condition as Relation, Op, ValueType as Register
from pyebpf.dataclass import fields, replace
from pyebpf.errors import NotFound, closest_or_all
from pyebpf.specs import MapSpec
from pyebpf.target.facts import KERNEL_ITSELF
from pyebpf.types import S64, U32, U64, CharFactory
from pyebpf.uapi.bpf import MapType, ProgramType
from pyebpf.uapi.helper_ids import (
    GET_CURRENT_CGROUP_ID,
    GET_CURRENT_TASK,
    GET_FUNC_IP,
    GET_NUMA_NODE_ID,
    GET_PRANDOM_U32,
    JIFFIES64,
    KTIME_GET_BOOT_NS,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyebpf.bpftrace import ast
    from pyebpf.bpftrace.translate.body import Scope
    from pyebpf.bpftrace.translate.values import Value
    from pyebpf.compiler import ir

#: The map of the time at which the script was started, one u64 of the boot clock.
STARTED_MAP = ".started"

_ARGUMENT = re.compile(r"s?arg(\d|1[01])")  # of USDT probes twelve


def builtin(s: Scope, node: ast.Identifier) -> Value | None:
    """The value of a builtin; None if it is none."""
    name = node.name.removeprefix("__builtin_")
    build = BUILTINS.get(name)
    if build is not None:
        return build(s, node)
    found = _ARGUMENT.fullmatch(name)
    if found is not None:
        return positional(s, int(found[1]), node, stacked=name[0] == "s")
    if name == "ctx":
        return Reference(as_number(s.p, s.p.context), None, Space.KERNEL)
    if name == "args":
        return _all_arguments(s, node)
    return None


def _intrinsic(name: str) -> Callable[[Scope, ast.Identifier], Value]:
    def build(s: Scope, node: ast.Identifier) -> Value:  # noqa: ARG001 - one signature
        word: Any = getattr(task, name)
        found = word.call(s.p, [], {})
        if isinstance(found, Int):
            return Integer(found.value, signed=False, size=4 if name in ("pid", "tid") else 8)
        value = of_entity(s.p, found, task.TASK_COMM_LEN)
        assert value is not None
        return value

    return build


def _helper(number: int) -> Callable[[Scope, ast.Identifier], Value]:
    def build(s: Scope, node: ast.Identifier) -> Value:  # noqa: ARG001 - one signature
        return Integer(s.p.b.call(number), signed=False)

    return build


def _ppid(s: Scope, node: ast.Identifier) -> Value:
    task_struct: Any = cast(s.p, "struct task_struct", Int(s.p.b.call(GET_CURRENT_TASK), U64))
    return _wrapped(s, task_struct.attribute(s.p, "real_parent").attribute(s.p, "tgid"), node)


def _rand(s: Scope, node: ast.Identifier) -> Value:  # noqa: ARG001 - one signature
    return Integer(s.p.b.emit(Op.ZEXT, s.p.b.call(GET_PRANDOM_U32), size=4), signed=False)


def _elapsed(s: Scope, node: ast.Identifier) -> Value:  # noqa: ARG001 - one signature
    p = s.p
    p.maps[STARTED_MAP] = MapSpec(STARTED_MAP, MapType.ARRAY, U32, U64, 1)
    started = p.b.load(p.b.emit(Op.MAP_VALUE, symbol=STARTED_MAP), 0, 8)
    return Integer(p.b.binary(Op.SUB, p.b.call(KTIME_GET_BOOT_NS), started), signed=False)


def _curtask(s: Scope, node: ast.Identifier) -> Value:  # noqa: ARG001 - one signature
    address = s.p.b.call(GET_CURRENT_TASK)
    own = s.script.structs.find(s.p.target, "task_struct")
    if own is not None:
        return Reference(address, own.type, Space.KERNEL)
    try:
        target = s.p.target.type_named("struct task_struct")
    except NotFound:
        target = None
    return Reference(address, target, Space.KERNEL)


def _username(s: Scope, node: ast.Identifier) -> Value:  # noqa: ARG001 - one signature
    word: Any = task.uid
    return Special(Username(), word.call(s.p, [], {}))


def user_symbol(s: Scope, address: ir.Value) -> Special:
    """The symbol at an address of the current process, which is looked at while it lives."""
    tell_process(s.p)
    return Special(UserSymbol(), (Int(address, U64), task.process_number(s.p)))


def _func(s: Scope, node: ast.Identifier) -> Value:
    from pyebpf.bpftrace.value_types import KernelSymbol

    if isinstance(s.p.attach, Uprobe) and s.script.names_functions:
        return literal_text(s.point.function.encode("utf-8", "surrogateescape"))
    if isinstance(s.p.attach, Uprobe) and not s.p.attach.returns:
        ip = registers.register(s.p, registers.machine(s.p).instruction)
        return user_symbol(s, ip)
    if isinstance(s.p.attach, Uprobe):
        # Since Linux commit a3c485a5d8d4 ("bpf: Add support for bpf_get_func_ip helper for uprobe program") (v6.6),
        # as are uprobe.multi links.
        if not s.p.target.has("attach:uprobe_multi"):
            raise s.error("func at a uretprobe needs Linux 6.6: write a uretprobe for each function", node)
        return user_symbol(s, s.p.b.call(GET_FUNC_IP, s.p.context))
    if s.p.program_type not in (ProgramType.KPROBE, ProgramType.TRACING) or isinstance(s.p.attach, Usdt):
        raise s.error("func is for kprobes, fentry and uprobes: elsewhere there is probe", node)
    if isinstance(s.p.attach, Fentry | Fexit):
        return literal_text(s.p.attach.target.encode())
    word: Any = task.function_ip
    return Special(KernelSymbol(), word.call(s.p, [], {}))


def _probe(s: Scope, node: ast.Identifier) -> Value:  # noqa: ARG001 - one signature
    return literal_text(probe_text(s).encode("utf-8", "surrogateescape"))


def probe_text(s: Scope) -> str:
    """The attach point, patterns expanded, as a script writes it in full, without a name of its own."""
    attach, point = s.p.attach, s.point
    if attach is None or point.provider.upper() in ("BEGIN", "END"):
        return point.provider.lower()
    if isinstance(attach, Kprobe | KprobeMulti | Fentry | Fexit) or point.provider == "tracepoint":
        s.p.reads_target = True
        return f"{point.provider}:{attach.target}"
    if isinstance(attach, BareTracepoint):
        s.p.reads_target = True
        return f"{point.provider}:{s.p.target.raw_tracepoint(attach.name).module or KERNEL_ITSELF}:{attach.name}"
    return ":".join(filter(None, (point.provider, point.text.partition(":")[2])))


#: Kinds of probes that bpftrace calls so.
_SPECIAL = ("BEGIN", "END", "SELF")


def _probe_type(s: Scope, node: ast.Identifier) -> Value:  # noqa: ARG001 - one signature
    """`probetype`: the kind of probe."""
    kind = s.point.provider
    return literal_text(("special" if kind.upper() in _SPECIAL else kind).encode())


def _retval(s: Scope, node: ast.Identifier) -> Value:
    p, attach = s.p, s.p.attach
    if isinstance(attach, Fexit):
        return _wrapped(s, p.program_context.attribute(p, "retval"), node)
    returns = getattr(attach, "returns", False)
    if not returns:
        raise s.error("retval is known where a function returns: in kretprobe, uretprobe and fexit", node)
    return Integer(registers.result(p), signed=True)


def positional(s: Scope, position: int, node: ast.Identifier, *, stacked: bool = False) -> Value:
    """`arg0`: an argument by its position, 64 bits of a register, or of a raw tracepoint's."""
    p, attach = s.p, s.p.attach
    if isinstance(attach, Usdt):
        # Signed whatever the note says, as in bpftrace: one place may have a signed argument where another has none.
        word = p.program_context.parameter(p, f"arg{position}", S64, position)
        return _wrapped(s, word, node)
    if isinstance(attach, BareTracepoint) and not stacked:
        taken = len(p.target.raw_tracepoint(attach.name).parameters)
        if position >= taken:
            raise s.error(f"{attach.name} has {taken} arguments: arg0 to arg{taken - 1}", node)
        return Integer(p.b.load(p.context, 8 * position, 8), signed=False)
    _check_has_arguments(s, node)
    if not isinstance(attach, Kprobe | KprobeMulti | Uprobe) or stacked:
        kinds = "kprobes, uprobes, usdt and raw tracepoints"
        raise s.error(f"{node.name} is not supported here: it is for {kinds}; write args.NAME", node)
    if attach.returns:
        raise s.error(f"{node.name} is gone when a function returns: keep it in a map at its entry", node)
    space = Space.USER if isinstance(attach, Uprobe) else Space.KERNEL
    return Integer(registers.argument(p, position, space), signed=False)


#: Probes at no function and no event of the kernel's with fields.
_WITHOUT_ARGUMENTS = {"begin", "end", "self", "bench", "interval", "profile", "software", "hardware", "watchpoint"}


def _check_has_arguments(s: Scope, node: ast.Node) -> None:
    if s.point.provider.lower() in _WITHOUT_ARGUMENTS:
        kinds = "tracepoint, rawtracepoint, fentry, fexit, kprobe, uprobe and usdt"
        raise s.error(f"{s.point.text} has no arguments: args and arg0 are for {kinds}", node)


def argument(s: Scope, name: str, node: ast.Node) -> Value:
    """`args.name`: a field of the tracepoint, an argument of the function."""
    p = s.p
    if isinstance(p.attach, Uprobe):
        from pyebpf.bpftrace.translate.user_types import argument as user_argument

        return user_argument(s, p.attach, name, node)
    if s.point.provider.lower() in ("begin", "end", "self", "bench"):  # in others an event of perf has fields
        _check_has_arguments(s, node)
    if p.attach is None or isinstance(p.attach, Usdt):
        raise s.error(f"there are no args by name at {s.point.text}: write arg0, arg1 and so on", node)
    if name.startswith("common_"):
        raise s.error(f"{name} is not supported: the kernel does not let programs read it", node)
    if isinstance(p.attach, KernelIterator):
        return _element(s, name, node)
    if isinstance(p.attach, Kprobe | KprobeMulti):
        p.reads_target = True
    if isinstance(p.attach, Tracepoint):
        _check_side(s, p.attach, name, node)
    found = p.program_context.parameter(p, name, None, 0)
    if isinstance(p.attach, Tracepoint) and isinstance(found, Pointer):
        stars = p.target.tracepoint_format(p.attach.category, p.attach.name).field(name).type.count("*")
        if found.target is None or stars > 1:  # such as the `const char *const *` of execve's argv
            return Reference(found.address, _pointed(s, p.attach, name), found.space)
    if isinstance(found, StringSource) and found.size is None:
        most = s.max_strlen
        return Text(found.sized(most), most, cut=True)
    value = _wrapped(s, found, node)
    if isinstance(p.attach, Tracepoint) and isinstance(value, Integer):
        keyword, _, enum = p.target.tracepoint_format(p.attach.category, p.attach.name).field(name).type.partition(" ")
        return of_kernel(value, enum) if keyword == "enum" else value
    return value


def _check_side(s: Scope, attach: Tracepoint, name: str, node: ast.Node) -> None:
    """Refuse a system call's result where it begins, and its arguments where it returns."""
    begin, end, place = "sys_enter_", "sys_exit_", f"tracepoint:{attach.category}:"
    if name == "ret" and attach.name.startswith(begin):
        other = place + attach.name.replace(begin, end, 1)
        raise s.error(f"the result of a system call is known when it returns: ret is at {other}", node)
    if name != "ret" and attach.name.startswith(end) and not name.startswith("__"):
        call = attach.name.replace(end, begin, 1)
        if name not in {each.name for each in s.p.target.tracepoint_format(attach.category, call).fields}:
            return
        other = place + call
        raise s.error(f"the arguments of a system call are known at {other}: keep {name} in a map there", node)


def _all_arguments(s: Scope, node: ast.Identifier) -> Value:
    """`args`: all of them, as a record."""
    from pyebpf.bpftrace.translate.members import kept

    p, attach = s.p, s.p.attach
    if isinstance(attach, Tracepoint):
        found: Sequence[Any] = p.target.tracepoint_format(attach.category, attach.name).fields
    elif isinstance(attach, BareTracepoint):
        found = p.target.raw_tracepoint_parameters(attach.name)
    elif isinstance(attach, Kprobe | KprobeMulti | Fentry | Fexit) and not getattr(attach, "returns", False):
        p.reads_target = True
        found = p.target.function(attach.target.rpartition(":")[2].partition("+")[0]).parameters
    elif isinstance(attach, Uprobe):
        from pyebpf.bpftrace.translate.user_types import argument_names

        names = argument_names(s, attach, node)
        return Group([kept(s, argument(s, name, node), node) for name in names], names)
    else:
        _check_has_arguments(s, node)
        raise s.error(f"there is no record of all args at {s.point.text}: write arg0, arg1 and so on", node)
    names = [each.name for each in found if not each.name.startswith("__")]
    if not names:
        raise s.error(f"{s.point.text} has no args", node)
    return Group([kept(s, argument(s, name, node), node) for name in names], names)


def _element(s: Scope, name: str, node: ast.Node) -> Value:
    """`ctx.name` of an iterator: the address of the element, 0 behind the last one."""
    p = s.p
    context: Any = p.program_context
    parameters = context.parameters(p.target)
    position = next((number for number, each in enumerate(parameters) if each.name == name), None)
    if position is None:
        names = [each.name for each in parameters]
        raise s.error(f"{s.point.text} has no {name}{closest_or_all(name, names)}", node)
    type_ = parameters[position].type
    if type_.element is None:
        return Integer(p.b.load(p.context, 8 * position, 8), signed=type_.signed)
    address = as_number(p, p.b.load(p.context, 8 * position, 8, result=Register.POINTER))
    return Reference(address, kernel_target(type_.element), Space.KERNEL)


def _pointed(s: Scope, attach: Tracepoint, name: str) -> Any:
    """The target of a pointer in a tracepoint's record, by its C type: a struct, a pointer, or not known."""
    from pyebpf.bpftrace.translate.casts import NUMBERS, pointer_target

    field = s.p.target.tracepoint_format(attach.category, attach.name).field(name)
    words = [word for word in field.type.replace("*", " * ").split() if word not in ("const", "__user", "volatile")]
    stars = words.count("*")
    type_ = " ".join(words[: len(words) - stars])
    found: Any = None
    if type_ == "char":
        found = CharFactory()
    elif type_ in NUMBERS:
        found = NUMBERS[type_]
    elif type_ != "void":
        with suppress(NotFound):
            found = kernel_target(s.p.target.type_named(type_))
    for _ in range(stars - 1):
        found = pointer_target(found)
    return found


def _wrapped(s: Scope, entity: object, node: ast.Node) -> Value:
    from pyebpf.bpftrace.translate.expressions import wrapped

    return wrapped(s, entity, node)


def _stack(name: str) -> Callable[[Scope, ast.Identifier], Value]:
    def build(s: Scope, node: ast.Identifier) -> Value:  # noqa: ARG001 - one signature
        from pyebpf.bpftrace.translate.stacks import stack

        return stack(s, name, ())

    return build


def _ncpus(s: Scope, node: ast.Identifier) -> Value:  # noqa: ARG001 - one signature
    return constant(s.p, s.p.target.possible_cpus)


def _cpid(s: Scope, node: ast.Identifier) -> Value:
    if s.script.child is None:
        s.concerns.setdefault("cpid is 0: no command runs with the script, give one by -c", node)
    return constant(s.p, s.script.child or 0)


def _user_mode(s: Scope, node: ast.Identifier) -> Value:
    """`usermode`: whether the processor was in a process's code."""
    p = s.p
    if registers.machine(p).name != "x86_64":
        raise s.error("'usermode' builtin is only supported on x86_64", node)
    if isinstance(p.attach, Uprobe | Usdt) or s.point.provider.upper() in _SPECIAL:
        return constant(p, 1)
    if p.program_type is not ProgramType.PERF_EVENT:
        return constant(p, 0)
    ring = p.b.binary(Op.AND, registers.register(p, "cs"), p.b.const(3))
    return Integer(p.b.truth_value(Compare(Relation.EQ, ring, p.b.const(3))), signed=False, size=1)


def _config(s: Scope, node: ast.Identifier) -> Value:  # noqa: ARG001 - one signature
    """`config().max_strlen`: the settings, by name."""
    given = replace(s.script.settings, max_strlen=s.max_strlen)
    found: dict[str, Value] = {}
    for each in fields(given):
        value = getattr(given, each.name)
        if isinstance(value, bool):
            found[each.name] = Condition(Always(value))
        else:
            found[each.name] = constant(s.p, value) if isinstance(value, int) else literal_text(value.encode())
    return Group(list(found.values()), list(found))


def _call(s: Scope, node: ast.Identifier) -> Value:
    """A function that is called without parentheses, too."""
    from pyebpf.bpftrace.ast import Call
    from pyebpf.bpftrace.translate.functions import function

    found = function(node.name)(s, Call(node.start, node.end, node.name, ()))
    assert found is not None
    return found


BUILTINS: dict[str, Callable[[Scope, ast.Identifier], Value]] = {
    "pid": _intrinsic("pid"),
    "tid": _intrinsic("tid"),
    "uid": _intrinsic("uid"),
    "gid": _intrinsic("gid"),
    "cpu": _intrinsic("cpu"),
    "comm": comm,
    "nsecs": _helper(KTIME_GET_BOOT_NS),
    "elapsed": _elapsed,
    "cgroup": _helper(GET_CURRENT_CGROUP_ID),
    "numaid": _helper(GET_NUMA_NODE_ID),
    "rand": _rand,
    "ppid": _ppid,
    "curtask": _curtask,
    "username": _username,
    "func": _func,
    "probe": _probe,
    "jiffies": _helper(JIFFIES64),
    "probetype": _probe_type,
    "retval": _retval,
    "kstack": _stack("kstack"),
    "ustack": _stack("ustack"),
    "dw_ustack": _stack("dw_ustack"),
    "ncpus": _ncpus,
    "cpid": _cpid,
    "usermode": _user_mode,
    "config": _config,
    **dict.fromkeys(("pcomm", "leader_tid", "leader_comm", "default_str_length", "has_cpid"), _call),
}
