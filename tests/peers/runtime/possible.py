"""What of bpftrace's run-time tests this machine can run: why one cannot be tried here, by a probe that was asked."""

from __future__ import annotations

import errno
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.needs import PROBES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.peers.runtime.cases import Case

#: Probes by the word that begins an attach point in a test's program.
_PROVIDERS = {
    r"k(probe)?": "attach:kprobe",
    r"kr(etprobe)?": "attach:kprobe",
    r"fentry|fexit|kfunc|kretfunc|f|fr": "attach:fentry",
    r"hardware|h": "perf:hardware",
    r"watchpoint|w|asyncwatchpoint|aw": "perf:watchpoint",
}
_ATTACH_POINT = r"(?<![\w:/.$@])({}):(?=[\w*$./\"{{])"
#: Probes by bpftrace's names of features; all others are there wherever pyebpf runs, or are no matter of the kernel.
_FEATURES = {
    "fentry": "attach:fentry",
    "dpath": "attach:fentry",
    "kprobe_multi": "attach:kprobe_multi",
    "kprobe_session": "attach:kprobe_multi",
    "uprobe_multi": "attach:uprobe_multi",
}


@cache
def _has_symbols_of_variables() -> bool:
    """Whether the kernel keeps the addresses of variables (CONFIG_KALLSYMS_ALL)."""
    return any(line.split()[1:3] == ["D", "init_task"] for line in Path("/proc/kallsyms").read_text().splitlines())


#: What tests take for granted, by what they say.
_NEEDS: dict[str, tuple[str, Callable[[], object]]] = {
    r"percpu_kaddr\(|\"jiffies\"": ("config:KALLSYMS_ALL", _has_symbols_of_variables),
    r"\| *bc\b|\bbc <<<|\bbc\)": ("program:bc", lambda: shutil.which("bc")),
    "/sys/kernel/debug/tracing": ("mount:debugfs", Path("/sys/kernel/debug/tracing").exists),
}


def why_not(case: Case, folder: Path) -> str:
    """Why a test cannot be tried on this machine; "" if it can."""
    # A list has only what there is.
    lists = [text for _, text in case.expects] if re.search(r" (-l|--list)", case.run) else []
    text = "\n".join([*_texts(case, folder), *lists])
    for pattern, probe in _PROVIDERS.items():
        if re.search(_ATTACH_POINT.format(pattern), text) and not _has(probe):
            return f"probe {probe}: no"
    for name in case.features:
        probe = _FEATURES.get(name.removeprefix("!"), "")
        if probe and _has(probe) == name.startswith("!"):
            return f"probe {probe}: {'yes' if name.startswith('!') else 'no'}"
    if case.least and not PROBES["kernel"](".".join(case.least.split(".")[:2])):
        return f"probe kernel:{case.least}: no"
    for pattern, (probe, is_there) in _NEEDS.items():
        if re.search(pattern, case.text) and not is_there():
            return f"probe {probe}: no"
    for need in case.requires:
        done = subprocess.run(need, shell=True, cwd=folder, capture_output=True, check=False)
        if done.returncode:
            return f"needs {need}"
    return ""


def needs_program(case: Case, folder: Path) -> bool:
    """Whether it runs one of bpftrace's own test programs that is not built, or a script that does."""
    names = [name for each in _texts(case, folder) for name in re.findall(r"test(?:progs|libs)/[\w.*-]*", each)]
    return any(not (folder / name).is_file() for name in names)


def _texts(case: Case, folder: Path) -> list[str]:
    """The test's own text, and those of the scripts that it runs."""
    scripts = re.findall(r"runtime/scripts/\S+", case.text)
    return [case.text, *((folder / each).read_text() for each in scripts)]


@cache
def _has(probe: str) -> bool:
    kind, _, what = probe.partition(":")
    if kind == "perf":
        return _has_perf_event(what)
    from pyebpf.features import Features
    from tests.support.needs import _btf

    return Features(_btf).ask(probe).value == "yes"


def _has_perf_event(what: str) -> bool:
    """Whether this machine counts cycles, or watches an address."""
    from pyebpf.errors import KernelError
    from pyebpf.script import Script

    text = {"hardware": "hardware:cpu-cycles:1000000 { }"}.get(what)
    if text is None:
        return True
    try:
        with Script(text):
            return True
    except KernelError as error:
        return error.errno not in (errno.ENOENT, errno.EOPNOTSUPP)
