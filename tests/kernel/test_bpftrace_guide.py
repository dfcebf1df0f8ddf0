"""The examples of docs/bpftrace.md are compiled for this kernel."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from pyebpf.script import Script
from tests.support.needs import needs

PAGE = (Path(__file__).parents[2] / "docs" / "bpftrace.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```bt\n(.*?)```", PAGE, re.DOTALL)
ONE_LINERS = re.findall(r"pyebpf -e '([^'P].*?)'", PAGE)


#: Programs in Python, and what stands below the first.
IN_PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PRINTED = re.search(r"```python\n.*?```\n\n```\n(.*?)```", PAGE, re.DOTALL)
#: The program that examples with debugging information are about. The line that they name is in its function.
SERVER = """struct request { char *path; struct { long length; } body; };
#line 119 "server.c"
__attribute__((noinline)) int handle_request(struct request *req, int status) {
    return status + (int)req->body.length;
}
int handle(int fd) __asm__("_ZN5MyApp6Server6handleEi");  // of C++, without its compiler
int handle(int fd) { return fd; }
int main(int argc, char **argv) { struct request request = { argv[0], { argc } }; return handle_request(&request, 1); }
"""


@pytest.mark.parametrize("text", [*EXAMPLES, *ONE_LINERS])
def test_an_example_is_compiled(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its attach points becomes a program."""
    if "socket_cookie" in text:
        needs("helper:get_socket_cookie@tracing")
    if "dw_ustack" in text:
        needs("helper:task_pt_regs@perf_event")
    if "./server" in text:
        needs("command:gcc")
        monkeypatch.chdir(tmp_path)
        subprocess.run(["gcc", "-g", "-x", "c", "-o", "server", "-"], input=SERVER, text=True, check=True)
    if "server.c" in text:
        needs("attach:uprobe")
        with Script(text):  # the line is looked for where it is attached
            return
    assert Script(text, ["1"]).specs().programs


def test_maps_are_read_in_python(capsys: pytest.CaptureFixture[str]) -> None:
    """The page shows what the example prints."""
    assert PRINTED is not None
    exec(IN_PYTHON[0], {"__name__": "__main__"})
    assert capsys.readouterr().out == PRINTED[1]


def test_output_is_read_in_python(capsys: pytest.CaptureFixture[str]) -> None:
    """As JSON, until the time is over."""
    exec(IN_PYTHON[1], {"Script": Script})
    (line,) = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    assert found["type"] == "map"
    assert 0 < found["data"]["@"] <= 51


def test_the_page_has_examples() -> None:
    """As many as this file found."""
    assert (len(EXAMPLES), len(ONE_LINERS)) == (11, 14)
