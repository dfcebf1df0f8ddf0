"""From the name of a library or program to its file: the linker's cache, the usual folders, a process's mappings.

The cache, /etc/ld.so.cache, has one of two formats, or the second inside the first (glibc, sysdeps/generic/dl-cache.h):

    struct cache_file     { char magic[11] = "ld.so-1.7.0"; unsigned int nlibs; struct file_entry libs[]; };
    struct file_entry     { int flags; unsigned int key, value; };
    struct cache_file_new { char magic[17] = "glibc-ld.so.cache", version[3] = "1.1"; uint32_t nlibs, len_strings;
                            uint8_t flags, padding[3]; uint32_t extension_offset, unused[3];
                            struct file_entry_new libs[]; };
    struct file_entry_new { int flags; unsigned int key, value; uint32_t osversion; uint64_t hwcap; };

`key` is the library's name and `value` its path, as offsets of strings: in the old format from the end of the entries,
in the new one from the start of its header.
"""

from __future__ import annotations

import os
import re
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from pyebpf.errors import MalformedData, NotFound, NotPermitted, PyebpfError, closest
from pyebpf.kernel.errors_in_words import by_whom
from pyebpf.kernel.roots import path_exists, resolved
from pyebpf.symbols.files import open_regular
from pyebpf.symbols.mappings import links_of, read_mappings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyebpf.symbols.mappings import Mapping

_OLD_MAGIC, _NEW_MAGIC = b"ld.so-1.7.0", b"glibc-ld.so.cache1.1"
_OLD_HEADER, _OLD_ENTRY = 16, Struct("<iII")  # written for machines of one byte order only: those of today
_NEW_HEADER, _NEW_ENTRY = 48, "iIIIQ"
_COUNT = Struct("<I")
_NEW_ALIGNMENT = 8
# cache_file_new.flags: the file's byte order, or 0 where an older ldconfig did not say.
_BYTE_ORDERS = {0: "<", 2: "<", 3: ">"}
# file_entry.flags: FLAG_ELF_LIBC6 in the low byte, the ABI above (FLAG_X8664_LIB64, FLAG_AARCH64_LIB64).
_ABIS = {"x86_64": 0x0303, "aarch64": 0x0A03}
_CACHE = "/etc/ld.so.cache"
# ldconfig's for 2,500 libraries has 200 kB. Entries may share their names, so the text is counted, too.
_LARGEST_CACHE, _LONGEST_PATH, _LONGEST_NAME, _MAX_TEXT, _MAX_FILES = 1 << 23, 4096, 255, 1 << 24, 65_536
# Where ld.so looks without a cache, Debian's folders among them, and musl's.
_FOLDERS = (
    "/lib/{arch}-linux-gnu", "/usr/lib/{arch}-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib",
)  # fmt: skip
_PROGRAMS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_VERSIONED = re.compile(r"(.+?)(?:-[0-9.]+)?\.so(?:\.[0-9.]+)?$")


class CachedLibrary(NamedTuple):
    """An entry of the linker's cache: `flags` tell the ABI that the library is for."""

    name: str
    path: str
    flags: int


