"""Features of the running kernel, each probed on the kernel itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.errors import NotFound, closest
from pyebpf.features.support import Support

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyebpf.btf import Btf

__all__ = ["Features", "Support"]

_remembered: dict[str, Support] = {}
#: Attachments that take a tenth of a second to take away: those of `pyebpf.features.trampolines`, imported when asked.
_SLOW = frozenset({"fentry", "fexit", "fmod_ret", "lsm"})


class Features:
    """Probes with three answers: yes, no, could not tell. Only the first two are remembered, for the process.

    A feature is named with its kind: "isa:sdiv" and "isa:v4", "map:ringbuf" and "map:growing_hash",
    "map:queue@sleepable" (in programs that may sleep), "program:tracing" and "program:xdp@frags" (with that flag),
    "helper:loop" (any tracing program) and "helper:get_current_comm@xdp", "kfunc:bpf_iter_num_new", "attach:fentry",
    and "load:fentry" for what `promise` asks. Nothing is inferred from anything else, and never from the kernel's
    version. `btf` gives vmlinux's BTF, without which some probes can't tell.
    """

    def __init__(self, btf: Callable[[], Btf] | None = None) -> None:
        self._btf = btf

    def ask(self, name: str) -> Support:
        """Ask for one feature. Raises NotFound for a name that means nothing."""
        answer = _remembered.get(name)
        if answer is None:
            answer = self._probe(name)
            if answer is not Support.UNKNOWN:
                _remembered[name] = answer
        return answer

    def promise(self, name: str) -> Support:
        """As `ask`, for who is going to attach and will see: nothing is attached to find out, where it takes time."""
        kind, _, what = name.partition(":")
        if kind == "attach" and what in _SLOW and name not in _remembered:
            return self.ask(f"load:{what}")
        return self.ask(name)

    def has(self, name: str) -> bool:
        """Whether the kernel is known to have it."""
        return self.ask(name) is Support.YES

    def _probe(self, name: str) -> Support:
        kind, _, what = name.partition(":")
        match kind:
            case "isa":
                return self._isa(what)
            case "map":
                from pyebpf.features.types import growing_hash, long_keys, map_type, sleepable_map
                from pyebpf.uapi.bpf import MapType

                if what == "growing_hash":
                    return growing_hash()
                if what == "long_keys":
                    return long_keys()
                if what.endswith("@sleepable"):
                    return sleepable_map(MapType[_member(name, what.removesuffix("@sleepable"), MapType.__members__)])
                return map_type(MapType[_member(name, what, MapType.__members__)])
            case "program":
                from pyebpf.features.types import XDP_FLAGS, program_type, xdp_flag
                from pyebpf.uapi.bpf import ProgramType

                if what.startswith("xdp@"):
                    flag = what.removeprefix("xdp@")
                    if flag not in XDP_FLAGS:
                        raise _unknown(name, flag, XDP_FLAGS)
                    return xdp_flag(flag)
                return program_type(ProgramType[_member(name, what, ProgramType.__members__)], self._btf)
            case "helper":
                return self._helper(what)
            case "kfunc":
                from pyebpf.features.types import kernel_function

                return kernel_function(what, self._btf)
            case "attach":
                from pyebpf.features.attachments import ATTACHMENTS

                if what in ATTACHMENTS:
                    return ATTACHMENTS[what](self._btf)
                raise _unknown(name, what, ATTACHMENTS)
            case "load":
                from pyebpf.features.trampolines import LOADING

                if what in LOADING:
                    return LOADING[what](self._btf)
                raise _unknown(name, what, LOADING)
        raise _unknown(name, kind, ("isa", "map", "program", "helper", "kfunc", "attach", "load"))

    def _isa(self, what: str) -> Support:
        from pyebpf.features.instructions import INSTRUCTIONS, LEVELS, instruction

        if what in LEVELS:
            answers = {self.ask(f"isa:{part}") for part in LEVELS[what]}
            if Support.NO in answers:
                return Support.NO
            return Support.UNKNOWN if Support.UNKNOWN in answers else Support.YES
        answer = instruction(what)
        if answer is None:
            raise _unknown(f"isa:{what}", what, (*INSTRUCTIONS, *LEVELS, "addr_space_cast"))
        return answer

    def _helper(self, what: str) -> Support:
        from pyebpf.features.types import helper
        from pyebpf.uapi.bpf import ProgramType
        from pyebpf.uapi.helpers import helper as prototype

        name, _, kind = what.partition("@")
        number = prototype(name).id
        if kind:
            return helper(number, ProgramType[_member(f"helper:{what}", kind, ProgramType.__members__)], self._btf)
        answers = [helper(number, each, self._btf) for each in (ProgramType.TRACEPOINT, ProgramType.KPROBE)]
        return next((a for a in answers if a is Support.YES), answers[0])


def _member(name: str, what: str, members: Iterable[str]) -> str:
    if what.upper() not in members:
        raise _unknown(name, what, (member.lower() for member in members))
    return what.upper()


def _unknown(name: str, part: str, known: Iterable[str]) -> NotFound:
    return NotFound(f"no feature {name!r}{closest(part, known)}")
