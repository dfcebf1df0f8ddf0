"""Kernel objects made from specs: each owns one descriptor."""

from pyebpf.maps.mapping import PerCpuValues
from pyebpf.objects.map import KernelMap
from pyebpf.objects.opening import Map, make_map, open_map
from pyebpf.objects.program import Program

__all__ = ["KernelMap", "Map", "PerCpuValues", "Program", "make_map", "open_map"]
