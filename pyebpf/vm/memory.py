"""Memory of an interpreted program: regions in a synthetic 64-bit address space, every access checked.

A pointer is a number. Its upper half names a region, its lower half is the place in it, so that arithmetic is exact and
a pointer that strays leaves its region rather than entering another one.
"""

from __future__ import annotations

from bisect import bisect_right
from struct import Struct
from typing import TYPE_CHECKING

from pyebpf.errors import InvalidValue, VmError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyebpf.vm.maps.base import VmMap

#: Upper half of the first region's address: kernel addresses have their highest bit set.
FIRST = 0x8000_0001
USER_END = 1 << 47
"""Where user addresses end (x86-64 with four levels of page tables)."""
_LOW = 0xFFFF_FFFF
_PAGE = 4096
_FORMATS = {(1, False): "<B", (2, False): "<H", (4, False): "<I", (8, False): "<Q"}
_FORMATS |= {(1, True): "<b", (2, True): "<h", (4, True): "<i"}
_MASK64 = 0xFFFF_FFFF_FFFF_FFFF


class Refusal(VmError):
    """A refused access. `{r}` in the message is the register that held `address`, filled in by who knows it."""

    def __init__(self, message: str, address: int = 0) -> None:
        super().__init__(message)
        self.address = address


class Region:
    """One piece of memory.

    kind      stack, ctx, map_value, map_key, packet, ringbuf_mem, mem, map_ptr, func, kernel, arena: what the verifier
              calls it
    data      its bytes
    written   for each byte whether it was initialised; None: all are
    fields    for a context whose members stand for something else: (offset, size) to the value that a load gives
    aligned   whether loads and stores must lie at multiples of their size (contexts, the stack)
    loadable  whether it may be read at all (not the values of a map with BPF_F_WRONLY_PROG)
    """

    __slots__ = (
        "aligned", "base", "data", "fields", "kind", "loadable", "name", "readable", "size", "writable", "written",
    )  # fmt: skip

    def __init__(
        self,
        kind: str,
        name: str,
        data: bytearray,
        *,
        writable: bool = True,
        written: bytearray | None = None,
        fields: Mapping[tuple[int, int], int] | None = None,
        aligned: bool = False,
        loadable: bool = True,
    ) -> None:
        self.kind = kind
        self.name = name
        self.data = data
        self.size = len(data)
        self.base = 0
        self.writable = writable
        self.written = written
        self.fields = fields
        self.aligned = aligned
        self.loadable = loadable
        plain = written is None and fields is None and kind not in ("kernel", "map_ptr", "func")
        #: Whether a load inside the bounds needs no further check.
        self.readable = plain and loadable and not aligned


