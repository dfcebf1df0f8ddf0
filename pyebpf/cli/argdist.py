"""`pyebpf argdist`: values of bcc's specifications, counted or as histograms."""

from __future__ import annotations

import time
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING, Any

from pyebpf.bcc.scripts import distribution_script
from pyebpf.bcc.specs import parse_distribution
from pyebpf.cli.bcc import act_on, declare, result_types
from pyebpf.cli.intervals import intervals
from pyebpf.cli.parser import positive, seconds
from pyebpf.cli.report import UsageError, note
from pyebpf.cli.signals import until_signal

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence

    from pyebpf.bcc.specs import Distribution
    from pyebpf.cli.arguments import Parser
    from pyebpf.script import Script

_FUNCTIONS = {"-H": "hist", "--histogram": "hist", "-C": "count", "--count": "count"}
_DESCRIPTION = """\
Counts values, or draws their histograms, where a function is called or
returns, at a tracepoint or a USDT probe. SPEC is bcc's:

  {p,r,t,u}:{FILE,CATEGORY}:NAME(SIGNATURE)[:TYPE:EXPRESSION[:FILTER]][#LABEL]

Expressions are C's, of the signature's parameters, of arg1 to arg12,
args->FIELD of a tracepoint, $PID, $TGID, $UID, $GID and $COMM, and where a
function returns of $retval (what is taken without an expression), $latency (ns)
and $entry(PARAMETER).

examples:
  pyebpf argdist -H 't:block:block_rq_issue():u32:args->bytes'
  pyebpf argdist -C 'p:c:write(int fd):int:fd#by descriptor' 1 5
  pyebpf argdist -H 'r::tcp_recvmsg():int:$retval:$retval>0'
  pyebpf argdist -C 't:syscalls:sys_enter_openat():char*:$COMM' -H 'r:c:read()'
  pyebpf argdist -H 'r:c:malloc(size_t n):u64:$latency:$entry(n) > 100'
"""


def _number(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Read an interval or a count; a specification in its place is told as one."""

    def value(text: str) -> Any:
        if ":" in text:
            raise ArgumentTypeError(f"{text!r} is a specification: give -C SPEC or -H SPEC")
        return read(text)

    return value


def parser() -> Parser:
    """Declare the options."""
    made = declare("argdist", _DESCRIPTION)
    made.add_argument("-H", "--histogram", action="append", metavar="SPEC", help="draw a histogram of a value")
    made.add_argument("-C", "--count", action="append", metavar="SPEC", help="count how often each value occurs")
    made.add_argument("-t", "--tid", type=positive, metavar="TID", help="only this thread")
    made.add_argument("-c", "--cumulative", action="store_true", help="do not begin anew in each interval")
    made.add_argument("-T", "--top", type=positive, default=0, metavar="N", help="only the N most frequent values")
    made.add_argument("-d", "--duration", type=seconds, metavar="SECONDS", help="end after this many seconds")
    made.add_argument(
        "interval", type=_number(seconds), nargs="?", help="seconds between summaries (default: 1)", default=1.0
    )
    made.add_argument(
        "times", type=_number(positive), nargs="?", metavar="count", help="how many summaries (default: no limit)"
    )
    made.add_argument("-i", dest="every", type=seconds, metavar="SECONDS", help="the interval, as bcc has it")
    made.add_argument("-n", dest="most", type=positive, metavar="N", help="the count, as bcc has it")
    return made


def run_argdist(arguments: list[str]) -> int:
    """Run `pyebpf argdist`."""
    given = parser().parse_args(arguments)
    # In the order in which they were given, which argparse does not tell.
    texts = {"hist": iter(given.histogram or ()), "count": iter(given.count or ())}
    order = [_FUNCTIONS[option] for each in arguments if (option := each.split("=")[0]) in _FUNCTIONS]
    order += ["hist"] * len(given.histogram or ()) + ["count"] * len(given.count or ())
    wanted = [(each, text) for each in order if (text := next(texts[each], None)) is not None]
    if not wanted:
        raise UsageError("pyebpf argdist", "give -H SPEC or -C SPEC")
    specs: list[Distribution] = []

    def write() -> str:
        specs.extend(parse_distribution(text) for _, text in wanted)
        functions = [function for function, _ in wanted]
        each = list(zip(functions, specs, strict=True))
        types = result_types(given.pid)
        return distribution_script(each, pid=given.pid, tid=given.tid, strings=given.strings, result=types)

    return act_on("argdist", given, specs, write, lambda script: _print(script, specs, given))


def _print(script: Script, specs: Sequence[Distribution], given: Namespace) -> int:
    """Print the interval's values by specification until the end is asked for."""
    from pyebpf.cli.bpftrace import tell_attached, tell_dropped, text_sink

    sink, names = text_sink(), script.printer().names
    with until_signal() as stop, script:
        tell_attached(script, len(specs), verbose=given.verbose)
        # A program that puts nothing into a map is made without it.
        idle = {f"@spec{number}" for number in range(len(specs))} - {each.name for each in script.maps}
        for number, spec in enumerate(specs):
            if f"@spec{number}" in idle:
                note(f"{spec.text}: nothing is counted, since its filter never holds")
        if given.duration is not None:
            stop.end_after(given.duration)
        for shown, last in intervals(given.every or given.interval, stop, stop.wait):
            sink.holds = True
            sink.write(time.strftime("[%H:%M:%S]\n"))
            for number, spec in enumerate(specs):
                sink.line(spec.label or spec.text)
                if f"@spec{number}" in idle:
                    continue
                table = script[f"@spec{number}"]
                entries = table.snapshot() if given.cumulative else table.interval()
                for line in table.lines(names, given.top, entries=entries):
                    rest = line.removeprefix(table.name)
                    if rest != ":":  # what stands above a histogram without a key
                        sink.line(rest.removeprefix(": "))
            sink.holds = False
            sink.flush()
            if last or shown == (given.most or given.times):
                break
        tell_dropped(script.dropped)
    return 0
