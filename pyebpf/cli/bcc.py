"""`pyebpf argdist` and `pyebpf trace`: bcc's specifications, run as scripts of bpftrace's language."""

from __future__ import annotations

import sys
import time
from argparse import RawDescriptionHelpFormatter
from typing import TYPE_CHECKING

from pyebpf.bcc.scripts import TraceOptions, distribution_script, trace_script
from pyebpf.bcc.specs import parse_distribution, parse_trace
from pyebpf.cli.arguments import Parser
from pyebpf.cli.report import FAILED, UsageError, describe, note
from pyebpf.errors import InvalidValue, PyebpfError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence

    from pyebpf.bcc.specs import Distribution
    from pyebpf.script import Script

_FUNCTIONS = {"-H": "hist", "--histogram": "hist", "-C": "count", "--count": "count"}
_DISTRIBUTION = """\
Counts values, or draws their histograms, where a function is called or
returns, at a tracepoint or a USDT probe. SPEC is bcc's:

  {p,r,t,u}:{FILE,CATEGORY}:NAME(SIGNATURE)[:TYPE:EXPRESSION[:FILTER]][#LABEL]

Expressions are C's, of the signature's parameters, of arg1 to arg9,
args->FIELD of a tracepoint, and where a function returns of $retval, $latency
(ns) and $entry(PARAMETER).

examples:
  pyebpf argdist -H 't:block:block_rq_issue():u32:args->bytes'
  pyebpf argdist -C 'p:c:write(int fd):int:fd#by descriptor' 1 5
  pyebpf argdist -H 'r::tcp_recvmsg():int:$retval:$retval>0'
  pyebpf argdist -H 'r:c:malloc(size_t n):u64:$latency:$entry(n) > 100'
"""
_TRACE = """\
Prints a line for each call, return, tracepoint or USDT probe. SPEC is bcc's:

  PROBE[(SIGNATURE)] [(PREDICATE)] ["FORMAT", EXPRESSION, ...]

PROBE is a function of the kernel, FILE:FUNCTION, r::FUNCTION for its return,
t:CATEGORY:NAME or u:FILE:NAME. FORMAT is printf's; %s reads a text, %K and %U
are names of functions. Expressions are those of pyebpf argdist; retval is
$retval.

examples:
  pyebpf trace 't:block:block_rq_complete "sectors=%d", args->nr_sector'
  pyebpf trace 'c:open (arg2 == 42) "%s %d", arg1, arg2'
  pyebpf trace 'r::vfs_read (retval < 0) "error %d", retval'
  pyebpf trace -K -p 181 'vfs_write(struct file *f) "%d", f->f_flags'
"""


