"""`Btf`: types by id and by name, read from the bytes only when asked."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from struct import unpack_from
from typing import TYPE_CHECKING, TypeVar

from pyebpf.btf.decode import DECODERS, Raw
from pyebpf.btf.header import Header
from pyebpf.btf.index import Index
from pyebpf.btf.members import MemberAccess, flat_members, resolve_path
from pyebpf.btf.nodes import (
    MAX_DEPTH,
    Array,
    DataSec,
    DeclTag,
    Enumeration,
    Float,
    Func,
    FuncProto,
    Int,
    Kind,
    Node,
    Ptr,
    Struct,
    Union,
    Var,
    Void,
)
from pyebpf.errors import BtfError, NotFound, closest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from typing import Literal

    from pyebpf.btf.header import Content

ENUM_KINDS = frozenset({Kind.ENUM, Kind.ENUM64})
MODIFIERS = frozenset({Kind.VOLATILE, Kind.CONST, Kind.RESTRICT, Kind.TYPE_TAG})
# Since Linux 6.12 (commit 8aeaed21befc), and as BPF programs mark arguments of global functions.
NULLABLE_SUFFIX, NULLABLE_TAG = "__nullable", "arg:nullable"
# Whoever makes BTF stores each string once; looking up one that is everywhere would take quadratic time.
MAX_REPEATS = 64
# Messages about missing names that are kept.
MAX_MISSING = 256
TYPE_SIZE = 12
POINTER_SIZE = 8

AnyNode = TypeVar("AnyNode", bound=Node)


class Btf:
    """BTF from its bytes; with a `base`, split BTF as a kernel module has, its ids and strings counted on.

    Only the header is read at first. Ids run from 1 (0 is void), in split BTF from `start`; every method takes
    those of the base as well. Raises BtfError when what it reads contradicts itself, at once or when met.
    """

    def __init__(self, data: Content | memoryview, base: Btf | None = None, index: Index | None = None) -> None:
        self.data: Content = bytes(data) if isinstance(data, memoryview) else data
        self.base = base
        self.header = Header.parse(self.data, split=base is not None)
        if base is not None and base.header.byteorder != self.header.byteorder:
            raise BtfError("split BTF has another byte order than its base")
        self.start = 1 if base is None else base.stop
        self._string_start = 0 if base is None else base.string_stop
        self._index = index
        self._nodes: dict[int, Node] = {}
        self._found: dict[str, list[int]] = {}
        self._missing: dict[tuple[str, str], str] = {}
        self._members: dict[int, dict[str, MemberAccess]] = {}

    @property
    def byteorder(self) -> Literal["little", "big"]:
        """Of the machine the types describe."""
        return self.header.byteorder

    @property
    def index(self) -> Index:
        """Built when first needed, unless it was given."""
        if self._index is None:
            self._index = Index.build(self.data, self.header)
        return self._index

    @property
    def stop(self) -> int:
        """One more than the last id."""
        return self.start + len(self.index)

    @property
    def string_stop(self) -> int:
        """One more than the last string offset."""
        return self._string_start + self.header.strings_end - self.header.strings

    def string(self, offset: int) -> str:
        """The string at an offset, counted from the base's first."""
        if offset < self._string_start:
            assert self.base is not None
            return self.base.string(offset)
        at = offset - self._string_start + self.header.strings
        if at >= self.header.strings_end:
            raise BtfError(f"BTF names a string at {offset}, beyond its strings' {self.string_stop} bytes")
        return self.data[at : self.data.find(b"\0", at)].decode("utf-8", "backslashreplace")

    def type_by_id(self, type_id: int) -> Node:
        """The node with that id. Raises BtfError if there is none."""
        node = self._nodes.get(type_id)
        if node is None:
            node = self._nodes[type_id] = self._decode(type_id)
        return node

    def _decode(self, type_id: int) -> Node:
        if type_id == 0:
            return Void(0, "void")
        if 0 < type_id < self.start:
            assert self.base is not None
            return self.base.type_by_id(type_id)
        at = self._at(type_id)
        name, info, value = unpack_from(self.header.order + "III", self.data, at)
        raw = Raw(
            self.data,
            self.header.order,
            at + TYPE_SIZE,
            type_id,
            self.string(name),
            vlen=info & 0xFFFF,
            flag=bool(info >> 31),
            value=value,
            string=self.string,
        )
        return DECODERS[info >> 24 & 0x1F](raw)

    def _at(self, type_id: int) -> int:
        if not self.start <= type_id < self.stop:
            raise BtfError(f"BTF names type {type_id}, but its types end at {self.stop - 1}")
        return self.header.types + self.index.offsets[type_id - self.start]

    def kind(self, type_id: int) -> Kind:
        """The kind of the type with that id, without making its node."""
        if type_id == 0:
            return Kind.VOID
        if 0 < type_id < self.start:
            assert self.base is not None
            return self.base.kind(type_id)
        (info,) = unpack_from(self.header.order + "I", self.data, self._at(type_id) + 4)
        return Kind(info >> 24 & 0x1F)

    def find(self, name: str, kinds: Collection[Kind] | None = None) -> list[int]:
        """Ids of all types with that name, of the given kinds or any, rising; the base's first."""
        ids = self._found.get(name)
        if ids is None:
            ids = self._found[name] = [
                *(self.base.find(name) if self.base is not None else ()),
                *sorted(self.start + position for position in self._positions(name)),
            ]
        return [id_ for id_ in ids if kinds is None or self.kind(id_) in kinds]

    def _positions(self, name: str) -> Iterable[int]:
        """Own types of that name, by order."""
        ordered = self.index.sorted if self.base is None else None
        if ordered is None:
            return [each for offset in self.string_offsets(name) for each in self.index.positions(offset)]
        names = self.index.names
        return ordered.types[self._equal_run(name, ordered.types, lambda position: names[position])]

    def _equal_run(self, name: str, ordered: Sequence[int], offset: Callable[[int], int]) -> slice:
        """Find those in `ordered`, sorted by the strings at their `offset`, whose string is `name`."""
        data, start, end = self.data, self.header.strings, self.header.strings_end

        def text(each: int) -> bytes:
            at = start + offset(each)
            if not start <= at < end:
                raise BtfError(f"BTF names a string at {at - start}, beyond its strings' {end - start} bytes")
            return data[at : data.find(b"\0", at)]

        sought = name.encode("utf-8", "surrogatepass")
        first = bisect_left(ordered, sought, key=text)
        return slice(first, bisect_right(ordered, sought, first, key=text))

    def string_offsets(self, name: str) -> list[int]:
        """Every offset, the base's too, at which that whole string stands."""
        sought = name.encode("utf-8", "surrogatepass")
        if not sought or 0 in sought:
            return []
        found = self.base.string_offsets(name) if self.base is not None else []
        shift = self._string_start - self.header.strings
        # Split BTF's first string has no NUL before it.
        first = self.data[self.header.strings : self.header.strings + len(sought) + 1]
        if self.base is not None and first == sought + b"\0":
            found.append(self._string_start)
        pattern = b"\0" + sought + b"\0"
        at = self.data.find(pattern, self.header.strings, self.header.strings_end)
        while at >= 0:
            found.append(at + 1 + shift)
            if len(found) > MAX_REPEATS:
                raise BtfError(f"BTF repeats the string {name[:40]!r} more than {MAX_REPEATS} times")
            at = self.data.find(pattern, at + 1, self.header.strings_end)
        return found

    def names(self, kinds: Collection[Kind], *, own: bool = False) -> Iterator[str]:
        """Names of all types of the given kinds, by id; of split BTF with `own` without its base's.

        Walks every type: tens of milliseconds.
        """
        if self.base is not None and not own:
            yield from self.base.names(kinds)
        order, types = self.header.order, self.header.types
        for offset in self.index.offsets:
            name, info = unpack_from(order + "II", self.data, types + offset)
            if name and info >> 24 & 0x1F in kinds:
                yield self.string(name)

    def one(self, name: str, kind: type[AnyNode], kinds: Collection[Kind], what: str) -> AnyNode:
        """The first type with that name and kind. Raises NotFound with the closest names; `what` says of what."""
        ids = self.find(name, kinds)
        if not ids:
            raise self.not_found(name, kinds, what)
        node = self.type_by_id(ids[0])
        assert isinstance(node, kind)
        return node

    def not_found(self, name: str, kinds: Collection[Kind], what: str) -> NotFound:
        """The error for a name that is missing, with the closest ones. Walks every type: tens of milliseconds."""
        return NotFound(self._not_found(name, what, lambda: self.names(kinds)))

    def _not_found(self, name: str, what: str, names: Callable[[], Iterator[str]]) -> str:
        """The message of that error, kept: a front end that builds a program again and again asks as often."""
        message = self._missing.get((name, what))
        if message is None:
            if len(self._missing) >= MAX_MISSING:
                self._missing.clear()
            renamed = f"{name}_noprof"  # Linux 6.10 made macros of allocators' names
            if self.find(renamed, (Kind.FUNC,)):
                hint = f" (did you mean {renamed}, as allocators are called from Linux 6.10 on?)"
            else:
                hint = closest(name, sorted(_similar(name, names())))
            message = f"the kernel's BTF has no {what} {name!r}{hint}"
            self._missing[name, what] = message
        return message

    def struct(self, name: str) -> Struct:
        """`struct name`. Raises NotFound."""
        return self.one(name, Struct, (Kind.STRUCT,), "struct")

    def union(self, name: str) -> Union:
        """`union name`. Raises NotFound."""
        return self.one(name, Union, (Kind.UNION,), "union")

    def function(self, name: str) -> Func:
        """The function of that name. Raises NotFound."""
        return self.one(name, Func, (Kind.FUNC,), "function")

    def prototype(self, name: str) -> FuncProto:
        """The parameters and return type of a function. Raises NotFound."""
        node = self.type_by_id(self.function(name).type)
        if not isinstance(node, FuncProto):
            raise BtfError(f"BTF's function {name!r} has no prototype")
        return node

    def enumerator(self, name: str, enum: str | None = None) -> int:
        """The value of an enumerator, of `enum ENUM` or of whichever has it first. Raises NotFound."""
        value = self.find_enumerator(name, enum)
        if value is not None:
            return value
        if enum is None:
            raise NotFound(self._not_found(name, "enumerator", lambda: self._enumerator_names(self._enums())))
        ids = self.find(enum, ENUM_KINDS)
        if not ids:
            raise self.not_found(enum, ENUM_KINDS, "enum")
        known = set(self._enumerator_names(ids))
        raise NotFound(f"enum {enum} has no enumerator {name!r}{closest(name, sorted(known))}")

    def find_enumerator(self, name: str, enum: str | None = None) -> int | None:
        """As `enumerator`, but None if there is none."""
        for type_id in self._enums_with(name) if enum is None else self.find(enum, ENUM_KINDS):
            node = self.type_by_id(type_id)
            assert isinstance(node, Enumeration)
            for each in node.enumerators:
                if each.name == name:
                    return each.value
        return None

    def enumeration(self, name: str) -> Enumeration | None:
        """The first enum that has an enumerator of a name; None if there is none."""
        for type_id in self._enums_with(name):
            node = self.type_by_id(type_id)
            if isinstance(node, Enumeration) and any(each.name == name for each in node.enumerators):
                return node
        return None

    def nullable_parameters(self, function: int) -> frozenset[int]:
        """Numbers of the parameters that a function's BTF says may be NULL: by their names, or by declaration tags."""
        node = self.type_by_id(function)
        proto = self.type_by_id(node.type) if isinstance(node, Func) else node
        named = (
            {number for number, param in enumerate(proto.params) if param.name.endswith(NULLABLE_SUFFIX)}
            if isinstance(proto, FuncProto)
            else set()
        )
        tags = (self.type_by_id(type_id) for type_id in self.find(NULLABLE_TAG, (Kind.DECL_TAG,)))
        tagged = {tag.component for tag in tags if isinstance(tag, DeclTag) and tag.type == function}
        return frozenset(named | tagged)

    def _enums(self) -> Iterator[int]:
        """The ids of all enums, those of the base first."""
        if self.base is not None:
            yield from self.base._enums()
        order, types = self.header.order, self.header.types
        for number, offset in enumerate(self.index.offsets, self.start):
            (info,) = unpack_from(order + "I", self.data, types + offset + 4)
            if info >> 24 & 0x1F in ENUM_KINDS:
                yield number

    def _enumerator_names(self, type_ids: Iterable[int]) -> Iterator[str]:
        for type_id in type_ids:
            node = self.type_by_id(type_id)
            if isinstance(node, Enumeration):
                yield from (each.name for each in node.enumerators)

    def _enums_with(self, name: str) -> list[int]:
        """Enums that have it as enumerator, and perhaps a few others."""
        found = self.base._enums_with(name) if self.base is not None else []
        ordered = self.index.sorted if self.base is None else None
        if ordered is not None:
            run = self._equal_run(name, ordered.enumerators, lambda offset: offset)
            return [self.start + position for position in ordered.enums[run]]
        offsets, types, end = self.index.offsets, self.header.types, self.header.types_end
        for offset in self.string_offsets(name):
            # Where the name's offset stands in an enum's bytes, it is most likely an enumerator's.
            pattern = offset.to_bytes(4, self.byteorder)
            at = self.data.find(pattern, types, end)
            while at >= 0:
                id_ = self.start + bisect_right(offsets, at - types) - 1
                if self.kind(id_) in ENUM_KINDS:
                    found.append(id_)
                at = self.data.find(pattern, at + 1, end)
        return sorted(set(found))

    def members(self, struct: int) -> dict[str, MemberAccess]:
        """Members of a struct or union by name, those of anonymous members among them. Raises NotFound."""
        id_ = self.resolve(struct)
        if id_ not in self._members:
            self._members[id_] = flat_members(self, id_)
        return self._members[id_]

    def member(self, struct: int, name: str) -> MemberAccess:
        """The member of that name. Raises NotFound with the closest names."""
        members = self.members(struct)
        if name not in members:
            node = self.type_by_id(self.resolve(struct))
            what = f"{type(node).__name__.lower()} {node.name or '(anonymous)'}"
            raise NotFound(f"{what} has no member {name!r}{closest(name, members)}")
        return members[name]

    def resolve_path(self, struct: int, path: str) -> MemberAccess:
        """Find where `a.b[3].c` lies in a struct. Raises NotFound, and InvalidValue for what is not a path or index."""
        return resolve_path(self, struct, path)

    def skip_modifiers(self, type_id: int) -> int:
        """The id behind const, volatile, restrict and type tags."""
        return self._skip(type_id, MODIFIERS)

    def resolve(self, type_id: int) -> int:
        """The id behind modifiers and typedefs: what the type is made of."""
        return self._skip(type_id, MODIFIERS | {Kind.TYPEDEF})

    def _skip(self, id_: int, kinds: Collection[Kind]) -> int:
        for _ in range(MAX_DEPTH):
            if self.kind(id_) not in kinds:
                return id_
            node = self.type_by_id(id_)
            id_ = node.type  # type: ignore[attr-defined]  # every kind in `kinds` is a Reference
        raise BtfError(f"BTF's type {id_} refers to itself")

    def size_of(self, type_id: int) -> int:
        """Bytes that a value takes; a flexible array none. Raises BtfError for what has no size."""
        factor = 1
        for _ in range(MAX_DEPTH):
            node = self.type_by_id(self.resolve(type_id))
            if isinstance(node, Array):
                factor, type_id = factor * node.length, node.type
            elif isinstance(node, Var):
                type_id = node.type
            elif isinstance(node, Ptr):
                return factor * POINTER_SIZE
            elif isinstance(node, Int | Float | Struct | Union | Enumeration | DataSec):
                return factor * node.size
            else:
                raise BtfError(f"BTF's type {node.id} ({type(node).__name__} {node.name!r}) has no size")
        raise BtfError(f"BTF's type {type_id} is an array of itself")


def _similar(name: str, names: Iterator[str]) -> set[str]:
    """Those worth comparing by difflib, which would take seconds for a kernel's 56,000 functions."""
    start, length = name[:2].lower(), len(name)
    return {
        other
        for other in names
        if abs(len(other) - length) <= 4 and (other[:2].lower() == start or other[-4:] == name[-4:])
    }
