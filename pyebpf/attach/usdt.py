"""USDT: places that a program's author marked, with arguments where the compiler happened to have them.

Where they are is known only when the program is attached. The place's cookie is the number of a slot in a hidden map,
whose content says of each argument: constant + base register + (scaled register << scale), and whether the value stands
there in memory.
"""

from __future__ import annotations

import os
from struct import Struct
from typing import TYPE_CHECKING, Any

from pyebpf.attach.decorators import Decorators, attachments
from pyebpf.attach.registers import named_register, typed
from pyebpf.attach.uprobes import COOKIE, MAX_UPROBES, MULTI, cookie, process_id, process_of
from pyebpf.builder.context import ProgramContext
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.memory import Space, probe_read_value
from pyebpf.compiler.ir import Condition as Relation, Op
from pyebpf.dataclass import dataclass, replace
from pyebpf.errors import InvalidValue, check_argument, closest
from pyebpf.module.probe import Candidate, Probe
from pyebpf.specs.attach_point import AttachSpec
from pyebpf.specs.maps import MapSpec
from pyebpf.types import U32, BytesType
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import MapType, ProgramType
from pyebpf.uapi.helper_ids import PROBE_READ_USER

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from pyebpf.attach.decorators import TracingDecorator
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.ssa.environment import Variable
    from pyebpf.compiler import ir

#: Arguments of one place, at most: what the macros of <sys/sdt.h> take.
MAX_ARGUMENTS = 12
#: Their names by position, as scripts have them.
POSITIONS = tuple(f"arg{position}" for position in range(MAX_ARGUMENTS))
#: The hidden map, one value of SPECS slots. A slot says where one list of arguments is; a program attached to a place
#: is given the slot's number as its cookie. Places whose arguments are alike share one.
SPECS_MAP = ".usdt"
SPECS = 128  # a power of two, so that a mask keeps the number inside
#: A slot: u64 number of arguments + 1 (0: free), then the arguments. An argument: s64 constant, u16 offsets of the base
#: and of the scaled register in struct pt_regs (NO_REGISTER: none), u8 flags, scale (a shift), size - 1 in bytes, and
#: 64 - size in bits.
ARGUMENT = Struct("<qHHBBBB")
COUNT = Struct("<Q")
SPEC_SIZE = COUNT.size + MAX_ARGUMENTS * ARGUMENT.size
NO_REGISTER = 0xFFFF
IN_MEMORY, SIGNED = 1, 2
#: A flag whose number is how many bits below the value there are in the register.
HIGH_BYTE = 8


def forms_spec() -> MapSpec:
    """The hidden map, which all programs of a module share; filled when they are attached."""
    return MapSpec(SPECS_MAP, MapType.ARRAY, U32, BytesType(SPECS * SPEC_SIZE), 1)


def probe_name(name: object) -> tuple[str, str]:
    """Provider and name of "provider:name". Raises InvalidValue."""
    provider, colon, probe = name.partition(":") if isinstance(name, str) else ("", "", "")
    if not colon or not provider or not probe or ":" in probe:
        raise InvalidValue(f'USDT probe {name!r}: write "provider:name", such as "python:line"')
    return provider, probe


