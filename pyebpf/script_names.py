"""Names of what a script prints as numbers: functions, users, control groups, enumerators; and times."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pyebpf.bpftrace.frames import places_text, stack_text, symbol_text
from pyebpf.bpftrace.times import time_text
from pyebpf.output.escape import escaped

if TYPE_CHECKING:
    from pyebpf.script import Script


class MachineNames:
    """Names of this machine, for what a script prints."""

    def __init__(self, script: Script) -> None:
        self._script = script
        #: Names of numbers by the kernel's enums, as they are asked for.
        self._enums: dict[str, dict[int, str]] = {}
        #: When the machine started: asked once, so that times differ by what lies between them.
        self._started = booted()
        #: When the clock TAI was 0: the leap seconds since then, if the machine was told them.
        self._tai_began = round((time.time_ns() - time.clock_gettime_ns(time.CLOCK_TAI)) / 10**9) * 10**9

    def kernel_stack(self, number: int, limit: int, mode: str) -> str:
        frames = self._script.stacks.kernel(number, tracer=True)
        return stack_text(frames, limit, mode, self._readable, kernel=True)

    def user_stack(self, number: int, pid: int, limit: int, mode: str) -> str:
        if mode == "build_id":
            return places_text(self._script.stacks.user_places(number, pid)[:limit])
        source = self._script._script.script.settings.show_debug_info and mode != "raw"
        frames = self._script.stacks.user(number, pid, source=source)
        return stack_text(frames, limit, mode, self._readable)

    def _readable(self, name: str) -> str:
        """A symbol's name, demangled unless the script's `config` says otherwise."""
        if not name.startswith(("_Z", "_R")) or not self._script._script.script.settings.cpp_demangle:
            return name
        from pyebpf.symbols.demangle import demangled  # most programs are written in C

        return demangled(name, parameters=True)

    @property
    def trailer(self) -> str:
        return self._script._script.script.settings.str_trunc_trailer

    def shown(self, text: str) -> str:
        return escaped(text) if self._script.escapes else text

    def kernel_symbol(self, address: int) -> str:
        frame = self._script._names().kernel_frames((address,))[0]
        return symbol_text(frame, self._readable)

    def user_symbol(self, address: int, pid: int) -> str:
        return symbol_text(self._script.stacks.user_function(address, pid), self._readable)

    def user(self, number: int) -> str:
        import pwd

        try:
            return pwd.getpwuid(number).pw_name
        except KeyError:
            return str(number)

    def cgroup_path(self, number: int, pattern: str) -> str:
        from pyebpf.symbols.cgroups import paths

        return ",".join([f"{name}:{path}" for name, path in paths(number, pattern)])

    def enumerator(self, enum: str, number: int) -> str:
        from pyebpf.btf import Enumeration, Kind
        from pyebpf.runtime.host import kernel_btf

        if enum not in self._enums:
            btf = kernel_btf()
            ids = [int(enum[1:])] if enum[0] == "#" else btf.find(enum, (Kind.ENUM, Kind.ENUM64))
            found = [btf.enumeration(enum[1:])] if enum[0] == ":" else [btf.type_by_id(each) for each in ids]
            named = (each for node in found if isinstance(node, Enumeration) for each in node.enumerators)
            self._enums[enum] = {each.value: each.name for each in named}
        return self._enums[enum].get(number, str(number))

    def gfp_flags(self, flags: int) -> str:
        from pyebpf.bpftrace.gfp_flags import words
        from pyebpf.runtime.host import kernel_btf

        return words(flags, lambda name: kernel_btf().find_enumerator(f"___GFP_{name}_BIT"))

    def time(self, layout: str, nanoseconds: int, clock: str) -> str:
        began = self._tai_began if clock == "tai" else self._started
        return time_text(layout, began + nanoseconds - (nanoseconds >> 63 << 64))  # a difference may be below 0


def booted() -> int:
    """When the machine was started, in nanoseconds since the epoch."""
    return time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
