"""Interpreter of eBPF programs: any program, on any operating system, without privileges.

`run` runs one program; a `Machine` keeps maps and surroundings for several. docs/vm.md has the details.
"""

from pyebpf.vm.machine import Machine, Result, run
from pyebpf.vm.maps import VmMap

__all__ = ["Machine", "Result", "VmMap", "run"]
