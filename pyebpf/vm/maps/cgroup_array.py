"""Control groups to test for."""

from __future__ import annotations

from pyebpf.vm.maps.base import VmMap


class CgroupArrayMap(VmMap):
    """BPF_MAP_TYPE_CGROUP_ARRAY: `groups` are ids of control groups by index."""

    def begin(self) -> None:
        self.groups: dict[int, int] = {}
