"""A translated program in a machine: its functions, its frames, and errors put in their place."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from pyebpf.asm import kernel_text
from pyebpf.errors import VmError
from pyebpf.uapi.helper_ids import TAIL_CALL
from pyebpf.uapi.helpers import helper_name
from pyebpf.vm.flow import FRAME_SIZE
from pyebpf.vm.maps.arena import ArenaMap
from pyebpf.vm.memory import Refusal, Region
from pyebpf.vm.translate import SCOPE, SOURCE_NAME, translate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyebpf.asm import Instruction
    from pyebpf.uapi.bpf import ProgramType
    from pyebpf.vm.machine import Machine

MAX_STEPS = 100_000_000
"""Instructions after which a run is given up."""
MAX_FRAMES = 8
"""MAX_CALL_FRAMES of include/linux/bpf_verifier.h; a callback has its frames beside its caller's."""
MAX_TAIL_CALLS = 33
MAY_GOTO_ITERATIONS = 8 * 1024 * 1024
"""BPF_MAX_LOOPS. Since Linux 6.15 it is a quarter of a second instead, where the processor's JIT can tell."""
_ALL = 0xFFFF_FFFF_FFFF_FFFF
_NET, _LINK = -0x100000, -0x200000


class LoadedProgram:
    """Functions made of a program's instructions, bound to one machine."""

    def __init__(
        self,
        machine: Machine,
        instructions: Sequence[Instruction],
        names: Mapping[str, int],
        program_type: ProgramType | None = None,
        cookie: int = 0,
    ) -> None:
        self.machine = machine
        self.program_type = program_type
        self.cookie = cookie
        self.translation = translate(instructions, names, strict=machine.strict, trace=machine.trace)
        self._frames: list[Region] = []
        self._depth = 0
        self._tail_calls = 0
        self._addresses: dict[int, int] = {}
        self._budget = [machine.max_steps]
        self._scope = self._names()
        exec(self.translation.compiled, self._scope)  # noqa: S102 - made of numbers and checked instructions only
        self._main: Callable[..., int] = self._scope["f0"]

    def _names(self) -> dict[str, Any]:
        """Names that the functions may use."""
        vm = self.machine
        scope: dict[str, object] = {
            **SCOPE,
            "__builtins__": {"bytes": bytes},
            "enter": self._enter,
            "leave": self._leave,
            "budget": self._budget,
            "budget_spent": self._budget_spent,
            "may_goto_iterations": MAY_GOTO_ITERATIONS,
            "unreadable": _unreadable,
            "unknown_helper": _unknown_helper,
            "fell_off_the_end": _fell_off_the_end,
            "frame_pointer_written": _frame_pointer_written,
            "atomic": vm.memory.atomic,
            "ran": self._ran,
            "function_address": self._function_address,
            "function_at": vm.function_at,
            "map_address": self._map_address,
            "map_value_address": self._map_value_address,
            "ksym_address": self._ksym_address,
            "call_kfunc": self._call_kfunc,
            "tail_call": self._tail_call,
            "load_packet": self._load_packet,
            "cast_kernel": self._cast_kernel,
            "cast_user": self._cast_user,
        }
        for (size, signed), load in vm.memory.loads.items():
            scope[f"load{'s' if signed else ''}{size}"] = load
        for size, store in vm.memory.stores.items():
            scope[f"store{size}"] = store
        for instruction in self.translation.instructions:
            if instruction.op.name == "call":
                scope[f"helper{instruction.imm}"] = self._helper(instruction.imm)
        return scope

    def _helper(self, number: int) -> Callable[..., int | None]:
        from pyebpf.vm.helpers import HELPERS

        name = (helper_name(number) or "").removeprefix("bpf_")
        given = self.machine.helpers.get(name) or HELPERS.get(number)
        if given is not None:
            return partial(given, self.machine)

        def missing(*_: int) -> NoReturn:
            raise VmError(f"bpf_{name}#{number} has no emulation: give one, helpers={{{name!r}: function}}")

        return missing

    # --- running ---

    def start(self, *arguments: int) -> int:
        """Run from the first instruction; R0. VmError knows where, if an instruction is to blame."""
        self._depth = self._tail_calls = 0
        self._budget[0] = self.machine.max_steps
        return self._guarded(self._main, *arguments)

    def _guarded(self, function: Callable[..., int], *arguments: int) -> int:
        try:
            return function(*arguments)
        except VmError as error:
            if error.slot is None:
                self._locate(error)
            raise

    def _locate(self, error: VmError) -> None:
        """Fill in the instruction that the error came from: the innermost frame of translated code."""
        traceback = error.__traceback__
        found = None
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename == SOURCE_NAME and traceback.tb_frame.f_globals is self._scope:
                found = traceback
            traceback = traceback.tb_next
        if found is None:
            return
        index = self.translation.lines[found.tb_lineno]
        instruction = self.translation.instructions[index]
        held = found.tb_frame.f_locals
        error.slot = self.translation.slots[index]
        error.instruction = kernel_text(instruction)
        error.registers = {f"r{n}": held[f"r{n}"] for n in range(11) if held.get(f"r{n}") is not None}
        error.location = instruction.where
        if "{r}" in error.message:
            error.message = error.message.replace("{r}", self._holder(instruction, error))
            error.args = (error.message,)

    @staticmethod
    def _holder(instruction: Instruction, error: VmError) -> str:
        """The register through which memory was accessed."""
        if instruction.op.name.startswith(("ldx", "load_acquire")):
            return instruction.src.name
        if instruction.op.name != "call":
            return instruction.dst.name
        address = error.address if isinstance(error, Refusal) else 0
        return next((name.upper() for name, value in error.registers.items() if value == address), "R1")

    def executed(self, blocks: Sequence[int]) -> tuple[int, ...]:
        """Indices of instructions, from the numbers of the blocks that ran."""
        made = self.translation.blocks
        return tuple(index for number in blocks for index in made[number])

    def _ran(self, number: int) -> None:
        self.machine.ran.append(number)

    # --- frames ---

    def _enter(self) -> Region:
        depth = self._depth
        if depth == len(self._frames):
            if depth >= MAX_FRAMES:
                raise VmError(f"the call stack of {depth + 1} frames is too deep !")
            written = bytearray(FRAME_SIZE) if self.machine.strict else None
            frame = Region("stack", "stack", bytearray(FRAME_SIZE), written=written, aligned=True)
            self.machine.memory.add(frame)
            self._frames.append(frame)
        self._depth = depth + 1
        return self._frames[depth]

    def _leave(self) -> None:
        self._depth -= 1

    def _budget_spent(self) -> NoReturn:
        raise VmError(f"infinite loop detected: more than {self.machine.max_steps} instructions ran (max_steps)")

    # --- what instructions name ---

    def _function_address(self, start: int) -> int:
        address = self._addresses.get(start)
        if address is None:
            vm = self.machine
            address = self._addresses[start] = vm.memory.add(Region("func", f"subprogram {start}", bytearray(1)))
            vm.functions[address] = partial(self._guarded, self._scope[f"f{start}"])
        return address

    def _map_address(self, name: str | int, _indexed: bool) -> int:  # noqa: FBT001 - from translated code
        return self.machine.map_named(name).address

    def _map_value_address(self, name: str | int, offset: int, _indexed: bool) -> int:  # noqa: FBT001 - the same
        found = self.machine.map_named(name)
        address = found.lookup(bytes(found.key_size), self.machine.cpu) if found.max_entries == 1 else 0
        if not address or offset >= found.value_size:
            raise VmError(f"map {found.name}: its value has no direct address at {offset}: only an array of one has")
        return address + offset

    def _ksym_address(self, name: str | int) -> int:
        known = self.machine.ksyms
        if name not in known:
            raise VmError(f"kernel symbol {name} is not known: give its address in Machine.ksyms")
        return known[name]

    def _call_kfunc(self, name: str | int, *registers: int | None) -> int | None:
        from pyebpf.vm.kfuncs import KFUNCS

        function = self.machine.kfuncs.get(name) or (KFUNCS.get(name) if isinstance(name, str) else None)
        if function is None:
            raise VmError(f"kernel function {name} has no emulation: give one, kfuncs={{{name!r}: function}}")
        count = function.__code__.co_argcount - 1
        for number, value in enumerate(registers[:count], 1):
            if value is None:
                _unreadable(number)
        result = function(self.machine, *registers[:count])
        return None if result is None else result & _ALL

    def _tail_call(self, _context: int, at: int, index: int) -> Callable[..., int] | None:
        from pyebpf.vm.maps.prog_array import ProgramArrayMap

        found = self.machine.map_at(at)
        if not isinstance(found, ProgramArrayMap):
            raise VmError(f"cannot pass map_type {found.spec.type} into func bpf_tail_call#{TAIL_CALL} ({found.name})")
        target = found.programs.get(index & 0xFFFF_FFFF)
        if target is None or self._tail_calls >= MAX_TAIL_CALLS:
            return None
        target._tail_calls = self._tail_calls + 1
        entry: Callable[..., int] = target._entered
        return entry

    def _entered(self, *arguments: int) -> int:
        """As a tail call's target."""
        self._budget[0] = self.machine.max_steps
        depth = self._depth
        try:
            return self._guarded(self._main, *arguments)
        finally:
            self._depth = depth

    # --- packets ---

    def _load_packet(self, _skb: int, place: int, size: int) -> int | None:
        data = self.machine.packet_data()
        place = ((place & 0xFFFF_FFFF) ^ 0x8000_0000) - 0x8000_0000
        if place < 0:
            # Counted from the network or the link layer's header, which begin where the packet does.
            place -= _NET if place >= _NET else _LINK
        if place < 0 or place + size > len(data):
            return None
        return int.from_bytes(data[place : place + size], "big")

    # --- arenas ---

    @staticmethod
    def _cast_kernel(value: int) -> int:
        """An arena's pointer as programs use it: its lower half, which loads and stores add the arena's place to."""
        return value & 0xFFFF_FFFF

    def _cast_user(self, value: int) -> int:
        """An arena's pointer as user space knows it; NULL stays NULL."""
        arena = next((each for each in self.machine.maps.values() if isinstance(each, ArenaMap)), None)
        low = value & 0xFFFF_FFFF
        if arena is None:
            raise VmError("addr_space_cast insn can only be used in a program that has an associated arena")
        return arena.base & ~0xFFFF_FFFF | low if low else 0


def _unreadable(register: int) -> NoReturn:
    raise VmError(f"R{register} !read_ok")


def _unknown_helper(number: int) -> NoReturn:
    raise VmError(f"invalid func unknown#{number}")


def _frame_pointer_written() -> NoReturn:
    raise VmError("frame pointer is read only")


def _fell_off_the_end() -> NoReturn:
    raise VmError("last insn is not an exit or jmp")
