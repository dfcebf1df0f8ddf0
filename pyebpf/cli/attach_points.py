"""`pyebpf list PATTERN...`: attach points of this machine, and the values that probes are given there."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyebpf.cli.bytecode import Parser
from pyebpf.cli.report import FAILED, UsageError, describe, note
from pyebpf.errors import InvalidValue, KernelError, PyebpfError
from pyebpf.output.escape import escaped, json_text
from pyebpf.output.sink import Sink
from pyebpf.runtime.attach_points import FENTRY, KINDS, KPROBE, TRACEPOINT, UPROBE, USDT, AttachPoints, parse_pattern

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyebpf.runtime.attach_point_values import Value
    from pyebpf.runtime.attach_points import AttachPoint

DESCRIPTION = """\
Without a pattern: names the tools and tells what each does. `pyebpf TOOL
--help` tells more. With a word, such as disk: those that it is about, too.

With patterns: lists what probes can be attached to. * ? and [...] stand for
characters of a name; quote them from the shell.

  $ pyebpf list 't:sched:*'             tracepoints of a category
  $ pyebpf list -v rt:sched_switch      a raw tracepoint's arguments
  $ pyebpf list 'k:tcp_*' 'f:vfs_*'     the kernel's functions, for kprobes
                                        and for fentry
  $ pyebpf list 'u:libc.so.6:get*'      functions of a library or program
  $ pyebpf list -v 'usdt:python3:*'     USDT probes
  $ pyebpf list '*tcp_conn*'            all kinds of the kernel

Exit status: 0 if each pattern matches something that can be attached to, 1 if
not, 2 for a kind that does not exist."""

#: The key of an attach point's place in JSON, by its kind.
_PLACES = {TRACEPOINT: "category", KPROBE: "module", FENTRY: "module", UPROBE: "file", USDT: "file"}


def parser() -> Parser:
    """Declare the options."""
    made = Parser("list", DESCRIPTION)
    made.add_argument(
        "-v", "--verbose", action="store_true", help="fields, arguments and results, with types and sizes"
    )
    made.add_argument("--json", action="store_true", help="print one JSON object per line, with what -v prints")
    made.add_argument("-p", "--pid", type=int, metavar="PID", help="files as this process sees them")
    made.add_argument("patterns", metavar="PATTERN", nargs="*", help=f"kinds: {', '.join(KINDS)}, or their letters")
    return made


def run_list(arguments: Sequence[str], words: Collection[str] = (), *, looked: bool = False) -> int:
    """List what matches. Raises UsageError, and what reading files raises.

    `words` have been found elsewhere: that nothing else matches them is no error. `looked` says that others have not.
    """
    made = parser()
    options = made.parse_args(arguments)
    if not options.patterns:
        raise UsageError(made.prog, "give a pattern, such as 't:sched:*'")
    if options.pid is not None and options.pid <= 0:
        raise UsageError(made.prog, f"{options.pid} is not a process")
    try:
        patterns = [parse_pattern(each) for each in options.patterns]
    except InvalidValue as error:
        raise UsageError(made.prog, str(error)) from None
    status = 0
    sink = Sink.of(sys.stdout)
    sink.holds = True
    seen: set[str] = set()
    noted: set[str] = set()
    with AttachPoints(-1 if options.pid is None else options.pid) as every:
        for pattern in patterns:
            try:
                found = every.find(pattern)
            except (PyebpfError, OSError) as error:
                sink.flush()
                if pattern.text in words:
                    continue
                where = f"{escaped(pattern.text)}: " if isinstance(error, KernelError) else ""
                lead = "no tool has this word in its name or summary, and " if looked else ""
                note(f"{made.prog}: {where}{lead}{describe(error)}")
                status = FAILED
                continue
            for point in found.points:
                text = str(point)
                if text not in seen:
                    seen.add(text)
                    _print(sink, point, every, noted, verbose=options.verbose, as_json=options.json)
            sink.flush()
            for line in found.left_out:
                note(f"{made.prog}: {escaped(line)}")
    return status


def _print(
    sink: Sink, point: AttachPoint, every: AttachPoints, noted: set[str], *, verbose: bool, as_json: bool
) -> None:
    """Print an attach point. `noted` has the reasons that were told: one that many share is told once."""
    if not verbose and not as_json:
        sink.line(escaped(str(point)))
        return
    from pyebpf.runtime.attach_point_values import values_of

    try:
        values, result = values_of(point, every.target)
    except PyebpfError as error:
        if str(error) not in noted:
            noted.add(str(error))
            note(f"pyebpf list: {escaped(str(point))}: {describe(error)}")
        values, result = None, None
    if as_json:
        from json import dumps

        sink.line(dumps(_record(point, values, result), ensure_ascii=False))
        return
    sink.line(escaped(str(point)))
    rows = [(each.declaration, each) for each in values or ()]
    if result is not None:
        rows.append((f"returns {result.type}", result))
    width = max((len(text) for text, _ in rows), default=0)
    for text, value in rows:
        size = "variable" if value.size is None else f"{value.size:>3} bytes" if value.size != 1 else "  1 byte"
        sink.line(escaped(f"    {text:<{width}}  {size}  {value.operand}".rstrip()))


def _record(point: AttachPoint, values: Sequence[Value] | None, result: Value | None) -> dict[str, object]:
    """An attach point as JSON has it."""
    record: dict[str, object] = {"attach_point": json_text(str(point)), "kind": point.kind}
    if point.kind in _PLACES:
        record[_PLACES[point.kind]] = json_text(point.place)
    record["name"] = json_text(point.name)
    if point.kind in {UPROBE, USDT}:
        record["offsets"] = point.offsets
    plain = None if values is None else [_plain(each) for each in values]
    record["fields" if point.kind == TRACEPOINT else "arguments"] = plain
    if point.kind in {KPROBE, FENTRY}:
        record["returns"] = None if result is None else {"type": result.type, "size": result.size}
    return record


def _plain(value: Value) -> dict[str, object]:
    found: dict[str, object] = {"name": json_text(value.name), "type": json_text(value.type), "size": value.size}
    return {**found, "operand": value.operand} if value.operand else found