@dataclass(frozen=True, slots=True)
class Usdt(AttachSpec):
    """All places of one USDT probe in a file, through perf events of the PMU `uprobe`.

    `binary` and `pid` are as those of `Uprobe`. `arguments` are names that the author gives to the probe's arguments,
    by position; `wanted` is how many the program takes, so that a place with fewer is refused. `provider` and `name`
    may be patterns of fnmatch, for at most `max_probes` places. The places are looked up when the program is attached.
    Without a binary the place is open.
    """

    binary: str = ""
    provider: str = ""
    name: str = ""
    arguments: tuple[str, ...] = ()
    wanted: int = 0
    pid: int = -1
    max_probes: int = MAX_UPROBES

    program_type = ProgramType.KPROBE

    def __str__(self) -> str:
        process = f" of process {self.pid}" if self.pid >= 0 else ""
        return f"usdt {self.binary}:{self.target}{process}" if self.binary else "usdt (open)"

    @property
    def target(self) -> str:
        return f"{self.provider}:{self.name}"

    @property
    def is_deferred(self) -> bool:
        return not self.binary

    def with_target(self, *place: object, **options: object) -> Self:
        """`at(binary, "provider:name", pid=-1)`; the name may be a pattern."""
        if not self.is_deferred:
            raise InvalidValue(f"{self} is attached by `with bpf:`, at the place that its decorator names")
        if len(place) != 2 or not isinstance(place[0], str) or not place[0] or options.keys() - {"pid"}:
            raise InvalidValue('a USDT probe is attached by attach(binary, "provider:name", pid=-1)')
        provider, name = probe_name(place[1])
        return replace(self, binary=place[0], provider=provider, name=name, pid=process_id(options.get("pid")))

    def program_context(self) -> UsdtProgramContext:
        return UsdtProgramContext(self)


@dataclass(frozen=True, slots=True)
class UsdtMulti(Usdt):
    """The same by one link (uprobe.multi) for all places."""

    attach_type = AttachType.TRACE_UPROBE_MULTI

    def program_context(self) -> UsdtProgramContext:
        return UsdtProgramContext(self)


# Where the fields of ARGUMENT stand.
_BASE, _SCALED, _FLAGS, _SCALE, _SIZE, _SHIFT = 8, 10, 12, 13, 14, 15


class UsdtProgramContext(ProgramContext[Usdt]):
    """Parameters are the place's arguments by position, or by the names that the decorator gave them."""

    is_preemptible = True

    def parameter(self, p: ProgramBuilder, name: str, annotation: object, position: int) -> object:
        names = self.attach.arguments
        if names:
            if name not in names:
                p.fail(f"the probe has no argument {name}{closest(name, names)}: args= names {', '.join(names)}")
            position = names.index(name)
        if position >= MAX_ARGUMENTS:
            p.fail(f"a USDT probe has at most {MAX_ARGUMENTS} arguments")
        return typed(p, _argument(p, position), annotation, name, Space.USER)

    def field(self, p: ProgramBuilder, name: str) -> object:
        if name != COOKIE:
            return named_register(p, name)
        if self.attach.wanted:
            p.fail(
                "ctx.cookie holds the locations of the arguments here: only a probe without parameters gets the index "
                "of its place"
            )
        return cookie(p)


def _usdt_spec(p: ProgramBuilder) -> ir.Value:
    """Address of the slot that the cookie names, looked for once."""
    if p.usdt_spec is None:
        b = p.b
        number = b.emit(Op.AND, cookie(p).value, b.const(SPECS - 1))
        forms = b.emit(Op.MAP_VALUE, symbol=p.use_map(forms_spec()))
        p.usdt_spec = b.emit(Op.OFFSET, forms, b.emit(Op.MUL, number, b.const(SPEC_SIZE)))
        b.assume_non_null(p.usdt_spec)
    return p.usdt_spec


def _argument(p: ProgramBuilder, position: int) -> ir.Value:
    b = p.b
    form = _usdt_spec(p)
    start = COUNT.size + position * ARGUMENT.size
    value = b.variable(hint="argument")
    b.write(value, b.load(form, start, 8))
    _add_register(p, value, b.load(form, start + _BASE, 2), None)
    _add_register(p, value, b.load(form, start + _SCALED, 2), b.load(form, start + _SCALE, 1))
    flags = b.load(form, start + _FLAGS, 1)
    with b.if_(Compare(Relation.SET, flags, b.const(IN_MEMORY))):
        place = b.slot_address(b.shared_slot("argument"))
        b.store(place, 0, b.const(0), 8)
        # No more than there is: the next byte may be on a page that does not exist. The mask is for the verifier.
        size = b.emit(Op.AND, b.load(form, start + _SIZE, 1), b.const(7))
        b.call(PROBE_READ_USER, place, b.emit(Op.ADD, size, b.const(1)), b.read_final(value))
        b.write(value, b.load(place, 0, 8))
    # The low bytes are the argument's, or the second one is, whatever the register or the memory has above.
    shift = b.load(form, start + _SHIFT, 1)
    above = b.emit(Op.SUB, shift, b.emit(Op.AND, flags, b.const(HIGH_BYTE)))
    high = b.emit(Op.SHL, b.read_final(value), above)
    result = b.variable(hint="argument")
    b.write(result, b.emit(Op.LSHR, high, shift))
    with b.if_(Compare(Relation.SET, flags, b.const(SIGNED))):
        b.write(result, b.emit(Op.ASHR, high, shift))
    return b.read_final(result)


