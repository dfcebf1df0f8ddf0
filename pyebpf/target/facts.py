"""Answers about a kernel: frozen, plain, and free of the BTF they came from, so that they can be written down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from pyebpf.btf.record import Record
from pyebpf.errors import MalformedData
from pyebpf.target.schema import read

if TYPE_CHECKING:
    from pyebpf.types.tracepoint import TracepointField

#: Stands where a module's name would, for the kernel without its modules.
KERNEL_ITSELF = "vmlinux"

TypeKind = Literal["void", "int", "float", "pointer", "array", "struct", "union", "enum", "function"]


class KernelType(Record):
    """A C type of the kernel, modifiers and typedefs removed.

    `size` is in bytes; 0 for void, a function, a flexible array and a struct that is only declared. `name` is C's
    name without "struct" and the like, empty for an anonymous type. `element` is what a pointer points to (None only
    for other kinds; a `void *` has an element of kind "void") or what an array consists of, `length` of them.
    A struct's members are asked for by `Target.member`, which knows it by `id` (BTF, of `module`, "" for vmlinux).
    `aliases` are the typedefs it was reached by, outermost first; `tags` its BTF type tags ("user", "percpu").
    """

    kind: TypeKind
    size: int
    name: str = ""
    signed: bool = False
    element: KernelType | None = None
    length: int = 0
    id: int = 0
    module: str = ""
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    @property
    def c_name(self) -> str:
        """The type as C writes it, such as "struct sock *" or "char[16]"."""
        if self.element is not None:
            inner = self.element.c_name
            if self.kind == "array":
                return f"{inner}[{self.length or ''}]"
            return f"{inner}*" if inner.endswith("*") else f"{inner} *"
        if self.kind in {"struct", "union", "enum"}:
            return f"{self.kind} {self.name or '(anonymous)'}"
        return self.name or self.kind

    @property
    def character(self) -> bool:
        """Whether it is C's `char`, of which arrays are text; `u8` and `signed char` are numbers."""
        return self.kind == "int" and self.name == "char"

    @property
    def boolean(self) -> bool:
        """Whether it is C's `bool`."""
        return self.kind == "int" and self.name == "_Bool"

    @property
    def composite(self) -> bool:
        """Whether it has members."""
        return self.kind in {"struct", "union"}

    @property
    def key(self) -> str:
        """Text that tells it from every other struct, union or enum of its kernel."""
        return f"{self.c_name}#{self.id}" + (f"@{self.module}" if self.module else "")


class KernelMember(Record):
    """The position of a member in its struct: `bit_offset` from the start; `bit_size` is 0 but for bit-fields."""

    type: KernelType
    bit_offset: int
    bit_size: int = 0

    @property
    def offset(self) -> int:
        """In bytes; of a bit-field, of the byte in which it begins."""
        return self.bit_offset // 8


class KernelVariable(Record):
    """A variable that BTF has; of one that is `per_cpu` each processor has its own."""

    type: KernelType
    per_cpu: bool = False


class KernelParameter(Record):
    """A parameter; `nullable` if the verifier takes it, where a pointer, for one that may be NULL."""

    name: str
    type: KernelType
    nullable: bool = False


class KernelFunction(Record):
    """A function by its BTF id, of `module`, "" for vmlinux."""

    name: str
    btf_id: int
    parameters: tuple[KernelParameter, ...]
    returns: KernelType
    variadic: bool = False
    module: str = ""


class KernelRawTracepoint(Record):
    """A raw tracepoint: `btf_id` is what a tp_btf program gives as attach_btf_id."""

    name: str
    btf_id: int
    parameters: tuple[KernelParameter, ...]
    module: str = ""


def to_plain(value: object) -> object:
    """Turn a fact into what JSON holds: fields that have their default are left out."""
    if isinstance(value, tuple):
        return [to_plain(each) for each in value]
    if isinstance(value, str | int | bool | None):
        return value
    if isinstance(value, Record):
        cls = type(value)
        return {
            field: to_plain(getattr(value, field))
            for field in cls.record_fields
            if field not in cls.record_defaults or getattr(value, field) != cls.record_defaults[field]
        }
    from pyebpf.types.tracepoint import TracepointFormat

    if isinstance(value, TracepointFormat):
        return {
            "name": value.name,
            "id": value.id,
            "common": [_field_to_plain(field) for field in value.common],
            "fields": [_field_to_plain(field) for field in value.fields],
        }
    raise MalformedData(f"{value!r} is not a fact about a kernel")


def _field_to_plain(field: TracepointField) -> dict[str, object]:
    return {name: getattr(field, name) for name in field.__match_args__ if getattr(field, name) is not None}


def from_plain(annotation: str, plain: object, place: str) -> Any:
    """Return the fact that `to_plain` made of one so annotated. MalformedData names what does not fit."""
    from pyebpf.types.tracepoint import TracepointField, TracepointFormat

    return read(
        annotation,
        plain,
        place,
        {**_CLASSES, "TracepointField": TracepointField} | {"TracepointFormat": TracepointFormat},
    )


_CLASSES: dict[str, object] = {
    cls.__name__: cls
    for cls in (KernelType, KernelMember, KernelVariable, KernelParameter, KernelFunction, KernelRawTracepoint)
}
_CLASSES["TypeKind"] = "Literal[{}]".format(", ".join(f'"{kind}"' for kind in get_args(TypeKind)))
