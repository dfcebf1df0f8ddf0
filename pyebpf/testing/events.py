"""Events beyond tracepoints that a test makes: calls of functions, in the kernel and in processes, and packets."""

from __future__ import annotations

from contextlib import contextmanager
from fnmatch import fnmatchcase
from struct import pack_into
from typing import TYPE_CHECKING, Any

from pyebpf.arch import architecture
from pyebpf.attach.kernel_functions import callee, split, system_call
from pyebpf.attach.kprobes import Kprobe, KprobeMulti
from pyebpf.attach.network import Clsact, Tcx, Xdp
from pyebpf.attach.skb import SKB_FIELDS
from pyebpf.attach.trampolines import Fentry, Fexit, FmodRet
from pyebpf.attach.uprobes import Uprobe, UprobeSession
from pyebpf.errors import InvalidValue, NotFound, closest
from pyebpf.types import IntType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import UnionType

    from pyebpf.attach.kernel_functions import PassedArgument, TracedFunction
    from pyebpf.dsl.module import Module
    from pyebpf.specs import AttachSpec, ModuleSpec
    from pyebpf.target import Target
    from pyebpf.testing.functions import SimulatedSymbols
    from pyebpf.testing.kernel_objects import KernelMemory, Value
    from pyebpf.vm import Machine, Result
    from pyebpf.vm.loaded import LoadedProgram

_WORD = (1 << 64) - 1
_SLOT = 8
_TRAMPOLINE_SLOTS = 14
_STACK = 512
_ETHERTYPE = slice(12, 14)
_DIRECTIONS = ("ingress", "egress")


class Programs:
    """Services that `Simulation` gives to each family of events: its programs, the machine, memory."""

    if TYPE_CHECKING:
        module: Module
        spec: ModuleSpec
        target: Target
        machine: Machine
        memory: KernelMemory
        function_names: SimulatedSymbols
        maps: dict[str, Any]
        _programs: list[tuple[AttachSpec, LoadedProgram]]

    def run(self, name: str, **how: Any) -> Result:
        """One program by its probe's name, wherever it is attached: `how` is as for `pyebpf.vm.Machine.run`.

        For places that have no event of their own here.
        """
        return self.machine.run(self.program(name)[1], **how)

    def program(self, name: str) -> tuple[AttachSpec, LoadedProgram]:
        """Return a probe's attach point and program; of several attach points the first."""
        names = [each.name for each in self.spec.programs]
        if name not in names:
            raise NotFound(f"there is no program {name}{closest(name, names)}: there are {', '.join(names)}")
        return self._programs[names.index(name)]

    @contextmanager
    def _named(self, place: str) -> Iterator[None]:
        """Where the target does not know a place, tell which the programs have: the name may be misspelt."""
        try:
            yield
        except NotFound as error:
            raise self._nothing_at(place, f" ({error})") from None

    def _nothing_at(self, place: str, reason: str = "") -> NotFound:
        """The error of an event that no program sees."""
        places = ", ".join(dict.fromkeys(str(attach) for attach, _ in self._programs)) or "none at all"
        return NotFound(f"no program is attached to {place}: there are {places}{reason}")

    def _programs_at(self, place: str, family: type | UnionType, **wanted: object) -> list[LoadedProgram]:
        """Programs at places of a family with these attributes. NotFound if there is none."""
        found = [
            program
            for attach, program in self._programs
            if isinstance(attach, family) and all(getattr(attach, name) == value for name, value in wanted.items())
        ]
        if not found:
            raise self._nothing_at(place)
        return found


