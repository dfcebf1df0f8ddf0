"""Words that were replaced by those of the kernel, libbpf, LLVM or Python, and must not come back."""

from __future__ import annotations

import io
import keyword
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: Names that only this project knew, and the field's word for each.
REPLACED = {
    "ATTACHERS": "link.<family>.ATTACH",
    "Answer": "Support",
    "Around": "LoopContext",
    "Callee": "TracedFunction",
    "Declaring": "LazyMethod",
    "Exported": "GlobalFunction",
    "FieldsPlace": "StructContext",
    "Finding": "Diagnostic",
    "ForeignString": "UntrustedString",
    "HeldEntity": "ConstantEntity",
    "HelperWord": "HelperFunction",
    "KprobePlace": "KprobeProgramContext",
    "LOST_MAP": "DROPS_MAP",
    "Leftover": "OrphanedAttachment",
    "Loading": "LoadAttributes",
    "Located": "ProbeLocations",
    "Loss": "DropReason",
    "LossTable": "DropCounters",
    "Losses": "Drops",
    "MapKind": "MapType",
    "MapRules": "MapTraits",
    "MapWord": "MapPointer",
    "MaybeInt": "OptionalInt",
    "Meanings": "ErrnoMessages",
    "Mirrored": "NestedStruct",
    "Newcomer": "KernelRequirement",
    "PLACES": "program_context",
    "Passed": "PassedArgument",
    "PendingRecord": "RecordLiteral",
    "Place": "Lvalue",
    "ProgramKind": "ProgramType",
    "Rebound": "ReboundName",
    "Replacement": "Freplace",
    "RunTime": "RunTimeValue",
    "SILENT": "DEFAULT_RETURN",
    "Struck": "Excluded",
    "SubprogramEntity": "Subprogram",
    "TRACING_KINDS": "TRACING_TYPES",
    "UNDECIDED": "TRANSIENT_ERRNOS",
    "UserPlace": "ProbeOffset",
    "Way": "Candidate",
    "XdpPlace": "XdpProgramContext",
    "assume_present": "assume_non_null",
    "check_gone": "check_valid",
    "count_loss": "count_drop",
    "exported": "global_functions",
    "hand_on_uses": "propagate_uses",
    "hidden_zero": "opaque_zero",
    "is_present": "is_non_null",
    "leftovers": "orphans",
    "losses": "drop_reasons",
    "may_go": "nondeterministic_branch",
    "newcomer": "requirement",
    "packet_moved": "invalidate_packet_pointers",
    "presence": "null_check",
    "proven": "with_bounds_check",
    "rebuild": "with_ssa_values",
    "refuse_stale": "reject_stale_uses",
    "requesting": "request_decorator",
    "settle": "to_rvalue",
    "settled": "rvalue",
    "struck": "excluded",
    "take_up": "reopen",
    "to_construct": "construct",
}


def _names(path: Path) -> set[str]:
    """Every identifier of a file, without keywords, comments and text."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
    return {token.string for token in tokens if token.type == tokenize.NAME and not keyword.iskeyword(token.string)}


def test_replaced_names_do_not_come_back() -> None:
    """No file of the package has one of them as a name of its own or of another's."""
    found = {
        f"{path.relative_to(ROOT)}: {name}": f"say {REPLACED[name]}"
        for path in sorted((ROOT / "pyebpf").rglob("*.py"))
        for name in _names(path) & REPLACED.keys()
    }
    assert found == {}


def test_the_words_that_replace_them_are_there() -> None:
    """The table is true: each new name is one of the package's."""
    names = set().union(*(_names(path) for path in (ROOT / "pyebpf").rglob("*.py")))
    assert {new for new in REPLACED.values() if new.rpartition(".")[2] not in names} == set()
