"""The machine form: eBPF operations over virtual registers, what selection makes and allocation turns into real ones.

A virtual register is a number from `FIRST_VIRTUAL` up and is defined once, as in the IR; smaller numbers are the real
registers, of which only r10, the frame pointer, appears before allocation. Two-address operations name what they read
in `dst`; the allocator makes `result` the same register. After allocation the same classes hold real registers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.asm import Form, Op, find_op
from pyebpf.dataclass import dataclass, field

if TYPE_CHECKING:
    from pyebpf.errors import Location

#: No register.
NONE = -1
#: r10, which holds the end of the stack frame.
FRAME = 10
#: The first number that is no real register.
FIRST_VIRTUAL = 16
#: Registers that a call leaves alone, and those that it doesn't.
CALLEE_SAVED = (6, 7, 8, 9)
CALLER_SAVED = (0, 1, 2, 3, 4, 5)


def _pseudo(name: str, *, reads: str = "", writes: str = "d") -> Op:
    """An operation of this form only: emission writes it as real ones."""
    return Op(name, -1, Form.DST_SRC, "", reads=reads, writes=writes)


#: Another name for a value: a move, or nothing where the allocator gives both one register.
COPY = _pseudo("copy", reads="s")
#: 1 if `dst test src` (or imm) holds, else 0. The result shares no register with what is compared.
COMPARE = _pseudo("compare", reads="ds", writes="")
#: The frame pointer plus imm.
ADDRESS = _pseudo("address")
#: After allocation: the result is where an operand already was. Emits nothing.
DEFINE = _pseudo("define", reads="s")

#: The real operations that the allocator itself inserts.
MOVE = find_op("mov64", Form.DST_SRC)
LOAD_SLOT = find_op("ldxdw", Form.LOAD)
STORE_SLOT = find_op("stxdw", Form.STORE)

CALLS = frozenset({Form.CALL, Form.CALL_LOCAL, Form.CALL_KFUNC})


@dataclass(slots=True)
class Node:
    """One operation. `op.reads` and `op.writes` say whether `dst` and `src` are read, and where `result` ends up.

    `arguments` are a call's, for r1 on. `test` is the conditional jump behind a COMPARE.
    """

    op: Op
    result: int = NONE
    dst: int = NONE
    src: int = NONE
    offset: int = 0
    imm: int = 0
    symbol: str = ""
    arguments: tuple[int, ...] = ()
    test: Op | None = None
    where: Location | None = field(default=None, compare=False, repr=False)
    comment: str = field(default="", compare=False, repr=False)

    def uses(self) -> tuple[int, ...]:
        """Registers that it reads."""
        if self.arguments:
            return self.arguments
        if self.dst >= 0:
            return (self.dst, self.src) if self.src >= 0 else (self.dst,)
        return (self.src,) if self.src >= 0 else ()

    @property
    def is_call(self) -> bool:
        """Whether it leaves r1 to r5 unreadable."""
        return self.op.form in CALLS


@dataclass(slots=True)
class MachineJump:
    """Go to `target`, giving its parameters."""

    target: int
    arguments: tuple[int, ...] = ()
    where: Location | None = None

    def uses(self) -> tuple[int, ...]:
        """Values that it needs, in registers or not."""
        return self.arguments

    def successors(self) -> tuple[int, ...]:
        """Numbers of the blocks that may come next."""
        return (self.target,)


@dataclass(slots=True)
class MachineBranch:
    """Go to `then` if `test` (a conditional jump) holds for `dst` and `src` or imm, else to `otherwise`.

    `test` may be `may_goto`, which reads neither.
    """

    test: Op
    dst: int
    src: int
    imm: int
    then: int
    otherwise: int
    where: Location | None = None

    def uses(self) -> tuple[int, ...]:
        """Registers that it reads."""
        if self.dst < 0:
            return ()
        return (self.dst, self.src) if self.src >= 0 else (self.dst,)

    def successors(self) -> tuple[int, ...]:
        """Numbers of the blocks that may come next, `then` first."""
        return (self.then, self.otherwise)


@dataclass(slots=True)
class MachineReturn:
    """Leave the function with `value` in r0."""

    value: int
    where: Location | None = None

    def uses(self) -> tuple[int, ...]:
        """Registers that it reads."""
        return (self.value,)

    def successors(self) -> tuple[int, ...]:
        """No block comes next."""
        return ()


MachineTerminator = MachineJump | MachineBranch | MachineReturn


@dataclass(slots=True)
class MachineBlock:
    """Straight-line code; `parameters` are virtual registers defined on entry."""

    number: int
    parameters: tuple[int, ...]
    nodes: list[Node]
    terminator: MachineTerminator


@dataclass(slots=True)
class MachineFunction:
    """A function: `blocks` in reverse post-order, no edge from a block of two successors to one of two predecessors.

    `constants` has, for each virtual register that is cheaper to make again than to keep, the node that makes it; no
    block defines it. `frame` is how many bytes below r10 the author's slots take.
    """

    name: str
    parameters: tuple[int, ...]
    blocks: list[MachineBlock]
    constants: dict[int, Node]
    frame: int = 0
    where: Location | None = None