class ArenaRegion(Region):
    """An arena's pages. What is not allocated reads as zeros, and forgets what is written."""

    __slots__ = ("low", "pages")

    def __init__(self, name: str, pages: int, base: int) -> None:
        super().__init__("arena", name, bytearray(pages * _PAGE))
        self.low = base & _LOW
        self.pages = bytearray(pages)

    def allocate(self, count: int) -> int | None:
        """Number of the first of `count` pages in a row; None if there are not as many."""
        first = self.pages.find(bytes(count)) if count else -1
        if first < 0:
            return None
        self.pages[first : first + count] = b"\1" * count
        return first

    def free(self, first: int, count: int) -> None:
        """Give pages back."""
        self.pages[first : first + count] = bytes(len(self.pages[first : first + count]))
        end = min((first + count) * _PAGE, self.size)
        self.data[first * _PAGE : end] = bytes(max(end - first * _PAGE, 0))

    def place(self, address: int, size: int) -> int | None:
        """The place that a 32-bit address means; None if it is not allocated."""
        place = address - self.low & _LOW
        inside = place + size <= self.size and 0 not in self.pages[place // _PAGE : (place + size - 1) // _PAGE + 1]
        return place if inside else None


class Memory:
    """All regions of one machine, and the caller's memory at addresses of the caller's choice."""

    def __init__(self) -> None:
        self.regions: dict[int, Region] = {}
        self._next = FIRST
        self._starts: list[int] = []
        self._given: list[bytearray] = []
        self.arenas: list[ArenaRegion] = []
        #: Every map, by the address that a pointer to it has.
        self.maps: dict[int, VmMap] = {}
        #: Whether kernel memory is loaded from directly, a bad address reading zeros (programs with BTF trust).
        self.trusted = False
        self.loads: dict[tuple[int, bool], Callable[[int], int]] = {
            (size, signed): self._loader(size, signed=signed) for size in (1, 2, 4, 8) for signed in (False, True)
        }
        self.stores: dict[int, Callable[[int, int], None]] = {size: self._storer(size) for size in (1, 2, 4, 8)}

    # --- regions ---

    def add(self, region: Region) -> int:
        """Give a region its address, and return that."""
        number = self._next
        self._next += 1 + (region.size >> 32)
        region.base = number << 32
        self.regions[number] = region
        return region.base

    def remove(self, region: Region) -> None:
        """Forget a region; its address is never used again."""
        self.regions.pop(region.base >> 32, None)

    def give(self, address: int, data: bytes) -> bytearray:
        """Put the caller's bytes at `address`: what probe_read and its kin find there. InvalidValue: it is taken."""
        if not 0 < address < address + len(data) <= 1 << 64:
            raise InvalidValue(f"memory at {address:#x}: give an address above 0, and at least one byte")
        index = bisect_right(self._starts, address)
        end = self._starts[index] if index < len(self._starts) else 1 << 64
        before = self._starts[index - 1] + len(self._given[index - 1]) if index else 0
        if before > address or end < address + len(data) or address >> 32 in self.regions:
            raise InvalidValue(f"memory at {address:#x}: {len(data)} bytes overlap what is there")
        self._starts.insert(index, address)
        self._given.insert(index, bytearray(data))
        return self._given[index]

    def find(self, address: int) -> tuple[bytearray, int, int] | None:
        """The bytes that `address` lies in, the place in them and how many are left; None if there are none."""
        region = self.regions.get(address >> 32)
        if region is not None:
            place = address & _LOW
            return (region.data, place, region.size - place) if place < region.size else None
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        place = address - self._starts[index]
        data = self._given[index]
        return (data, place, len(data) - place) if place < len(data) else None

    def peek(self, address: int, size: int, *, user: bool | None = None) -> bytes | None:
        """Bytes as probe_read finds them; None where it would fault. `user`: only user memory, or only the kernel's."""
        if user is not None and (address < USER_END) != user:
            return None
        out = b""
        while len(out) < size:
            found = self.find(address + len(out))
            if found is None:
                return None
            data, place, left = found
            out += data[place : place + min(left, size - len(out))]
        return out

    def text(self, address: int, most: int, *, user: bool | None = None) -> bytes | None:
        """Bytes up to and with the first NUL, `most` at the most; None where reading them would fault."""
        if user is not None and (address < USER_END) != user:
            return None
        out = b""
        while len(out) < most:
            found = self.find(address + len(out))
            if found is None:
                return None
            data, place, left = found
            end = place + min(left, most - len(out))
            nul = data.find(0, place, end)
            out += data[place : end if nul < 0 else nul + 1]
            if nul >= 0:
                break
        return out

    # --- loads and stores of programs ---

    def _loader(self, size: int, *, signed: bool) -> Callable[[int], int]:
        regions, slow = self.regions, self._load
        if size == 1 and not signed:

            def load_byte(address: int) -> int:
                region = regions.get(address >> 32)
                if region is not None and region.readable:
                    place = address & _LOW
                    if place < region.size:
                        return region.data[place]
                return slow(address, 1)

            return load_byte
        sign = 1 << (8 * size - 1)
        if signed:
            unsigned = self._loader(size, signed=False)
            return lambda address: ((unsigned(address) ^ sign) - sign) & _MASK64
        unpack = Struct(_FORMATS[size, False]).unpack_from

        def load(address: int) -> int:
            region = regions.get(address >> 32)
            if region is not None and region.readable:
                place = address & _LOW
                if place + size <= region.size:
                    value: int = unpack(region.data, place)[0]
                    return value
            return slow(address, size)

        return load

    def _storer(self, size: int) -> Callable[[int, int], None]:
        regions, slow = self.regions, self._store
        pack, mask = Struct(_FORMATS[size, False]).pack_into, (1 << 8 * size) - 1

        def store(address: int, value: int) -> None:
            region = regions.get(address >> 32)
            if region is not None and region.readable and region.writable:
                place = address & _LOW
                if place + size <= region.size:
                    pack(region.data, place, value & mask)
                    return
            slow(address, size, value & mask)

        return store

    def _load(self, address: int, size: int) -> int:
        region = self.regions.get(address >> 32)
        if self.arenas and not address >> 32:
            part = self._in_arena(address, size)
            return 0 if part is None else int.from_bytes(part, "little")
        if self.trusted and (region is None or region.kind == "kernel"):
            # BPF_PROBE_MEM: a load that faults gives 0.
            found = self.peek(address, size)
            return 0 if found is None else int.from_bytes(found, "little")
        region, place = self.check(address, size, write=False, aligned=True)
        if region.fields is not None:
            value = region.fields.get((place, size))
            if value is not None:
                return value
        return int.from_bytes(region.data[place : place + size], "little")

    def _store(self, address: int, size: int, value: int) -> None:
        if self.arenas and not address >> 32:
            part = self._in_arena(address, size)
            if part is not None:
                part[:] = value.to_bytes(size, "little")
            return
        region, place = self.check(address, size, write=True, aligned=True)
        region.data[place : place + size] = value.to_bytes(size, "little")
        if region.written is not None:
            region.written[place : place + size] = b"\1" * size

    def _in_arena(self, address: int, size: int) -> memoryview | None:
        """The bytes that a 32-bit address means; None if they are not allocated."""
        for arena in self.arenas:
            start = arena.place(address, size)
            if start is not None:
                return memoryview(arena.data)[start : start + size]
        return None

    def atomic(self, address: int, size: int, change: Callable[[int], int]) -> int:
        """Replace the number at `address` by `change` of it, and return what it was."""
        if self.arenas and not address >> 32:
            old = self._load(address, size)
            self._store(address, size, change(old))
            return old
        region, place = self.check(address, size, write=False, aligned=True)
        self.check(address, size, write=True)
        if place % size:
            raise Refusal(_misaligned(region, place, size), address)
        old = int.from_bytes(region.data[place : place + size], "little")
        region.data[place : place + size] = change(old).to_bytes(size, "little")
        return old

    def check(self, address: int, size: int, *, write: bool, aligned: bool = False) -> tuple[Region, int]:
        """The region and place of an access that is allowed; Refusal says why another is not.

        `aligned`: it is a load or a store; helpers copy byte by byte.
        """
        number, place = address >> 32, address & _LOW
        if place >= 1 << 31:
            # Somewhat below the next region: that one was meant.
            number, place = number + 1, place - (1 << 32)
        region = self.regions.get(number)
        if region is None:
            raise Refusal(_unknown(address), address)
        kind = region.kind
        if kind in ("kernel", "map_ptr", "func"):
            raise Refusal(f"{{r}} invalid mem access '{'scalar' if kind == 'kernel' else kind}'", address)
        if place < 0 or place + size > region.size:
            raise Refusal(_outside(region, place, size, write=write), address)
        if write and not region.writable:
            raise Refusal(_read_only(region, place, size), address)
        if aligned and region.aligned and place % size:
            raise Refusal(_misaligned(region, place, size), address)
        if not write and not region.loadable:
            where = f"value_size={region.size} off={place} size={size} (map {region.name})"
            raise Refusal(f"read from map forbidden, {where}")
        written = region.written
        if not write and written is not None and 0 in written[place : place + size]:
            unset = written.index(0, place) - place
            where = f"R10 off {place - region.size}" if kind == "stack" else f"{region.name} off {place}"
            raise Refusal(f"invalid read from {kind} {where}+{unset} size {size}: not initialised", address)
        return region, place

    # --- helpers' access ---

    def read(self, address: int, size: int) -> bytes:
        """Bytes that a helper takes from the program."""
        if not size:
            return b""
        region, place = self.check(address, size, write=False)
        return bytes(region.data[place : place + size])

    def write(self, address: int, data: bytes) -> None:
        """Bytes that a helper gives to the program."""
        if data:
            region, place = self.check(address, len(data), write=True)
            region.data[place : place + len(data)] = data
            if region.written is not None:
                region.written[place : place + len(data)] = b"\1" * len(data)


def _misaligned(region: Region, place: int, size: int) -> str:
    name = {"stack": "stack", "ctx": "context"}.get(region.kind, "value")
    return f"misaligned {name} access off {place - region.size if name == 'stack' else place} size {size}"


def _unknown(address: int) -> str:
    if address < _PAGE:
        return "{r} invalid mem access 'map_value_or_null': it is NULL, or a number close to it"
    return "{r} invalid mem access 'scalar': no pointer of the program"


def _outside(region: Region, place: int, size: int, *, write: bool) -> str:
    kind = region.kind
    if kind == "stack":
        return f"invalid {'write to' if write else 'read from'} stack R10 off {place - region.size} size {size}"
    if kind == "ctx":
        return f"invalid bpf_context access off={place} size={size}"
    if kind == "map_value":
        return f"invalid access to map value, value_size={region.size} off={place} size={size} (map {region.name})"
    if kind == "map_key":
        return f"invalid access to map key, key_size={region.size} off={place} size={size}"
    if kind == "packet":
        return f"invalid access to packet, off={place} size={size}, {{r}}(off={place},r={region.size})"
    return f"invalid access to memory, mem_size={region.size} off={place} size={size}"


def _read_only(region: Region, place: int, size: int) -> str:
    if region.kind == "map_value":
        return f"write into map forbidden, value_size={region.size} off={place} size={size} (map {region.name})"
    if region.kind == "packet":
        return "cannot write into packet"
    if region.kind == "ctx":
        return f"invalid bpf_context access off={place} size={size}: it cannot be written"
    return f"{{r}} cannot write into rdonly_{region.kind}"
