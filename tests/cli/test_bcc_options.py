"""Options of bcc's argdist and trace: each is taken, or refused with what there is instead."""

from __future__ import annotations

import pytest

from pyebpf.cli import argdist, trace
from pyebpf.cli.bcc import ABSENT
from pyebpf.cli.report import UsageError
from tests.support.python import ROOT

PARSERS = {"argdist": argdist.parser, "trace": trace.parser}
#: The options in the synopses of bcc's manual pages and in its commands' --help.
OF_BCC = {
    "argdist": "-h -p -t -z -i -d -n -v -c -T -H -C -I",
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
