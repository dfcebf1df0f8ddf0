"""Event readers: ring buffers and perf buffers, as decoded records."""

from pyebpf.events.perf_buffer import PerfBuffer
from pyebpf.events.ring import RingBuffer
from pyebpf.events.stream import EventStream

__all__ = ["EventStream", "PerfBuffer", "RingBuffer"]
