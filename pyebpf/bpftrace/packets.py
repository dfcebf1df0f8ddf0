"""Packets that `skboutput()` copies: the perf buffer by which they come, and the capture files that get them."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, TextIO

from pyebpf.compiler.ir import Op
from pyebpf.maps.declared import LoadedMap
from pyebpf.output.sink import Sink
from pyebpf.specs import MapSpec
from pyebpf.types import U64
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import BPF_F_CURRENT_CPU
from pyebpf.uapi.helper_ids import KTIME_GET_BOOT_NS, SKB_OUTPUT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir

#: The name of the map.
PACKETS_MAP = ".packets"
#: Before the bytes of a packet: the number of the file, bytes to leave out at the begin, bytes in all, nanoseconds.
_RECORD = Struct("<4Q")
#: BPF_F_CTXLEN_MASK: a length has so many bits, from this one on.
_LENGTH_BITS, _LENGTH_SHIFT = 20, 32
#: struct pcap_file_header of libpcap: magic, version, time zone, accuracy, longest packet, kind of link (raw IP).
_FILE = Struct("<IHHiIII")
_MAGIC, _MAJOR, _MINOR, _LONGEST, _RAW_IP = 0xA1B2C3D4, 2, 4, (1 << _LENGTH_BITS) - 1, 101
#: struct pcap_pkthdr in a file: seconds, microseconds, bytes in the file, bytes of the packet.
_PACKET = Struct("<4I")


class Packets(LoadedMap):
    """The perf buffer, and the files by number."""

    def __init__(self) -> None:
        self.name = PACKETS_MAP
        self.files: list[str] = []

    @property
    def spec(self) -> MapSpec:
        """The spec of the map that the loader makes."""
        return MapSpec(self.map_name, MapType.PERF_EVENT_ARRAY, None, None, 0)

    def describe(self) -> str:
        return f"the perf buffer {self.map_name}"

    def send(self, p: ProgramBuilder, path: str, packet: ir.Value, length: ir.Value, start: ir.Value) -> ir.Value:
        """Copy the first `length` bytes of a packet for a file, which gets those from `start` on; 0, or an error."""
        if path not in self.files:
            self.files.append(path)
        b = p.b
        slot = b.slot(_RECORD.size, name="packet")
        header = b.slot_address(slot)
        cut = b.binary(Op.AND, length, b.const(_LONGEST))
        for place, word in enumerate((b.const(self.files.index(path)), start, cut, b.call(KTIME_GET_BOOT_NS))):
            b.store(header, U64.size * place, word, U64.size)
        flags = b.binary(Op.OR, b.binary(Op.SHL, cut, b.const(_LENGTH_SHIFT)), b.const(BPF_F_CURRENT_CPU))
        return b.call(SKB_OUTPUT, packet, self.handle(p), flags, header, b.const(_RECORD.size))


class Captures:
    """The capture files of a run. `booted` is when the machine was started, in nanoseconds since the epoch."""

    def __init__(self, files: Sequence[str], booted: int, open_file: Callable[[str], TextIO]) -> None:
        self._files, self._booted, self._open_file = files, booted, open_file
        self._open: dict[int, Sink] = {}

    def write(self, records: Iterable[bytes]) -> None:
        """Write packets as they came. Raises OSError."""
        parts: dict[int, list[bytes]] = {}
        for record in records:
            number, start, length, nanoseconds = _RECORD.unpack_from(record)
            packet = record[_RECORD.size + start : _RECORD.size + length]
            if number not in parts:
                parts[number] = []
                if number not in self._open:
                    self._open[number] = Sink(self._open_file(self._files[number]))
                    parts[number].append(_FILE.pack(_MAGIC, _MAJOR, _MINOR, 0, 0, _LONGEST, _RAW_IP))
            seconds, rest = divmod((self._booted + nanoseconds) // 1000, 10**6)
            parts[number] += (_PACKET.pack(seconds, rest, len(packet), len(packet)), packet)
        for number, each in parts.items():
            self._open[number].write_bytes(b"".join(each))  # by a sink: a FIFO whose reader waits ends with a signal

    def close(self) -> None:
        """Close the files."""
        for each in self._open.values():
            each.stream.close()
        self._open.clear()
