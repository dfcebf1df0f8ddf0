"""Call stacks by number: the call, the losses, the frames read back."""

from __future__ import annotations

from typing import Any

import pytest

from pyebpf.builder.lost import LOST_MAP, losses_of
from pyebpf.builder.stacks import GET_STACKID, STACKS_MAP, USER_STACK, StackTraces, kstack, ustack
from pyebpf.compiler.evaluator import MapHandle, Region
from pyebpf.errors import CompileError, InvalidValue, OnlyInProbe
from pyebpf.specs import ProgramKind
from tests.builder.harness import Probe

WORDS: dict[str, Any] = {"kstack": kstack, "ustack": ustack}


def run(name: str, answer: int, **keywords: Any) -> tuple[int, tuple[Any, ...], int]:
    """What the probe got, what the helper was given, what was counted as lost."""
    p = Probe()
    p.ret(WORDS[name].call(p, (), keywords))
    assert [str(loss) for loss in losses_of(p).losses] == [".stacks: stack not kept: its place is taken"]
    assert list(p.maps) == [STACKS_MAP, LOST_MAP]
    lost, seen = Region.of("lost", bytes(8)), []
    helpers = {GET_STACKID: lambda _, *arguments: seen.append(arguments) or answer}
    result = p.run(helpers=helpers, values={LOST_MAP: lost})
    return result, seen[0], int.from_bytes(lost.data, "little")


@pytest.mark.parametrize(
    ("name", "keywords", "flags"),
    [("kstack", {}, 0), ("ustack", {}, USER_STACK), ("kstack", {"skip": 3}, 3), ("ustack", {"skip": 255}, 0x1FF)],
)
def test_the_helper_gets_context_map_and_flags(name: str, keywords: dict[str, int], flags: int) -> None:
    """Frames to skip in the low byte, user space by its flag."""
    found, (context, stacks, given), lost = run(name, 17, **keywords)
    assert (found, lost) == (17, 0)
    assert context.region.name == "context"
    assert stacks == MapHandle(STACKS_MAP)
    assert given == flags


@pytest.mark.parametrize(("answer", "lost"), [(0, 0), (-17, 1), (-12, 1), (-14, 0)])
def test_a_stack_that_is_not_kept_is_lost_and_one_that_is_not_there_is_not(answer: int, lost: int) -> None:
    """EEXIST and ENOMEM are losses; EFAULT says that there is no such stack."""
    found, _, counted = run("ustack", answer)
    assert (found, counted) == (answer, lost)


def test_what_is_no_count_of_frames_is_refused() -> None:
    """It is known while compiling, and fits a byte; and only tracing programs have a stack."""
    p = Probe()
    for skip in (256, -1, p.number(0), "x"):
        with pytest.raises(CompileError, match=r"kstack\(skip=…\) is a number known while compiling, 0 to 255"):
            kstack.call(p, (skip,), {})  # type: ignore[attr-defined]  # a Word
    p.kind = ProgramKind.XDP
    with pytest.raises(CompileError, match="xdp programs have no call stack"):
        ustack.call(p, (), {})  # type: ignore[attr-defined]  # a Word
    with pytest.raises(OnlyInProbe):
        kstack()


def test_frames_end_with_the_first_zero() -> None:
    """A deep stack fills the whole entry; a negative number has no frames; others must be there."""

    class Loaded(dict[int, bytes]):
        def lookup(self, key: int) -> bytes | None:
            return self.get(key)

    full = list(range(1, 128))
    entries = {3: [9, 8, 7, *[0] * 124], 4: full}
    stacks = StackTraces(Loaded({k: b"".join(f.to_bytes(8, "little") for f in v) for k, v in entries.items()}))
    assert dict(stacks) == {3: [9, 8, 7], 4: full}
    assert len(stacks) == 2
    assert stacks[-14] == []
    with pytest.raises(KeyError):
        stacks[5]
    with pytest.raises(InvalidValue):
        stacks[1 << 32]
