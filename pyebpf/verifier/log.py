"""The verifier's log, taken apart: the message, the instruction that it is about, and the state of the register."""

from __future__ import annotations

import re
from collections import deque
from functools import cache
from typing import TYPE_CHECKING

from pyebpf.dataclass import dataclass, field
from pyebpf.verifier.messages import VERIFIER_MESSAGES
from pyebpf.verifier.report import separate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyebpf.verifier.messages import VerifierMessage

# 7: (79) r2 = *(u64 *)(r1 +8)      ; R1=ctx() R2_w=scalar()  -  3: BUG_ld_00, what is no instruction, in Linux 5.10
_INSTRUCTION = re.compile(r"^(?P<slot>\d{1,10}): (?:\((?P<opcode>[0-9a-f]{2})\) |(?=BUG_\w+$))(?P<rest>.*)$")
# 3: R0=scalar() R10=fp0  -  from 3 to 5: R0=...  -  frame1: R1=...  -  R6=... after "caller:"
_STATE = re.compile(r"^(?:(?:from \d+ to )?\d+: )?(?:\([^)]*\) )?(?:safe )?(?:frame\d+: )?\s*(?:R\d+|fp-\d+)(?:_\w+)?=")
_REGISTER = re.compile(r"\b(R\d{1,2})(?:_[rwpPD]+)?=((?:[^\s()]|\((?:[^()]|\([^()]*\))*\))+)")
# What may be pushed back to and continued: the kernel cuts the log there when it takes another path, a blank behind
# where the line's end was. Then whatever it prints next stands on that line. (A state stands behind `; ` there.)
_CONTINUED = re.compile(
    r"^(?P<line>\d{1,10}: \([0-9a-f]{2}\) [^;]*?\b(?:goto|gotol|gotox|may_goto|goto_or_nop|call) \S+) "
    r"(?P<rest>(?!; (?:frame\d+: )?(?:R\d+|fp-\d+)(?:_\w+)?=)\S.*)$"
)
# The verifier gives up before it has ended the line of the instruction that it comes to.
_GIVEN_UP = re.compile(
    r"^(?P<line>\d{1,10}: \([0-9a-f]{2}\) .+?) "
    r"(?P<rest>(?:BPF program is too large|The sequence of \d+ jumps is too complex)\..*)$"
)
# Lines that say nothing about the refusal.
_NOISE = re.compile(
    r"^(processed \d+ insns|verification time|stack depth|max_states|peak_states|insns? |func#\d+|Func#\d+|Validating |"
    r"caller:|callee:|returning from callee:|to caller at |from \d+ to \d+|propagating |last_idx |regs=|parent |"
    r"mark_precise|arg#\d+ reference type\('UNKNOWN|Live regs before|reg type unsupported|(cur|old) state:|;|\d+: )"
)
_SOURCE_PLACE = re.compile(r".+:\d+")  # `; text @ file:line`; Linux 6.1 gives the text alone
_NAMED = re.compile(r"\bR\d+\b")
_UNKNOWN_HELPER = re.compile(r"\bunknown#(\d{1,9})\b")
_LOCATING = frozenset({"opcode", "descriptor", "end", "call", "address"})  # groups of `VerifierMessage.pattern`
# What bounds the time for a log of any length and content.
_TAIL = 1 << 20  # characters: the message stands at the end, and states are given in full wherever paths part
_LONGEST = 400  # characters, of a message and of a state
_MAX_MESSAGES = 8  # lines in a row
_MAX_LINES = 2  # of a message; what stands before is about other paths
_CALL = "85"
_CLOBBERED = ("R0", "R1", "R2", "R3", "R4", "R5")


@dataclass(frozen=True, slots=True)
class Explanation:
    """One refusal. `str()` is the one line for a person.

    `message` is the kernel's own text; `instruction` the slot of the instruction that was refused, None if the log
    does not say; `text` that instruction as the kernel prints it; `register` and `state` the register that the
    message names and what it was; `cause` the likely cause, empty for a message that is not in the table;
    `name` that row's name; `registers` all states known there; `source` the source line that the log gives for it;
    `named` what else the message says of the instruction, where it gives no slot (see `VerifierMessage`).
    """

    message: str
    instruction: int | None
    text: str
    register: str
    state: str
    cause: str
    name: str
    registers: dict[str, str] = field(default_factory=dict)
    source: str = ""
    named: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        line = self.message
        words = describe(self.state)
        if self.register and words:
            line += f" ({self.register} is {words})"
        return f"{line}: {self.cause}" if self.cause else line


