"""The places of values at the start of a block: the choice that moves on the edges to it must meet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.compiler.liveness import LOOP_EXIT
from pyebpf.compiler.machine import CALLEE_SAVED, CALLER_SAVED, NONE
from pyebpf.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyebpf.compiler.liveness import Liveness
    from pyebpf.compiler.machine import MachineBlock

#: Order in which registers are taken by values that don't outlive a call: r1 to r3, which calls want, late.
SHORT_LIVED = (0, 5, 4, 3, 2, 1, 9, 8, 7, 6)


@dataclass(slots=True)
class _Candidate:
    """A value that may begin the block in a register."""

    distance: int
    value: int
    #: Registers it is in on the edges to here.
    known: list[int]
    #: Registers that it may be in, best first.
    allowed: tuple[int, ...]
    is_parameter: bool = False


def choose_entry(
    block: MachineBlock,
    liveness: Liveness,
    ends: Sequence[tuple[Mapping[int, int], Sequence[int]]],
    first_uses: Mapping[int, int],
    wanted: Mapping[int, int],
) -> dict[int, int]:
    """Registers of what lives into a block and of its parameters; who is left out lives in memory.

    `ends` has, for each predecessor met already, where values are at its end and the arguments that it gives.
    `first_uses` has the distance to each parameter's first use, for those used at all.
    """
    number = block.number
    live = liveness.live_in[number]
    body = liveness.loops.bodies.get(number)
    calls = body is not None and any(liveness.call_pressure[inner] >= 0 for inner in body)
    candidates = []
    for value, distance in live.items():
        known = [register for end, _ in ends if (register := end.get(value, NONE)) != NONE]
        # Where an edge to here has it in memory only, it stays there; not at a loop's beginning, where the edge in has
        # been met and the back edges have not.
        if known and (body is not None or len(known) == len(ends)):
            allowed = _allowed(value, liveness, through=calls, loop_calls=calls)
            candidates.append(_Candidate(distance, value, known, allowed))
    for index, parameter in enumerate(block.parameters):
        if parameter in first_uses:
            given = [(end, arguments[index]) for end, arguments in ends]
            known = [end[value] for end, value in given if value not in live and value in end]
            allowed = _allowed(parameter, liveness, through=calls and parameter in liveness.crossing, loop_calls=calls)
            candidates.append(_Candidate(first_uses[parameter], parameter, known, allowed, is_parameter=True))
    candidates.sort(key=lambda candidate: (candidate.distance, candidate.value))
    if body is not None:
        room = _room(liveness, body, calls=calls)
        candidates = [
            candidate
            for index, candidate in enumerate(candidates)
            if index < room or candidate.is_parameter or candidate.distance < LOOP_EXIT
        ]
    return _place(_fitting(candidates), liveness, wanted)


def _allowed(value: int, liveness: Liveness, *, through: bool, loop_calls: bool) -> tuple[int, ...]:
    """Registers for a value; `through`: it lives through a loop that calls, where only r6 to r9 last."""
    if through:
        return CALLEE_SAVED
    return (*CALLEE_SAVED, *SHORT_LIVED[:6]) if value in liveness.crossing or loop_calls else SHORT_LIVED


def _room(liveness: Liveness, body: frozenset[int], *, calls: bool) -> int:
    """The number of values that may enter a loop in registers and leave room for those that it defines."""
    if calls:
        return 4 - max(0, max(liveness.call_pressure[number] for number in body) - 4)
    return 10 - max(0, max(liveness.pressure[number] for number in body) - 10)


def _fitting(candidates: list[_Candidate]) -> list[_Candidate]:
    """As many as there are registers for, those needed first; the choosiest of them first."""
    saved: list[_Candidate] = []
    others: list[_Candidate] = []
    for candidate in candidates:
        if len(saved) + len(others) == 10:
            break
        if len(candidate.allowed) > len(CALLEE_SAVED):
            others.append(candidate)
        elif len(saved) < len(CALLEE_SAVED):
            saved.append(candidate)
    return saved + others


def _place(candidates: list[_Candidate], liveness: Liveness, wanted: Mapping[int, int]) -> dict[int, int]:
    """A register for each: first for those that may stay where they are, then for the rest."""
    start: dict[int, int] = {}
    taken: set[int] = set()
    choosy = [candidate for candidate in candidates if len(candidate.allowed) == len(CALLEE_SAVED)]
    for group in (choosy, candidates[len(choosy) :]):
        for candidate in group:
            outlives = candidate.value in liveness.crossing
            known = candidate.known
            preferred: Collection[int] = set(known)
            if len(preferred) > 1:
                preferred = sorted(preferred, key=lambda r: (outlives and r in CALLER_SAVED, -known.count(r), r))
            for register in (*preferred, wanted.get(candidate.value, NONE)):
                if register in candidate.allowed and register not in taken:
                    start[candidate.value] = register
                    taken.add(register)
                    break
        for candidate in group:
            if candidate.value not in start:
                register = next(register for register in candidate.allowed if register not in taken)
                start[candidate.value] = register
                taken.add(register)
    return start