def _add_register(p: ProgramBuilder, value: Variable, offset: ir.Value, scale: ir.Value | None) -> None:
    """Add the register at `offset` of the context, unless there is none."""
    b = p.b
    with b.if_(Compare(Relation.NE, offset, b.const(NO_REGISTER))):
        content = probe_read_value(p, Space.KERNEL, b.emit(Op.OFFSET, p.context, offset), 0, 8)
        if scale is not None:
            content = b.emit(Op.SHL, content, scale)
        b.write(value, b.emit(Op.ADD, b.read_final(value), content))


class UsdtDecorators(Decorators):
    """Probes at places that a program's author marked.

    `binary` and `pid` are those of uprobes.
    """

    def usdt(
        self,
        binary: str | os.PathLike[str] = "",
        *probes: str,
        args: Sequence[str] = (),
        pid: int | None = None,
        max_probes: int = MAX_UPROBES,
    ) -> TracingDecorator:
        """Run at places that a program's author marked (USDT), each probe "provider:name", at every place it has.

        Parameters are its arguments by position, or by the names that `args` gives them, each with its type. Semaphores
        are raised as long as the probe is attached. A pattern ("python:gc__*", "*:*") stands for at most `max_probes`
        places; in a probe that takes no arguments, `ctx.cookie` tells which of them it is.
        """
        check_argument("@bpf.usdt(args=…)", args, (list, tuple), "a list of names")
        names = argument_names(args)
        path, process = os.fspath(binary), process_of("usdt", pid)
        if bool(path) is not bool(probes):
            raise InvalidValue('@bpf.usdt(binary, "provider:name"): name both, or neither and attach later')
        pairs = [probe_name(probe) for probe in probes] or [("", "")]

        def decorate(function: object) -> Any:
            decorated = function if isinstance(function, Probe) else self._module.body_of(function, "usdt")
            body = decorated.body if isinstance(decorated, Probe) else decorated
            wanted = wanted_arguments(body.parameters, names)
            candidates = tuple(
                Candidate(
                    name, attachments(kind(path, *pair, names, wanted, process, max_probes) for pair in pairs), *needs
                )
                for name, kind, needs in (("uprobe.multi", UsdtMulti, MULTI), ("uprobe", Usdt, ()))
            )
            return self._decorator("usdt", (path, *probes) if path else (), candidates)(decorated)

        return decorate


def argument_names(args: Sequence[object]) -> tuple[str, ...]:
    """Names of a USDT probe's arguments, as `args=` gives them. Raises InvalidValue for what is none."""
    names = tuple(name for name in args if isinstance(name, str) and name.isidentifier())
    if isinstance(args, str) or len(names) != len(args):
        raise InvalidValue(f'@bpf.usdt(args={args!r}): give the arguments\' names, such as args=("path", "line")')
    if len({*names}) != len(names):
        raise InvalidValue(f"@bpf.usdt(args={args!r}): a name is there twice")
    return names


def wanted_arguments(parameters: Sequence[str], names: tuple[str, ...]) -> int:
    """Return the number of a probe's arguments that a body takes: up to the last that it names."""
    if not names:
        return len(parameters)
    return max((names.index(name) + 1 for name in parameters if name in names), default=0)
