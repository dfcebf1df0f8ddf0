"""`kstack()` and `ustack()`: the call stack of an event, kept once and named by a number.

The kernel walks the stack and stores its return addresses in a hidden map (BPF_MAP_TYPE_STACK_TRACE); a probe gets the
number of the entry, which it may count by or emit. `StackTraces` reads the addresses back.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import unpack
from typing import TYPE_CHECKING, Any

from pyebpf.builder.conditions import All, Compare
from pyebpf.builder.integers import Int
from pyebpf.builder.lost import count_loss
from pyebpf.builder.words import word
from pyebpf.compiler.ir import Condition as Relation, Op
from pyebpf.errors import InvalidValue, OnlyInProbe
from pyebpf.specs import MapKind, MapSpec, ProgramKind
from pyebpf.types import S64, U32, U64, ArrayType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Protocol

    from pyebpf.builder.program import ProgramBuilder

    class Backend(Protocol):
        """The loaded map."""

        def lookup(self, key: int, /) -> bytes | None:
            """Return the bytes under a key."""

        def __iter__(self) -> Iterator[int]: ...


__all__ = ["DEPTH", "LOST", "STACKS_MAP", "StackTraces", "kstack", "stacks_spec", "ustack"]

STACKS_MAP = ".stacks"
#: Frames that are kept of a stack: PERF_MAX_STACK_DEPTH, the default of the sysctl kernel.perf_event_max_stack.
DEPTH = 127
#: Places for different stacks, a power of two: 1 kB each. Two stacks that hash to one place cannot both be kept.
PLACES = 16_384

LOST = "stack not kept: its place is taken"

GET_STACKID = 27
#: Flags of bpf_get_stackid: frames to skip in the low byte, BPF_F_USER_STACK.
MOST_SKIPPED = 0xFF
USER_STACK = 1 << 8
EFAULT = 14

_KINDS = (
    ProgramKind.TRACEPOINT,
    ProgramKind.RAW_TRACEPOINT,
    ProgramKind.TRACING,
    ProgramKind.PERF_EVENT,
    ProgramKind.KPROBE,
)


def stacks_spec() -> MapSpec:
    """The hidden map, which all programs of a module share."""
    return MapSpec(STACKS_MAP, MapKind.STACK_TRACE, U32, ArrayType(U64, DEPTH), PLACES)


def _stack(name: str, flags: int) -> Callable[..., Int]:
    def build(p: ProgramBuilder, skip: Any = 0) -> Int:
        if not isinstance(skip, int) or not 0 <= skip <= MOST_SKIPPED:
            p.fail(f"{name}(skip=…) is a number known while compiling, 0 to {MOST_SKIPPED}")
        if p.kind not in _KINDS:
            p.fail(f"{name}() is for tracing: {p.kind.name.lower().replace('_', ' ')} programs have no call stack")
        b = p.b
        stacks = b.emit(Op.MAP, symbol=p.use_map(stacks_spec()))
        found = b.call(GET_STACKID, p.context, stacks, b.const(skip | flags), comment=f"{name}()")
        # -EFAULT: there is no such stack, as of a kernel thread in user space, and nothing is lost.
        failed = Compare(Relation.SLT, found, b.const(0))
        with b.if_(All((failed, Compare(Relation.NE, found, b.const(-EFAULT))))):
            count_loss(p, LOST, STACKS_MAP)
        return Int(found, S64)

    return build


@word(_stack("kstack", 0))
def kstack(skip: int = 0) -> int:
    """Number of the current call stack in the kernel, without its `skip` innermost frames; negative if it has none.

    An s64. `StackTraces` has its frames. A stack whose place is taken by another is counted as lost.
    """
    raise OnlyInProbe


@word(_stack("ustack", USER_STACK))
def ustack(skip: int = 0) -> int:
    """Number of the current call stack in user space, without its `skip` innermost frames; negative if it has none.

    The kernel follows frame pointers, which programs may have been built without: then it ends early.
    """
    raise OnlyInProbe


class StackTraces(Mapping[int, list[int]]):
    """Frames by the numbers that `kstack()` and `ustack()` gave: return addresses, the innermost first.

    `backend` is the loaded map `.stacks`. A negative number has no frames.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def __getitem__(self, number: int) -> list[int]:
        if number < 0:
            return []
        if number > U32.maximum:
            raise InvalidValue(f"{number} is no number of a stack")
        value = self._backend.lookup(number)
        if value is None:
            raise KeyError(number)
        frames = unpack(f"<{len(value) // 8}Q", value)
        return list(frames[: frames.index(0)] if 0 in frames else frames)

    def frames(self, number: int) -> list[int]:
        """Addresses of a stack, the innermost first; none for a negative number, and for one not known (any more)."""
        try:
            return self[number]
        except KeyError:
            return []

    def __iter__(self) -> Iterator[int]:
        return iter(self._backend)

    def __len__(self) -> int:
        return sum(1 for _ in self._backend)
