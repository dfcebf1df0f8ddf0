"""Kernel objects made from specs: each owns one descriptor."""

from pyebpf.objects.kernel_map import KernelMap
from pyebpf.objects.map import Map, PerCpuValues
from pyebpf.objects.opening import make_map, open_map
from pyebpf.objects.program import Program

__all__ = ["KernelMap", "Map", "PerCpuValues", "Program", "make_map", "open_map"]
