"""The guide's Python is run: as examples of docs/examples, or here."""

from __future__ import annotations

import linecache
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.findall(
    r"^```python\n(.*?)^```$", (ROOT / "docs" / "guide.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
)
EXAMPLES = {path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "examples").glob("*.py")}


def defined(function):
    """What the guide's block that defines this function defines."""
    (source,) = [block for block in BLOCKS if f"def {function}(" in block]
    file = f"<guide: {function}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names = {"__name__": "guide"}
    exec(compile(source, file, "exec", dont_inherit=True), names)
    return names


def test_every_block_is_run():
    """Each is an example that has its own test, or one of the two below."""
    own = [block for block in BLOCKS if block not in EXAMPLES]
    assert [("def count_opens" in block, "def check" in block) for block in own] == [(True, False), (False, True)]
    assert len(BLOCKS) > len(own)


def test_a_library_counts_what_its_process_opens():
    """Three opens of one file and five of another."""

    def action():
        for path in ["/dev/null"] * 3 + ["/dev/zero"] * 5:
            os.close(os.open(path, os.O_RDONLY))

    paths = defined("count_opens")["count_opens"](action, os.getpid())
    assert (paths["/dev/null"], paths["/dev/zero"]) == (3, 5)


def test_recorded_facts_are_enough_for_a_process_without_them(tmp_path):
    """`check` runs in another process, from the text alone."""
    (source,) = [block for block in BLOCKS if "def check(" in block]
    facts = tmp_path / "facts.json"
    facts.write_text(defined("check")["record"](), encoding="utf-8")
    script = tmp_path / "checked.py"
    script.write_text(
        f"{source}\n\nimport pathlib, sys\ncheck(pathlib.Path(sys.argv[1]).read_text())\n", encoding="utf-8"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    assert subprocess.run([sys.executable, script, facts], cwd=ROOT, env=environment, check=False).returncode == 0