def _parser(name: str, description: str) -> Parser:
    parser = Parser(f"pyebpf {name}", description=description, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("-p", "--pid", type=int, metavar="PID", help="only this process")
    parser.add_argument(
        "-z", "--string-size", type=int, dest="strings", metavar="BYTES", help="bytes of a text at most (64)"
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="print the script that is run, and the attachments"
    )
    parser.add_argument("--dump", action="store_true", help="print the bytecode, load nothing")
    return parser


def run_argdist(arguments: list[str]) -> int:
    """Run `pyebpf argdist`."""
    parser = _parser("argdist", _DISTRIBUTION)
    parser.add_argument("-H", "--histogram", action="append", metavar="SPEC", help="draw a histogram of a value")
    parser.add_argument("-C", "--count", action="append", metavar="SPEC", help="count how often each value occurs")
    parser.add_argument("-c", "--cumulative", action="store_true", help="do not begin anew in each interval")
    parser.add_argument("-T", "--top", type=int, default=0, metavar="N", help="only the N most frequent values")
    parser.add_argument("-d", "--duration", type=float, metavar="SECONDS", help="end after this many seconds")
    parser.add_argument("interval", type=float, nargs="?", help="seconds between summaries (default: 1)", default=1.0)
    parser.add_argument("times", type=int, nargs="?", metavar="count", help="how many summaries (default: no limit)")
    given = parser.parse_args(arguments)
    # In the order in which they were given, which argparse does not tell.
    texts = {"hist": iter(given.histogram or ()), "count": iter(given.count or ())}
    order = [_FUNCTIONS[option] for each in arguments if (option := each.split("=")[0]) in _FUNCTIONS]
    order += ["hist"] * len(given.histogram or ()) + ["count"] * len(given.count or ())
    try:
        specs = [(each, parse_distribution(text)) for each in order if (text := next(texts[each], None)) is not None]
        if not specs:
            raise UsageError("pyebpf argdist", "give -H SPEC or -C SPEC")
        text = distribution_script(specs, pid=given.pid, strings=given.strings)
        return _run("argdist", text, given, lambda script: _distributions(script, specs, given))
    except InvalidValue as error:
        return _refused("argdist", error)


def run_trace(arguments: list[str]) -> int:
    """Run `pyebpf trace`."""
    parser = _parser("trace", _TRACE)
    parser.add_argument("-L", "--tid", type=int, metavar="TID", help="only this thread")
    parser.add_argument("-T", "--time", action="store_true", help="print the time of day")
    parser.add_argument("--cpu", action="store_true", help="print the processor")
    parser.add_argument("-K", "--kernel-stack", action="store_true", help="print the stack of the kernel")
    parser.add_argument("-U", "--user-stack", action="store_true", help="print the stack of the process")
    parser.add_argument("-M", "--max-events", type=int, metavar="N", help="end after so many events")
    parser.add_argument("specs", nargs="+", metavar="SPEC", help="what to trace")
    given = parser.parse_args(arguments)
    options = TraceOptions(
        pid=given.pid,
        tid=given.tid,
        time=given.time,
        cpu=given.cpu,
        kernel_stack=given.kernel_stack,
        user_stack=given.user_stack,
        most=given.max_events,
        strings=given.strings,
    )
    from pyebpf.cli.bpftrace import print_output

    try:
        text = trace_script([parse_trace(each) for each in given.specs], options)
        return _run("trace", text, given, lambda script: print_output(script, verbose=given.verbose))
    except InvalidValue as error:
        return _refused("trace", error)


def _refused(name: str, error: InvalidValue) -> int:
    """Tell what is wrong with a specification, with its caret; the status of wrong usage."""
    note(f"pyebpf {name}: {describe(error)}")
    return 2


def _run(name: str, text: str, given: Namespace, act: Callable[[Script], int]) -> int:
    """Make the script, and do with it what the options ask for."""
    from pyebpf.cli.bpftrace import dump
    from pyebpf.script import Script

    if given.verbose:
        note(text.rstrip("\n"))
    try:
        script = Script(text, file=f"<{name}>", pid=given.pid)
        return dump(script) if given.dump else act(script)
    except PyebpfError as error:
        note(f"pyebpf {name}: {describe(error)}")
        return FAILED


def _distributions(script: Script, specs: Sequence[tuple[str, Distribution]], given: Namespace) -> int:
    """Print the interval's values by specification until the end is asked for."""
    from pyebpf.cli.bpftrace import Signals, tell_attached

    signals, out = Signals(), sys.stdout
    out.reconfigure(errors="surrogateescape")  # type: ignore[union-attr]  # the process's own
    end = time.monotonic() + given.duration if given.duration else None
    names = script.printer().names
    with script:
        tell_attached(script, len(specs), verbose=given.verbose)
        shown = 0
        while not signals.stopped and (given.times is None or shown < given.times):
            last = end is not None and time.monotonic() + given.interval >= end
            signals.wait(given.interval if not last or end is None else end - time.monotonic())
            shown += 1
            out.write(time.strftime("[%H:%M:%S]\n"))
            for number, (_, spec) in enumerate(specs):
                table = script[f"@spec{number}"]
                entries = table.snapshot() if given.cumulative else table.interval()
                out.write(f"{spec.label or spec.text}\n")
                for line in table.lines(names, given.top, entries=entries):
                    shown_line = line.removeprefix(table.name)
                    if shown_line != ":":  # what stands above a histogram without a key
                        out.write(f"{shown_line.removeprefix(': ')}\n")
            out.flush()
            if last:
                break
        for reason, count in script.dropped.items():
            note(f"dropped: {count} ({reason})")
    return 0