def parse_cache(data: bytes) -> tuple[CachedLibrary, ...]:
    """The entries of a linker's cache, in its order. Raises MalformedData."""
    if data.startswith(_NEW_MAGIC):
        return tuple(_parse_new(data, 0))
    if not data.startswith(_OLD_MAGIC) or len(data) < _OLD_HEADER:
        raise MalformedData("the linker's cache has neither of the known formats")
    (count,) = _COUNT.unpack_from(data, _OLD_HEADER - _COUNT.size)
    end = _OLD_HEADER + count * _OLD_ENTRY.size
    inner = -(-end // _NEW_ALIGNMENT) * _NEW_ALIGNMENT
    if data.startswith(_NEW_MAGIC, inner):
        return tuple(_parse_new(data, inner))
    return tuple(_entries(data, _OLD_ENTRY, _OLD_HEADER, count, end))


def _parse_new(data: bytes, start: int) -> Iterator[CachedLibrary]:
    if len(data) < start + _NEW_HEADER:
        raise MalformedData("the linker's cache ends inside its header")
    order = _BYTE_ORDERS.get(data[start + 28] & 3)
    if order is None:
        raise MalformedData("the linker's cache says of itself that it is invalid: run ldconfig")
    (count,) = Struct(order + "I").unpack_from(data, start + 20)
    yield from _entries(data, Struct(order + _NEW_ENTRY), start + _NEW_HEADER, count, start)


def _entries(data: bytes, layout: Struct, start: int, count: int, strings: int) -> Iterator[CachedLibrary]:
    if start + count * layout.size > len(data):
        raise MalformedData("the linker's cache is cut short")
    length = 0
    for place in range(start, start + count * layout.size, layout.size):
        flags, key, value, *_ = layout.unpack_from(data, place)
        found = CachedLibrary(_text(data, strings + key), _text(data, strings + value), flags)
        length += len(found.name) + len(found.path) + 8 * layout.size
        if length > _MAX_TEXT:
            raise MalformedData("the linker's cache has more text than any file system has libraries")
        yield found


def _text(data: bytes, start: int) -> str:
    end = data.find(b"\0", start, start + _LONGEST_PATH)
    if start >= len(data) or end < 0:
        raise MalformedData("the linker's cache has a name outside of itself")
    return data[start:end].decode(errors="surrogateescape")


def find_binary(name: str, *, pid: int = -1) -> str:
    """The path of the file that `name` means, as this process can open it.

    A name with a slash is a path. Another is a library, as a program asks for it ("libc.so.6") or without `lib` and
    version ("c"), or a program. With `pid` it is what that process has mapped, else what its file system has, which
    may be another one than this process's. Raises NotFound, with the closest names; NotPermitted.
    """
    if not name:
        raise NotFound("a uprobe needs a library, a program or a path, such as libc.so.6")
    root = _root_of(pid) if pid >= 0 else ""
    if "/" in name:
        own = name.startswith(links_of(pid))  # which is a name here
        path = root + os.path.join("/", name) if root and not own else name
        return _checked(path, name, pid)
    if pid >= 0 and (mapped := _mapped(name, pid, root)) is not None:
        return mapped
    arch = os.uname().machine
    libraries = _cached(root, arch)
    for candidate in _matching(name, libraries):
        if path_exists(root + candidate):
            return root + candidate
    for folder in _FOLDERS:
        for candidate in _in_folder(name, f"{root}{folder.format(arch=arch)}"):
            # What programs are linked with, libc.so of -lc, may be a script for the linker beside the library.
            if os.path.basename(candidate) == name or _is_program(candidate):
                return candidate
    for folder in (os.environ.get("PATH", _PROGRAMS) if not root else _PROGRAMS).split(":"):
        candidate = os.path.join(root + folder, name)
        if folder and _is_program(candidate):
            return candidate
    where = f"process {pid} has no" if pid >= 0 else "there is no"
    raise NotFound(
        f"{where} library or program {name}{closest(name, {library.name for library in libraries})}; a path such as "
        f"./{name} names any file"
    )


def library_names() -> list[str]:
    """The names of this machine's libraries, by the linker's cache, sorted."""
    return sorted({library.name for library in _cached("", os.uname().machine)})


def _is_program(path: str) -> bool:
    """Whether it is an ELF file; a script that stands for a program has no code to probe."""
    try:
        with open_regular(path) as file:
            return file.read(4) == b"\x7fELF"
    except PyebpfError:
        return False


def _checked(path: str, name: str, pid: int) -> str:
    try:
        with resolved(path) as file:
            os.stat(file)
    except (FileNotFoundError, NotADirectoryError):
        of = f", as process {pid} sees it" if pid >= 0 else ""
        raise NotFound(f"there is no file {name}{of}") from None
    except PermissionError as error:
        raise NotPermitted(f"{name} cannot be read {by_whom()}", error.errno) from error
    return path


def _root_of(pid: int) -> str:
    """Return the prefix of a process's paths: empty where they mean the same here."""
    try:
        theirs = os.stat(f"/proc/{pid}/ns/mnt"), os.stat(f"/proc/{pid}/root")
        ours = os.stat("/proc/self/ns/mnt"), os.stat("/")
    except (FileNotFoundError, ProcessLookupError):
        raise NotFound(f"there is no process {pid}") from None
    except PermissionError as error:
        raise NotPermitted(f"the files of process {pid} cannot be seen {by_whom()}", error.errno) from error
    same = all((a.st_dev, a.st_ino) == (b.st_dev, b.st_ino) for a, b in zip(theirs, ours, strict=True))
    return "" if same else f"/proc/{pid}/root"


def _mapped(name: str, pid: int, root: str) -> str | None:
    """The file of that name that a process has code of; None if it has none."""
    files = _code_of(pid)
    for path in _matching(name, [CachedLibrary(os.path.basename(path), path, 0) for path in files]):
        mapping = files[path]
        if mapping.deleted or not path_exists(root + path):
            # Deleted or hidden by another mount: the kernel still gives the file itself.
            return mapping.link(pid)
        return root + path
    return None


def matching_binaries(pid: int, pattern: str = "*") -> list[str]:
    """The files that a pattern stands for, as `find_binary` takes them: of a process those that it has code of.

    They are matched by their paths as the process sees them; one that has been deleted is its link in /proc. Without a
    process (-1) they are found as a shell finds them. Raises NotFound, NotPermitted.
    """
    from fnmatch import fnmatchcase
    from glob import glob

    if pid < 0:
        return sorted(filter(_is_program, glob(pattern)))
    return sorted(
        mapping.link(pid) if mapping.deleted else path
        for path, mapping in _code_of(pid).items()
        if fnmatchcase(path, pattern)
    )


def _code_of(pid: int) -> dict[str, Mapping]:
    try:
        mappings = read_mappings(pid)
    except (FileNotFoundError, ProcessLookupError):
        raise NotFound(f"there is no process {pid}") from None
    except PermissionError as error:
        raise NotPermitted(f"the mappings of process {pid} cannot be read {by_whom()}", error.errno) from error
    # The kernel gives paths as this process sees them: below the other one's root, if that is in the same mounts.
    root = _root_in_our_mounts(pid)
    return {
        mapping.path.removeprefix(root if mapping.path.startswith(f"{root}/") else ""): mapping
        for mapping in mappings
        if mapping.is_file
    }


def _root_in_our_mounts(pid: int) -> str:
    """The directory that a process has been given as its root by chroot(2); "" for none."""
    try:
        return os.readlink(f"/proc/{pid}/root").rstrip("/")
    except OSError:
        return ""


def _cached(root: str, arch: str) -> tuple[CachedLibrary, ...]:
    """Read a file system's linker cache for this architecture; nothing without a cache that can be read."""
    try:
        with open_regular(root + _CACHE) as file:
            data = file.read(_LARGEST_CACHE + 1)
        if len(data) > _LARGEST_CACHE:
            return ()  # nothing that ldconfig wrote: what the folders have is found
        found = parse_cache(data)
    except PyebpfError:
        return ()
    abi = _ABIS.get(arch)
    return tuple(library for library in found if abi in {None, library.flags & 0xFFFF})


def _matching(name: str, libraries: Iterable[CachedLibrary]) -> Iterator[str]:
    """Paths of the library `name`, then of those that a linker's `-lNAME` means."""
    known = list(libraries)
    yield from (library.path for library in known if library.name == name)
    for library in known:
        match = _VERSIONED.match(library.name) if len(library.name) <= _LONGEST_NAME else None
        if match is not None and match[1] in {f"lib{name}", name}:
            yield library.path


def _in_folder(name: str, folder: str) -> Iterator[str]:
    try:
        with resolved(folder) as found, os.scandir(found) as entries:
            files = sorted(entry.name for entry in islice(entries, _MAX_FILES))
    except OSError:
        return
    yield from _matching(name, [CachedLibrary(file, f"{folder}/{file}", 0) for file in files if ".so" in file])
