"""One program in the kernel and in the interpreter, over maps that both keep from program to program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.asm import encode, listing, place, resolve
from pyebpf.kernel import bpf, map_elements
from pyebpf.objects import elements
from pyebpf.uapi.bpf import MapType, ProgramType
from pyebpf.vm import Machine
from tests.vm_interpreter.generator import CONTEXT, MAIN, MAPS, PACKET, VALUE

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from pyebpf.asm import Op
    from pyebpf.kernel.descriptor import Descriptor
    from pyebpf.specs import MapSpec
    from tests.vm_interpreter.generator import Random

SLEEPABLE = 1 << 4
ETHERNET = 14
TEXT_LOG = 1 << 18


class Both:
    """The kernel's maps and the machine's. `cpu` is where this process stays, of `cpus`."""

    def __init__(self, maps: Sequence[MapSpec] = MAPS, *, cpu: int, cpus: int) -> None:
        self.specs = maps
        self.cpus = cpus
        self.descriptors: dict[str, Descriptor] = {}
        for spec in maps:
            key = spec.key.size if spec.key is not None else 0
            value = spec.value.size if spec.value is not None else 0
            self.descriptors[spec.name] = bpf.map_create(spec.type, key, value, spec.max_entries, flags=spec.flags)
        self.machine = Machine(maps, cpu=cpu, cpus=cpus, strict=False, trace=True)
        self.executed: dict[Op, int] = {}

    def close(self) -> None:
        """Give up the kernel's maps."""
        for descriptor in self.descriptors.values():
            descriptor.close()

    def fill(self, value: bytes) -> None:
        """Set the value of the map that programs compute with."""
        map_elements.map_update_elem(self.descriptors[MAIN].fileno(), bytes(4), value)
        self.machine.maps[MAIN].write(bytes(4), value)

    def load(self, program: Random) -> tuple[Descriptor | None, str]:
        """Load into the kernel; the log says why not."""
        placed = place(program.items)
        functions = {name: placed.labels[name] for name in program.functions}
        maps = {name: descriptor.fileno() for name, descriptor in self.descriptors.items()}
        code = encode(resolve(placed.instructions, maps, functions))
        flags = SLEEPABLE if program.kind is ProgramType.SYSCALL else 0
        result = bpf.prog_load(program.kind, code, flags=flags)
        if result.descriptor is None:
            log = bpf.prog_load(program.kind, code, flags=flags, log_level=1, log_size=TEXT_LOG)
            if log.descriptor is not None:
                log.descriptor.close()
            return None, f"errno {result.errno}\n{log.log[-3000:]}"
        return result.descriptor, ""

    def run(
        self, descriptor: Descriptor, program: Random, chance: random.Random
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the kernel gave and what the interpreter gave: comparable values by what they are."""
        kind = program.kind
        if kind is ProgramType.SYSCALL:
            context = chance.randbytes(CONTEXT)
            ran = bpf.prog_test_run(descriptor.fileno(), context=context, in_place=True)
            result = self.machine.run(program.items, context, program_type=kind)
            kernel, vm = {"context": ran.context}, {"context": result.context}
        else:
            packet = bytes(12) + b"\x08\x00" + chance.randbytes(PACKET)
            ran = bpf.prog_test_run(descriptor.fileno(), data=packet, data_out=256)
            # A socket filter sees what follows the Ethernet header.
            seen = packet if kind is ProgramType.XDP else packet[ETHERNET:]
            result = self.machine.run(program.items, packet=seen, program_type=kind)
            # Of the Ethernet header that it did not see, zeros come back.
            kernel, vm = {"packet": ran.data[len(packet) - len(seen) :]}, {"packet": result.packet}
        for op, count in result.executed.items():
            self.executed[op] = self.executed.get(op, 0) + count
        kernel["R0"], vm["R0"] = ran.retval, result.value & 0xFFFF_FFFF
        for spec in self.specs:
            if spec.key is not None:
                kernel[spec.name] = self._entries(spec)
                vm[spec.name] = dict(self.machine.maps[spec.name].entries())
        return kernel, vm

    def _entries(self, spec: MapSpec) -> dict[bytes, bytes]:
        assert spec.key is not None
        assert spec.value is not None
        fd, size = self.descriptors[spec.name].fileno(), spec.value.size * (self.cpus if spec.traits.per_cpu else 1)
        if spec.type is MapType.ARRAY and spec.max_entries == 1:
            return {bytes(4): map_elements.map_lookup_elem(fd, bytes(4), size)}
        return {
            keys[n * spec.key.size : (n + 1) * spec.key.size]: values[n * size : (n + 1) * size]
            for keys, values, count in elements.read_any(fd, spec.key.size, size, spec.max_entries)
            for n in range(count)
        }


def where(program: Random) -> str:
    """The program as text, for a failure."""
    return listing(place(program.items).instructions, labels=place(program.items).labels) + repr(program.kind)


def differences(kernel: dict[str, Any], vm: dict[str, Any]) -> list[str]:
    """What is not the same, 8 bytes at a time."""
    found = []
    for what, expected in kernel.items():
        if isinstance(expected, dict):
            keys = sorted({*expected, *vm[what]})
            pairs = [(f"{what}[{key.hex()}]", expected.get(key, b""), vm[what].get(key, b"")) for key in keys]
        else:
            pairs = [(what, expected, vm[what])]
        for name, a, b in pairs:
            if isinstance(a, int):
                found += [f"{name}: {a:#x}, not {b:#x}"] if a != b else []
                continue
            found += [
                f"{name} at {at}: {a[at : at + 8].hex()}, not {b[at : at + 8].hex()}"
                for at in range(0, max(len(a), len(b), 1), 8)
                if a[at : at + 8] != b[at : at + 8]
            ]
            if a == b"" != b:
                found.append(f"{name}: missing")
    return found


__all__ = ["VALUE", "Both", "differences", "where"]
