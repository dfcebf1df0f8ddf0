"""Kernel objects made from specs: each owns one descriptor."""

from pyebpf.objects.map import Map, PerCpuValues
from pyebpf.objects.program import Program

__all__ = ["Map", "PerCpuValues", "Program"]
