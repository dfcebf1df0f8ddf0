"""The examples of docs/bpftrace.md are compiled for this kernel."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyebpf.script import Script
from tests.support.needs import needs

PAGE = (Path(__file__).parents[2] / "docs" / "bpftrace.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```bt\n(.*?)```", PAGE, re.DOTALL)
ONE_LINERS = re.findall(r"pyebpf -e '([^'P].*?)'", PAGE)


@pytest.mark.parametrize("text", [*EXAMPLES, *ONE_LINERS])
def test_an_example_is_compiled(text: str) -> None:
    """Each of its attach points becomes a program."""
    if "socket_cookie" in text:
        needs("helper:get_socket_cookie@tracing")
    assert Script(text, ["1"]).specs().programs


def test_the_page_has_examples() -> None:
    """As many as this file found."""
    assert (len(EXAMPLES), len(ONE_LINERS)) == (11, 6)
