"""Options of bcc's tools that the tools of the same names do not have, and what to write instead."""

from __future__ import annotations

from argparse import SUPPRESS, Action, ArgumentParser

_HEADERS = "the kernel's BTF has the types, leave it out"
_PATTERNS = "a pattern has *, ? and [...], as in a shell: 'vfs_*' for '^vfs_.*'"
_CODE = "--dump prints the bytecode"
_AT_THE_END = "stacks are printed once, at the end"
#: By command: the names of each, and the answer. docs/bcc.md lists them.
ABSENT: dict[str, dict[tuple[str, ...], str]] = {
    "argdist": {("-I", "--include"): _HEADERS},
    "trace": {
        ("-a", "--address"): "stacks are printed without addresses",
        ("-A", "--aggregate"): "pyebpf funccount and pyebpf argdist -C count events",
        ("-b", "--buffer-pages"): "the buffer has a fixed size: a predicate leaves out events before they are in it",
        ("-B", "--bin_cmp"): "STRCMP compares texts",
        ("-c", "--cgroup-path"): 'write a predicate: (cgroup == cgroupid("/sys/fs/cgroup/PATH"))',
        ("-I", "--include"): _HEADERS,
        ("-s", "--sym_file_list"): "the files of each process are found without a list",
    },
    "funccount": {("-r", "--regexp"): _PATTERNS, ("-D", "--debug"): _CODE},
    "funclatency": {
        ("-r", "--regexp"): _PATTERNS,
        ("-l", "--level"): "calls within calls are kept apart, however many there are",
    },
    "funcslower": {
        ("-f", "--folded"): "a call is a line, with its stack below it; pyebpf stackcount -f prints folded stacks",
        ("--time",): "write -T or --timestamps",
    },
    "stackcount": {
        ("-i", "--interval"): f"{_AT_THE_END}: write the seconds behind the pattern",
        ("-T", "--timestamp"): _AT_THE_END,
        ("-D",): "write --duration SECONDS, or the seconds behind the pattern",
        ("-r", "--regexp"): _PATTERNS,
        ("-s", "--offset"): "functions are printed without offsets; --source lines has the lines of their source",
        ("-P", "--perpid"): "a stack is always counted by process, whose name and number stand below it",
        ("--debug",): _CODE,
    },
}
#: Arguments that bcc's tools take several of, and those of the same names do not.
SINGLE = dict.fromkeys(
    ("funccount", "funclatency", "funcslower", "stackcount"),
    "; it takes one pattern, such as 'c:*alloc': start it once for each",
)


class _Absent(Action):
    """An option that is refused, with what there is instead."""

    def __call__(self, parser: ArgumentParser, *_: object) -> None:
        parser.error(f"{'/'.join(self.option_strings)} is bcc's and not here: {self.const}")


def refuse_absent(parser: ArgumentParser, name: str) -> None:
    """Declare the options of bcc's tool of this name that are missing here."""
    for names, instead in ABSENT.get(name, {}).items():
        parser.add_argument(*names, action=_Absent, nargs=0, const=instead, help=SUPPRESS)
