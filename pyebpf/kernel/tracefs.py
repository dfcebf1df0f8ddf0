"""tracefs: tracepoint ids and formats, from where it is mounted or from a mount of our own that nobody else sees."""

from __future__ import annotations

import os

from pyebpf.closing import Closing
from pyebpf.errors import KernelError, NotFound, NotPermitted, NotSupported, closest
from pyebpf.kernel.descriptor import Descriptor
from pyebpf.kernel.errors_in_words import kernel_error
from pyebpf.kernel.mounts import mount_points, private_mount
from pyebpf.kernel.shortages import SHORTAGES, raise_shortage
from pyebpf.uapi.errnos import errno_name

_NAME_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")


def _mounted() -> Descriptor | None:
    """The `events` directory of a tracefs that is mounted. The debugfs path is left alone: looking there mounts it."""
    for kind, path in mount_points():
        if kind == "tracefs":
            try:
                fd = os.open(path + "/events", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError as error:
                raise_shortage(error)
                continue
            return Descriptor(fd, "tracefs")
    return None


def _detached() -> Descriptor:
    """The `events` directory of a mount without a mount point: it goes away with its last descriptor."""
    with private_mount("tracefs") as root:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        return Descriptor(os.open("events", flags, dir_fd=root.fileno()), "tracefs")


class Tracefs(Closing):
    """The `events` directory of tracefs, held by one descriptor.

    Raises NotPermitted without CAP_SYS_ADMIN where tracefs is not mounted or not readable, NotSupported where
    the kernel has none, KernelError where descriptors or memory are short.
    """

    def __init__(self) -> None:
        try:
            descriptor = _mounted() or _detached()
        except OSError as error:
            raise self._refusal(error) from error
        self._descriptor = descriptor
        self._ids: dict[tuple[str, str], int] = {}

    @staticmethod
    def _refusal(error: OSError) -> KernelError:
        if error.errno in SHORTAGES:
            return kernel_error(error, "opening tracefs")
        if isinstance(error, PermissionError):
            return NotPermitted(
                "tracefs needs root, or CAP_DAC_READ_SEARCH where it is mounted and CAP_SYS_ADMIN where it is not",
                error.errno,
            )
        return NotSupported(
            f"this kernel has no tracefs (CONFIG_TRACING): mounting it gave {errno_name(error.errno or 0)}", error.errno
        )

    def fileno(self) -> int:
        """The descriptor of the `events` directory, for files beside it."""
        return self._descriptor.fileno()

    def close(self) -> None:
        self._descriptor.close()

    def categories(self) -> tuple[str, ...]:
        """Names of all event groups ("block", "sched"), sorted."""
        return self._directories(".")

    def events(self, category: str) -> tuple[str, ...]:
        """Names of a group's events, sorted. Raises NotFound."""
        if not set(category) <= _NAME_CHARACTERS or category in {"", ".", ".."}:
            raise NotFound(f"no tracepoint category {category!r}")
        try:
            return self._directories(category)
        except FileNotFoundError:
            near = closest(category, self.categories())
            module = "" if near else ": if a kernel module has it, load it (modprobe NAME)"
            raise NotFound(f"no tracepoint category {category!r}{near}{module}") from None

    def _directories(self, path: str) -> tuple[str, ...]:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        fd = os.open(path, flags, dir_fd=self._descriptor.fileno())
        with Descriptor(fd, "tracefs directory"), os.scandir(fd) as entries:
            return tuple(sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False)))

    def event_id(self, category: str, name: str) -> int:
        """The number by which perf_event_open knows the tracepoint. Raises NotFound with the closest names."""
        known = category, name
        if known not in self._ids:
            self._ids[known] = int(self._read(category, name, "id"))
        return self._ids[known]

    def event_format(self, category: str, name: str) -> str:
        """Text of the tracepoint's `format` file. Raises NotFound with the closest names."""
        return self._read(category, name, "format").decode(errors="surrogateescape")

    def _read(self, category: str, name: str, file: str) -> bytes:
        if not set(category + name) <= _NAME_CHARACTERS or {category, name} & {"", ".", ".."}:
            raise NotFound(f"no tracepoint {category}:{name}")
        path = f"{category}/{name}/{file}"
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._descriptor.fileno())
        except FileNotFoundError:
            raise self._unknown(category, name) from None
        except PermissionError as error:
            raise NotPermitted(f"reading tracefs events/{path} needs root", error.errno) from error
        except OSError as error:
            raise KernelError(f"cannot read tracefs events/{path}: {error.strerror}", error.errno) from error
        with Descriptor(fd, path), os.fdopen(fd, "rb", closefd=False) as content:
            return content.read()

    def has_top(self, name: str) -> bool:
        """Whether there is a file beside `events`."""
        try:
            os.stat(f"../{name}", dir_fd=self._descriptor.fileno())
        except FileNotFoundError:
            return False
        return True

    def read_top(self, name: str) -> bytes:
        """A file beside `events`, such as `available_filter_functions`. Raises OSError."""
        fd = os.open(f"../{name}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._descriptor.fileno())
        with Descriptor(fd, f"tracefs {name}"), os.fdopen(fd, "rb", closefd=False) as content:
            return content.read()

    def _unknown(self, category: str, name: str) -> NotFound:
        names = self.events(category)
        hint = closest(name, names)
        if not hint:
            # The right name under the wrong category is the usual slip.
            homes = [other for other in self.categories() if other != category and name in self.events(other)]
            hint = f" (did you mean {' or '.join(f'{home}:{name}' for home in homes[:3])}?)" if homes else ""
        return NotFound(f"no tracepoint {category}:{name}{hint}")
