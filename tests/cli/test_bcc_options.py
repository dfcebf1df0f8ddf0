"""Options of bcc's commands that take specifications and patterns: each is taken, or refused with what is instead."""

from __future__ import annotations

from functools import partial

import pytest

from pyebpf.cli import argdist, trace
from pyebpf.cli.bcc_options import ABSENT
from pyebpf.cli.parser import build_parser, parse
from pyebpf.cli.report import UsageError
from pyebpf.programs import funccount, funclatency, funcslower, stackcount
from tests.support.python import ROOT

TOOLS = {each.TOOL.name: each.TOOL for each in (funccount, funclatency, funcslower, stackcount)}
PARSERS = {
    "argdist": argdist.parser,
    "trace": trace.parser,
    **{name: partial(build_parser, tool) for name, tool in TOOLS.items()},
}
#: The options in the synopses of bcc's manual pages and in its commands' --help.
OF_BCC = {
    "argdist": "-h -p -t -z -i -d -n -v -c -T -H -C -I",
    "funccount": "-h -p -i -d -T -r -c -D",
    "stackcount": "-h -p -c -i -D -T -r -s -P -K -U -v -d -f --debug",
    "funclatency": "-h -p -i -d -T -u -m -F -r -l -v",
    "funcslower": "-h -f -p -U -K -m -u -a -T -t -v --time",
    "trace": "-h -b -p -L --uid -v -z -Z -S -M -t -u -T -C -c -n -f -B -s -K -U -a -I -A",
}
REFUSED = [(command, names) for command, each in ABSENT.items() for names in each]


@pytest.mark.parametrize("command", PARSERS)
def test_every_option_of_bccs_is_known(command: str) -> None:
    """Taken, or refused in words of its own."""
    known = PARSERS[command]()._option_string_actions
    assert set(OF_BCC[command].split()) - set(known) == set()


@pytest.mark.parametrize(("command", "names"), REFUSED)
def test_an_option_that_is_not_here_says_what_is(command: str, names: tuple[str, str]) -> None:
    """By either name, with a value behind it or not; the page's table has the same."""
    told = f"{'/'.join(names)} is bcc's and not here: {ABSENT[command][names]}"
    for name in names:
        with pytest.raises(UsageError) as caught:
            PARSERS[command]().parse_args([name, "value", "f"])
        assert str(caught.value) == told


def test_the_page_lists_the_options_that_are_refused() -> None:
    """With the same words, and no others."""
    page = (ROOT / "docs" / "bcc.md").read_text()
    section = page.partition("are refused:\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert rows == [
        f"| {command} | {', '.join(f'`{name}`' for name in names)} | {instead} |"
        for command, each in ABSENT.items()
        for names, instead in each.items()
    ]


@pytest.mark.parametrize("name", ["funccount", "funclatency"])
def test_an_interval_is_an_option_too(name: str) -> None:
    """With its letter behind others, as in bcc's examples; given twice it is refused, and so is no time."""
    for arguments in (["-Ti", "5", "vfs_read"], ["vfs_read", "--interval=5", "-T"], ["-T", "vfs_read", "5"]):
        _, common = parse(TOOLS[name], arguments)
        assert (common.interval, common.timestamps) == (5.0, True)
    with pytest.raises(UsageError, match="give the interval once: by itself or with --interval"):
        parse(TOOLS[name], ["-i", "5", "vfs_read", "5"])
    with pytest.raises(UsageError, match="argument -i/--interval: '0' is not a time above 0"):
        parse(TOOLS[name], ["-i", "0", "vfs_read"])


@pytest.mark.parametrize("arguments", [["t:a:b():int:args->c"], ["5", "t:a:b()"], ["-C", "t:a:b()", "p::f()", "5"]])
def test_a_specification_without_an_option_is_told_as_one(arguments: list[str]) -> None:
    """In the place of the interval, and of the count."""
    with pytest.raises(UsageError, match=r"^argument (interval|count): '.*' is a specification: give -C SPEC or -H"):
        argdist.parser().parse_args(arguments)


@pytest.mark.parametrize("name", ["funccount", "funclatency", "stackcount"])
def test_a_second_pattern_is_told_as_one(name: str) -> None:
    """In the place of the seconds; what is a number, and a wrong one, is not."""
    with pytest.raises(UsageError, match="'c:free' is not a number; it takes one pattern, such as"):
        parse(TOOLS[name], ["c:malloc", "c:free"])
    with pytest.raises(UsageError, match=r"above 0, in seconds$"):
        parse(TOOLS[name], ["c:malloc", "0"])
    with pytest.raises(UsageError, match=r"unrecognized arguments: 7$"):
        parse(TOOLS[name], ["c:malloc", "1", "5", "7"] if name != "stackcount" else ["c:malloc", "1", "7"])


def test_a_second_function_is_told_apart() -> None:
    """From what is no argument: bcc's funcslower takes several. A number is the seconds."""
    with pytest.raises(UsageError, match=r"unrecognized arguments: 5; seconds are --duration 5$"):
        parse(TOOLS["funcslower"], ["c:malloc", "5"])
    with pytest.raises(UsageError, match="unrecognized arguments: c:free; it takes one pattern, such as"):
        parse(TOOLS["funcslower"], ["c:malloc", "c:free"])
    with pytest.raises(UsageError, match=r"^unrecognized arguments: -x$"):
        parse(TOOLS["funcslower"], ["c:malloc", "-x"])
