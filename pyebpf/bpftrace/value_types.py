"""Types of a script's values: the memory that they take in maps and events, and the text that they are printed as."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

from pyebpf.dataclass import dataclass, field
from pyebpf.types import INTEGERS, S32, S64, U8, U32, U64, ArrayType, BytesType, CharArray, TupleType
from pyebpf.types.arrays import ForeignCharArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.builder.values.memory import Space
    from pyebpf.target import KernelType
    from pyebpf.types import CharFactory, IntType, Type


class Names(Protocol):
    """Names of the machine that a script runs on, for values that are numbers in the kernel."""

    def kernel_stack(self, number: int, limit: int, mode: str) -> str:
        """A kernel stack as text."""

    def user_stack(self, number: int, pid: int, limit: int, mode: str) -> str:
        """A stack of a process as text."""

    @property
    def trailer(self) -> str:
        """The mark behind a text that was cut."""

    def shown(self, text: str) -> str:
        """A text as it is printed: as it is, or with what a terminal would obey escaped."""

    def kernel_symbol(self, address: int) -> str:
        """The function of the kernel at an address."""

    def user_symbol(self, address: int, pid: int) -> str:
        """The function of a process at an address."""

    def user(self, number: int) -> str:
        """The name of a user."""

    def cgroup_path(self, number: int, pattern: str) -> str:
        """The paths of a group of processes, in the hierarchies whose names match."""

    def enumerator(self, enum: str, number: int) -> str:
        """The name of a number in one of the kernel's enums; the number where it has none."""

    def gfp_flags(self, flags: int) -> str:
        """Flags of an allocation in words."""

    def time(self, layout: str, nanoseconds: int, clock: str) -> str:
        """A time of a clock, "" or "tai" as a `Number` has it, as strftime(3) lays it out."""


@dataclass(frozen=True, slots=True)
class ValueType:
    """The type of a value; `name` is what messages call it."""

    name: ClassVar[str] = "a value"

    @property
    def storage(self) -> Type:
        """Its memory in maps and events."""
        raise NotImplementedError

    def text(self, value: object, names: Names) -> str:  # noqa: ARG002 - for types with names
        """The value, decoded from memory, as `print` shows it."""
        return str(value)


@dataclass(frozen=True, slots=True)
class Number(ValueType):
    """An integer of `size` bytes, 64 bits wherever it is kept.

    One that is `flexible` is a literal, whose sign and size others decide. `names` are those of an enum's constants,
    `enum` is the name of one of the kernel's. `least` are the bytes that literals take; 0 for what others made, too.
    `clock` is that of `nsecs(tai)` and `nsecs(monotonic)`, until the number is computed with.
    """

    signed: bool = True
    flexible: bool = False
    size: int = 8
    names: tuple[tuple[int, str], ...] = ()
    enum: str = ""
    least: int = 0
    clock: str = ""

    name: ClassVar[str] = "an integer"

    @property
    def storage(self) -> Type:
        return S64 if self.signed else U64

    def text(self, value: object, names: Names) -> str:
        for number, name in self.names:
            if number == value:
                return name
        if self.enum:
            assert isinstance(value, int)
            return names.enumerator(self.enum, value)
        return str(value)


@dataclass(frozen=True, slots=True)
class Boolean(ValueType):
    """The result of a comparison."""

    name: ClassVar[str] = "a boolean"

    @property
    def storage(self) -> Type:
        return U8

    def text(self, value: object, names: Names) -> str:  # noqa: ARG002 - the interface's
        return "true" if value else "false"


@dataclass(frozen=True, slots=True)
class String(ValueType):
    """Text of at most `size` bytes, its NUL among them. With `cut` a full one is taken for one that was longer."""

    size: int
    cut: bool = False

    name: ClassVar[str] = "a string"

    @property
    def storage(self) -> Type:
        return CharArray(self.size)

    def text(self, value: object, names: Names) -> str:
        text = str(value)
        full = self.cut and len(text.encode("utf-8", "surrogateescape")) == self.size - 1
        return names.shown(text + names.trailer if full else text)


@dataclass(frozen=True, slots=True)
class Characters(ValueType):
    """C's `char[length]` as an element of an array: text, which a NUL ends where it is shorter."""

    length: int

    name: ClassVar[str] = "a string"

    @property
    def storage(self) -> Type:
        return ForeignCharArray(self.length)

    def text(self, value: object, names: Names) -> str:
        return names.shown(str(value).partition("\0")[0])