# What a type in the log is, in words. The longest prefix counts.
_WORDS = {
    "ctx": "the context",
    "fp": "a place on the stack",
    "map_ptr": "a map",
    "map_value_or_null": "a map entry that may be None",
    "map_value": "a map entry",
    "map_key": "a map key",
    "mem_or_null": "memory that may be None",
    "mem": "memory of known size",
    "rdonly_mem": "read-only memory",
    "ringbuf_mem_or_null": "a ring-buffer reservation that may be None",
    "ringbuf_mem": "a ring-buffer reservation",
    "alloc_mem_or_null": "a reservation that may be None",
    "alloc_mem": "a reservation",
    "pkt_end": "the end of the packet",
    "pkt_meta": "packet metadata",
    "pkt": "a place in the packet",
    "ptr_or_null_": "a kernel pointer that may be None",
    "rcu_ptr_or_null_": "a kernel pointer that may be None",
    "trusted_ptr_or_null_": "a kernel pointer that may be None",
    "trusted_ptr_": "a trusted kernel pointer",
    "rcu_ptr_": "a kernel pointer under RCU",
    "untrusted_ptr_": "an untrusted kernel pointer",
    "percpu_ptr_": "a per-CPU kernel pointer",
    "ptr_": "a kernel pointer",
    "sock_or_null": "a socket that may be None",
    "sock_common_or_null": "a socket that may be None",
    "tcp_sock_or_null": "a socket that may be None",
    "sock": "a socket",
    "tcp_sock": "a socket",
    "func": "a function",
    "dynptr_ptr": "a dynptr",
}
_MAP_NAME = re.compile(r"\bmap=([^,)]+)")
_NUMBER = re.compile(r"^(?:inv)?(-?(?:0x[0-9a-f]+|\d+))$")
_BOUND = re.compile(r"([su]min|[su]max)=(?=(?:[su]m(?:in|ax)(?:32)?=)*(-?(?:0x[0-9a-f]+|[0-9]+)))")


def describe(state: str) -> str:
    """Describe a register's state in words; by the log's own word for a kind that is not known here."""
    if not state:
        return ""
    state = state[:_LONGEST]
    number = _NUMBER.match(state)
    if number:
        return f"the number {number[1]}"
    kind, _, inside = state.partition("(")
    if kind in {"scalar", "inv", "Pscalar"}:
        return _describe_number(inside)
    best = max((name for name in _WORDS if kind.startswith(name)), key=len, default="")
    if not best:
        return f"{kind!r}"
    # ptr_task_struct, trusted_ptr_sock: the structure's name follows.
    structure = kind[len(best) :] if best.endswith("_") else ""
    words = f"{_WORDS[best]} (struct {structure})" if structure else _WORDS[best]
    # Linux 6.1 does not name the map.
    name = _MAP_NAME.search(inside)
    if name is None:
        return words
    return words.replace("a map entry", f"an entry of map {name[1]}").replace("a map key", f"a key of map {name[1]}")


def _describe_number(inside: str) -> str:
    bounds = {name: int(value, 16 if "0x" in value else 10) for name, value in _BOUND.findall(inside)}
    low = bounds.get("smin", bounds.get("umin"))
    if low is None and "umax" in bounds:
        low = 0
    high = bounds.get("umax", bounds.get("smax"))
    if low is not None and high is not None:
        return f"a number from {low} to {high}"
    if high is not None:
        return f"a number up to {high}"
    if low is not None:
        return f"a number from {low}"
    return "any number"


@cache
def _table() -> tuple[tuple[re.Pattern[str], VerifierMessage], ...]:
    return tuple((re.compile(row.pattern), row) for row in VERIFIER_MESSAGES)


def _match(messages: Sequence[str]) -> tuple[re.Match[str], VerifierMessage, str] | None:
    for pattern, row in _table():
        for message in messages:
            found = pattern.search(message)
            if found:
                return found, row, message
    return None


@dataclass(slots=True)
class _LogState:
    """The state of the scan: the last instruction, what is known of the registers, the lines behind it."""

    slot: int | None = None
    text: str = ""
    source: str = ""
    registers: dict[str, str] = field(default_factory=dict)
    messages: deque[str] = field(default_factory=lambda: deque(maxlen=_MAX_MESSAGES))


