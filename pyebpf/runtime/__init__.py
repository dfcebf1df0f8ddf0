"""Compile, load, attach, read, close: `BPF`, on the machine that runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.lazy import lazy_names

if TYPE_CHECKING:
    from pyebpf.runtime.bpf import BPF
    from pyebpf.runtime.host import host_target

__all__ = ["BPF", "host_target"]

__getattr__ = lazy_names(__name__, {"bpf": ("BPF",), "host": ("host_target",)})