@dataclass(frozen=True, slots=True)
class Address(ValueType):
    """A pointer. `target` is what lies there: a kernel type, an integer, characters; None if nothing is known.

    `held` is the type of a variable whose address it is.
    """

    target: KernelType | IntType | CharFactory | None
    space: Space
    held: ValueType | None = None

    name: ClassVar[str] = "a pointer"

    @property
    def storage(self) -> Type:
        return U64

    def text(self, value: object, names: Names) -> str:  # noqa: ARG002 - the interface's
        assert isinstance(value, int)
        return f"{value:#x}"


@dataclass(frozen=True, slots=True)
class UnkeptStruct(ValueType):
    """A struct or an array of some that a variable does not keep whole, by its address: it is read there."""

    target: KernelType
    space: Space

    name: ClassVar[str] = "a struct that is not kept whole"

    @property
    def storage(self) -> Type:
        return U64


def delimited(first: str, labels: Sequence[str], separator: str, last: str) -> list[str]:
    """The text before, between and behind parts that have labels."""
    if not labels:
        return [first + last]
    return [first + labels[0], *[separator + each for each in labels[1:]], last]


def interleaved(pieces: Sequence[str], texts: Sequence[str]) -> str:
    """Texts with pieces before, between and behind them."""
    return pieces[0] + "".join([text + piece for text, piece in zip(texts, pieces[1:], strict=True)])


@dataclass(frozen=True, slots=True)
class Tuple(ValueType):
    """Values side by side."""

    parts: tuple[ValueType, ...]

    name: ClassVar[str] = "a tuple"

    @property
    def storage(self) -> TupleType:
        return TupleType([part.storage for part in self.parts])

    @property
    def around(self) -> list[str]:
        """The text before, between and behind the parts."""
        return delimited("(", [""] * len(self.parts), ", ", ")")

    def text(self, value: object, names: Names) -> str:
        return interleaved(self.around, self.texts(value, names))

    def texts(self, value: object, names: Names) -> Sequence[str]:
        """The parts as text."""
        assert isinstance(value, tuple)
        return [part.text(each, names) for part, each in zip(self.parts, value, strict=True)]


@dataclass(frozen=True, slots=True)
class Record(ValueType):
    """Values side by side, by names. Copies of C structs have those' size, which bit-fields and unions make less."""

    names: tuple[str, ...]
    parts: tuple[ValueType, ...]
    c_size: int = field(default=0, compare=False)

    name: ClassVar[str] = "a record"

    @property
    def storage(self) -> TupleType:
        return TupleType([part.storage for part in self.parts])

    @property
    def around(self) -> list[str]:
        """The text before, between and behind the parts."""
        return delimited("{ ", [f".{name} = " for name in self.names], ", ", " }")

    def text(self, value: object, names: Names) -> str:
        assert isinstance(value, tuple)
        return interleaved(self.around, [part.text(each, names) for part, each in zip(self.parts, value, strict=True)])


@dataclass(frozen=True, slots=True)
class Array(ValueType):
    """Values of one type, as close together as C puts them."""

    element: ValueType
    length: int

    name: ClassVar[str] = "an array"

    @property
    def storage(self) -> Type:
        return ArrayType(natural(self.element), self.length)

    def text(self, value: object, names: Names) -> str:
        assert isinstance(value, list | tuple)
        return f"[{','.join([self.element.text(each, names) for each in value])}]"


def natural(type_: ValueType) -> Type:
    """The memory of a value in an array: a number has its own size there."""
    if isinstance(type_, Number):
        return INTEGERS[f"{'s' if type_.signed else 'u'}{8 * type_.size}"]
    return type_.storage


@dataclass(frozen=True, slots=True)
class KernelStack(ValueType):
    """A stack in the kernel, by the number that `bpf.stacks` knows."""

    limit: int
    mode: str

    name: ClassVar[str] = "a kernel stack"

    @property
    def storage(self) -> Type:
        return S32

    def text(self, value: object, names: Names) -> str:
        assert isinstance(value, int)
        return names.kernel_stack(value, self.limit, self.mode)


@dataclass(frozen=True, slots=True)
class UserStack(ValueType):
    """A stack in a process: its number and the process."""

    limit: int
    mode: str

    name: ClassVar[str] = "a user stack"

    @property
    def storage(self) -> Type:
        return TupleType([S32, U32])

    def text(self, value: object, names: Names) -> str:
        assert isinstance(value, tuple)
        return names.user_stack(value[0], value[1], self.limit, self.mode)


@dataclass(frozen=True, slots=True)
class KernelSymbol(ValueType):
    """An address in the kernel that is shown as a name."""

    name: ClassVar[str] = "a kernel symbol"

    @property
    def storage(self) -> Type:
        return U64

    def text(self, value: object, names: Names) -> str:
        assert isinstance(value, int)
        return names.kernel_symbol(value)


