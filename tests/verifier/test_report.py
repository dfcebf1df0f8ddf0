"""The report below the message (Linux 7.3): the message is what it was, the place is found without one."""

from __future__ import annotations

from hypothesis import given, strategies as st

from pyebpf.verifier.log import explain
from pyebpf.verifier.report import Report, separate

WALKED = """\
0: R1=ctx() R10=fp0
; entry = entries.get(pid()) @ count.py:81
7: (85) call bpf_map_lookup_elem#1    ; R0=map_value_or_null(id=2,map=entries,ks=4,vs=32)
; entry.seen += 1 @ count.py:82
8: (b7) r5 = 1                        ; R5=1
9: (db) lock *(u64 *)(r0 +0) += r5
R0 invalid mem access 'map_value_or_null'

Verification failed: Register Type Safety: Invalid dereference

Reason:
  R0 may be NULL here (a nullable map value pointer). The program could dereference NULL on this
  path, so the verifier cannot prove this access is safe.

At:
  count @ count.py:82:8
  Source context:
      81 |         entry = entries.get(pid())
  >>> 82 |         entry.seen += 1
         |         ^-- error: invalid dereference of R0 (a nullable map value pointer)
  Instruction context:
       8 | (b7) r5 = 1
  >>>  9 | (db) lock *(u64 *)(r0 +0) += r5
      10 | (bf) r0 = r5

Causal path:
  count @ count.py:81:16
  Instruction context:
  >>>  7 | (85) call bpf_map_lookup_elem#1

Suggestion:
  Add a NULL check before the access and dereference the pointer only on the non-NULL path.

processed 9 insns (limit 1000000) max_states_per_insn 0 total_states 1 peak_states 1 mark_read 0
"""
UNWALKED = """\
recursive call from main() to main()

Verification failed: Program Structure: Recursive subprogram call

Reason:
  This bpf2bpf call would make the subprogram call graph recursive.

At:
  main @ by_hand.py:276:4
  Instruction context:
  >>> 3 | (85) call pc-4
      4 | (95) exit

Suggestion:
  Rewrite the recursion.

processed 0 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0
"""


def test_the_message_is_the_one_above_the_report():
    """With its row, its register and its state, as older kernels have it."""
    found = explain(WALKED)
    assert found is not None
    assert (found.message, found.name) == ("R0 invalid mem access 'map_value_or_null'", "null-deref")
    assert (found.instruction, found.register) == (9, "R0")
    assert found.state == "map_value_or_null(id=2,map=entries,ks=4,vs=32)"
    assert found.source == "entry.seen += 1"


def test_the_report_gives_the_place_where_nothing_was_walked():
    """Checks before the walk print no instruction; the report marks one."""
    found = explain(UNWALKED)
    assert found is not None
    assert (found.message, found.name, found.instruction) == ("recursive call from main() to main()", "back-edge", 3)
    assert explain(UNWALKED.partition("\n\n")[0] + "\n").instruction is None


def test_messages_go_on_behind_a_report():
    """A leak's says so in two, the second below the report."""
    found = explain(
        WALKED.replace("processed", "BPF_EXIT instruction in main prog would lead to reference leak\nprocessed")
    )
    assert found is not None
    assert found.message.endswith("; BPF_EXIT instruction in main prog would lead to reference leak")


def test_a_report_alone_is_the_message():
    """Should a kernel write nothing else."""
    found = explain(UNWALKED.partition("\n\n")[2])
    assert found is not None
    title, reason = "Program Structure: Recursive subprogram call", "This bpf2bpf call would make the"
    assert found.message == f"{title}: {reason} subprogram call graph recursive."
    assert found.instruction == 3


@given(st.lists(st.sampled_from([*WALKED.splitlines(), *UNWALKED.splitlines()])))
def test_lines_are_kept_or_the_reports(lines):
    """Any mixture, cut anywhere: no line is made up, and without a title all are kept."""
    kept, report = separate(lines)
    assert all(line in lines for line in kept)
    if not any(line.startswith("Verification failed: ") for line in lines):
        assert (kept, report) == (lines, Report())


def test_a_helper_that_the_kernel_knows_by_number_is_named():
    """An older kernel has no name for it."""
    found = explain("4: (85) call unknown#174\ninvalid func unknown#174\nprocessed 5 insns (limit 1000000)\n")
    assert found is not None
    lacking = "this kernel does not have that helper, which came with Linux 5.15"
    assert str(found) == f"invalid func bpf_get_attach_cookie#174: {lacking}"
    assert explain("invalid func unknown#99999").message == "invalid func unknown#99999"
