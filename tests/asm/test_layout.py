"""Labels to distances, names to numbers, and listings."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings, strategies as st

from pyebpf.asm import Instruction, Label, decode, encode, layout, listing, place, resolve, slot_starts
from pyebpf.asm.build import (
    R1,
    R2,
    R3,
    add64,
    call,
    call_kfunc,
    call_local,
    exit_,
    gotol,
    jump,
    jump_if,
    lddw,
    load_function,
    load_ksym,
    load_map,
    load_map_value,
    may_goto,
    mov64,
)
from pyebpf.errors import AssemblyError, Location


def test_distances_count_slots_and_wide_loads_take_two():
    """RFC 9669 section 4.3: relative to the instruction after the jump, in 8-byte units."""
    program = layout(
        [jump("end"), lddw(R1, 1), Label("back"), mov64(R2, 1), Label("end"), jump_if("jeq", R1, 0, "back")]
    )
    assert program == (jump(3), lddw(R1, 1), mov64(R2, 1), jump_if("jeq", R1, 0, -2))


def test_labels_are_reported_with_their_slots():
    """A label at the end stands for the slot after the last instruction."""
    placed = place([Label("a"), lddw(R1, 1), Label("b"), exit_(), Label("end")])
    assert placed.labels == {"a": 0, "b": 2, "end": 3}
    assert slot_starts(placed.instructions) == (0, 2, 3)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([jump("lop"), Label("loop"), exit_()], "ja: no label 'lop' (did you mean loop?)"),
        ([Label("x"), exit_(), Label("x")], "label 'x' is defined twice"),
        (
            [jump_if("jeq", R1, 0, "far"), *[mov64(R1, 0)] * 0x8000, Label("far"), exit_()],
            "jeq: label 'far' is 32768 slots away and 16 bits reach -32768..32767 (allow gotol, or split the function)",
        ),
    ],
)
def test_labels_that_cannot_be_reached(items, message):
    """One line with the label, its distance and what to do."""
    with pytest.raises(AssemblyError, match="^" + re.escape(message)):
        layout(items)


def test_the_longest_distances_fit():
    """32767 slots forward and 32768 back need no gotol."""
    filling = [mov64(R1, 0)] * 0x7FFF
    assert layout([jump("far"), *filling, Label("far"), exit_()])[0] == jump(0x7FFF)
    assert layout([Label("far"), *filling, jump("far")])[-1] == jump(-0x8000)


def test_far_jumps_become_gotol_where_allowed():
    """A condition is inverted around the gotol; jset and may_goto, which have no opposite, step over a jump."""
    filling = [mov64(R1, 0)] * 0x8000
    program = layout([jump("far"), jump_if("jsgt", R1, 3, "far"), *filling, Label("far"), exit_()], gotol=True)
    assert program[:3] == (gotol(0x8002), jump_if("jsle", R1, 3, 1), gotol(0x8000))
    program = layout([jump_if("jset", R1, R2, "far"), *filling, Label("far"), exit_()], gotol=True)
    assert program[:3] == (jump_if("jset", R1, R2, 1), jump(1), gotol(0x8000))
    program = layout([Label("far"), *filling, may_goto("far")], gotol=True)
    assert program[-3:] == (may_goto(1), jump(1), gotol(-0x8003))


JUMPS = st.sampled_from(
    [
        jump,
        gotol,
        may_goto,
        lambda name, where: jump_if("jlt32", R1, R2, name, where=where),
        lambda name, where: jump_if("jset", R1, 1, name, where=where),
    ]
)
PLACES = st.integers(0, 12)


def check_arrivals(jumps, filling):
    """Lay out 13 marked places with jumps between them, and follow each jump."""
    marks = [add64(R3, n) for n in range(13)]
    items: list[Instruction | Label] = []
    for n, mark in enumerate(marks):
        items += [Label(f"l{n}"), mark]
        items += [
            make(f"l{target}", where=Location("", number)) for number, (make, at, target) in enumerate(jumps) if at == n
        ]
        if n == 6:
            items += [lddw(R1, 7)] * filling
    program = layout(items, gotol=True)
    at = dict(zip(slot_starts(program), program, strict=False))
    for number, (_, _, target) in enumerate(jumps):
        # A jump may have become up to three instructions: the last one goes to the target, the others step around.
        parts = [start for start, instruction in at.items() if instruction.where == Location("", number)]
        ends = [start + 1 + at[start].distance for start in parts]
        assert at[ends[-1]] == marks[target]
        assert all(end in (parts[-1], parts[-1] + 1) for end in ends[:-1])


@given(st.lists(st.tuples(JUMPS, PLACES, PLACES), max_size=12))
def test_every_jump_arrives_at_its_label(jumps):
    """Following each laid-out jump reaches the instruction after its label."""
    check_arrivals(jumps, filling=1)


@settings(max_examples=15)
@given(st.lists(st.tuples(JUMPS, PLACES, PLACES), min_size=4, max_size=12))
def test_every_long_jump_arrives_at_its_label(jumps):
    """The same when jumps over the middle are out of 16 bits' reach, some of them only since others grew."""
    check_arrivals(jumps, filling=0x3FFB)


