"""Verifier logs of several kernels, taken apart. The logs are recorded ones, shortened."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, strategies as st

from pyebpf.verifier.log import describe, explain, has_states
from pyebpf.verifier.messages import VERIFIER_MESSAGES

GROUPS = {"register", "instruction", "opcode", "descriptor", "end", "call", "address"}
LINUX_6_1 = """\
0: R1=ctx(off=0,imm=0) R10=fp0
; counts[0] += 1
0: (62) *(u32 *)(r10 -4) = 0          ; R10=fp0 fp-8=0000????
1: (18) r1 = 0xffff8881020f2800       ; R1_w=map_ptr(off=0,ks=4,vs=8,imm=0)
3: (bf) r2 = r10                      ; R2_w=fp0 R10=fp0
4: (07) r2 += -4                      ; R2_w=fp-4
5: (85) call bpf_map_lookup_elem#1    ; R0_w=map_value_or_null(id=1,off=0,ks=4,vs=8,imm=0)
6: (b7) r1 = 1                        ; R1_w=1
7: (db) lock *(u64 *)(r0 +0) += r1
R0 invalid mem access 'map_value_or_null'
processed 7 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0
"""
LINUX_6_12 = """\
0: R1=ctx() R10=fp0
; counts[0] += 1 @ probe.py:12
0: (85) call bpf_get_prandom_u32#7    ; R0_w=scalar()
1: (57) r0 &= 63                      ; R0_w=scalar(smin=smin32=0,smax=umax=smax32=umax32=63,var_off=(0x0; 0x3f))
2: (2d) if r0 > r1 goto pc+1 4: R0=scalar() R1=ctx() R10=fp0
from 2 to 4: R0=scalar(smin=smin32=0,smax=umax=smax32=umax32=63,var_off=(0x0; 0x3f)) R1=ctx() R10=fp0
; x = table[i] @ probe.py:13
4: (79) r1 = *(u64 *)(r0 +0)
R0 invalid mem access 'scalar'
processed 5 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0
"""


def test_a_log_of_6_1():
    """States with `_w` marks and offsets; a source line without its place."""
    found = explain(LINUX_6_1)
    assert found is not None
    assert (found.name, found.instruction, found.register) == ("null-deref", 7, "R0")
    assert found.state.startswith("map_value_or_null(")
    assert found.source == "counts[0] += 1"
    assert found.text == "lock *(u64 *)(r0 +0) += r1"
    assert str(found).startswith("R0 invalid mem access 'map_value_or_null' (R0 is a map entry that may be None): ")


def test_a_log_of_6_12():
    """States after a branch replace those before; a source line with its place."""
    found = explain(LINUX_6_12)
    assert found is not None
    assert (found.name, found.instruction, found.register) == ("scalar-deref", 4, "R0")
    assert "R0 is a number from 0 to 63" in str(found)
    assert found.source == "x = table[i]"


# A message behind the last instruction walked, each with the register's state that it leaves.
CONTINUED = {
    "2: (25) if r0 > 0x5 goto pc-2 infinite loop detected at insn 1": "scalar()",
    "2: (05) goto pc-2 infinite loop detected at insn 1": "scalar()",
    "2: (e5) may_goto pc+3 infinite loop detected at insn 1": "scalar()",
    "2: (85) call bpf_iter_num_next#51230 infinite loop detected at insn 1": "scalar()",
    "2: (25) if r0 > 0x5 goto pc-2 1: R0=7 R10=fp0\ninfinite loop detected at insn 1": "7",
    "2: (25) if r0 > 0x5 goto pc-2 ; while x: @ probe.py:3\ninfinite loop detected at insn 1": "scalar()",
}


@pytest.mark.parametrize("end", CONTINUED)
def test_what_follows_on_the_line_of_an_instruction_is_read(end):
    """When the kernel takes another path, it goes on where the line of a jump or call ended, a blank behind."""
    found = explain(
        f"0: R0=scalar() R10=fp0\n1: (bf) r6 = r6 ; R6=3\n{end}\ncur state: R0=1 R10=fp0\nold state: R0=1 R10=fp0\n"
        "processed 14 insns (limit 1000000) max_states_per_insn 0 total_states 1 peak_states 1 mark_read 0\n"
    )
    assert found is not None
    assert (found.name, found.instruction) == ("infinite-loop", 1)
    assert found.message == "infinite loop detected at insn 1"
    assert found.registers["R0"] == CONTINUED[end]


@pytest.mark.parametrize(
    ("instruction", "message", "name"),
    [
        ("(57) r5 &= 49", "BPF program is too large. Processed 1000001 insn", "too-large"),
        ("(79) r1 = *(u64 *)(r10 -8)", "BPF program is too large. Processed 1000001 insn", "too-large"),
        ("(bf) r6 = r6 ; R6=3", "The sequence of 8193 jumps is too complex.", "too-complex"),
    ],
)
def test_a_verifier_that_gives_up_says_so_behind_any_instruction(instruction, message, name):
    """It has not ended the line yet."""
    found = explain(f"0: R0=scalar() R10=fp0\n757: {instruction} {message}\nprocessed 1000001 insns (limit 1000000)\n")
    assert found is not None
    assert (found.name, found.instruction, found.message) == (name, 757, message)


def test_a_state_behind_an_instruction_is_a_state():
    """Even where the instruction is so long that just one blank is between."""
    long = "3: (85) call bpf_get_current_pid_tgid_of_some_kind#51230 ; R0_w=scalar(umax=7)"
    found = explain(f"0: R1=ctx() R10=fp0\n{long}\n4: (79) r1 = *(u64 *)(r0 +0)\nR0 invalid mem access 'scalar'\n")
    assert found is not None
    assert "R0 is a number from 0 to 7" in str(found)


def test_the_words_that_were_understood_are_shown():
    """Not what the kernel printed after them."""
    notes = "\n".join(f"note {number}" for number in range(4))
    found = explain(f"0: R1=ctx() R10=fp0\n3: (95) exit\nR3 invalid sock access off=50 size=1\n{notes}\n")
    assert found is not None
    assert found.message == "R3 invalid sock access off=50 size=1"


def test_what_a_call_clobbers_is_forgotten():
    """The argument registers hold nothing after a call, whatever was printed for them before."""
    found = explain(
        "0: R1=ctx() R10=fp0\n0: (85) call bpf_get_prandom_u32#7    ; R0=scalar()\n1: (bf) r0 = r1\nR1 !read_ok\n"
    )
    assert found is not None
    assert "R1" not in found.registers
    assert "lost in a call" in found.cause


@pytest.mark.parametrize(
    ("message", "slot"),
    [
        ("unreachable insn 5", 5),
        ("jump out of range from insn 3 to 90", 3),
        ("infinite loop detected at insn 7", 7),
        ("back-edge from insn 8 to 2", 8),
        ("Unreleased reference id=2 alloc_insn=4", 4),
    ],
)
def test_the_message_itself_may_name_the_instruction(message, slot):
    """Then that one counts, not the last one that was walked."""
    found = explain(f"0: R1=ctx() R10=fp0\n9: (95) exit\n{message}\nprocessed 3 insns (limit 1000000)\n")
    assert found is not None
    assert found.instruction == slot


def test_an_unknown_message_is_given_as_it_is():
    """No cause is better than a wrong one."""
    found = explain("0: R1=ctx() R10=fp0\n0: (95) exit\nthe moon is in the wrong house\nprocessed 1 insns\n")
    assert found is not None
    assert (str(found), found.cause, found.instruction) == ("the moon is in the wrong house", "", 0)


@pytest.mark.parametrize("log", ["", "\n", "processed 0 insns (limit 1000000) max_states_per_insn 0\n"])
def test_a_log_without_a_message_says_nothing(log):
    """As when the kernel refuses before it verifies."""
    assert explain(log) is None


# Pieces that logs are made of, so that random texts come near them.
PIECES = st.sampled_from(
    [
        *("\n", "0: ", "7: (85) call f#1", "; R0=", "R1_w=", "R10=fp0", "(", ")", "=", ",", " ", "smin=", "umax32="),
        *("from 2 to 4: ", "frame1: ", "map_value(map=", "scalar(", "-0x", "007", "9" * 30, "0x", "; x = 1 @ a.py:3"),
        *("insn ", "alloc_insn=", "infinite loop detected at insn ", "unknown opcode ", "fd ", "variable", "stack"),
        *("processed 3 insns", "R", "\x00", "\u2028", "\ud800", "\u0663"),
    ]
)


@given(st.one_of(st.text(max_size=300), st.lists(PIECES, max_size=60).map("".join)))
def test_any_text_is_taken(text):
    """Whatever a later kernel prints, it ends in an explanation or in none, on one line."""
    found = explain(text)
    assert found is None or len(str(found).splitlines()) == 1 or "\u2028" in text


@given(st.sampled_from(VERIFIER_MESSAGES), st.data())
def test_whatever_a_pattern_finds_is_explained(row, data):
    """Numbers of any length and letters of any alphabet included."""
    message = data.draw(st.from_regex(row.pattern))
    found = explain(f"0: R1=ctx() R10=fp0\n3: (95) exit\n{message}\n")
    assert found is None or str(found)


@pytest.mark.parametrize("piece", [
    "R1 ", "R1=(", "R1=a(b", "variable ", "stack", " @ ", "(", "smin=", "9", "7: (85) call f ; R1=ctx()\n", "x\n",
    "from 1 to 2: ", "; a @ b:1\n", "1: (05) goto x  goto ", "goto  ",
    "R7=scalar(umax=", "invalid access ", "expected=", "R0 invalid mem access\n",
])  # fmt: skip
def test_time_is_linear_in_the_length(piece):
    """Eight times the text takes some eight times as long at most, whatever is repeated, and in the end a constant."""

    def seconds(size: int) -> float:
        log = ("0: R1=ctx() R10=fp0\n" + "R1 " + piece * (size // len(piece)))[:size]
        started = time.process_time()
        explain(log)
        return time.process_time() - started

    assert min(seconds(1 << 19) for _ in range(2)) < 40 * (seconds(1 << 16) + 0.005)
    assert seconds(1 << 24) < 5


def test_a_long_log_is_read_from_its_end():
    """64 MiB of steps: the message, its line and the registers' last full state are near the end."""
    step = "5: (07) r6 += 1                       ; R6_w=scalar(umax=255,var_off=(0x0; 0xff))\n"
    log = "0: R1=ctx() R10=fp0\n" + step * ((1 << 26) // len(step)) + LINUX_6_12
    started = time.process_time()
    found = explain(log)
    assert time.process_time() - started < 3
    assert found == explain(LINUX_6_12)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("", ""),
        ("5", "the number 5"),
        ("0x7a11e", "the number 0x7a11e"),
        ("inv7", "the number 7"),
        ("scalar()", "any number"),
        ("scalar(umax=255,var_off=(0x0; 0xff))", "a number from 0 to 255"),
        ("scalar(smin=-4,smax=8)", "a number from -4 to 8"),
        ("scalar(smin=5)", "a number from 5"),
        ("ctx()", "the context"),
        ("fp-8", "a place on the stack"),
        ("map_value(map=counts,ks=4,vs=8)", "an entry of map counts"),
        ("trusted_ptr_task_struct()", "a trusted kernel pointer (struct task_struct)"),
        ("ptr_or_null_sock(id=1)", "a kernel pointer that may be None (struct sock)"),
        ("ringbuf_mem_or_null(id=2)", "a ring-buffer reservation that may be None"),
        ("something_new(x)", "'something_new'"),
    ],
)
def test_states_in_words(state, words):
    """What a register is, for a person."""
    assert describe(state) == words