def _separated(lines: Sequence[str]) -> Iterator[str]:
    """The lines, those apart of which the kernel has made one."""
    for line in lines:
        continued = _GIVEN_UP.match(line) or _CONTINUED.match(line)
        if continued:
            yield continued["line"]
            yield continued["rest"]
        else:
            yield line


def _scan(lines: Iterator[str]) -> _LogState:
    state = _LogState()
    pending = ""  # states after an instruction hold from the next one on
    after_call = False
    for line in lines:
        instruction = _INSTRUCTION.match(line)
        if instruction:
            if after_call:
                # What a call leaves in the argument registers is not printed.
                state.registers = {n: s for n, s in state.registers.items() if n not in _CLOBBERED}
            state.registers.update(_REGISTER.findall(pending))
            text, _, pending = instruction["rest"].partition(" ; ")
            state.slot, state.text = int(instruction["slot"]), text.strip()
            state.messages.clear()
            after_call = instruction["opcode"] == _CALL
            continue
        if _STATE.match(line):
            state.registers = dict(_REGISTER.findall(line))
            pending, after_call = "", False
            state.messages.clear()
            continue
        if line.startswith("; "):
            text, sign, at = line[2:].rpartition(" @ ")
            state.source = (text if sign and _SOURCE_PLACE.fullmatch(at) else line[2:]).strip()
            state.messages.clear()
            continue
        if line.strip() and not _NOISE.match(line):
            state.messages.append(line.strip()[:_LONGEST])
    return state


def _helper(found: re.Match[str]) -> str:
    """The name of a helper that the kernel, being older, knows only by number."""
    from pyebpf.uapi.helpers import helper_name

    return f"{helper_name(int(found[1])) or 'unknown'}#{found[1]}"


def _since(message: str) -> str:
    """The release that brought the helper that a message names."""
    from pyebpf.uapi.helpers import helper_name, helper_release

    found = re.search(r"\bbpf_\w+#(\d{1,9})\b", message)
    release = helper_release(int(found[1])) if found and helper_name(int(found[1])) else ""
    return f", which came with Linux {release}" if release else ""


def _end(log: str) -> str:
    """The last part of a log, in whole lines."""
    if len(log) <= _TAIL:
        return log
    return log[log.find("\n", len(log) - _TAIL) + 1 or len(log) - _TAIL :]


def has_states(log: str) -> bool:
    """Whether the log tells what registers hold at each instruction, as the first level's does since Linux 5.17.

    Before, it does so where paths part, and the second level's everywhere.
    """
    start = log[:_TAIL]
    walked = re.search(r"^\d+: \(", start, re.MULTILINE)
    return walked is None or re.search(r"^0: R1=", start, re.MULTILINE) is not None


def explain(log: str) -> Explanation | None:
    """Explain a rejection; None for a log without any message, as when the kernel refused before verifying.

    Understands the texts of Linux 5.10 to 7.3; of a message that is not known, the text alone is given.
    """
    lines, report = separate(_UNKNOWN_HELPER.sub(_helper, _end(log)).splitlines())
    end = _scan(_separated(lines))
    if not end.messages and not report.text:
        return None
    end.messages = end.messages or deque([report.text])
    if end.slot is None:
        end.slot = report.instruction
    messages = list(end.messages)
    found = _match(messages)
    slot, registers = end.slot, end.registers
    if found is None:
        return Explanation("; ".join(messages[-_MAX_LINES:]), slot, end.text, "", "", "", "", registers, end.source)
    match, row, known = found
    groups = match.groupdict()
    text, source = end.text, end.source
    if groups.get("instruction") is not None and int(groups["instruction"]) != slot:
        # The message speaks of another instruction than the last one walked.
        slot, text, source = int(groups["instruction"]), "", ""
    message = "; ".join(messages[-_MAX_LINES:] if known in messages[-_MAX_LINES:] else [known])
    mentioned = _NAMED.search(message)
    register = groups.get("register") or (mentioned[0] if mentioned else "")
    state = "" if row.name == "uninitialised" else registers.get(register, "")
    named = {name: value for name, value in groups.items() if name in _LOCATING and value is not None}
    cause = row.cause + (_since(message) if row.name == "helper-invalid" else "")
    return Explanation(message, slot, text, register, state, cause, row.name, registers, source, named)
