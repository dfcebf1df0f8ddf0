"""Kernel objects made from specs: each owns one descriptor."""

from pyebpf.objects.map import Map, PerCpuValues

__all__ = ["Map", "PerCpuValues"]
