"""Tools that are not pyebpf's own: a file's, by `pyebpf run`, and those of other distributions."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pyebpf.tool import SummaryTool

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs/examples/connect_latency.py"


def pyebpf(*arguments: object, path: Path | None = None) -> tuple[int, str, str]:
    """Exit status, output and errors of the command; `path` is where more distributions are."""
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{ROOT}:{path or ''}"}
    done = subprocess.run(
        [sys.executable, "-m", "pyebpf", *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_file_with_a_tool_has_its_help_and_its_usage_errors():
    """As a tool's command: options, examples, one line and status 2 for what it does not take."""
    status, out, err = pyebpf("run", EXAMPLE, "--help")
    assert (status, err) == (0, "")
    assert out.startswith(f"usage: pyebpf run {EXAMPLE}")
    assert f"  pyebpf run {EXAMPLE} -x" in out
    assert "pyebpf connect-latency" not in out
    status, out, err = pyebpf("run", EXAMPLE, "--fast")
    assert (status, out) == (2, "")
    assert err == (f"pyebpf run {EXAMPLE}: unrecognized arguments: --fast; see pyebpf run {EXAMPLE} --help\n")


def test_a_script_whose_tool_is_something_else(tmp_path):
    """It may be a name of the script's own; the line says so."""
    path = tmp_path / "script.py"
    path.write_text("TOOL = 'hammer'\n")
    status, out, err = pyebpf("run", path)
    assert (status, out) == (2, "")
    assert f"{path}: TOOL is 'hammer', and must be a tool of pyebpf.tool, or have another name" in err


WRONG = """\
from pyebpf import BPF, XDP_DROP, XDP_PASS, XdpContext
from pyebpf.tool import SummaryTool, dataclass, option


@dataclass(frozen=True)
class Options:
    \"\"\"Options.\"\"\"

    first: int = option("--first", default=0, help="first interface")


def build(options: Options) -> BPF:
    bpf = BPF()

    @bpf.xdp()
    def on_frame(ctx: XdpContext) -> int:
        if ctx.ingress_ifindex < 0:
            return XDP_DROP
        return XDP_PASS

    return bpf


TOOL = SummaryTool(name="wrong", doc="Wrong.", tracing="frames", options=Options, build=build, snapshot=lambda *_: [])
"""


def test_a_tool_whose_probe_is_wrong(tmp_path):
    """Its author sees the line, the source and a caret."""
    path = tmp_path / "wrong.py"
    path.write_text(WRONG)
    status, out, err = pyebpf("run", path, "--dump")
    assert (status, out) == (1, "")
    first, source, caret = err.splitlines()
    assert first.startswith(f"pyebpf run: {path}:17: a u32 < 0 is never true")
    assert source.strip() == "if ctx.ingress_ifindex < 0:"
    assert set(caret.strip()) == {"^"}


@pytest.fixture
def distribution(tmp_path):
    """A function that installs a module with a tool under names of entry points."""

    def install(**entries: str) -> Path:
        (tmp_path / "others.py").write_text(EXAMPLE.read_text())
        (tmp_path / "broken.py").write_text("import nothing_of_that_name\n")
        info = tmp_path / "others-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
        lines = "\n".join(f"{name} = {value}" for name, value in entries.items())
        (info / "entry_points.txt").write_text(f"[pyebpf.tools]\n{lines}\n")
        return tmp_path

    return install


def test_tools_of_other_distributions_are_listed_and_run(distribution):
    """By the name of their entry point; one of a name that pyebpf has is not taken."""
    path = distribution(**{"connect-latency": "others:TOOL"}, opensnoop="others:TOOL")
    status, out, err = pyebpf("list", path=path)
    assert (status, err) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert lines["connect-latency"].startswith("connect(2) calls: a line for each")
    assert lines["opensnoop"].startswith("open(2) calls")
    status, out, err = pyebpf("connect-latency", "--help", path=path)
    assert (status, err) == (0, "")
    assert "usage: pyebpf connect-latency" in out
    assert "usage: pyebpf opensnoop" in pyebpf("opensnoop", "--help", path=path)[1]


def test_tools_of_other_distributions_that_fail(distribution):
    """One line each, and all the others are listed."""
    path = distribution(lost="broken:TOOL", wrong="others:__doc__", **{"connect-latency": "others:TOOL"})
    status, out, err = pyebpf("list", path=path)
    assert status == 0
    assert "connect-latency " in out
    assert "opensnoop " in out
    assert sorted(re.findall(r"tool (\w+) \(", err)) == ["lost", "wrong"]
    assert "No module named 'nothing_of_that_name'" in err
    assert pyebpf("lost", path=path)[0] == 2
    assert "not a tool of pyebpf.tool" in pyebpf("wrong", path=path)[2]
    assert "connect-latency" in pyebpf("connect-latenc", path=path)[2]


def test_the_page_has_the_example():
    """docs/write-a-tool.md shows the file, and its other programs declare what they say."""
    page = (ROOT / "docs/write-a-tool.md").read_text(encoding="utf-8")
    assert f"```python\n{EXAMPLE.read_text(encoding='utf-8')}```" in page
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    blocks = [block for block in blocks if not block.startswith('"""Count the stacks')]  # another example
    assert len(blocks) == 5
    names: dict[str, object] = {"__name__": "page"}
    exec(compile(blocks[1], "page", "exec"), names)
    assert {"requests", "latency", "on_issue", "on_complete"} <= names.keys()
    exec(compile(blocks[2], "page", "exec"), names)
    names["build"](names["Options"](pid=1))
    modes = next(block for block in blocks if "modes=" in block)
    names["__name__"] = "modes"
    exec(compile(modes, "page", "exec"), names)
    for counts in (False, True):
        mode = names["TOOL"].mode(names["Options"](counts=counts))
        assert isinstance(mode, SummaryTool) is counts
        assert names["build"](names["Options"](counts=counts)).maps
