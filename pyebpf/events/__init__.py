"""Event readers: ring buffers and perf buffers, as decoded records; and the writer of user ring buffers."""

from pyebpf.events.perf_buffer import PerfBuffer
from pyebpf.events.ring import RingBuffer
from pyebpf.events.stream import EventStream
from pyebpf.events.user_ring import UserRingBuffer

__all__ = ["EventStream", "PerfBuffer", "RingBuffer", "UserRingBuffer"]
