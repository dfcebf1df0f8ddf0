"""Kernel functions that programs may call by name (kfuncs), with the types that BTF gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from pyebpf.builder.context import Context
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.entity import Entity, NoPythonOperators, RunTimeValue, describe
from pyebpf.builder.values.kernel_objects import KernelReference, from_register, integer_type
from pyebpf.builder.values.kernel_references import NullableReference
from pyebpf.builder.values.lvalue import Lvalue, moved, write_bytes
from pyebpf.builder.values.operations import fits, rvalue, to_int
from pyebpf.builder.values.references import Reference, note_change
from pyebpf.compiler.ir import Condition as Relation, Op, ValueType
from pyebpf.errors import NotFound, OnlyInProbe, closest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.target import KernelFunction, KernelParameter, KernelType

#: Functions that give an object which must be given back (KF_ACQUIRE), and the functions that do (KF_RELEASE).
ACQUIRES = {
    "bpf_cgroup_acquire": "bpf_cgroup_release",
    "bpf_cgroup_ancestor": "bpf_cgroup_release",
    "bpf_cgroup_from_id": "bpf_cgroup_release",
    "bpf_cpumask_acquire": "bpf_cpumask_release",
    "bpf_cpumask_create": "bpf_cpumask_release",
    "bpf_get_task_exe_file": "bpf_put_file",
    "bpf_lookup_system_key": "bpf_key_put",
    "bpf_lookup_user_key": "bpf_key_put",
    "bpf_skb_ct_lookup": "bpf_ct_release",
    "bpf_task_acquire": "bpf_task_release",
    "bpf_task_from_pid": "bpf_task_release",
    "bpf_task_from_vpid": "bpf_task_release",
    "bpf_task_get_cgroup1": "bpf_cgroup_release",
    "bpf_xdp_ct_lookup": "bpf_ct_release",
}
_RELEASES = frozenset(ACQUIRES.values())

#: Functions of modules, which a kernel has once the module is loaded: the BTF_ID lists of Linux 6.1 to 6.18.
MODULES = {
    **dict.fromkeys(
        (
            "bpf_ct_change_status",
            "bpf_ct_change_timeout",
            "bpf_ct_insert_entry",
            "bpf_ct_release",
            "bpf_ct_set_status",
            "bpf_ct_set_timeout",
            "bpf_skb_ct_alloc",
            "bpf_skb_ct_lookup",
            "bpf_xdp_ct_alloc",
            "bpf_xdp_ct_lookup",
        ),
        "nf_conntrack",
    ),
    "bpf_ct_set_nat_info": "nf_nat",
    "bpf_xdp_flow_lookup": "nf_flow_table",
    "bpf_skb_get_fou_encap": "fou",
    "bpf_skb_set_fou_encap": "fou",
    "bpf_skb_get_xfrm_info": "xfrm_interface",
    "bpf_skb_set_xfrm_info": "xfrm_interface",
    "bbr_cwnd_event": "tcp_bbr",
    "bbr_init": "tcp_bbr",
    "bbr_main": "tcp_bbr",
    "bbr_min_tso_segs": "tcp_bbr",
    "bbr_set_state": "tcp_bbr",
    "bbr_sndbuf_expand": "tcp_bbr",
    "bbr_ssthresh": "tcp_bbr",
    "bbr_undo_cwnd": "tcp_bbr",
    "dctcp_cwnd_event": "tcp_dctcp",
    "dctcp_cwnd_undo": "tcp_dctcp",
    "dctcp_init": "tcp_dctcp",
    "dctcp_ssthresh": "tcp_dctcp",
    "dctcp_state": "tcp_dctcp",
    "dctcp_update_alpha": "tcp_dctcp",
}

#: The prefix of functions by which a program asks the driver of the interface that it is loaded for.
_DRIVERS = "bpf_xdp_metadata_"

#: Structs that are the beginning of others, of others, …
MAX_BASES = 8
#: A kernel function takes its arguments in registers.
MAX_ARGUMENTS = 5


class Acquired(Entity, NoPythonOperators):
    """An object that a function gave and that must be given back: `with …(…) as task:` does so on every way out."""

    def __init__(self, name: str, found: NullableReference) -> None:
        self.name = name
        self.found = found

    def describe(self) -> str:
        return f"what {self.name}() gave"

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        self._unheld(p)

    def is_none(self, p: ProgramBuilder) -> NoReturn:
        self._unheld(p)

    def truth(self, p: ProgramBuilder) -> NoReturn:
        self._unheld(p)

    def _unheld(self, p: ProgramBuilder) -> NoReturn:
        p.fail(f"{self.describe()} must be released: hold it, `with kfunc({self.name!r})(…) as found:`, and use that")

    def enter(self, p: ProgramBuilder) -> NullableReference:
        return self.found

    def leave(self, p: ProgramBuilder) -> None:
        address = self.found.address
        with p.b.if_(Compare(Relation.NE, address, p.b.const(0), null_check=True)):
            release = ACQUIRES[self.name]
            _emit(p, p.target.function(release), [address])


class kfunc(Entity):  # noqa: N801 - an intrinsic
    """`kfunc("bpf_task_from_pid")(pid)`: a kernel function that programs may call, by its name.

    Arguments are what its prototype takes: numbers, kernel objects, records and text where it has pointers to memory.
    A number comes back as one, a kernel object as perhaps None. One that must be given back is held by `with`:

        with kfunc("bpf_task_from_pid")(number) as task:
            if task is not None:
                ...

    A module's function is called once the module is loaded. Which kinds of programs may call a function is the kernel's
    to say.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *_arguments: object) -> Any:
        """Refuse: only a probe can call it."""
        raise OnlyInProbe(f"{self.name}() is a function of the kernel's, called inside a probe")

    def __repr__(self) -> str:
        return f"kfunc({self.name!r})"

    def describe(self) -> str:
        return f"the kernel function {self.name}"

    def call(self, p: ProgramBuilder, arguments: Sequence[object], keywords: Mapping[str, object]) -> object:
        if self.name in _RELEASES:
            p.fail(f"{self.name}() is called automatically, at the end of the `with` that acquired the reference")
        if self.name.startswith(_DRIVERS) and not (p.attach is not None and p.attach.device):
            p.fail(f"{self.name}() calls the driver of one interface: write @bpf.xdp(…, hints=True)")
        try:
            function = p.target.function(self.name)
        except NotFound as error:
            p.fail(f"this kernel has no function {self.name} for programs: {self._why_not(error)}")
        names = [parameter.name for parameter in function.parameters]
        if keywords or len(arguments) != len(names):
            p.fail(f"{self.name}() takes {len(names)} arguments by position, {', '.join(names) or 'none'}")
        if len(names) > MAX_ARGUMENTS:
            p.fail(f"{self.name}() takes {len(names)} arguments: a program can pass {MAX_ARGUMENTS}")
        pairs = zip(function.parameters, arguments, strict=True)
        values = [self._argument(p, parameter, rvalue(p, value)) for parameter, value in pairs]
        return self._result(p, function, values)

    def _why_not(self, error: NotFound) -> str:
        """Why the kernel's types lack the function: `error` has the closest names of vmlinux."""
        module = MODULES.get(self.name)
        if module is not None:
            return f"it is one of the module {module}, as some kernels have it: load that (modprobe {module})"
        hint = closest(self.name, MODULES)
        return f"{error}; of functions of modules{hint}" if hint else str(error)

    def _argument(self, p: ProgramBuilder, parameter: KernelParameter, value: object) -> ir.Value:
        type_, what = parameter.type, f"{parameter.name} of {self.name}()"
        number = integer_type(type_)
        if number is not None:
            if isinstance(value, int):
                fits(p, number, value)
            elif not isinstance(value, Entity):
                p.fail(f"{what} is a {number.name}, not {describe(value)}")
            return to_int(p, value).value
        if type_.kind != "pointer" or type_.element is None:
            p.fail(f"{what} is a {type_.c_name}, which a program cannot pass")
        if value is None:
            return p.b.const(0)
        if isinstance(value, Context):
            return p.context
        if isinstance(value, KernelReference):
            return self._object(p, type_.element, value, what)
        if isinstance(value, str):
            raw = value.encode("utf-8", "surrogateescape") + b"\0"
            address = p.b.slot_address(p.b.slot(-(-len(raw) // 8) * 8, name="literal"))
            write_bytes(p, address, 0, raw)
            return address
        if isinstance(value, RunTimeValue):
            value = value.local(p)
        lvalue = getattr(value, "lvalue", None)
        if not isinstance(lvalue, Lvalue):
            p.fail(f"{what} is a {type_.c_name}, not {describe(value)}")
        lvalue.check(p, describe(value))
        if isinstance(value, Reference):
            note_change(p, value.type)
        return lvalue.exact(p)

    @staticmethod
    def _object(p: ProgramBuilder, wanted: KernelType, value: KernelReference, what: str) -> ir.Value:
        """A kernel object: of the type, or of one that begins with it."""
        if not value.trusted:
            p.fail(f"{what}: the verifier does not know this {value.type.c_name}: take it as the program was given it")
        if isinstance(value, NullableReference):
            value.as_int(p)  # refuses one that may be None
        found = value.type
        for _ in range(MAX_BASES):
            if wanted.kind == "void" or found.c_name == wanted.c_name or not found.composite:
                break
            names = p.target.members(found)
            if not names or not names[0]:
                break
            found = p.target.member(found, names[0]).type
        if wanted.kind != "void" and found.c_name != wanted.c_name:
            p.fail(f"{what} is a {wanted.c_name} *, not {value.describe()}")
        return moved(p, value.address, value.offset)

    def _result(self, p: ProgramBuilder, function: KernelFunction, values: list[ir.Value]) -> object:
        returns = function.returns
        if returns.kind == "void":
            _emit(p, function, values)
            return None
        if returns.kind != "pointer":
            return from_register(p, _emit(p, function, values, result=ValueType.SCALAR), returns, trusted=False)
        if returns.element is None or not returns.element.composite:
            p.fail(f"{self.name}() returns a {returns.c_name}, which is not supported in probes")
        found = NullableReference(_emit(p, function, values, result=ValueType.POINTER), returns.element, trusted=True)
        return Acquired(self.name, found) if self.name in ACQUIRES else found


def _emit(
    p: ProgramBuilder, function: KernelFunction, values: Sequence[ir.Value], *, result: ValueType = ValueType.SCALAR
) -> ir.Value:
    # An id of a module's BTF says nothing without the module's descriptor: loading looks such names up.
    number = 0 if function.module else function.btf_id
    return p.b.emit(Op.CALL_KFUNC, *values, result=result, imm=number, symbol=function.name)