@dataclass(frozen=True, slots=True)
class UserSymbol(ValueType):
    """An address in a process that is shown as a name."""

    name: ClassVar[str] = "a user symbol"

    @property
    def storage(self) -> Type:
        return TupleType([U64, U32])

    def text(self, value: object, names: Names) -> str:
        assert isinstance(value, tuple)
        return names.user_symbol(*value)


@dataclass(frozen=True, slots=True)
class Username(ValueType):
    """The number of a user that is shown as a name."""

    name: ClassVar[str] = "a user name"

    @property
    def storage(self) -> Type:
        return U64

    def text(self, value: object, names: Names) -> str:
        assert isinstance(value, int)
        return names.user(value)


@dataclass(frozen=True, slots=True)
class Timestamp(ValueType):
    """Nanoseconds of a clock that are shown as a time of day; a `clock` of "" began when the machine started."""

    layout: str
    clock: str = ""

    name: ClassVar[str] = "a time"

    @property
    def storage(self) -> Type:
        return U64

    def text(self, value: object, names: Names) -> str:
        assert isinstance(value, int)
        return names.time(self.layout, value, self.clock)


@dataclass(frozen=True, slots=True)
class CgroupPath(ValueType):
    """The number of a group of processes that is shown as its path."""

    pattern: str

    name: ClassVar[str] = "a path of a cgroup"

    @property
    def storage(self) -> Type:
        return U64

    def text(self, value: object, names: Names) -> str:
        assert isinstance(value, int)
        return names.cgroup_path(value, self.pattern)


@dataclass(frozen=True, slots=True)
class MacAddress(ValueType):
    """The address of a network device, six bytes."""

    name: ClassVar[str] = "a MAC address"

    @property
    def storage(self) -> Type:
        return BytesType(6)

    def text(self, value: object, names: Names) -> str:  # noqa: ARG002 - the interface's
        assert isinstance(value, bytes)
        return value.hex(":").upper()


@dataclass(frozen=True, slots=True)
class Unread(ValueType):
    """The value of a member that scripts cannot read, a float, in a struct that is printed whole."""

    name: ClassVar[str] = "a float"

    @property
    def storage(self) -> Type:
        return U8

    def text(self, value: object, names: Names) -> str:  # noqa: ARG002 - the interface's
        return "null"


#: Linux's numbers of address families (include/linux/socket.h).
AF_INET, AF_INET6 = 2, 10


@dataclass(frozen=True, slots=True)
class Inet(ValueType):
    """An Internet address: its family, and 4 or 16 bytes in network order."""

    name: ClassVar[str] = "an Internet address"

    @property
    def storage(self) -> Type:
        return TupleType([U64, BytesType(16)])

    def text(self, value: object, names: Names) -> str:  # noqa: ARG002 - the interface's
        from ipaddress import IPv4Address, IPv6Address

        assert isinstance(value, tuple)
        family, data = value
        raw = bytes(data)
        if family == AF_INET:
            return str(IPv4Address(raw[:4]))
        if family != AF_INET6:
            return ""
        mapped = IPv6Address(raw).ipv4_mapped
        return str(IPv6Address(raw)) if mapped is None else f"::ffff:{mapped}"


@dataclass(frozen=True, slots=True)
class Buffer(ValueType):
    """Bytes: how many, and room for `size`."""

    size: int

    name: ClassVar[str] = "a buffer"

    @property
    def storage(self) -> Type:
        return TupleType([U32, BytesType(self.size)])

    def text(self, value: object, names: Names) -> str:  # noqa: ARG002 - the interface's
        return self.hexadecimal(value)

    @staticmethod
    def hexadecimal(value: object, *, ascii_kept: bool = True, escaped: bool = True) -> str:
        r"""The bytes: printable ones as they are if they are kept, others by two digits, with `\x` if `escaped`."""
        assert isinstance(value, tuple)
        length, data = value
        raw = bytes(data)[:length]
        if not ascii_kept:
            return ("" if escaped else " ").join(f"\\x{byte:02x}" if escaped else f"{byte:02x}" for byte in raw)
        return "".join(chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}" for byte in raw)


# -- what a map holds that functions such as count() fill -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Aggregate(ValueType):
    """Values that count() and the like put together in the kernel, each processor's by itself: `kind` is the name.

    `arguments` are those of a histogram: the bits of `hist`, or least, greatest and step of `lhist`.
    """

    kind: str
    signed: bool = False
    arguments: tuple[int, ...] = ()

    name: ClassVar[str] = "an aggregation"