def test_rows_have_names_of_their_own_and_patterns_that_compile():
    """More than forty kinds of refusals, each with one cause in words."""
    assert len({row.name for row in VERIFIER_MESSAGES}) > 40
    assert len({(row.name, row.cause) for row in VERIFIER_MESSAGES}) == len({row.name for row in VERIFIER_MESSAGES})
    for row in VERIFIER_MESSAGES:
        assert re.compile(row.pattern).groupindex.keys() <= GROUPS
        assert row.cause
        assert not row.cause.endswith(".")


# Messages of 6.1 that later kernels word in another way, and of kinds that hand-made programs do not reach.
@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("At program exit the register R0 has value (0x7; 0x0) should have been in (0x0; 0x1)", "return-range"),
        ("At program exit the register R0 has smin=7 smax=7 should have been in [0, 1]", "return-range"),
        ("unknown func bpf_skb_load_bytes#26", "helper-kind"),
        ("program of this type cannot use helper bpf_skb_load_bytes#26", "helper-kind"),
        ("cannot call GPL-restricted function from non-GPL compatible program", "helper-gpl"),
        ("BPF_EXIT instruction in main prog would lead to reference leak", "leak-at-exit"),
        ("invalid indirect read from stack R2 off -8+4 size 8", "stack-uninitialised"),
        ("invalid read from stack off -16+0 size 8", "stack-uninitialised"),
        ("combined stack size of 2 calls is 640. Too large", "stack-size"),
        ("the call stack of 9 frames is too deep !", "call-depth"),
        ("BPF program is too large. Processed 1000001 insn", "too-large"),
        ("The sequence of 8193 jumps is too complex.", "too-complex"),
        ("R2 pointer arithmetic on ptr_or_null_ prohibited, null-check it first", "null-arithmetic"),
        ("R1 type=map_ptr expected=percpu_ptr_, percpu_rcu_ptr_", "argument-type"),
        ("R1 min value is negative, either use unsigned index or do a if (index >=0) check.", "negative-index"),
        ("R2 unbounded memory access, make sure to bounds check any such access", "unbounded-index"),
        ("cannot access ptr member next with moff 0 in struct list_head with off 0 size 4", "member-width"),
        (
            "access beyond the end of member comm (mend:2900) in struct task_struct with off 2890 size 16",
            "beyond-struct",
        ),
        ("BPF_ST stores into R1 ctx is not allowed", "context-store"),
        ("BPF_XADD stores into R1 ctx is not allowed", "context-store"),
        ("R2 unbounded size, use 'var &= const' or 'if (var < const)'", "not-constant"),
        ("R1 type=inv expected=mem", "release"),
        ("R1 type=inv expected=fp, pkt, map_value, mem", "argument-type"),
        ("invalid BPF_LD_IMM insn", "jump-into-load"),
        ("unknown opcode cf", "opcode"),
        ("BPF_ALU uses reserved fields", "opcode"),
        ("BPF_CALL uses reserved fields", "kfunc-call"),
        ("invalid atomic operand size", "atomic-width"),
        ("missing btf func_info", "missing-func-info"),
        ("calling kernel function bpf_task_release is not allowed", "kfunc-kind"),
        ("Possibly NULL pointer passed to trusted arg0", "null-argument"),
        ("R1 must be referenced or trusted", "untrusted-argument"),
        ("attach_btf_id 1 is not a function", "attach-target"),
        ("tcp_sendmsg() is not modifiable", "not-modifiable"),
        ("last insn is not an exit or jmp", "no-exit"),
        ("fd 9 is not pointing to valid bpf_map", "map-descriptor"),
        ("function calls are not allowed while holding a lock", "lock"),
        ("tail_calls are not allowed when call stack of previous frames is 288 bytes. Too large", "tail-call-stack"),
        ("variable ctx access var_off=(0x0; 0xff) disallowed", "context-modified"),
        ("R10 partial copy of pointer", "pointer-partial"),
        ("R0 leaks addr as return value", "return-pointer"),
        ("R3 invalid tcp_sock access off=96 size=8", "socket-access"),
        ("negative offset dynptr_ptr ptr R1 off=-16 disallowed", "negative-offset"),
        ("invalid access to map value pointer, value_size=48 off=48", "map-value-address"),
        ("At callback return the register R0 is not a known value (fp)", "return-unknown"),
        ("At program exit the register R1 has smin=64 smax=64 should have been in [0, 0]", "return-range"),
        ("Possibly NULL pointer passed to helper arg2", "null-argument"),
        ("R1 is bpf_array invalid negative access: off=-8", "kernel-offset"),
        ("only read from bpf_array is supported", "kernel-write"),
        ("R6 invalid variable buffer offset: off=0, var_off=(0x0; 0xffffffff)", "buffer-bounds"),
        ("R1 invalid rdonly buffer access: off=-1, size=8", "buffer-bounds"),
        ("bpf_probe_read_kernel() may write into memory pointed by R1 type=trusted_ptr_", "read-only"),
        ("arg 1 is an unacquired reference", "release"),
        ("release kernel function bpf_task_release expects refcounted PTR_TO_BTF_ID", "release"),
        ("expected an initialized iter_num as arg #0", "iterator"),
        ("R1 doesn't have constant offset. bpf_timer has to be at the constant offset", "special-offset"),
        ("R1 doesn't have constant offset. bpf_spin_lock has to be at the constant offset", "special-offset"),
        ("map 'm' has no valid bpf_timer", "special-absent"),
        ("map 'm' has to have BTF in order to use bpf_spin_lock", "lock-map"),
        ("off 1 doesn't point to 'struct bpf_wq' that is at 0", "special-absent"),
        ("workqueue pointer in R1 map_uid=0 doesn't match map pointer in R2 map_uid=0", "special-map"),
        ("tracing progs cannot use bpf_{list_head,rb_root} yet", "special-kind"),
        ("tracing progs cannot use bpf_spin_lock yet", "lock-kind"),
        ("2 bpf_preempt_enable(s) are missing", "region"),
        ("bpf_rcu_read_unlock is missing", "region"),
        ("helper call might sleep in a non-sleepable prog", "sleeping"),
        ("program must be sleepable to call sleepable kfunc bpf_iter_css_new", "sleeping"),
        ("bpf_throw kfunc (insn 13) cannot be called from callback subprog 1", "exception"),
        ("kernel function bpf_ct_release args#0 expected pointer to STRUCT nf_conn but R1 has", "kfunc-argument"),
        ("arg#0 pointer type STRUCT task_struct must point to scalar", "kfunc-argument"),
        ("Caller passes invalid args into func#1 ('f')", "global-arguments"),
        ("arena's user address must be set via map_extra or mmap()", "arena"),
    ],
)
def test_known_messages_have_their_row(message, name):
    """Each text is found under the kind that it means."""
    found = explain(f"0: R1=ctx() R10=fp0\n3: (95) exit\n{message}\nprocessed 3 insns (limit 1000000)\n")
    assert found is not None
    assert found.name == name


def test_the_second_half_of_a_load_is_the_instruction_meant():
    """Linux 5.10 walks into it, and calls it no instruction."""
    found = explain("0: R1=ctx() R10=fp0\n1: (55) if r0 != 0x0 goto pc+1\n3: BUG_ld_00\ninvalid BPF_LD_IMM insn\n")
    assert found is not None
    assert (found.name, found.instruction) == ("jump-into-load", 3)


def test_logs_of_old_kernels_have_states_where_paths_part_only():
    """The first level's: of Linux 6.1, of 5.10, and of a refusal before any instruction was walked."""
    assert has_states("func#0 @0\n0: R1=ctx(off=0,imm=0) R10=fp0\n0: (bf) r6 = r1\n")
    assert not has_states("; line\n0: (bf) r6 = r1\n1: (55) if r0 != 0x0 goto pc+1\n\nfrom 1 to 3: R6=ctx(id=0)\n")
    assert has_states("back-edge from insn 3 to 1\n")
