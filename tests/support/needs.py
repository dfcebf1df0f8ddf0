"""The one way to skip a test: it names what it needs, and a probe says no.

    needs("isa:sdiv", "kfunc:bpf_iter_num_new", "tracepoint:tcp:tcp_probe")

A skip reads "probe NAME: no"; `tests.vm.report` counts any other as a failure. A probe that cannot tell fails the test,
and so does a "no" on a kernel of the test bed that is newer than the feature (`tests.support.releases`).
A test of what happens where a feature is missing says `lacks("attach:kprobe")`, and is skipped by "probe NAME: yes".
"""

from __future__ import annotations

import errno
import os
import platform
import shutil
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.release import kernel_release
from tests.support.releases import overdue

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.btf import Btf


def needs(*names: str) -> None:
    """Skip the running test unless every probe says yes; a name's first word is its kind.

    All kinds of `pyebpf.features`, and those of PROBES. Fails the test for a probe that cannot tell.
    """
    for name in names:
        _skip_if(name, "no")


def lacks(*names: str) -> None:
    """Skip the running test unless every probe says no."""
    for name in names:
        _skip_if(name, "yes")


def unless(there: object, name: str) -> None:
    """Skip the running test if what it is about, looked for by the test itself, is not there; `name` as of a probe."""
    if not there:
        pytest.skip(f"probe {name}: no")


def needs_functions() -> None:
    """Skip the running test where no function of the kernel can be traced, in whatever way."""
    from pyebpf.features import Features  # as in `_skip_if`

    if all(Features(_btf).ask(way).value == "no" for way in ("attach:fentry", "attach:kprobe_multi")):
        needs("attach:kprobe")


def needs_messages() -> None:
    """Skip the running test where neither tracepoints nor functions tell of messages of sockets."""
    if not PROBES["tracepoint"]("sock:sock_send_length"):
        needs_functions()


def perf_way() -> str:
    """How this kernel holds a program on a perf event, as `Link.how` says it: links came with Linux 5.15."""
    from pyebpf.features import Features

    return "perf link" if Features().ask("attach:perf").value == "yes" else "perf ioctl"


def _skip_if(name: str, unwanted: str) -> None:
    kind, _, what = name.partition(":")
    if kind in PROBES:
        answer = "yes" if PROBES[kind](what) else "no"
    else:
        from pyebpf.features import Features  # here, so that tests of the pure half can ask for programs

        answer = Features(_btf).ask(name).value
    if answer == unwanted == "no" and (reason := overdue(name)):
        pytest.fail(f"probe {name}: no, but {reason}")
    if answer == unwanted:
        pytest.skip(f"probe {name}: {answer}")
    if answer not in {"yes", "no"}:
        pytest.fail(f"probe {name}: {answer}")


@cache
def _btf() -> Btf:
    from pyebpf.btf import Btf
    from pyebpf.kernel.btf_files import read_btf

    return Btf(read_btf())


def _device(name: str) -> bool:
    from tests.vm.devices import DEVICES

    return DEVICES[name].present()


def _module(name: str) -> bool:
    # A module's folder is there once it is loaded; of built-in ones only those with parameters have one, so the
    # list that comes with a kernel's modules is asked too. A parameter may stand behind the name.
    name = name.split(maxsplit=1)[0]
    if Path("/sys/module", name.replace("-", "_")).is_dir():
        return True
    builtin = Path("/lib/modules", platform.release(), "modules.builtin")
    if not builtin.exists() and name in _FUNCTIONS:
        return _function(_FUNCTIONS[name])  # a kernel without its modules' folder
    return builtin.exists() and any(
        Path(line).name.partition(".")[0].replace("-", "_") == name.replace("-", "_")
        for line in builtin.read_text().splitlines()
    )


#: A function of each module that a kernel may have built in without showing it.
_FUNCTIONS = {
    "cls_bpf": "cls_bpf_classify",
    "nf_conntrack_netlink": "ctnetlink_new_conntrack",
    "sch_ingress": "clsact_init",
    "veth": "veth_xmit",
}


def _iterator(name: str) -> bool:
    """Whether the kernel has an iterator, and takes a program for it: one locked down refuses those over entries."""
    from pyebpf import BPF
    from pyebpf.features.loading import Load, attempt, finish, target_of
    from pyebpf.uapi.attach_types import AttachType
    from pyebpf.uapi.bpf import ProgramType

    if name not in BPF.iterators():
        return False
    load = Load(AttachType.TRACE_ITER, target=f"bpf_iter_{name}")
    return attempt(finish(), ProgramType.TRACING, load=load, target=target_of(load, _btf) or 0).errno != errno.EPERM


def _member(path: str) -> bool:
    """Whether BTF's struct or union has a member: "bpf_iter_link_info.task"."""
    from pyebpf.btf import Kind

    name, _, member = path.partition(".")
    return any(member in _btf().members(number) for number in _btf().find(name, {Kind.STRUCT, Kind.UNION}))


def _tracepoint(name: str) -> bool:
    from pyebpf.kernel.tracefs import Tracefs

    category, _, event = name.partition(":")
    with Tracefs() as files:
        return category in files.categories() and event in files.events(category)


@cache
def _mounts() -> list[tuple[str, str]]:
    from pyebpf.kernel.mounts import mount_points

    return mount_points()


def _function(name: str) -> bool:
    with Path("/proc/kallsyms").open() as lines:
        return any(line.split()[2] == name and line.split()[1] in "tT" for line in lines)


@cache
def _variable(name: str) -> bool:
    """Whether the kernel lists a variable (CONFIG_KALLSYMS_ALL): only then programs find it by BTF."""
    with Path("/proc/kallsyms").open() as lines:
        return any(line.split()[2] == name and line.split()[1] not in "tT" for line in lines)


def _btf_variable(name: str) -> bool:
    """Whether the kernel's BTF has a variable, which Debian's 5.10 lacks: only then it has a type."""
    from pyebpf.btf import Kind

    return bool(_btf().find(name, (Kind.VAR,)))


PROBES: dict[str, Callable[[str], bool]] = {
    "arch": lambda name: platform.machine() == name,
    "btf_variable": _btf_variable,
    # A program that the test bed need not have, unlike a "command".
    "browser": lambda name: shutil.which(name) is not None,
    "command": lambda name: shutil.which(name) is not None,
    "device": _device,
    "function": _function,
    "iterator": _iterator,
    # What no probe of pyebpf asks: a kernel without it goes down, or refuses what the test is about: "kernel:6.1" and
    # later ones have it.
    "kernel": lambda release: kernel_release() >= tuple(map(int, release.split("."))),
    "member": _member,
    "module": _module,
    "mount": lambda kind: any(kind == found for found, _ in _mounts()),
    "tracepoint": _tracepoint,
    "variable": _variable,
    # Files of sysfs, procfs and /dev by which a kernel shows a driver or a setting.
    "setting": lambda path: Path(path).exists(),
    "user": lambda name: name == "root" and os.geteuid() == 0,
}
