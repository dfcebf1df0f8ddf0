"""Opening what may be anything: files named by other processes, ELF files among them."""

from __future__ import annotations

import os
import stat
from typing import BinaryIO

from pyebpf.elf.budget import PATIENCE
from pyebpf.elf.symbols import ElfSymbols
from pyebpf.errors import KernelError, MalformedData, NotFound, NotPermitted, check_argument


def open_regular(path: str, *, follow: bool = True) -> BinaryIO:
    """Open a regular file for reading, and nothing else: a FIFO would wait for a writer, a device might do anything.

    Links below /proc/PID/root are followed inside of that root. Raises NotFound, NotPermitted, KernelError, and
    MalformedData for what is not a regular file.
    """
    # Simulations name the frames of stacks without the layer `kernel`.
    from pyebpf.kernel.errors_in_words import by_whom
    from pyebpf.kernel.roots import resolved

    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        with resolved(path, follow=follow) as name:
            follow = follow or name != path  # what is resolved already is reached by a link of /proc/self/fd
            if stat.S_ISREG(os.stat(name, follow_symlinks=follow).st_mode):
                stream = os.fdopen(os.open(name, flags | (0 if follow else os.O_NOFOLLOW)), "rb")
                if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                    return stream
                stream.close()
    except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
        raise NotFound(f"there is no file {path}") from None
    except PermissionError as error:
        raise NotPermitted(f"{path} cannot be read {by_whom()}", error.errno) from error
    except OSError as error:
        raise KernelError(f"{path} cannot be read: {error.strerror}", error.errno) from error
    raise MalformedData(f"{path} is not a regular file")


class ElfFile(ElfSymbols):
    """An ELF file by a name of it: any, `/proc/PID/root/...` or `/proc/self/fd/N`.

    No descriptor is kept, and a file that is replaced in the meantime is not taken for the same. Raises NotFound if
    there is no such file, NotPermitted, MalformedData for one that is not an ELF file or garbled.
    """

    def __init__(self, path: str, *, seconds: float = PATIENCE) -> None:
        check_argument("path", path, (str, os.PathLike), "the path of a file")
        super().__init__(self._open_again, path, seconds=seconds)

    def _open_again(self) -> BinaryIO:
        stream = open_regular(self.path)
        status = os.fstat(stream.fileno())
        if not status.st_size:  # as files of /proc, whose reading may do anything
            stream.close()
            raise MalformedData(f"{self.path} is not an ELF file")
        identity = (status.st_dev, status.st_ino)
        if self.identity not in {(0, 0), identity}:
            stream.close()
            raise NotFound(f"{self.path} has been replaced by another file")
        self.identity, self.owner = identity, status.st_uid
        return stream
