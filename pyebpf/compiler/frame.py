"""The stack frame: the author's slots right below r10, then the allocator's, in at most 512 bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.compiler.ir import Op
from pyebpf.errors import CompileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyebpf.compiler import ir
    from pyebpf.compiler.assignment import Assignment

#: Frames that may be on the stack at once: MAX_CALL_FRAMES in include/linux/bpf_verifier.h.
CALL_DEPTH = 8
#: Bytes of stack that each function has: MAX_BPF_STACK in include/linux/filter.h.
FRAME_LIMIT = 512


def place_slots(slots: Iterable[ir.Slot]) -> tuple[dict[str, int], int]:
    """Offset from r10 of each slot, each in memory of its own, and the bytes that all take, a multiple of 8."""
    offsets: dict[str, int] = {}
    end = 0
    for slot in slots:
        end += slot.size
        end += -end % max(slot.align, 1)
        offsets[slot.name] = -end
    return offsets, end + -end % 8


def colour_spills(assignment: Assignment) -> tuple[dict[int, int], int]:
    """Spill slot of each spilled value, and how many slots there are.

    Values that live at the same time never share one.

    In SSA form two values overlap only if one lives where the other is defined, so that one walk with the definitions
    first suffices.
    """
    spilled = assignment.spilled
    if not spilled:
        return {}, 0
    function, liveness = assignment.function, assignment.liveness
    colours: dict[int, int] = {}
    friends = _friends(assignment)

    def choose(value: int, alive: Mapping[int, int]) -> int:
        taken = set(alive.values())
        for friend in friends.get(value, ()):
            colour = colours.get(friend)
            if colour is not None and colour not in taken:
                return colour
        colour = 0
        while colour in taken:
            colour += 1
        return colour

    for index, block in enumerate(function.blocks):
        number = block.number
        out = liveness.live_out[number]
        alive = {value: colours[value] for value in liveness.live_in[number] if value in spilled and value in colours}
        for value in block.parameters if index else function.parameters:
            if value in spilled:
                colours[value] = alive[value] = choose(value, alive)
        last: dict[int, int] = {}
        for place, node in enumerate(block.nodes):
            for value in node.uses():
                if value in spilled:
                    last[value] = place
        for value in block.terminator.uses():
            if value in spilled:
                last[value] = len(block.nodes)
        for value in block.parameters:
            if value in alive and value not in last and value not in out:
                del alive[value]
        for place, node in enumerate(block.nodes):
            for value in node.uses():
                if value in alive and last[value] == place and value not in out:
                    del alive[value]
            value = node.result
            if value in spilled:
                colour = choose(value, alive)
                colours[value] = colour
                if value in last or value in out:
                    alive[value] = colour
    return colours, max(colours.values()) + 1


def _friends(assignment: Assignment) -> dict[int, list[int]]:
    """Pairs of spilled values that one slot for both would save a move: a block's parameter and what it is given."""
    parameters = {block.number: block.parameters for block in assignment.function.blocks}
    friends: dict[int, list[int]] = {}
    for block in assignment.function.blocks:
        arguments = getattr(block.terminator, "arguments", ())
        if not arguments:
            continue
        for parameter, value in zip(parameters[block.terminator.successors()[0]], arguments, strict=True):
            if parameter in assignment.spilled and value in assignment.spilled:
                friends.setdefault(parameter, []).append(value)
                friends.setdefault(value, []).append(parameter)
    return friends


def only_called(functions: Sequence[ir.Function]) -> list[ir.Function]:
    """The main function, and those that calls lead to from there: the verifier refuses one that nothing calls."""
    by_name = {function.name: function for function in functions}
    found, waiting = {functions[0].name}, [functions[0]]
    while waiting:
        for name in _calls(waiting.pop()):
            if name in by_name and name not in found:
                found.add(name)
                waiting.append(by_name[name])
    return [function for function in functions if function.name in found]


def check_call_chains(functions: Sequence[ir.Function], frames: Mapping[str, int]) -> None:
    """Refuse calls that go round, more than eight frames deep, or through frames of more than 512 bytes together.

    `frames` has the bytes that each function takes. Linux 6.1 rounds each up to 32, newer kernels to less
    (check_max_stack_depth in kernel/bpf/verifier.c). The error for too many is at the last function of the chain, which
    may be the body of a loop.
    """
    called = {function.name: _calls(function) for function in functions}
    #: Deepest chain below a function: frames, bytes, names.
    chains: dict[str, tuple[int, int, tuple[str, ...]]] = {}

    def taken(name: str) -> int:
        size = max(frames[name], 1)
        return size + -size % 32

    def chain(function: ir.Function, above: tuple[str, ...]) -> tuple[int, int, tuple[str, ...]]:
        name = function.name
        if name in above:
            path = " → ".join((*above[above.index(name) :], name))
            raise CompileError(f"{name} calls itself ({path}), and BPF has no recursion", function.where)
        if name not in chains:
            below = [chain(by_name[other], (*above, name)) for other in called[name] if other in by_name]
            deepest = max((frame for frame, _, _ in below), default=0)
            widest = max(below, key=lambda other: other[1], default=(0, 0, ()))
            chains[name] = deepest + 1, widest[1] + taken(name), (name, *widest[2])
        return chains[name]

    by_name = {function.name: function for function in functions}
    main = functions[0]
    depth, size, names = chain(main, ())
    if depth > CALL_DEPTH:
        raise CompileError(f"{main.name}: calls go {depth} frames deep, and BPF allows {CALL_DEPTH}", main.where)
    if size > FRAME_LIMIT:
        path = " → ".join(f"{name} ({taken(name)})" for name in names)
        remedy = "keep large records in a map"
        if any(_hands_over(by_name[name]) for name in names):
            remedy += (
                "; a local that a loop over a map uses takes 8 bytes in every loop around it: make such locals fields "
                "of one record"
            )
        raise CompileError(
            f"the calls {path} need {size} bytes of stack together, and a BPF program has {FRAME_LIMIT}: {remedy}",
            by_name[names[-1]].where,
        )


def _calls(function: ir.Function) -> tuple[str, ...]:
    """Subprograms that a function calls, or hands to a helper that does."""
    names = {
        instruction.symbol: None
        for block in function.blocks
        for instruction in block.instructions
        if instruction.op in (Op.CALL_LOCAL, Op.FUNCTION)
    }
    return tuple(names)


def _hands_over(function: ir.Function) -> bool:
    """Whether it has the kernel call a function, as a loop over a map does with its body."""
    return any(each.op is Op.FUNCTION for block in function.blocks for each in block.instructions)


def frame_too_large(function: ir.Function, size: int, spills: int) -> CompileError:
    """The error for a frame of `size` bytes, naming what is large."""
    largest = sorted(function.slots, key=lambda slot: (-slot.size, slot.name))[:3]
    names = ", ".join(f"{slot.name} ({slot.size} bytes)" for slot in largest)
    records = f"; the largest records are {names}" if names else ""
    spilled = f", {8 * spills} of them for values that found no register" if spills else ""
    return CompileError(
        f"{function.name} needs {size} bytes of stack{spilled}, and a BPF function has {FRAME_LIMIT}{records}: "
        "keep large records in a map or build them where they are emitted",
        (largest[0].where if largest and not spills else None) or function.where,
    )
