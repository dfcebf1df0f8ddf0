"""Hooks of the Linux security modules: for the whole machine, or for the processes of a control group."""

from __future__ import annotations

import os
from typing import Any

from pyebpf.dataclass import dataclass, replace
from pyebpf.errors import InvalidValue
from pyebpf.specs.attach.base import AttachSpec
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import ProgramType
from pyebpf.uapi.flags import BPF_F_SLEEPABLE

__all__ = ["Lsm", "LsmCgroup"]


@dataclass(frozen=True, slots=True)
class Lsm(AttachSpec):
    """The hook `hook` ("file_open"), as include/linux/lsm_hook_defs.h names it. `sleepable` programs may fault."""

    hook: str
    sleepable: bool = False

    kind = ProgramType.LSM

    def __str__(self) -> str:
        return f"LSM {self.hook}"

    @property
    def attach_type(self) -> int:
        return AttachType.LSM_MAC

    @property
    def load_flags(self) -> int:
        return BPF_F_SLEEPABLE if self.sleepable else 0

    @property
    def target(self) -> str:
        return self.hook


@dataclass(frozen=True, slots=True)
class LsmCgroup(AttachSpec):
    """The hook `hook` for processes and sockets of the control group at `path`; open if that is empty."""

    hook: str
    path: str = ""

    kind = ProgramType.LSM

    def __str__(self) -> str:
        return f"LSM {self.hook}" + (f" of control group {self.path}" if self.path else " of a control group")

    @property
    def attach_type(self) -> int:
        return AttachType.LSM_CGROUP

    @property
    def target(self) -> str:
        return self.hook

    @property
    def is_open(self) -> bool:
        return not self.path

    def at(self, *place: Any, **options: Any) -> LsmCgroup:
        """The same hook of a control group, named by its directory."""
        if len(place) != 1 or options or self.path:
            raise InvalidValue(f"{self} is attached by probe.attach(directory), of a control group")
        return replace(self, path=os.fspath(place[0]))