def test_resolving_fills_in_maps_functions_and_kernel_symbols():
    """Descriptors, distances to subprograms and BTF ids take the places of names."""
    placed = place(
        [
            load_map(R1, "counts"),
            load_map_value(R1, "data", 24),
            load_ksym(R2, "runqueues"),
            load_function(R2, "callback"),
            call_kfunc("bpf_iter_num_new"),
            call_local("callback"),
            exit_(),
            Label("callback"),
            exit_(),
        ]
    )
    program = resolve(
        placed.instructions,
        {"counts": 5, "data": 6},
        placed.labels,
        kfuncs={"bpf_iter_num_new": (1234, 1)},
        ksyms={"runqueues": (99, 8)},
    )
    assert [instruction.symbol for instruction in program] == [None] * 8
    assert [i.imm for i in program[:5]] == [5, 6 | 24 << 32, 99 | 8 << 32, 11 - 6 - 1, 1234]
    assert program[4].offset == 1
    assert program[5].imm == 11 - 9 - 1
    assert decode(encode(program)) == program


def test_a_function_before_its_reference_has_a_negative_distance():
    """Also in the lower half of a two-slot load."""
    placed = place([Label("f"), exit_(), load_function(R2, "f"), call_local("f")])
    program = resolve(placed.instructions, functions=placed.labels)
    assert [i.distance for i in program] == [None, -2, -4]
    assert encode(program).hex() == "950000000000000018420000feffffff000000000000000085100000fcffffff"


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (load_map(R1, "count"), "lddw_map: no map 'count' (did you mean counts?)"),
        (call_local("g"), "call_local: no function 'g'"),
        (call_kfunc("k"), "call_kfunc: no kfunc 'k'"),
        (load_ksym(R1, "k"), "lddw_ksym: no kernel symbol 'k'"),
        (jump("x"), "ja: label 'x' is not resolved (layout() does that)"),
    ],
)
def test_names_that_nothing_stands_for(instruction, message):
    """The closest names are given."""
    with pytest.raises(AssemblyError, match="^" + re.escape(message)):
        resolve([instruction], {"counts": 1})


FIRST = Location("opens.py", 8, text="    opens[comm()] += 1\n")
PROGRAM = [
    load_map(R1, "opens", where=FIRST),
    Label("again"),
    call(16, where=FIRST),
    jump_if("jne", R1, 0, "again", where=Location("opens.py", 9, text="    while x:\n")),
    call_local("f"),
    exit_(),
    Label("f"),
    exit_(),
]


def test_listing_of_a_program_with_labels():
    """Slot numbers, labels, source lines where they change, names of helpers."""
    assert listing(PROGRAM) == (
        "      ; opens.py:8: opens[comm()] += 1\n"
        "    0 r1 = map[opens]\n"
        "again:\n"
        "    2 call 16  ; bpf_get_current_comm\n"
        "      ; opens.py:9: while x:\n"
        "    3 if r1 != 0 goto again\n"
        "    4 call f\n"
        "    5 exit\n"
        "f:\n"
        "    6 exit\n"
    )


def test_listing_of_laid_out_instructions_makes_labels():
    """Targets without a name get one from their slot; given labels are used; unknown helpers have no comment."""
    placed = place(PROGRAM)
    program = resolve(placed.instructions, {"opens": 3}, placed.labels)
    assert listing([*program, call(999)], source=False) == (
        "    0 r1 = map[fd:3]\n"
        "L2:\n"
        "    2 call 16  ; bpf_get_current_comm\n"
        "    3 if r1 != 0 goto L2\n"
        "    4 call L6\n"
        "    5 exit\n"
        "L6:\n"
        "    6 exit\n"
        "    7 call 999\n"
    )
    assert listing(placed.instructions, labels=placed.labels) == listing(PROGRAM)


def test_listing_of_maps_by_id():
    """What a loaded program has in place of descriptors; an index of a table of descriptors stays one."""
    program = [load_map(R1, 7), load_map_value(R1, 7, 8), load_map(R1, 7, by_index=True)]
    assert listing(program, maps_by_id=True) == (
        "    0 r1 = map[id:7]\n    2 r1 = map[id:7][0] + 8\n    4 r1 = map_index[idx:7]\n"
    )


def test_listing_shows_jumps_into_nowhere_as_distances():
    """A target inside a two-slot load or outside the program has no label."""
    assert listing([lddw(R1, 1), jump(-2), jump(7)]) == "    0 r1 = 0x1 ll\n    2 goto -2\n    3 goto +7\n"


def test_listing_of_nothing_is_empty():
    """No lone newline."""
    assert listing([]) == ""
