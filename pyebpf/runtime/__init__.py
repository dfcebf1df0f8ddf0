"""Compile, load, attach, read, close: `BPF`, on the machine that runs it."""

from pyebpf.runtime.bpf import BPF
from pyebpf.runtime.host import host_target

__all__ = ["BPF", "host_target"]
