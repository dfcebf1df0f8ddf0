"""The library example of a tool's page, run as it is copied, and what it prints of a workload."""

from __future__ import annotations

import re
import subprocess
import tempfile
from typing import TYPE_CHECKING

from tests.support.python import ROOT, python
from tests.support.waiting import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

#: A summary's example waits for a second: here, for the end of the workload.
SECOND, WORKLOAD = "time.sleep(1)", "print('attached'); input()"
#: What tools of stacks wait for, and for how long here.
COLLECTED, SHORT = "collect(5.0)", "collect(1.0)"


def check_example(tool: str, work: Callable[[], None], pattern: str) -> None:
    """Assert that a tool's example prints the pattern: event tools as things happen, summaries after the workload."""
    page = (ROOT / "docs" / "tools" / f"{tool}.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    script = example.replace(SECOND, WORKLOAD).replace(COLLECTED, SHORT)
    with (
        tempfile.TemporaryFile("w+") as out,
        python("-u", "-c", script, cwd=ROOT, stdin=subprocess.PIPE, stdout=out, stderr=out, text=True) as process,
    ):

        def printed() -> str:
            out.seek(0)
            return out.read()

        def seen() -> object:
            if SECOND not in example:
                work()
            assert process.poll() in (None, 0), printed()
            return re.search(pattern, printed())

        try:
            if SECOND in example:
                wait_until(lambda: "attached" in printed() or process.poll() is not None, printed)
                work()
                process.communicate("\n", timeout=PATIENCE)
            wait_until(seen, printed, seconds=PATIENCE)
        finally:
            process.kill()
