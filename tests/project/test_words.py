"""Words that were replaced by those of the kernel, libbpf, LLVM or Python, and must not come back."""

from __future__ import annotations

import ast
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
    "FORMS_MAP": "SPECS_MAP",
    "FORM_SIZE": "SPEC_SIZE",
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
    "MANY_ROUNDS": "MANY_ITERATIONS",
    "MOST_ELEMENTS": "MAX_ELEMENTS",
    "MOST_ITERATIONS": "MAX_ITERATIONS",
    "MOST_PROBES": "MAX_UPROBES",
    "MOST_ROUNDS": "MAX_UNROLLED",
    "MOST_STEPS": "MAX_STEPS",
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
    "Spelling": "OptionSpec",
    "StackTraces": "StackTraceMap",
    "StatsKind": "StatsType",
    "Struck": "Excluded",
    "SubprogramEntity": "Subprogram",
    "TRACING_KINDS": "TRACING_TYPES",
    "Texts": "StringBuffers",
    "UNDECIDED": "TRANSIENT_ERRNOS",
    "UserPlace": "ProbeOffset",
    "WALKED": "FOR_EACH_TYPES",
    "Walk": "ForEachLoop",
    "Way": "Candidate",
    "XdpPlace": "XdpProgramContext",
    "assume_present": "assume_non_null",
    "backend": "store",
    "check_gone": "check_valid",
    "check_walked": "check_for_each",
    "count_loss": "count_drop",
    "culprit": "fault_location",
    "diagnose": "kernel_error",
    "exported": "global_functions",
    "hand_on_uses": "propagate_uses",
    "hidden_zero": "opaque_zero",
    "is_open": "is_deferred",
    "is_present": "is_non_null",
    "leftovers": "orphans",
    "losses": "drop_reasons",
    "marks_owner": "named_after_owner",
    "may_go": "nondeterministic_branch",
    "newcomer": "requirement",
    "newly_gone": "newly_invalidated",
    "packet_moved": "invalidate_packet_pointers",
    "presence": "null_check",
    "proven": "with_bounds_check",
    "rebuild": "with_ssa_values",
    "refuse_stale": "reject_stale_uses",
    "requesting": "request_decorator",
    "rounds": "iterations",
    "scratch_note": "ax_register_text",
    "settle": "to_rvalue",
    "settled": "rvalue",
    "spelling": "spec",
    "struck": "excluded",
    "take_up": "reopen",
    "text_room": "string_room",
    "to_construct": "construct",
    "too_many_rounds": "too_many_iterations",
    "walk_entries": "for_each_loop",
    "ways": "paths",
    "ways_in": "in_degrees",
    "why_gone": "invalidated_by",
    "with_ways": "with_successors",
}


#: Phrases that readers of messages had to ask about, and the field's words for each.
PHRASES = {
    "each event knows": "known only at run time",
    "for which it takes": "needs",
    "has no meaning in the language": "is not supported in probes",
    "has no type in the language": "is not supported in probes",
    "hides the word": "shadows the function",
    "is done soon": "ends soon",
    "is no value to keep": "cannot be stored in a variable",
    "known while compiling": "known at compile time",
    "nothing shows that": "cannot prove that",
    "rounds are too many": "iterations are too many",
    "says nothing of its width": "does not give its width",
    "stand inside each other here": "are nested here",
    "stands at two places": "is defined twice",
    "takes no probe": "cannot be probed",
    "tells its size": "gives its size",
    "there is no way to run it": "no candidate works",
    "was attached to is gone": "its target no longer exists",
    "what stands in for it: ": "a default: ",
}


def _strings(path: Path) -> str:
    """Every string of a file, docstrings and the parts of f-strings included."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return "\n".join(
        node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


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


def test_replaced_phrases_do_not_come_back() -> None:
    """No message and no docstring of the package has one of them."""
    found = {
        f"{path.relative_to(ROOT)}: {phrase}": f"say {PHRASES[phrase]}"
        for path in sorted((ROOT / "pyebpf").rglob("*.py"))
        for text in [" ".join(_strings(path).split())]
        for phrase in PHRASES
        if phrase in text
    }
    assert found == {}


def test_the_words_that_replace_them_are_there() -> None:
    """The table is true: each new name is one of the package's."""
    names = set().union(*(_names(path) for path in (ROOT / "pyebpf").rglob("*.py")))
    assert {new for new in REPLACED.values() if new.rpartition(".")[2] not in names} == set()
