"""Kernel objects made from specs: each owns one descriptor."""

from pyebpf.maps.mapping import PerCpuValues
from pyebpf.objects.map import KernelMap, Map, make_map
from pyebpf.objects.program import Program

__all__ = ["KernelMap", "Map", "PerCpuValues", "Program", "make_map"]
