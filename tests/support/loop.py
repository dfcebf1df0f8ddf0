"""Loop devices for counting block I/O exactly: one read or write asked for is one request of the device."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# include/uapi/linux/loop.h
_LOOP_SET_FD = 0x4C00
_LOOP_CLR_FD = 0x4C01
_LOOP_CTL_REMOVE = 0x4C81
_LOOP_CTL_GET_FREE = 0x4C82

CONTROL = Path("/dev/loop-control")


@dataclass(frozen=True, slots=True)
class LoopDevice:
    """A device such as `/dev/loop0`, backed by a sparse file of `size` bytes."""

    path: Path
    size: int

    @property
    def name(self) -> str:
        """The disk's name, as tools print it: "loop0"."""
        return self.path.name

    @property
    def numbers(self) -> tuple[int, int]:
        """The device's major and minor number."""
        device = self.path.stat().st_rdev
        return os.major(device), os.minor(device)

    @contextlib.contextmanager
    def scheduler(self, name: str) -> Iterator[None]:
        """Have this scheduler."""
        path = Path(f"/sys/block/{self.name}/queue/scheduler")
        before = path.read_text().partition("[")[2].partition("]")[0]
        path.write_text(name)
        try:
            yield
        finally:
            path.write_text(before)

    def read(self, count: int, *, size: int = 4096) -> None:
        """Make `count` direct reads of `size` bytes each, at rising offsets with gaps, so that none merge."""
        self._transfer(os.O_RDONLY, count, size)

    def write(self, count: int, *, size: int = 4096) -> None:
        """Make `count` direct writes of `size` bytes each, at rising offsets with gaps, so that none merge."""
        self._transfer(os.O_WRONLY, count, size)

    @contextlib.contextmanager
    def opened(self) -> Iterator[Callable[[int, int], None]]:
        """A function that makes a direct read at an offset, of so many bytes."""
        with mmap.mmap(-1, 1 << 20) as buffer, memoryview(buffer) as view:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
            try:

                def read(offset: int, size: int) -> None:
                    with view[:size] as part:
                        assert os.preadv(descriptor, [part], offset) == size

                yield read
            finally:
                os.close(descriptor)

    def _transfer(self, mode: int, count: int, size: int) -> None:
        # O_DIRECT wants an aligned buffer, which an anonymous mapping is.
        with mmap.mmap(-1, size) as buffer, memoryview(buffer) as view:
            descriptor = os.open(self.path, mode | os.O_DIRECT | os.O_CLOEXEC)
            try:
                for index in range(count):
                    offset = index * 2 * size % (self.size - size + 1)
                    transfer = os.preadv if mode == os.O_RDONLY else os.pwritev
                    done = transfer(descriptor, [view], offset)
                    assert done == size, f"{done} of {size} bytes at {offset} of {self.path}"
            finally:
                os.close(descriptor)


class Statistics(NamedTuple):
    """Requests of a disk that have ended, requests merged into those, and sectors of 512 bytes."""

    reads: int
    merged_reads: int
    read_sectors: int
    read_ms: int
    writes: int
    merged_writes: int
    written_sectors: int


def disk_statistics(disk: str) -> Statistics:
    """The kernel's own counts, Documentation/block/stat.rst."""
    return Statistics(*map(int, Path(f"/sys/block/{disk}/stat").read_text().split()[:7]))


@contextlib.contextmanager
def loop_device(backing: Path, *, size: int = 16 << 20) -> Iterator[LoopDevice]:
    """A loop device over a new file at `backing`; detached, and removed if it was made for this, afterwards."""
    with backing.open("wb") as file:
        file.truncate(size)
    try:
        with _attached(backing) as path:
            yield LoopDevice(path, size)
    finally:
        backing.unlink()


@contextlib.contextmanager
def sealed_loop_device(*, size: int = 1 << 20) -> Iterator[LoopDevice]:
    """A loop device over a file in memory that is sealed: each write fails, and each discard."""
    file = os.memfd_create("sealed", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(file, size)
        with _attached(Path(f"/proc/self/fd/{file}")) as path:
            fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
            yield LoopDevice(path, size)
    finally:
        os.close(file)


@contextlib.contextmanager
def _attached(backing: Path) -> Iterator[Path]:
    """The path of a loop device over a file."""
    existing = {path.name for path in Path("/sys/block").iterdir()}
    with _opened(CONTROL) as control:
        number = _attach(control, backing)
        try:
            yield Path(f"/dev/loop{number}")
        finally:
            with _opened(Path(f"/dev/loop{number}")) as device:
                fcntl.ioctl(device, _LOOP_CLR_FD)
            if f"loop{number}" not in existing:
                # Busy if another process looks at it just now; an idle device left over does no harm.
                with contextlib.suppress(OSError):
                    fcntl.ioctl(control, _LOOP_CTL_REMOVE, number)


def _attach(control: int, backing: Path) -> int:
    for _ in range(50):
        number = fcntl.ioctl(control, _LOOP_CTL_GET_FREE)
        with _opened(backing) as file, _opened(Path(f"/dev/loop{number}")) as device:
            try:
                fcntl.ioctl(device, _LOOP_SET_FD, file)
            except OSError as error:
                if error.errno != errno.EBUSY:  # another process took this one meanwhile
                    raise
            else:
                return number
    raise TimeoutError("every free loop device was taken by others")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
