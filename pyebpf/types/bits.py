"""`bits`: a few bits of a Struct's field under a name of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.errors import InvalidValue

if TYPE_CHECKING:
    from typing import Self, overload


class Bits:
    """`width` bits of the integer field `field`, from bit `shift` up; what they say is counted in `unit`s."""

    def __init__(self, field: str, shift: int, width: int, unit: int) -> None:
        self.field = field
        self.shift = shift
        self.mask = (1 << width) - 1
        self.unit = unit
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: type) -> Self: ...
        @overload
        def __get__(self, instance: object, owner: type) -> int: ...

    def __get__(self, instance: object | None, owner: type) -> Self | int:
        if instance is None:
            return self
        held: int = getattr(instance, self.field)
        return (held >> self.shift & self.mask) * self.unit

    def __set__(self, instance: object, value: int) -> None:
        held: int = getattr(instance, self.field)
        setattr(instance, self.field, held & ~(self.mask << self.shift) | self.held(value) << self.shift)

    def held(self, value: int) -> int:
        """The bits that stand for `value`. Raises InvalidValue for one that they can't hold."""
        count, rest = divmod(value, self.unit)
        if rest or not 0 <= count <= self.mask:
            steps = f" in steps of {self.unit}" if self.unit > 1 else ""
            raise InvalidValue(f"{value} does not fit {self.name}, which holds 0 to {self.mask * self.unit}{steps}")
        return count


def bits(field: str, shift: int, width: int = 1, *, unit: int = 1) -> Any:
    """Name some bits of a Struct's integer field: `width` of them, from bit `shift` up.

        class IPv4(Struct):
            version_and_length: u8
            header_length = bits("version_and_length", 0, 4, unit=4)

    In probes and of instances it reads as an int, `unit` times what stands there, and can be assigned to. It takes no
    place of its own: constructors take the field.
    """
    return Bits(field, shift, width, unit)