class FunctionEvents(Programs):
    """Calls of functions and their returns."""

    def function(self, name: str, *arguments: Value, **named: Value) -> list[Result]:
        """A kernel function is called: every kprobe, fentry and fmod_ret program there runs, whose results are given.

        Arguments are in order, or by the names that BTF gives; those not given are 0. One that points to a struct
        takes an address (`object`) or its members as a dictionary, one to text the text. Of a system call
        ("sys_openat") they are the call's own, with pointers into user memory.
        """
        known, values = self._called(name, arguments, named)
        return self._kernel(known, values, 0, returns=False)

    def function_return(self, name: str, returned: int = 0, *arguments: Value, **named: Value) -> list[Result]:
        """A kernel function returns: every kretprobe and fexit program there runs; the latter see the arguments."""
        known, values = self._called(name, arguments, named)
        return self._kernel(known, values, returned, returns=True)

    def _called(
        self, name: str, arguments: Sequence[Value], named: Mapping[str, Value]
    ) -> tuple[TracedFunction, list[int]]:
        with self._named(f"function {name}"):
            known = callee(self.target, system_call(self.target, name))
        if known.call:
            return known, [self._saved(known, arguments, named)]
        if known.passed is None:
            if named:
                raise InvalidValue(f"{name}: BTF does not name this function's arguments: give them in order")
            return known, [self._number(each) for each in arguments]
        names = [each.name for each in known.passed]
        given: dict[str, Value] = dict(zip(names, arguments, strict=False))
        if len(arguments) > len(names):
            raise InvalidValue(f"{name}() has {len(names)} parameters, not {len(arguments)}")
        for key, value in named.items():
            plain = key if key in names else key.removesuffix("_")
            if plain not in names:
                raise InvalidValue(f"{name}() has no parameter {key}{closest(key, names)}")
            given[plain] = value
        values = [0] * max(known.slots, 1)
        for each in known.passed:
            values[each.slot] = self._argument(each, given.get(each.name, 0), name)
        return known, values

    def _argument(self, parameter: PassedArgument, value: Value, function: str) -> int:
        element = parameter.type.element
        if isinstance(value, dict) and element is not None and element.composite:
            return self.memory.object(element, value)
        if isinstance(value, dict | list):
            raise InvalidValue(f"{function}: {parameter.name} is {parameter.type.c_name}, not {value!r}")
        return self._number(value)

    def _number(self, value: Value, *, user: bool = False) -> int:
        if isinstance(value, str | bytes):
            return self.memory.user(value) if user else self.memory.kernel(value)
        if not isinstance(value, int):
            raise InvalidValue(f"{value!r} is not an argument: give a number, an address or text")
        return value & _WORD

    def _saved(self, known: TracedFunction, arguments: Sequence[Value], named: Mapping[str, Value]) -> int:
        """Address of the registers that a system call's entry saved."""
        arch = architecture(self.target.arch)
        values = [self._number(each, user=True) for each in arguments]
        if named:
            fields = self.target.tracepoint_format("syscalls", f"sys_enter_{known.call}").fields
            names = [each.name for each in fields if each.offset >= 16]
            values += [0] * (len(names) - len(values))
            for key, value in named.items():
                if key not in names:
                    raise InvalidValue(f"the system call {known.call} has no argument {key}{closest(key, names)}")
                values[names.index(key)] = self._number(value, user=True)
        registers = bytearray(arch.registers_size)
        for register, number in zip(arch.call_arguments, values, strict=False):
            pack_into("<Q", registers, arch.register_offset(register), number)
        return self.memory.kernel(bytes(registers), "pt_regs")

    def _kernel(self, known: TracedFunction, values: list[int], returned: int, *, returns: bool) -> list[Result]:
        results = []
        address = self.function_names.text.place(known.name)
        for attach, program in self._programs:
            self.machine.function_ip = address
            if isinstance(attach, Kprobe | KprobeMulti):
                session = isinstance(attach, KprobeMulti) and attach.session
                if (attach.returns == returns or session) and self._is_at(attach.functions, known.name):
                    self.machine.returning = returns
                    passed = [] if returns else values  # a return's registers have other things
                    results.append(self.machine.run(program, self._registers(passed, returned, user=False)))
            elif isinstance(attach, Fexit if returns else Fentry | FmodRet) and split(attach.function)[1] == known.name:
                context = bytearray(_SLOT * _TRAMPOLINE_SLOTS)
                for index, value in enumerate(values[: known.slots]):
                    pack_into("<Q", context, _SLOT * index, value)
                if returns:
                    pack_into("<Q", context, _SLOT * known.slots, returned & _WORD)
                results.append(self.machine.run(program, bytes(context)))
        return results

    @staticmethod
    def _is_at(functions: Sequence[str], name: str) -> bool:
        return any(split(each)[1] == name for each in functions)

    def _registers(self, values: Sequence[int], returned: int, *, user: bool) -> bytes:
        """`struct pt_regs` with arguments in their registers, further ones on a stack."""
        arch = architecture(self.target.arch)
        registers = bytearray(arch.registers_size)
        for register, value in zip(arch.arguments, values, strict=False):
            pack_into("<Q", registers, arch.register_offset(register), value & _WORD)
        stack = bytearray(_STACK)
        for index, value in enumerate(values[len(arch.arguments) :]):
            pack_into("<Q", stack, arch.stack_arguments + _SLOT * index, value & _WORD)
        place = self.memory.user if user else self.memory.kernel
        pack_into("<Q", registers, arch.register_offset(arch.stack), place(bytes(stack)))
        if returned:
            pack_into("<Q", registers, arch.register_offset(arch.result), returned & _WORD)
        return bytes(registers)

    # --- functions of processes ---

    def user_function(self, name: str, *arguments: Value) -> list[Result]:
        """A function of a program or library is called: every uprobe and session on one of that name runs.

        Arguments are in order; text is put into user memory, and a number is what it is.
        """
        return self._user(name, [self._number(each, user=True) for each in arguments], 0, returns=False)

    def user_function_return(self, name: str, returned: Value = 0) -> list[Result]:
        """A function of a program or library returns: every uretprobe and session there runs."""
        return self._user(name, [], self._number(returned, user=True), returns=True)

    def _user(self, name: str, values: list[int], returned: int, *, returns: bool) -> list[Result]:
        probed = [(attach, program) for attach, program in self._programs if isinstance(attach, Uprobe)]
        functions = [function for attach, _ in probed for function in attach.functions]
        if not any(fnmatchcase(name, function) for function in functions):
            raise NotFound(f"no probe is at a function {name!r} of a program{closest(name, functions)}")
        self.machine.returning = returns
        return [
            self.machine.run(program, self._registers(values, returned, user=True))
            for attach, program in probed
            if (attach.returns == returns or isinstance(attach, UprobeSession))
            and any(fnmatchcase(name, function) for function in attach.functions)
        ]


