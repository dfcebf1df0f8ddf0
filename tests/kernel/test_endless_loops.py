"""`while` loops that nothing bounds: the kernel ends them where it has may_goto; elsewhere they are refused."""

from __future__ import annotations

import pytest

from pyebpf import BPF, CompileError, u32, u64
from pyebpf.builder.loops import CUT_OFF
from pyebpf.features import Features
from pyebpf.runtime.host import kernel_btf
from pyebpf.script import Script
from tests.support.needs import needs
from tests.support.system_calls import NO_PROCESS, getpgid


@pytest.fixture(scope="module")
def has_may_goto():
    """What the kernel says; a test of either answer has something to show."""
    return Features(kernel_btf).has("isa:may_goto")


def collatz(number):
    """How many steps it takes to come down to 1."""
    steps = 0
    while number != 1:
        number = 3 * number + 1 if number % 2 else number // 2
        steps += 1
    return steps


def collatz_counter():
    """A program that counts the steps of every number asked for."""
    bpf = BPF()
    steps = bpf.hash(key=u32, value=u64)

    @bpf.tracepoint("syscalls:sys_enter_getpgid")
    def on_getpgid(pid: int) -> None:
        if pid >= NO_PROCESS:
            number = u64(pid - NO_PROCESS + 1)
            count = 0
            while number != 1:
                number = 3 * number + 1 if number % 2 == 1 else number // 2
                count += 1
            steps[pid] = count

    return bpf, steps


def test_loops_end_where_the_program_says(has_may_goto):
    """A loop whose end nobody can foresee goes as many rounds as in Python; nothing is lost."""
    bpf, steps = collatz_counter()
    if not has_may_goto:
        with pytest.raises(CompileError, match="cannot prove that this `while` ends"):
            bpf.load()
        return
    with bpf:
        getpgid(*range(97))
        assert dict(steps.items()) == {NO_PROCESS + i: collatz(1 + i) for i in range(97)}
        assert bpf.dropped == {}


def test_loops_cut_off_are_counted(has_may_goto):
    """Each time that the kernel ends a loop counts once, and the program goes on behind the loop."""
    needs("isa:may_goto")
    bpf = BPF()
    left = bpf.array(value=u64, size=2)

    @bpf.tracepoint("syscalls:sys_enter_getpgid")
    def on_getpgid(pid: int) -> None:
        if pid >= NO_PROCESS:
            rounds = u64(0)
            while True:
                rounds += 1
                if pid % 2 == 1 and rounds > 1000:
                    break
            left[0] += 1
            left[1] += rounds

    with bpf:
        getpgid(*range(5))
        assert bpf.dropped == {CUT_OFF: 3}
        assert left[0] == 5
        assert left[1] > 3 * 0xFFFF


def test_a_loop_that_waits_for_memory(has_may_goto):
    """The verifier accepts loops whose numbers it forgets: a walk through a map until a key is missing."""
    needs("isa:may_goto")
    bpf = BPF()
    following = bpf.hash(key=u64, value=u64)
    ends = bpf.array(value=u64, size=1)

    @bpf.tracepoint("syscalls:sys_enter_getpgid")
    def on_getpgid(pid: int) -> None:
        if pid >= NO_PROCESS:
            at = u64(0)
            while True:
                after = following.get(at)
                if after is None:
                    break
                at = u64(after)
            ends[0] = at

    with bpf:
        for number in range(1009):
            following[number * 7] = (number + 1) * 7
        getpgid(*range(1))
        assert ends[0] == 1009 * 7
        assert bpf.dropped == {}


def test_a_loop_around_one_that_nothing_bounds():
    """Its number is not forgotten with those of the one inside, which the verifier would never see end."""
    text = (
        "for ($i : 1..3) { $u = (uint64)$i; $n = (uint8)0; while ($n < 3) { $n++; if ($u != 7) { "
        'printf("%d %d %d\\n", $u - 5, $n, ((bool)$u ? 3 : (uint32)200)); } } }'
    )
    shown = "".join(Script(f"BEGIN {{ {text} exit(); }}").output())
    assert shown.split("\n")[:6] == [f"{i - 5} {n} 3" for i in (1, 2) for n in (1, 2, 3)]


