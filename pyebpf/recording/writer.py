"""A recording that is being written: entries into blocks, blocks to the kernel within a second, files by their size."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from pyebpf.errors import InvalidValue
from pyebpf.recording.blocks import ENTRIES, HEADER, MAGIC, packed
from pyebpf.recording.entries import MAX_GROUP, MAX_ITEMS
from pyebpf.written_files import reached

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: Entries of a block at most, and seconds after which one is written, however few it has: what SIGKILL may cost.
_ENTRIES, _SECONDS = 1024, 0.9
#: Bytes below which halves would be all headers.
SMALLEST = 1 << 16
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def older(path: str) -> str:
    """The name of the older half of a recording of bounded size."""
    return f"{path}.1"


def check_place(path: str, *, overwrite: bool, is_bounded: bool) -> None:
    """Raise InvalidValue if no recording can be made there: before anything is attached, not after."""
    if not path:
        raise InvalidValue("--record: name the file to write")
    if path == "-":
        raise InvalidValue("--record: a recording is a file, and - is standard output: name a file")
    folder = Path(path).parent
    try:
        with reached(f"{folder}/"):
            pass
    except PermissionError as error:
        raise InvalidValue(f"--record: {path} cannot be written: {error.strerror}") from error
    except OSError:
        pass  # said below
    for each in (path, older(path)) if is_bounded else (path,):
        _check_replaceable(each, overwrite=overwrite)
    if not folder.is_dir():
        raise InvalidValue(f"--record: {path} cannot be written: there is no directory {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidValue(f"--record: {path} cannot be written by this user")


def _check_replaceable(path: str, *, overwrite: bool) -> None:
    """Raise InvalidValue for what is there, unless it is a file that is to be replaced. No link is followed."""
    try:
        mode = Path(path).lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise InvalidValue(f"--record: {path} cannot be written: {error.strerror}") from error
    if not stat.S_ISREG(mode):
        raise InvalidValue(f"--record: {path} is there, and is no regular file")
    if not overwrite:
        raise InvalidValue(f"--record: {path} is there already: --overwrite replaces it")


def _identity(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


class Writer:
    """Writes a recording. A failure (a full disk) ends it, is told to `failed`, and is no error of the tool's.

    `header` is that of the file, to which the number of the file is added. With `size` the recording is two files, of
    half as many bytes each: when FILE is full it becomes FILE.1, in place of the one before. The items of an interval
    stay in one file. Raises InvalidValue for a file that is there, and OSError.
    """

    def __init__(
        self,
        path: str,
        header: dict[str, object],
        failed: Callable[[str], None],
        *,
        overwrite: bool = False,
        size: int | None = None,
    ) -> None:
        check_place(path, overwrite=overwrite, is_bounded=size is not None)
        self._path, self._header, self._failed = path, header, failed
        self._half = None if size is None else max(size, SMALLEST) // 2
        self._entries: list[list[Any]] = []
        self._due = 0.0
        self._part = 0
        self._group: int | None = None
        self._descriptor = -1
        self._ended = False
        #: FILE.1, once there is one.
        self._earlier: os.stat_result | None = None
        if overwrite:
            beside = f"{path}.{os.urandom(8).hex()}.new"
            self._begin(beside)
            Path(beside).rename(path)
            if size is not None:
                with suppress(FileNotFoundError):
                    Path(older(path)).unlink()
        else:
            self._begin(path)

    def add(self, entry: list[Any]) -> None:
        """Write an entry, within a second."""
        if not self._entries:
            self._due = monotonic() + _SECONDS
        self._entries.append(entry)
        if len(self._entries) >= _ENTRIES or monotonic() >= self._due:
            self.flush()

    def add_group(self, owner: list[Any], items: Iterable[list[Any]]) -> None:
        """Write an entry and those that belong to it, in one file, at once."""
        if owner[-1] > MAX_ITEMS:
            self.fail(f"{owner[-1]} records of one interval are more than a recording takes")
            return
        self.flush()
        self._group = 0
        try:
            for entry in (owner, *items):
                self.add(entry)
            self.flush()
        finally:
            self._group = None

    def tick(self) -> float:
        """Write what has waited for long enough; the seconds until the next call, infinite if nothing waits."""
        if not self._entries:
            return float("inf")
        left = self._due - monotonic()
        if left > 0:
            return left
        self.flush()
        return float("inf")

    def flush(self) -> None:
        """Give the kernel what waits."""
        entries, self._entries = self._entries, []
        if entries and self._descriptor >= 0:
            try:
                self._write(entries)
            except OverflowError as error:
                self.fail(str(error))
            except OSError as error:
                self.fail(error.strerror or str(error))

    def close(self) -> None:
        """Write what waits, and end."""
        self.flush()
        if self._descriptor >= 0:
            own, found = os.fstat(self._descriptor), _identity(self._path)
            os.close(self._descriptor)
            self._descriptor = -1
            if found is None:
                self._failed(f"{self._path}: the recording is not there: its file was removed or renamed meanwhile")
            elif not os.path.samestat(own, found):
                self._failed(
                    f"{self._path}: the recording is lost: another file has taken its place, as --overwrite of another "
                    "recorder does; give each a file of its own"
                )

    def _begin(self, path: str) -> None:
        """Begin a file. Raises OSError."""
        head, _ = packed(HEADER, {**self._header, "part": self._part})
        self._descriptor = os.open(path, _NEW, 0o666)
        self._size = 0
        try:
            self._write_all(MAGIC + head)
        except OSError:
            os.close(self._descriptor)
            self._descriptor = -1
            Path(path).unlink()
            raise

    def _write(self, entries: list[list[Any]]) -> None:
        try:
            block, size = packed(ENTRIES, entries)
        except OverflowError:
            if len(entries) == 1:
                raise
            middle = len(entries) // 2
            self._write(entries[:middle])
            self._write(entries[middle:])
            return
        if self._half is not None and not self._group and self._size + len(block) > self._half:
            self._rotate()
        if self._group is not None:
            self._group += size
            if self._group > MAX_GROUP:
                raise OverflowError("the records of one interval are more than a recording takes")
        self._write_all(block)

    def _rotate(self) -> None:
        # Whoever has put files of his own here meanwhile keeps them.
        first, second = _identity(self._path), _identity(older(self._path))
        self._check(self._path, first, os.fstat(self._descriptor))
        if second is not None:
            self._check(older(self._path), second, self._earlier)
        self._earlier = first
        os.close(self._descriptor)
        self._descriptor = -1
        Path(self._path).rename(older(self._path))
        self._part += 1
        self._begin(self._path)

    def _check(self, path: str, found: os.stat_result | None, own: os.stat_result | None) -> None:
        if found is None or own is None or not os.path.samestat(found, own):
            raise FileExistsError(errno.EEXIST, f"{path} is another file by now")

    def _write_all(self, block: bytes) -> None:
        left = memoryview(block)
        while left:
            left = left[os.write(self._descriptor, left) :]
        self._size += len(block)

    def fail(self, reason: str) -> None:
        """End the recording with the last block that is whole, and tell why; of one that has ended nothing more."""
        if self._descriptor >= 0:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            os.close(self._descriptor)
            self._descriptor = -1
        self._entries = []
        if not self._ended:
            self._ended = True
            self._failed(f"{self._path}: the recording ends here: {reason}")
