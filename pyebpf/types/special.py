"""Members of map values that only the kernel may touch: their place and name, which the verifier looks for in BTF.

To user space each is None: the kernel shows zeros in its place and keeps it when a value is stored.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyebpf.errors import InvalidValue, OnlyInProbe
from pyebpf.types.base import Type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from construct import Construct

    from pyebpf.btf import BtfBuilder


class SpecialType(Type):
    """A kernel structure of `size` bytes, called `tag`, in a map's value."""

    def __init__(self, name: str, tag: str, size: int, align: int) -> None:
        self.name = name
        self.tag = tag
        self.c_name = f"struct {tag}"
        self.size = size
        self.align = align
        self.format = f"{size}s"

    def assemble(self, plain: Iterator[object]) -> None:
        next(plain)

    def scatter(self, value: object) -> list[object]:
        if value is not None:
            raise InvalidValue(f"{value!r} does not fit {self.name}: it is the kernel's own, give None")
        return [bytes(self.size)]

    def describe_btf(self, builder: BtfBuilder) -> int:
        word = builder.add_int("__u32" if self.align == 4 else "__u64", self.align)
        count = self.size // self.align
        member = word if count == 1 else builder.add_array(word, builder.add_int("__u32", 4), count)
        return builder.add_struct(self.tag, self.size, [("val" if count == 1 else "__opaque", member, 0, 0)])

    @cached_property
    def construct(self) -> Construct:
        import construct

        return construct.Padding(self.size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SpecialType) and self.tag == other.tag

    def __hash__(self) -> int:
        return hash(self.tag)


def has_special(type_: Type | None) -> bool:
    """Whether a value of this type has members that only the kernel may touch."""
    from pyebpf.types.structs import StructType

    if not isinstance(type_, StructType):
        return False
    return any(isinstance(field.type, SpecialType) or has_special(field.type) for field in type_.fields)


class SpinLock:
    """The annotation of a `spin_lock` in a Struct: `lock: SpinLock = field(spin_lock, default=None)`."""

    def __enter__(self) -> None:
        raise OnlyInProbe("a spin lock is held by a probe, `with entry.lock:`")

    def __exit__(self, *_: object) -> None: ...


class Timer:
    """The annotation of a `timer` in a Struct: `timeout: Timer = field(timer, default=None)`."""

    def start(self, callback: Callable[[Any, Any], None], nanoseconds: int) -> int:  # noqa: ARG002 - a declaration
        """Call `callback(key, value)` once, so many nanoseconds from now. 0, or the negative of an errno.

        The function is one of key and value of the timer's own map, and may start the timer again. It runs in the
        kernel when the program has long ended, without a context, until the entry or the map is gone.
        """
        raise OnlyInProbe("a timer is started by a probe, `entry.timer.start(function, nanoseconds)`")

    def cancel(self) -> int:
        """Forget it: 1 if it was to come, 0 if not, or the negative of an errno."""
        raise OnlyInProbe("a timer is cancelled by a probe, `entry.timer.cancel()`")


spin_lock: Any = SpecialType("spin_lock", "bpf_spin_lock", 4, 4)
"""struct bpf_spin_lock, at most one a value: `lock: None = field(spin_lock, default=None)`. Since Linux 5.1."""
timer: Any = SpecialType("timer", "bpf_timer", 16, 8)
"""struct bpf_timer, since Linux 5.15."""
work_queue: Any = SpecialType("work_queue", "bpf_wq", 16, 8)
"""struct bpf_wq, since Linux 6.10."""
