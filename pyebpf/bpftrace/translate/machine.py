"""Functions about the machine: its clocks, registers, processes, groups of processes, addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.attach import registers
from pyebpf.attach.kprobes import Kprobe, KprobeMulti
from pyebpf.attach.uprobes import Uprobe
from pyebpf.bpftrace import ast
from pyebpf.bpftrace.literals import LiteralError, integer
from pyebpf.bpftrace.translate import arrays
from pyebpf.bpftrace.translate.comm import comm_of
from pyebpf.bpftrace.translate.expressions import as_integer, evaluate, known_text, number
from pyebpf.bpftrace.translate.texts import space_of
from pyebpf.bpftrace.translate.values import (
    Condition,
    Integer,
    Reference,
    Special,
    Text,
    Unknown,
    constant,
    kernel_target,
    literal_text,
)
from pyebpf.bpftrace.value_types import CgroupPath, MacAddress
from pyebpf.builder.available import need_helper
from pyebpf.builder.ssa.conditions import Always, Compare
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.kernel_numbers import as_number
from pyebpf.builder.values.lvalue import Lvalue, copy, zero
from pyebpf.builder.values.memory import Space, probe_read
from pyebpf.compiler.ir import Condition as Relation, Op, ValueType as Register
from pyebpf.dataclass import replace
from pyebpf.errors import NotFound, closest
from pyebpf.types import S64, U64
from pyebpf.uapi.helper_ids import (
    GET_CURRENT_PID_TGID,
    KTIME_GET_BOOT_NS,
    KTIME_GET_NS,
    KTIME_GET_TAI_NS,
    OVERRIDE_RETURN,
    PER_CPU_PTR,
    THIS_CPU_PTR,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyebpf.bpftrace.translate.body import Scope
    from pyebpf.bpftrace.translate.values import Value


def _arguments(s: Scope, node: ast.Call, least: int, most: int) -> Sequence[ast.Expression]:
    from pyebpf.bpftrace.translate.functions import arguments

    return arguments(s, node, least, most)


def _word(s: Scope, node: ast.Call, words: Sequence[str]) -> str:
    """The one word that a call takes, no value: `nsecs(boot)`."""
    (first,) = _arguments(s, node, 1, 1)
    if not isinstance(first, ast.Identifier) or first.name not in words:
        raise s.error(f"{node.name}() takes one of {', '.join(words)}", first)
    return first.name


def _nsecs(s: Scope, node: ast.Call) -> Value:
    """`nsecs(monotonic)`."""
    clock = _word(s, node, ("boot", "monotonic", "tai", "sw_tai"))
    if clock in ("tai", "sw_tai"):  # bpftrace reckons sw_tai itself, for kernels without that helper
        need_helper(s.p, "ktime_get_tai_ns", "nsecs(tai)", "write nsecs")
    found = {"boot": KTIME_GET_BOOT_NS, "monotonic": KTIME_GET_NS}.get(clock, KTIME_GET_TAI_NS)
    value = Integer(s.p.b.call(found), signed=False)
    value.type = replace(value.type, clock={"boot": "", "sw_tai": "tai"}.get(clock, clock))
    return value


def _process(s: Scope, node: ast.Call) -> Value:
    """`pid(init)`, `tid(curr_ns)`: by which namespace's numbers."""
    from pyebpf.bpftrace.translate.builtins import BUILTINS

    if _word(s, node, ("curr_ns", "init")) == "curr_ns":
        return BUILTINS[node.name](s, ast.Identifier(node.start, node.end, node.name))
    b = s.p.b
    both = b.call(GET_CURRENT_PID_TGID)
    half = b.binary(Op.LSHR, both, b.const(32)) if node.name == "pid" else b.emit(Op.ZEXT, both, size=4)
    return Integer(half, signed=False, size=4)


def _register(s: Scope, node: ast.Call) -> Value:
    """`reg("ip")`; "pc" is the instruction pointer on every architecture."""
    (first,) = _arguments(s, node, 1, 1)
    if not isinstance(s.p.attach, Kprobe | KprobeMulti | Uprobe):
        raise s.error("reg() is for kprobes and uprobes: elsewhere there are args", node)
    name, machine = known_text(s, first), registers.machine(s.p)
    name = machine.instruction if name == "pc" else name
    if name not in machine.registers:
        raise s.error(f"{machine.name} has no register {name}{closest(name, machine.registers)}", first)
    return Integer(registers.register(s.p, name), signed=False)


def _override(s: Scope, node: ast.Call) -> None:
    """`override(result)`: the function is not run, and gives this."""
    from pyebpf.bpftrace.translate.functions import unsafe

    unsafe(s, node)
    (first,) = _arguments(s, node, 1, 1)
    if s.point.provider != "kprobe":
        raise s.error("override() is for kprobes, of functions that allow it", node)
    s.p.b.call(OVERRIDE_RETURN, s.p.context, number(s, first).value)


def _of_processor(s: Scope, node: ast.Call) -> Value:
    """`percpu_kaddr("name", cpu)`: the address of a processor's own variable; of this one's, without the number."""
    first, *rest = _arguments(s, node, 1, 2)
    name = known_text(s, first)
    try:
        variable = s.p.target.variable(name)
    except NotFound:
        variable = None
    if variable is None or not variable.per_cpu:
        raise s.error(f"{name} is no variable that each processor has: kaddr() is for others", first)
    b = s.p.b
    address = b.emit(Op.KSYM, symbol=name)
    if rest:
        found = b.call(PER_CPU_PTR, address, number(s, rest[0]).value, result=Register.POINTER)
    else:
        found = b.call(THIS_CPU_PTR, address, result=Register.POINTER)
    return Reference(as_number(s.p, found), kernel_target(variable.type), Space.KERNEL)


