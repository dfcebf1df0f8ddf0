"""`Target`: the questions a compilation may ask about the machine it compiles for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Literal

from pyebpf.btf import path_steps
from pyebpf.errors import InvalidValue, NotFound
from pyebpf.target.facts import KernelMember

if TYPE_CHECKING:
    from pyebpf.target.facts import KernelFunction, KernelParameter, KernelRawTracepoint, KernelType, KernelVariable
    from pyebpf.types.tracepoint import TracepointFormat


class Target(ABC):
    """The kernel that a program is compiled for: every fact comes through here, so that compiling is a pure function.

    Questions about what the kernel does not have raise NotFound with the closest names; those about types raise
    NotSupported where the kernel has no BTF.
    """

    @property
    @abstractmethod
    def arch(self) -> str:
        """Machine name as uname(2) gives it, such as "x86_64"."""

    @property
    @abstractmethod
    def byteorder(self) -> Literal["little", "big"]:
        """Of memory and of instructions."""

    @property
    @abstractmethod
    def page_size(self) -> int:
        """In bytes."""

    @property
    @abstractmethod
    def possible_cpus(self) -> int:
        """Processors that could ever be online: the copies of a per-CPU value."""

    @property
    @abstractmethod
    def pid_namespace(self) -> tuple[int, int] | None:
        """Device and inode of the loading process's pid namespace; None in the initial one."""

    @abstractmethod
    def type_named(self, name: str) -> KernelType:
        """Find a type by its C name: "struct sock", "pid_t", "struct sock *".

        A bare name is a typedef or arithmetic type, else a struct, union or enum.
        """

    @abstractmethod
    def member(self, owner: KernelType, name: str) -> KernelMember:
        """Find a member of a struct or union, also inside its anonymous members."""

    @abstractmethod
    def has_field(self, struct: str, path: str) -> bool:
        """Tell whether `struct` has `path`, which may lead through pointers: ("struct request", "q.disk").

        False too where there is no such struct.
        """

    @abstractmethod
    def enumerator(self, name: str, enum: str = "") -> int:
        """Value of an enumerator, of `enum` or of any."""

    def enum_of(self, name: str) -> str:  # noqa: ARG002 - for targets that know their enums
        """The enum that has an enumerator: its name; if it has none, `:` and its first enumerator. Empty: not known."""
        return ""

    @abstractmethod
    def function(self, name: str) -> KernelFunction:
        """Find a function that BTF has."""

    @abstractmethod
    def has_function(self, name: str) -> bool:
        """Tell whether BTF has a function; False too without BTF. For names that may well be missing."""

    def variable(self, name: str) -> KernelVariable:
        """Find a variable that BTF has: those of each processor, and on newer kernels others. Raises NotFound."""
        raise NotFound(f"no types tell of a variable {name}")

    @abstractmethod
    def functions(self, pattern: str) -> tuple[str, ...]:
        """Name the functions that probes can be put on and that match a shell's pattern, such as "tcp_*".

        "module:pattern" asks for a module's. A name without `*`, `?`, `[` asks whether there is such a function.
        """

    @abstractmethod
    def members(self, owner: KernelType) -> tuple[str, ...]:
        """Names of the members of a struct or union, in order; empty for anonymous ones."""

    @abstractmethod
    def named_members(self, owner: KernelType) -> tuple[str, ...]:
        """The same with the names of an anonymous member's own members in its place."""

    @abstractmethod
    def prototype(self, type_: KernelType) -> KernelFunction:
        """Return the parameters and the result of a function type, which has no name; parameters may have none."""

    @abstractmethod
    def raw_tracepoint(self, name: str) -> KernelRawTracepoint:
        """Find a raw tracepoint, such as "sched_switch"."""

    @abstractmethod
    def raw_tracepoints(self, pattern: str) -> tuple[str, ...]:
        """Names of raw tracepoints that match a shell's pattern, sorted; "module:pattern" asks for a module's.

        "vmlinux:pattern" asks for the kernel's own.
        """

    @abstractmethod
    def tracepoint_format(self, category: str, name: str) -> TracepointFormat:
        """Find a tracepoint's fields, by ("sched", "sched_switch")."""

    @abstractmethod
    def tracepoints(self, category: str, pattern: str) -> tuple[str, ...]:
        """Names of a category's tracepoints that match a shell's pattern, sorted."""

    @abstractmethod
    def tracepoint_categories(self, pattern: str) -> tuple[str, ...]:
        """Categories of tracepoints that match a shell's pattern, sorted."""

    @abstractmethod
    def has(self, feature: str) -> bool:
        """Tell whether the kernel has a feature, named with its kind.

        "helper:ktime_get_boot_ns", "isa:v4", "isa:may_goto", "map:ringbuf", "kfunc:bpf_iter_num_new".
        """

    def struct_member(self, struct: str, path: str) -> KernelMember:
        """Find `a.b[3].c` inside a struct. Raises InvalidValue for what is not a path, or leads through a pointer."""
        return self._walk(struct, path, through_pointers=False)

    def struct_size(self, struct: str) -> int:
        """Size of a type in bytes."""
        return self.type_named(struct).size

    def raw_tracepoint_parameters(self, name: str) -> tuple[KernelParameter, ...]:
        """Names and types of a raw tracepoint's arguments."""
        return self.raw_tracepoint(name).parameters

    def _walk(self, struct: str, path: str, *, through_pointers: bool) -> KernelMember:
        """Follow a path; behind a pointer, offsets count from what it points to."""
        at = KernelMember(self.type_named(struct), 0)
        for name, index in path_steps(path):
            type_ = at.type
            if type_.kind == "pointer" and type_.element is not None:
                if not through_pointers:
                    raise InvalidValue(f"{path!r} of {struct} leads through a pointer, {type_.c_name}")
                at, type_ = KernelMember(type_.element, 0), type_.element
                if not name:
                    at = KernelMember(type_, index * type_.size * 8)
                    continue
            if name:
                step = self.member(type_, name)
                at = KernelMember(step.type, at.bit_offset + step.bit_offset, step.bit_size)
                continue
            if type_.kind != "array" or type_.element is None or (type_.length and index >= type_.length):
                raise InvalidValue(f"{path!r} of {struct} has index {index} where there is {type_.c_name}")
            at = KernelMember(type_.element, at.bit_offset + index * type_.element.size * 8)
        return at

    def _has_path(self, struct: str, path: str) -> bool:
        try:
            self._walk(struct, path, through_pointers=True)
        except NotFound:
            return False
        return True
