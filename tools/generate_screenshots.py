"""The pictures of docs/pictures/: what the commands of `SHOTS` draw of small workloads, as Chromium shows it.

    python -m tools.generate_screenshots [NAME ...]

Needs root, Chromium, and a kernel that the tools of `SHOTS` run on. Each command is one that a page of docs/ names.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyebpf.dataclass import dataclass
from tests.support.browser import Browser

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
PYEBPF = (sys.executable, "-m", "pyebpf")

# Processes that are busy, sleep, read and write: in their functions, so that a flame graph has something to show.
BUSY = """\
import hashlib, json, re, time, zlib

def parse(text):
    return [json.loads(line) for line in text.splitlines()]

def search(text):
    return re.findall(r"(\\\\w+)@(\\\\w+)", text)

def pack(text):
    return hashlib.sha256(zlib.compress(text.encode())).hexdigest()

def serve(text):
    parse(text)
    search(text)
    return pack(text)

text = "\\n".join(json.dumps({"user": f"u{n}@host", "values": list(range(n % 50))}) for n in range(400))
while True:
    until = time.monotonic() + 0.3
    while time.monotonic() < until:
        serve(text)
    time.sleep(0.1)
"""
DISK = """\
import os, time
blocks = os.open(".", os.O_TMPFILE | os.O_RDWR)
for number in range(100_000):
    os.pwrite(blocks, os.urandom(4096 << number % 6), number % 64 << 18)
    os.fsync(blocks)
    os.posix_fadvise(blocks, 0, 0, os.POSIX_FADV_DONTNEED)
    os.pread(blocks, 65536, number % 32 << 18)
    time.sleep(0.004)
"""


@dataclass(frozen=True)
class Shot:
    """A screenshot: the commands whose last writes `picture`, or serves a page, beside a workload."""

    name: str
    workload: str
    commands: tuple[str, ...]
    picture: str = ""
    script: str = ""  # run in the page before the screenshot
    after: str = "true"  # what is true once the page shows what is to be seen


_CHOOSE = """\
for (const key of [...Array(4).fill("ArrowRight"), "Enter", "ArrowRight", ...Array(30).fill("ArrowUp"), "Enter"])
  map.dispatchEvent(new KeyboardEvent("keydown", {key}))"""
SHOTS = (
    Shot("flame-graph", BUSY, ("profile --python -p {pid} -F 499 --svg out.svg 5",), "out.svg"),
    Shot("heat-map", BUSY, ("runqlat --heatmap out.svg 0.25 40",), "out.svg"),
    Shot("scatter-plot", DISK, ("biosnoop --scatter out.svg -d 10",), "out.svg"),
    Shot("bars", DISK, ("bitesize --bars out.svg -d 5",), "out.svg"),
    Shot(
        "samples-by-the-second",
        BUSY,
        ("profile -F 99 --python -p {pid} --record cpu.rec 20", "show cpu.rec --subsecond out.html"),
        "out.html",
        _CHOOSE,
    ),
    Shot(
        "live-page",
        DISK,
        ("live biosnoop",),
        after='document.querySelectorAll("#events tbody tr").length > 200 && '
        'document.querySelector("iframe:not(.waiting)")?.contentDocument.querySelectorAll(".cell").length > 99',
    ),
)


def main() -> None:
    """Make the pictures that are named, or all."""
    PICTURES.mkdir(exist_ok=True)
    wanted = sys.argv[1:] or [shot.name for shot in SHOTS]
    for shot in SHOTS:
        if shot.name in wanted:
            with (
                tempfile.TemporaryDirectory(prefix="app", dir="/var/tmp") as folder,
                working(shot.workload, folder) as pid,
            ):
                take(shot, Path(folder), pid)
            print(f"{shot.name}: {(PICTURES / shot.name).with_suffix('.png').stat().st_size} bytes")


@contextmanager
def working(program: str, folder: str) -> Iterator[int]:
    """Three processes of a workload, and the PID of one."""
    Path(folder, "app.py").write_text(program)
    processes = [subprocess.Popen(["/usr/bin/python3", "app.py"], cwd=folder) for _ in range(3)]
    try:
        time.sleep(0.5)
        yield processes[0].pid
    finally:
        for process in processes:
            process.kill()
            process.wait()


def take(shot: Shot, folder: Path, pid: int) -> None:
    """Run the commands and take the screenshot."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with Browser(folder) as browser:
        if shot.picture:
            for command in shot.commands:
                arguments = [*PYEBPF, *command.format(pid=pid).split()]
                subprocess.run(arguments, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
            show(shot, browser, (folder / shot.picture).as_uri())
            return
        (command,) = shot.commands
        live = subprocess.Popen(
            [*PYEBPF, *command.format(pid=pid).split()], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
        )
        try:
            assert live.stdout is not None
            show(shot, browser, live.stdout.readline().strip())
        finally:
            live.send_signal(signal.SIGINT)
            live.wait()


def show(shot: Shot, browser: Browser, address: str) -> None:
    """Open a picture, do what is to be done there, and write the screenshot."""
    browser.open(address)
    browser.until(shot.after)
    if shot.script:
        browser.run(f"{{ {shot.script} }}")
    assert not browser.errors, browser.errors
    browser.picture((PICTURES / shot.name).with_suffix(".png"))


if __name__ == "__main__":
    main()
