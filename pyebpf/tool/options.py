"""The fields of a tool's options dataclass: how each is written on the command line, and what it may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pyebpf.dataclass import MISSING, dataclass, field
from pyebpf.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import UnionType

#: The object that the number, or the name, of an option names; "" for one that need not exist yet: a user, a port.
Kind = Literal["", "process", "thread", "processor", "disk"]

PID_MAX = 1 << 22  # PID_MAX_LIMIT of include/linux/threads.h, on 64 bits
U16_MAX = (1 << 16) - 1
U32_MAX = (1 << 32) - 1
#: Bytes: a page, and what no machine should need.
SMALLEST_BUFFER, LARGEST_BUFFER = 1 << 12, 1 << 30


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """How an option of a tool is written on the command line; `flags` is empty for a positional argument."""

    flags: tuple[str, ...]
    help: str
    metavar: str
    choices: tuple[str, ...]
    minimum: int | None
    maximum: int | None
    names: Kind = ""
    output_only: bool = False

    def check(self, what: str, value: object) -> None:
        """Raise InvalidValue for a value that the declaration excludes; `what` is what the caller calls the option."""
        for item in value if isinstance(value, list | tuple) else (value,):
            if self.choices and item is not None and item not in self.choices:
                raise InvalidValue(f"{what}: {item!r} is none of {', '.join(self.choices)}")
            if isinstance(item, int | float) and not isinstance(item, bool):
                if item != item:
                    raise InvalidValue(f"{what}: {item} is not a number")
                if self.minimum is not None and item < self.minimum:
                    raise InvalidValue(f"{what}: {item} is below {self.minimum}")
                if self.maximum is not None and item > self.maximum:
                    raise InvalidValue(f"{what}: {item} is above {self.maximum}")


#: Types of values by their annotations, with the words for one and for several.
_VALUES: dict[str, tuple[type | UnionType, str, str]] = {
    "int": (int, "an integer", "numbers"),
    "float": (int | float, "a number", "numbers"),
    "bool": (bool, "True or False", "flags"),
    "str": (str, "text", "texts"),
}


def check_value(name: str, annotation: str, value: object) -> None:
    """Raise InvalidValue for what is not the value, or the values, of a field's annotation; a bool is no number."""
    plain = annotation.removesuffix(" | None")
    element = plain.removeprefix("tuple[").removesuffix(", ...]")
    if element not in _VALUES or (value is None and plain != annotation):
        return
    kind, words, more = _VALUES[element]
    several = element != plain
    if several and isinstance(value, str | bytes | int | float):
        raise InvalidValue(f"{name}={value!r}: give a tuple of {more}, not {type(value).__name__}")
    items = value if several and isinstance(value, list | tuple) else () if several else (value,)
    for item in items:
        if not isinstance(item, kind) or (isinstance(item, bool) and kind is not bool):
            other = " or None" if plain != annotation else ""
            raise InvalidValue(f"{name}={value!r}: give {words}{other}, not {type(item).__name__}")


def buffer_size(what: str, size: object) -> int:
    """The size of a buffer that has room for `size` bytes: a power of two.

    Raises InvalidValue for what is no size; `what` is what the caller calls it.
    """
    if not isinstance(size, int) or isinstance(size, bool):
        raise InvalidValue(f"{what}={size!r}: give bytes, such as {16 << 20}, not {type(size).__name__}")
    if size < SMALLEST_BUFFER:
        raise InvalidValue(f"{what}: {size} bytes are too few for a buffer: give {SMALLEST_BUFFER} (4K) or more")
    if size > LARGEST_BUFFER:
        raise InvalidValue(f"{what}: {size} bytes are too many for a buffer: give {LARGEST_BUFFER} (1G) or less")
    return 1 << (size - 1).bit_length()


def option(
    *flags: str,
    default: object = None,
    help: str,  # noqa: A002 - argparse's word for it, which is what it is for
    metavar: str = "",
    choices: Sequence[str] = (),
    minimum: int | None = None,
    maximum: int | None = None,
    names: Kind = "",
    output_only: bool = False,
) -> Any:
    """A field of an options dataclass that takes a value on the command line: `option("-c", "--cgroup", help=...)`.

    The field's annotation decides what is read: `int`, `float` or `str`, perhaps `| None`; `tuple[int, ...]` and the
    like read a list with commas. Bounds and choices hold for values given in Python, too. A number that `names` a
    process, thread or processor is refused when the tool starts on a machine that has none of that number. One of the
    `output_only` changes how records are printed and not what they are: it is no argument of the library's `open`.
    """
    return _field(default, OptionSpec(flags, help, metavar, tuple(choices), minimum, maximum, names, output_only))


def flag(*flags: str, help: str, output_only: bool = False) -> Any:  # noqa: A002 - as above
    """A field of type `bool`, False unless the flag is there: `flag("-Q", "--queued", help=...)`."""
    return _field(False, OptionSpec(flags, help, "", (), None, None, output_only=output_only))  # noqa: FBT003 - a default, not a switch


def _field(default: object, spec: OptionSpec) -> object:
    if not spec.flags or not all(flag.startswith("-") for flag in spec.flags):
        raise InvalidValue("an option has at least one flag, such as '-m' or '--milliseconds'")
    return field(default=default, metadata={"spec": spec})


