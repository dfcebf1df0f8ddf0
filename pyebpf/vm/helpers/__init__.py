"""Emulated helpers, one file a subject; importing this lists them all in `HELPERS`."""

from pyebpf.vm.helpers import dynptr, maps, network, output, text, tracing
from pyebpf.vm.helpers.registry import HELPERS, emulates

__all__ = ["HELPERS", "dynptr", "emulates", "maps", "network", "output", "text", "tracing"]
