"""`pyebpf trace`: a line for each event of bcc's specifications."""

from __future__ import annotations

import os
import re
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING

from pyebpf.bcc.messages import Messages
from pyebpf.bcc.scripts import TraceOptions, trace_script
from pyebpf.bcc.specs import parse_trace
from pyebpf.cli.bcc import act_on, declare, result_types
from pyebpf.cli.parser import integer, positive, seconds
from pyebpf.cli.report import UsageError

if TYPE_CHECKING:
    from pyebpf.bcc.specs import Trace
    from pyebpf.cli.arguments import Parser

_DESCRIPTION = """\
Prints a line for each call, return, tracepoint or USDT probe. SPEC is bcc's:

  PROBE[(SIGNATURE)] [(PREDICATE)] ["FORMAT", EXPRESSION, ...]

PROBE is a function of the kernel, FILE:FUNCTION, r::FUNCTION for its return,
t:CATEGORY:NAME, u:FILE:NAME or u:FILE:PROVIDER:NAME. FORMAT is printf's; %s
reads a text, %K and %U are names of functions. Expressions are those of pyebpf
argdist; retval is $retval.

examples:
  pyebpf trace 't:block:block_rq_complete "sectors=%d", args->nr_sector'
  pyebpf trace 'c:open (arg2 == 42) "%s %d", arg1, arg2'
  pyebpf trace 'r::vfs_read (retval < 0) "error %d", retval'
  pyebpf trace -K -p 181 'vfs_write(struct file *f) "%d", f->f_flags'
"""


def _user(text: str) -> int:
    """The number of a user."""
    if not 0 <= (found := integer(text)) < 1 << 32:
        raise ArgumentTypeError(f"{found} is no number of a user: it has 32 bits, and no sign")
    return found


def parser() -> Parser:
    """Declare the options."""
    made = declare("trace", _DESCRIPTION)
    made.add_argument("-L", "--tid", type=positive, metavar="TID", help="only this thread")
    made.add_argument("--uid", type=_user, metavar="UID", help="only this user")
    made.add_argument("-n", "--name", default="", help="only threads whose name contains this")
    made.add_argument(
        "-f", "--msg-filter", dest="message", metavar="TEXT", help="only events whose message contains this"
    )
    made.add_argument("-S", "--include-self", action="store_true", help="show what pyebpf itself does, too")
    made.add_argument("-T", "--time", action="store_true", help="print the time of day")
    made.add_argument("-t", "--timestamp", action="store_true", help="print the seconds since the start")
    made.add_argument("-u", "--unix-timestamp", action="store_true", help="print the seconds since 1970 instead")
    made.add_argument("-C", "--print-cpu", "--cpu", action="store_true", dest="cpu", help="print the processor")
    made.add_argument("-K", "--kernel-stack", action="store_true", help="print the stack of the kernel")
    made.add_argument("-U", "--user-stack", action="store_true", help="print the stack of the process")
    made.add_argument("-d", "--duration", type=seconds, metavar="SECONDS", help="end after this many seconds")
    made.add_argument("-M", "--max-events", type=positive, metavar="N", help="end after so many events")
    made.add_argument("specs", nargs="+", metavar="SPEC", help="what to trace")
    return made


def run_trace(arguments: list[str]) -> int:
    """Run `pyebpf trace`."""
    from pyebpf.cli.bpftrace import print_output

    given = parser().parse_args(arguments)
    for each in given.specs[1:]:
        if re.fullmatch(r"[\d.]+", each):
            raise UsageError(
                "pyebpf trace",
                f"{each} is no specification, and trace has no interval: -d SECONDS, -M EVENTS or Ctrl-C ends it",
            )
    options = TraceOptions(
        pid=given.pid,
        tid=given.tid,
        uid=given.uid,
        name=given.name,
        but=None if given.include_self or given.pid is not None else os.getpid(),
        time=given.time,
        since=given.timestamp,
        unix=given.unix_timestamp,
        cpu=given.cpu,
        kernel_stack=given.kernel_stack,
        user_stack=given.user_stack,
        most=given.max_events if given.message is None else None,
        strings=given.strings,
        marks=given.message is not None,
    )
    messages = None if given.message is None else Messages(given.message, given.max_events)
    specs: list[Trace] = []

    def write() -> str:
        specs.extend(map(parse_trace, given.specs))
        return trace_script(specs, options, result_types(given.pid))

    return act_on(
        "trace",
        given,
        specs,
        write,
        lambda script: print_output(script, verbose=given.verbose, messages=messages, duration=given.duration),
    )