class PacketEvents(Programs):
    """Frames and packets. Each result has `value`, the program's verdict, and `packet`, the bytes after it."""

    def frame(self, data: bytes, **fields: int) -> list[Result]:
        """A frame comes in: every XDP program runs on it as it came. `fields` are struct xdp_md's, by name."""
        return [self.machine.run(each, packet=data, fields=fields) for each in self._programs_at("xdp", Xdp)]

    def packet(self, data: bytes, *, direction: str = "ingress", **fields: int) -> list[Result]:
        """A packet, from its Ethernet header on, comes in or goes out ("egress"): every tc program there runs on it.

        `fields` are struct __sk_buff's, by name, numbers as a probe reads them. `protocol` is the frame's type unless
        it is given.
        """
        if direction not in _DIRECTIONS:
            raise InvalidValue(f'direction={direction!r}: write "ingress" or "egress"')
        programs = self._programs_at(f"tc {direction}", Tcx | Clsact, direction=direction)
        fields.setdefault("protocol", int.from_bytes(data[_ETHERTYPE], "big"))
        stored = {name: self._stored(name, value) for name, value in fields.items()}
        return [self.machine.run(each, packet=data, fields=stored) for each in programs]

    @staticmethod
    def _stored(name: str, value: int) -> int:
        type_ = SKB_FIELDS[name][1] if name in SKB_FIELDS else None
        if isinstance(type_, IntType) and type_.big_endian:
            return int.from_bytes(type_.encode(value), "little")
        return value