def argument(
    metavar: str,
    *,
    help: str,  # noqa: A002 - as above
    choices: Sequence[str] = (),
    default: object = MISSING,
    minimum: int | None = None,
    maximum: int | None = None,
) -> Any:
    """A positional argument of an options dataclass; one without default must be given."""
    declaration = {"spec": OptionSpec((), help, metavar, tuple(choices), minimum, maximum)}
    return field(metadata=declaration) if default is MISSING else field(default=default, metadata=declaration)


def pid_option(help: str = "only this process") -> Any:  # noqa: A002 - as above
    """`-p PID`, None by default."""
    return option("-p", "--pid", metavar="PID", help=help, minimum=1, maximum=PID_MAX, names="process")


def tid_option(letter: str = "-t", help: str = "only this thread") -> Any:  # noqa: A002 - as above
    """`-t TID`, None by default; `letter` where the book's tool has another."""
    return option(letter, "--tid", metavar="TID", help=help, minimum=1, maximum=PID_MAX, names="thread")


def uid_option(help: str = "only this user") -> Any:  # noqa: A002 - as above
    """`-u UID`, None by default."""
    return option("-u", "--uid", metavar="UID", help=help, minimum=0, maximum=U32_MAX)


def comm_option(help: str = "only threads whose name contains this") -> Any:  # noqa: A002 - as above
    """`--comm NAME`, None by default."""
    return option("--comm", metavar="NAME", help=help)


def cgroup_option(help: str = "only this control group (a path) or container (an id)") -> Any:  # noqa: A002 - as above
    """`--cgroup PATH|ID`, None by default."""
    return option("--cgroup", metavar="PATH|ID", help=help)


def netns_option(help: str = "only this network namespace, by name, path or pid") -> Any:  # noqa: A002 - as above
    """`--netns NAME|PATH|PID`, None by default."""
    return option("--netns", metavar="NAME", help=help)


def interface_option(help: str = "only this interface, also one that comes later") -> Any:  # noqa: A002 - as above
    """`-i IFACE`, None by default."""
    return option("-i", "--interface", metavar="IFACE", help=help)


def milliseconds_option(help: str = "milliseconds instead of microseconds") -> Any:  # noqa: A002 - as above
    """`-m`, off by default."""
    return flag("-m", "--milliseconds", help=help)


def failures_option(help: str = "only failures") -> Any:  # noqa: A002 - as above
    """`-x`, off by default."""
    return flag("-x", "--failed", help=help)


def ports_option(letter: str, long: str, side: str) -> Any:
    """`-L PORT[,PORT]` and the like, none by default: ports of one `side`."""
    words = f"only these {side} ports"
    return option(letter, long, default=(), metavar="PORT[,PORT]", help=words, minimum=0, maximum=U16_MAX)


@dataclass(frozen=True)
class TaskOptions:
    """The options of a `TaskFilter`, for the options of a tool to inherit."""

    pid: int | None = pid_option()
    uid: int | None = uid_option()
    comm: str | None = comm_option()
    cgroup: str | None = cgroup_option()
    netns: str | None = netns_option()


@dataclass(frozen=True)
class CallOptions(TaskOptions):
    """The options of a `CallFilter`, for the options of a tool to inherit."""

    failed: bool = failures_option("only failed calls")


@dataclass(frozen=True)
class VersionOptions:
    """`-4` and `-6`, for the options of a tool to inherit."""

    ipv4: bool = flag("-4", "--ipv4", help="only IPv4")
    ipv6: bool = flag("-6", "--ipv6", help="only IPv6")

    @property
    def version(self) -> int | None:
        """The only version of IP that is asked for, None for both."""
        return None if self.ipv4 == self.ipv6 else 4 if self.ipv4 else 6

    @property
    def versions(self) -> tuple[int, ...]:
        """The versions of IP that are asked for."""
        return (4, 6) if self.version is None else (self.version,)


@dataclass(frozen=True)
class _EndsOptions:
    local_ports: tuple[int, ...] = ports_option("-L", "--localport", "local")
    remote_ports: tuple[int, ...] = ports_option("-D", "--remoteport", "remote")
    address: str | None = option("--address", metavar="ADDRESS", help="only this remote address or network")


@dataclass(frozen=True)
class SocketOptions(VersionOptions, _EndsOptions):
    """The options of a `SocketFilter`, for the options of a tool to inherit."""


@dataclass(frozen=True)
class ConnectionOptions(SocketOptions, TaskOptions):
    """The options of a `SocketFilter` and of a `TaskFilter`."""


@dataclass(frozen=True)
class NoOptions:
    """The options of a tool that has none."""


@dataclass(frozen=True)
class DeviceOptions:
    """The options of a `DeviceFilter`, for the options of a tool to inherit."""

    interface: str | None = interface_option()
    netns: str | None = netns_option()


@dataclass(frozen=True)
class ByDeviceOptions(DeviceOptions):
    """The options of a `DeviceFilter`, and `--devices`, for the options of a tool of histograms to inherit."""

    by_device: bool = flag("--devices", help="histograms for each network device")


@dataclass(frozen=True)
class LatencyOptions:
    """The option of a `LatencyHistogram`, `-m`, for the options of a tool to inherit."""

    milliseconds: bool = milliseconds_option()


@dataclass(frozen=True)
class TaskLatencyOptions(LatencyOptions, TaskOptions):
    """The options of a `LatencyHistogram` and of a `TaskFilter`."""


def time_unit(milliseconds: object) -> tuple[str, int]:
    """The unit of a histogram's rows by `milliseconds_option()`, and how many nanoseconds it has."""
    return ("msecs", 1_000_000) if milliseconds else ("usecs", 1_000)
