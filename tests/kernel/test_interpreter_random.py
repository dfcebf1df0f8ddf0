"""The interpreter against the kernel: random programs that the verifier takes give the same in both."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

from pyebpf.asm import OPS, Form, Instruction
from pyebpf.asm.build import R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10, exit_, mov64, st
from pyebpf.features import Features
from pyebpf.kernel import bpf
from pyebpf.kernel.cpus import possible_cpus
from pyebpf.kernel.map_elements import map_update_elem
from pyebpf.uapi.bpf import MapType, ProgramType
from pyebpf.uapi.flags import BPF_NOEXIST
from tests.support.processors import one_processor
from tests.vm_interpreter.both import VALUE, Both, differences, where
from tests.vm_interpreter.generator import HELPERS, PROGRAM_KINDS, Generator, Palette, Random, generate

#: Programs to compare; emulated machines are ten times slower. The seed of a longer run is given beside its length.
COUNT = int(os.environ.get("PYEBPF_PROGRAMS", "211" if "PYEBPF_VM" in os.environ else "2003"))
SEED = int(os.environ.get("PYEBPF_SEED", "1"))
#: These need more than numbers: test_interpreter_forms.py has a program for each.
BY_HAND = (Form.LDDW_KSYM, Form.LDDW_FUNCTION, Form.CALL_KFUNC, Form.CALL_REGISTER, Form.CAST)
#: The sysctl is everybody's: it is changed in a virtual machine only.
HARDEN = Path("/proc/sys/net/core/bpf_jit_harden")
HARDENING = (None, "2") if "PYEBPF_VM" in os.environ else (None,)
TRIED = (Form.LOAD, Form.STORE, Form.STORE_IMM, Form.DST, Form.DST_IMM, Form.DST_SRC)


@pytest.fixture(scope="module")
def both():
    """Maps in the kernel and in the interpreter, this process staying on one processor."""
    with one_processor() as cpu:
        pair = Both(cpu=cpu, cpus=possible_cpus())
        yield pair
        pair.close()


def accepted(both):
    """The operations that this kernel takes, each tried in a program of its own."""
    found = []
    for op in OPS:
        if op.form in BY_HAND or "index" in op.name:
            continue
        setup = [mov64(R6, R1), st(8, R10, -8, 1), *(mov64(r, 1) for r in (R0, R2, R3, R4, R5, R8, R9)), mov64(R7, R10)]
        if op.form not in TRIED and (op.feature is None or op.form is Form.CALL_LOCAL):
            found.append(op)
            continue
        dst = R7 if op.form in (Form.STORE, Form.STORE_IMM) else R8
        src = R10 if op.form is Form.LOAD else R9
        tested = Instruction(
            op,
            dst if "d" in op.operands else R0,
            src if "s" in op.operands else R0,
            (-8 if op.form in (Form.LOAD, Form.STORE, Form.STORE_IMM) else 0) if "o" in op.operands else 0,
            (0 if op.is_jump else 3) if "i" in op.operands else 0,
        )
        program = Random([*setup, tested, mov64(R0, 0), exit_()], ProgramType.SOCKET_FILTER, ())
        descriptor, _ = both.load(program)
        if descriptor is not None:
            descriptor.close()
            found.append(op)
    return found


def palette(both):
    """What this kernel takes: each statement with a helper tried a few times in each kind of program."""
    found = Palette(accepted(both), {}, tries=heeds_flags())
    for kind in PROGRAM_KINDS:
        if not Features().has(f"program:{kind.name.lower()}"):
            continue
        found.helpers[kind] = []
        for name in HELPERS:
            tried = [both.load(Generator(random.Random(n), found, kind).make(0, name))[0] for n in range(5)]
            for descriptor in tried:
                if descriptor is not None:
                    descriptor.close()
            if None not in tried:
                found.helpers[kind].append(name)
    return found


def heeds_flags():
    """Whether tries know BPF_NOEXIST, as since Linux 6.13 and in the stable releases that took it over."""
    key, value = bytes(8), bytes(8)
    with bpf.map_create(MapType.LPM_TRIE, len(key), len(value), 3, flags=1) as trie:
        map_update_elem(trie.fileno(), key, value, BPF_NOEXIST)
        try:
            map_update_elem(trie.fileno(), key, value, BPF_NOEXIST)
        except FileExistsError:
            return True
        return False


@pytest.fixture(params=HARDENING, ids="harden-{}".format)
def hardening(request):
    """How much the JIT blinds constants: as this machine has it, and in a virtual machine also always."""
    if request.param is None:
        yield
        return
    before = HARDEN.read_text()
    HARDEN.write_text(request.param)
    yield
    HARDEN.write_text(before)


@pytest.mark.usefixtures("hardening")
def test_random_programs_agree(both, capsys):
    """R0, packet or context, and every map afterwards; each operation that the kernel takes has run in both."""
    found = palette(both)
    ops = found.ops
    number = -1
    # Few programs on few kinds may leave an operation out: then there are more of them.
    while (number := number + 1) < COUNT or (number < 4 * COUNT and any(not both.executed.get(op) for op in ops)):
        chance = random.Random(SEED * 1_000_003 + number)
        program = generate(chance, found)
        descriptor, log = both.load(program)
        assert descriptor is not None, f"{number}: {log}"
        with descriptor:
            both.fill(chance.randbytes(VALUE))
            kernel, vm = both.run(descriptor, program, chance)
        wrong = differences(kernel, vm)
        assert not wrong, f"{number}: the kernel has {wrong}\n{where(program)}"
    ordered = sorted(ops, key=lambda each: (each.name, each.form.name))
    lines = [
        f"{number} programs, seed {SEED}; how often each operation ran in the kernel and in the interpreter:",
        *(f"  {op.name:22} {op.form.name:14} {both.executed.get(op, 0):8}" for op in ordered),
    ]
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(lines) + "\n")
    assert [op for op in ops if not both.executed.get(op)] == []
