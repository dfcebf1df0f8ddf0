"""Write down what the tools ask of this kernel: `python -m tests.programs.record > tests/programs/kernels/6.18.json`.

Run as root, for another kernel through tests/vm. Then the tests here compile every tool for that kernel anywhere. Names
of tools as arguments limit it to those; their facts are added to a file by

    python -m tests.programs.record profile | python -m tests.programs.record --into tests/programs/kernels/6.18.json
"""

from __future__ import annotations

import json
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyebpf.errors import NotFound, NotSupported

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.tool import Tool

#: Beside those of each tool's examples, command lines that compile to something of their own.
VARIANTS = (
    "biolatency -D -F",
    "biolatency -D -F -L -Q",
    "opensnoop -e -t 7 -u 0",
    "syscount -P -L -p 7",
    "syscount -x --syscall openat,read -t 7",
    "profile -p 7,8 -K",
    "tcpdrop -a -r NO_SOCKET,socket_filter",
    "ipecn -4 --out",
    "netsize --netns /proc/self/ns/net",
    "nettxlat --devices -a",
    "tcplife -p 7 -L 1,2 -D 3,4",
    "cpudist -O -I -p 7",
    "runqslower -t 7 20000",
    "offcputime -u -t 7 --state 2 -M 9",
    "wakeuptime -k -U",
    "hardirqs -c 0 -N",
    "softirqs -c 0 -N",
)
#: What a tool says of a driver that is not there, or of an option that a kernel is too old for: that is a fact, too.
LACKING = re.compile(
    "the (NVMe|SCSI|md) driver is not loaded|cfg80211 is not loaded|does not tell why it drops a packet|"
    "does not describe the types of its SCSI driver|does not tell a program which function it runs at|"
    "does not tell when a request is queued|does not tell a program with which registers"
)
#: What the compiler may want to know, whatever it asks today.
FEATURES = (
    "helper:get_attach_cookie@kprobe",
    "helper:loop",
    "isa:atomic",
    "isa:bswap",
    "isa:gotol",
    "isa:ldsx",
    "isa:may_goto",
    "isa:movsx",
    "isa:sdiv",
    "isa:v4",
    "kfunc:bpf_iter_num_new",
    "map:growing_hash",
)


def command_lines() -> Iterator[tuple[str, Tool[..., Any, Any], Any]]:
    """Each command line with its tool and the options that it stands for."""
    from pyebpf.cli.catalogue import find, names
    from pyebpf.cli.parser import parse_example

    for name in names():
        tool = find(name)
        lines = [example.command for example in tool.examples]
        for line in [*lines, *(variant for variant in VARIANTS if variant.split()[0] == name)]:
            yield line, tool, parse_example(tool, line)[0]


def add(path: Path, recorded: str) -> None:
    """Add facts to those of a file; the newer of two answers counts. What is not a line of JSON is left out."""
    known = json.loads(path.read_text())
    known["facts"].update(json.loads(recorded[recorded.index("{") : recorded.rindex("}") + 1])["facts"])
    known["facts"] = dict(sorted(known["facts"].items()))
    path.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


def main(arguments: list[str]) -> None:
    """Compile everything, or some tools, for this kernel, and print the facts; or add facts to a file."""
    if arguments[:1] == ["--into"]:
        add(Path(arguments[1]), sys.stdin.read())
        return
    from pyebpf.runtime.loaded import Loaded
    from pyebpf.target import Recorder

    with Loaded() as loaded:
        recorder = Recorder(loaded.target())
        for feature in FEATURES:
            recorder.has(feature)
        for _, tool, options in command_lines():
            if arguments and tool.name not in arguments:
                continue
            with suppress(NotSupported):  # a kernel whose functions cannot be traced: that is the fact
                try:
                    tool.build(options).compile(recorder)
                except NotFound as error:
                    if not LACKING.search(str(error)):
                        raise
        sys.stdout.write(recorder.to_json())


if __name__ == "__main__":
    main(sys.argv[1:])