#: Each branches on its variables, which begin as one number, or become a number that a test makes known.
BRANCHY = {
    "begin as one number": (
        (
            "@m[(int8)1, (int32)1] = (uint64)5; let $low : int64 = 0; let $x : int64 = 0; let $n : int64 = 0; "
            "while ($n < 4) { $n++; "
            "if ((int64)(int8)@m[(int8)$x, (int32)0] > $low) { $x += 1 } else { $x -= (int64)@m[1, (int32)$x] } "
            "if ((int64)(int8)@m[(int8)$x, (int32)1] > $low) { $x += 1 } else { $x -= (int64)@m[1, (int32)$x] } "
            "if (@m[1, (int32)$n] > 3) { continue } print($x); if ($x > 100) { break } } if ($x > 1) { print($x) }"
        ),
        "0\n0\n0",
    ),
    "a test makes one known": (
        (
            "@m[(uint16)1] = (uint64)8; let $k : int32 = 300; let $x : uint32 = (uint32)$k; let $n : int64 = 0; "
            "while ($n < 1) { $n++; $k ^= (int32)(~(uint64)15); $x += (uint32)1; "
            "if (((uint64)3 >> ((uint64)$n & 63)) < 1000) { "
            "print((int64)(((uint64)(~(int64)((int8)$n)) >= (uint16)155) ? (int64)((int32)@m["
            "(uint16)(((uint32)4294967295 <= $x) ? (uint16)257 : (uint16)$x)] != (int32)$x) : 7)); } "
            "else { print((int32)@m[(uint16)((int64)((int8)$x) % (int64)((int64)((int8)$k) | 1))]); } } print($k);"
        ),
        "1\n-292",
    ),
    "of many numbers": (
        (
            "@m[(uint16)1] = (uint64)8; let $k : int32 = 300; let $x : uint32 = (uint32)$k; let $low : int64 = 0; "
            "let $y : int64 = 0; for ($i : 0..300) { $k ^= (int32)(~(uint64)15); $x += (uint32)1; "
            "if ((int64)(int8)@m[(uint16)$y] > $low) { $y += 1 } else { $y -= (int64)@m[(uint16)$i] } "
            "if ((int64)(int8)@m[(uint16)$x] > $low) { $y += 1 } else { $y -= (int64)@m[(uint16)$y] } "
            "if (((uint64)3 >> ((uint64)$i & 63)) < 1000) { $r = (int64)(((uint64)(~(int64)((int8)$i)) >= (uint16)155) "
            "? (int64)((int32)@m["
            "(uint16)(((uint32)4294967295 <= $x) ? (uint16)257 : (uint16)$x)] != (int32)$x) : 7); } "
            "else { $r = (int64)@m[(uint16)((int64)((int8)$x) % (int64)((int64)((int8)$k) | 1))]; } "
            "if ($y > 100) { break; } } print(($k, $x, $y));"
        ),
        "(300, 600, -8)",
    ),
    "with loops of few numbers in it": (
        (
            "@m[2, true] = true; let $w : int64 = 0; while ($w < 5) { $w++; for ($i : 0..2) { "
            "@m[2, @m[3, true]] = @m[1, false]; @m[$w % 4, @m[2, true]] = has_key(@m, (1, @m[0, true])); "
            "if (@m[$i, @m[1, @m[1, true]]]) { @m[$i, false] = true; } } "
            "for ($j : 0..3) { @m[$j, @m[$w, @m[1, @m[0, false]]]] = true; "
            "if (@m[2, @m[$j, @m[1, true]]]) { @m[1, @m[$w, @m[3, false]]] = false; } } } print(len(@m));"
        ),
        "7",
    ),
}


@pytest.mark.parametrize("which", BRANCHY)
def test_the_verifier_comes_to_the_end_of_a_loop_with_branches(which):
    """It would follow numbers that it knows one iteration after the other, and every branch in each."""
    needs("isa:may_goto")
    body, printed = BRANCHY[which]
    assert "".join(Script(f"BEGIN {{ {body} clear(@m); exit(); }}").output()).strip() == printed