def _cgroup_id(s: Scope, node: ast.Call) -> Value:
    """`cgroupid("/sys/fs/cgroup/x")`: the number of a group, known when the script is compiled."""
    (first,) = _arguments(s, node, 1, 1)
    path = known_text(s, first)
    try:
        found = s.script.cgroup_id(path)
    except OSError as error:
        raise s.error(f"{path}: {error.strerror}: give the directory of a group of cgroup2", first) from None
    except NotFound as error:
        raise s.error(str(error), first) from None
    return Integer(s.p.b.const(found), signed=False, literal=found)


def _cgroup_path(s: Scope, node: ast.Call) -> Value:
    first, *rest = _arguments(s, node, 1, 2)
    pattern = known_text(s, rest[0]) if rest else "*"
    return Special(CgroupPath(pattern), Int(number(s, first).value, U64))


def _mac_address(s: Scope, node: ast.Call) -> Value:
    """`macaddr(array)`: six bytes, of an array or where a pointer leads."""
    (first,) = _arguments(s, node, 1, 1)
    value = arrays.bytes_of(s, evaluate(s, first), first)
    if isinstance(value, Unknown):
        return value
    p, type_ = s.p, MacAddress()
    slot = p.b.slot(8, name="mac")
    zero(p, p.b.slot_address(slot), 0, 8)
    row = arrays.row_of(s, value, first)
    if row is not None:
        if row.type.storage.size < type_.storage.size:
            raise s.error(f"macaddr() takes 6 bytes, and this has {row.type.storage.size}", first)
        copy(p, p.b.slot_address(slot), 0, *row.lvalue.address(p), type_.storage.size)
    else:
        address = as_integer(s, value, first).value
        probe_read(p, space_of(s, value), p.b.slot_address(slot), type_.storage.size, address)
    return Special(type_, p.load_value(Lvalue(slot=slot, owner="macaddr()", writable=False), type_.storage))


def _of_task(path: str) -> Callable[[Scope, ast.Call], Value]:
    """A member of a task: of the one that is given, or of the current one."""

    def build(s: Scope, node: ast.Call) -> Value:
        given = _arguments(s, node, 0, 1)
        value: ast.Expression = given[0] if given else ast.Identifier(node.start, node.end, "curtask")
        for name in path.split("."):
            value = ast.FieldAccess(node.start, node.end, value, name)
        return evaluate(s, value)

    return build


def _address_in(space: Space) -> Callable[[Scope, ast.Call], Value]:
    """`uptr(pointer)` and `kptr(pointer)`: whose memory it leads to."""

    def build(s: Scope, node: ast.Call) -> Value:
        (first,) = _arguments(s, node, 1, 1)
        value = evaluate(s, first)
        if isinstance(value, Unknown):
            return value
        target = value.type.target if isinstance(value, Reference) else None
        return Reference(as_integer(s, value, first).value, target, space)

    return build


def _is_error(s: Scope, node: ast.Call) -> Value:
    """`is_err(pointer)`: whether it is one of the last 4095 addresses, by which the kernel returns errors."""
    (first,) = _arguments(s, node, 1, 1)
    return Condition(Compare(Relation.UGE, number(s, first).value, s.p.b.const(-4095)))


def _option(s: Scope, node: ast.Call) -> Value:
    """`getopt("name", default)`: an argument `--name=value` of the command line."""
    first, *rest = _arguments(s, node, 1, 3)
    name = known_text(s, first)
    s.script.expected[name] = known_text(s, rest[1]) if len(rest) > 1 else ""
    given = s.script.options.get(name)
    default = evaluate(s, rest[0]) if rest else Condition(Always(holds=False))
    if given is None:
        return default
    if isinstance(default, Text):
        return literal_text(given.encode("utf-8", "surrogateescape"))
    if isinstance(default, Condition):
        if given.lower() not in ("", "true", "false", "0", "1"):
            raise s.error(f"--{name}={given}: give true or false", node)
        return Condition(Always(given.lower() not in ("false", "0")))
    digits = given.removeprefix("-")
    try:
        found = integer(digits) * (1 if digits == given else -1)
    except LiteralError as error:
        raise s.error(f"--{name}={given}: {error.message}", node) from None
    if found < S64.minimum:
        raise s.error(f"--{name}={given}: 64 bits do not hold this, give a number nearer to 0", node)
    return constant(s.p, found)


def _has_child(s: Scope, node: ast.Call) -> Value:
    """`has_cpid()`: whether a command runs with the script."""
    _arguments(s, node, 0, 0)
    return Condition(Always(s.script.child is not None))


MACHINE: dict[str, Callable[[Scope, ast.Call], Value | None]] = {
    "comm": comm_of,
    "nsecs": _nsecs,
    "pid": _process,
    "tid": _process,
    "reg": _register,
    "percpu_kaddr": _of_processor,
    "override": _override,
    "cgroupid": _cgroup_id,
    "cgroup_path": _cgroup_path,
    "macaddr": _mac_address,
    "ppid": _of_task("real_parent.tgid"),
    "pcomm": _of_task("real_parent.comm"),
    "leader_tid": _of_task("group_leader.pid"),
    "leader_comm": _of_task("group_leader.comm"),
    "uptr": _address_in(Space.USER),
    "kptr": _address_in(Space.KERNEL),
    "is_err": _is_error,
    "getopt": _option,
    "has_cpid": _has_child,
}
