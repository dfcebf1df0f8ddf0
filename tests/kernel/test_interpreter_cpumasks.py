"""The interpreter's masks of processors against the kernel's: every function, with all masks of two processors.

A kernel function's int or bool fills the lower part of R0 only: its lowest byte is compared.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from pyebpf.asm import Label
from pyebpf.asm.build import (
    R0,
    R1,
    R2,
    R3,
    R6,
    R7,
    R8,
    R9,
    add64,
    alu,
    call_kfunc,
    exit_,
    jump_if,
    lddw,
    ldx,
    load_map_value,
    mov64,
    stx,
)
from pyebpf.errors import VmError
from pyebpf.specs import MapSpec
from pyebpf.types import U32, U64, ArrayType
from pyebpf.uapi.bpf import MapType
from pyebpf.vm import Machine, run
from pyebpf.vm.cpumasks import KFUNCS
from tests.kernel.test_interpreter_forms import in_both
from tests.support.needs import needs

SEEN = MapSpec("seen", MapType.ARRAY, U32, ArrayType(U64, 2048), 1)
#: More bytes than any kernel's struct cpumask has; the processors 0, 1 and 2.
BITS = MapSpec("bits", MapType.ARRAY, U32, ArrayType(U64, 256), 1, initial=((bytes(4), b"\7" + bytes(2047)),))
A, B, C, OUT = R6, R7, R8, R9
MASKS = list(itertools.product(range(4), repeat=2))
#: Functions of one mask, of two, and of three that leave something in the first.
ONE = ["empty", "first", "first_zero"]
TWO = ["equal", "intersects", "subset"]
THREE = ["and", "or", "xor"]
SINGLE = ["set_cpu", "clear_cpu", "test_cpu", "test_and_set_cpu", "test_and_clear_cpu"]
SILENT = ["or", "xor", "copy", "setall", "clear", "set_cpu", "clear_cpu"]
LATER = {"weight": (A,), "any_distribute": (A,), "first_and": (A, B), "any_and_distribute": (A, B)}


def processors() -> int:
    """One more than the last processor that this machine may have."""
    return int(Path("/sys/devices/system/cpu/possible").read_text().strip().rpartition("-")[2]) + 1


def given(left, right):
    """The calls after which these are the first two masks."""
    calls = [("clear", A), ("clear", B)]
    calls += [("set_cpu", cpu, A) for cpu in range(2) if left >> cpu & 1]
    return calls + [("set_cpu", cpu, B) for cpu in range(2) if right >> cpu & 1]


def results(calls):
    """What each of these calls gave and the third mask after it: by the kernel, by the interpreter.

    A call is a function's name and its arguments: the masks A, B and C, and numbers.
    """
    items = [load_map_value(OUT, "seen")]
    for at, mask in enumerate((A, B, C)):
        items += [call_kfunc("bpf_cpumask_create"), jump_if("jeq", R0, 0, f"drop{at}"), mov64(mask, R0)]
    for at, (name, *arguments) in enumerate(calls):
        items += [
            load_map_value(register, "bits") if argument is BITS else mov64(register, argument)
            for register, argument in zip((R1, R2, R3), arguments, strict=False)
        ]
        items += [call_kfunc(f"bpf_cpumask_{name}")]
        if name in SILENT:
            items += [mov64(R0, 0)]
        items += [alu("and64", R0, 255), stx(8, OUT, 16 * at, R0), ldx(8, R1, C, 0), stx(8, OUT, 16 * at + 8, R1)]
    for at, mask in ((2, C), (1, B), (0, A)):
        items += [mov64(R1, mask), call_kfunc("bpf_cpumask_release"), Label(f"drop{at}")]
    cpus = processors()
    kernel, vm = in_both([*items, mov64(R0, 1)], maps=[SEEN, BITS], cpus=cpus)
    assert kernel[0] == vm[0]
    # Where NR_CPUS is 65 to 256, setall sets the bits of processors that no machine has.
    there = (1 << cpus) - 1
    return [
        [(seen["seen"][0][2 * at], seen["seen"][0][2 * at + 1] & there) for at in range(len(calls))]
        for seen in (kernel[1], vm[1])
    ]


def test_every_function_of_masks():
    """What each tells of every pair of masks, and the mask that it leaves, also by a load of its first word."""
    needs("kfunc:bpf_cpumask_create")
    asked = [*((name, A) for name in ONE), *((name, A, B) for name in TWO), *((name, C, A, B) for name in THREE)]
    asked += [("copy", C, A), ("clear", C), ("empty", C), ("setall", C), ("full", C), ("copy", C, B), ("first", C)]
    asked += [("full", A)] if processors() > 2 else []
    calls = [call for left, right in MASKS for call in (*given(left, right), *asked)]
    kernel, vm = results(calls)
    for at, (told, ours) in enumerate(zip(kernel, vm, strict=True)):
        assert told == ours, calls[: at + 1][-30:]


def test_single_processors():
    """Each function of one processor after each other, of one that there is and of one that there is not."""
    needs("kfunc:bpf_cpumask_create")
    calls = []
    for left, _ in MASKS[::4]:
        calls += given(left, 0)
        for then in itertools.permutations(SINGLE, 2):
            calls += [("copy", C, A), *((name, cpu, C) for cpu in (0, 1, 100_000) for name in then)]
    kernel, vm = results(calls)
    for at, (told, ours) in enumerate(zip(kernel, vm, strict=True)):
        assert told == ours, calls[: at + 1][-10:]


@pytest.mark.parametrize("name", LATER)
def test_functions_that_came_later(name):
    """Of every pair of masks; which of two processors is handed out follows from what was handed out before."""
    needs(f"kfunc:bpf_cpumask_{name}")
    calls = [call for left, right in MASKS for call in (*given(left, right), *[(name, *LATER[name])] * 3)]
    kernel, vm = results(calls)
    answers = [(call[0] == name, told[0], ours[0]) for call, told, ours in zip(calls, kernel, vm, strict=True)]
    told = [each for ours, each, _ in answers if ours]
    seen = [each for ours, _, each in answers if ours]
    for at, (left, right) in enumerate(MASKS):
        mask = left & right if len(LATER[name]) == 2 else left
        three = slice(3 * at, 3 * at + 3)
        if name.endswith("distribute") and mask == 3:
            assert set(told[three]) <= {0, 1}
            assert seen[three] in ([0, 1, 0], [1, 0, 1])
        else:
            assert told[three] == seen[three], (left, right)


def test_masks_from_bytes():
    """Processors that there are, and too few bytes."""
    needs("kfunc:bpf_cpumask_populate")
    calls = []
    for left, _ in MASKS[::4]:
        calls += [*given(left, 0), ("copy", C, A), ("populate", C, BITS, 4), ("first_zero", C)]
        calls += [("populate", C, BITS, 2048), ("first_zero", C)]
    kernel, vm = results(calls)
    assert kernel == vm


def test_references_are_counted():
    """Taken twice and given back twice; once too little and once too often are refused."""
    needs("kfunc:bpf_cpumask_create")
    taken = [call_kfunc("bpf_cpumask_create"), jump_if("jeq", R0, 0, "end"), mov64(R6, R0), mov64(R1, R0)]
    taken += [call_kfunc("bpf_cpumask_acquire"), mov64(R7, R0), mov64(R1, 0), mov64(R2, R7)]
    taken += [call_kfunc("bpf_cpumask_set_cpu"), ldx(8, R8, R6, 0)]
    released = [mov64(R1, R7), call_kfunc("bpf_cpumask_release"), mov64(R1, R6), call_kfunc("bpf_cpumask_release")]
    kernel, vm = in_both([mov64(R8, 77), *taken, *released, Label("end"), mov64(R0, R8)])
    assert kernel[0][0] == vm[0][0] == 1
    end = [Label("end"), mov64(R0, 0), exit_()]
    with pytest.raises(VmError, match="Unreleased reference"):
        run([*taken, *released[2:], *end])
    with pytest.raises(VmError, match="bpf_cpumask_release expects refcounted"):
        run([*taken, *released, *released[2:], *end])


def test_a_mask_that_the_test_gives():
    """Memory of the kernel's is read as a mask, as a task's `cpus_ptr` is; only masks of one's own are changed."""
    address = 0xFFFF_8880_0000_1000
    machine = Machine(cpus=70, memory={address: bytes([0, 2, 0, 0, 0, 0, 0, 0, 0x20]) + bytes(7)})
    code = [lddw(R1, address), call_kfunc("bpf_cpumask_weight"), mov64(R6, R0), lddw(R1, address)]
    code += [call_kfunc("bpf_cpumask_first"), alu("mul64", R0, 100), add64(R0, R6), exit_()]
    assert machine.run(code).value == 902
    with pytest.raises(VmError, match="is not a cpumask of bpf_cpumask_create"):
        machine.run([lddw(R1, address), call_kfunc("bpf_cpumask_setall"), exit_()])


def test_every_function_that_is_emulated_is_compared():
    """None is left out above."""
    named = {*ONE, *TWO, *THREE, *SINGLE, *SILENT, *LATER, "create", "acquire", "release", "full", "populate"}
    assert named == {name.removeprefix("bpf_cpumask_") for name in KFUNCS}
