"""Types of a probed program's own, by its debugging information: `args.NAME` of a uprobe, and structs by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyebpf.attach import registers
from pyebpf.bpftrace.translate.calling_convention import positions
from pyebpf.bpftrace.translate.structs import Member
from pyebpf.bpftrace.translate.values import Condition, Integer
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.kernel_objects import pointer_to
from pyebpf.builder.values.memory import Space
from pyebpf.compiler.ir import Condition as Relation, Op
from pyebpf.errors import PyebpfError, closest_or_all
from pyebpf.target import KernelType
from pyebpf.types import INTEGERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    from pyebpf.attach.uprobes import Uprobe
    from pyebpf.bpftrace import ast
    from pyebpf.bpftrace.translate.body import Scope
    from pyebpf.bpftrace.translate.structs import Structs
    from pyebpf.bpftrace.translate.values import Value
    from pyebpf.elf.dwarf.types import DebugType, DebugTypes, Signature

    Named: TypeAlias = tuple[str, Member]

#: Structs without names in structs whose members are looked for, and members of a struct in all.
_MAX_DEPTH, _MAX_MEMBERS = 16, 1 << 14


class UserFunction(NamedTuple):
    """Functions that a uprobe is at: the types of their file, an address, and the signature, or why it is unknown.

    `disputed` is that they return different types.
    """

    types: DebugTypes
    address: int
    signature: Signature | None
    unknown: str = ""
    disputed: str = ""


class UserTypes:
    """Types of the files that a script probes, as the kernel's are: their structs have ids below 0."""

    def __init__(self, structs: Structs, find: Callable[[str, Sequence[str], int], UserFunction]) -> None:
        self._structs = structs
        self._find = find
        self._functions: dict[tuple[str, tuple[str, ...], int], UserFunction | PyebpfError] = {}
        self._known: dict[tuple[int, int], KernelType] = {}
        self._enums: dict[int, tuple[tuple[int, str], ...]] = {}
        self._constants: dict[tuple[str, tuple[str, ...], int, str], tuple[int, KernelType] | None] = {}

    def function(self, attach: Uprobe) -> UserFunction:
        """The functions of a uprobe. Raises PyebpfError where nothing is known of them."""
        key = attach.binary, attach.functions, attach.pid
        if key not in self._functions:
            try:
                self._functions[key] = self._find(*key)
            except PyebpfError as error:
                self._functions[key] = error
        found = self._functions[key]
        if isinstance(found, PyebpfError):
            raise found
        return found

    def named(self, attach: Uprobe, kind: str, name: str, *, everywhere: bool = False) -> KernelType | None:
        """A type of the file that is probed; None if nothing is known of it there.

        It is looked for in the source file of the function, or in all.
        """
        try:
            function = self.function(attach)
            found = function.types.named(kind, name, None if everywhere else function.address)
        except PyebpfError:
            return None  # the kernel may have such a type
        return None if found is None else self.kernel_type(found)

    def constant(self, attach: Uprobe, name: str) -> tuple[int, KernelType] | None:
        """The number of a constant in the source file of the function, and its enum; None if it has none such."""
        key = attach.binary, attach.functions, attach.pid, name
        if key not in self._constants:
            try:
                function = self.function(attach)
                found = function.types.constant(name, function.address)
            except PyebpfError:
                found = None
            self._constants[key] = None if found is None else (found[0], self.kernel_type(found[1]))
        return self._constants[key]

    def kernel_type(self, type_: DebugType) -> KernelType:
        """A type in the words of the kernel's."""
        kind, size, name = type_.kind, type_.size, type_.name
        if type_.owner is not None:
            key = id(type_.owner), type_.place
            if key not in self._known:
                self._known[key] = self._added(type_)
            return self._known[key]
        if kind == "int" and name == "bool":
            name = "_Bool"
        element = None if type_.element is None else self.kernel_type(type_.element)
        return KernelType(kind, size, name, signed=type_.signed, element=element, length=type_.length)

    def enumerators(self, type_: KernelType) -> tuple[tuple[int, str], ...]:
        """The numbers and names of an enum, which has an id below 0, too."""
        return self._enums[type_.id]

    def _added(self, type_: DebugType) -> KernelType:
        owner = type_.owner
        assert owner is not None
        if type_.kind == "enum":
            made = KernelType("enum", type_.size, type_.name, signed=type_.signed, id=self._structs.new_id())
            self._enums[made.id] = tuple(
                (number, name) for number, name in owner.enumerators(type_) if name.isidentifier()
            )
            return made
        return self._structs.add(type_.kind, type_.size, type_.name, lambda: dict(self._members(owner, type_, 0, [0])))

    def _members(self, owner: DebugTypes, type_: DebugType, depth: int, number: list[int]) -> Iterator[Named]:
        """The members of a struct; those of what has no name, and of classes that it is derived from, are its own.

        What a script cannot name is left out. `number` counts all that are looked at.
        """
        for each in owner.members(type_):
            number[0] += 1
            owner.elf.budget.check(number[0], _MAX_MEMBERS, "members of a struct")
            inner = each.type
            if inner.owner is not None and inner.kind in ("struct", "union") and (each.base or not each.name):
                if depth < _MAX_DEPTH:
                    for name, member in self._members(inner.owner, inner, depth + 1, number):
                        yield name, member.moved(each.bit_offset // 8)
                continue
            if not each.name.isidentifier():
                continue
            made = self.kernel_type(inner)
            if not each.bit_size:
                yield each.name, Member(each.bit_offset // 8, made)
            else:
                yield each.name, Member(each.bit_offset // 8, made, each.bit_offset % 8, each.bit_size)


# -- arguments ---------------------------------------------------------------------------------------------------------


def argument(s: Scope, attach: Uprobe, name: str, node: ast.Node) -> Value:
    """`args.NAME`: an argument of a function of a program, at its entry."""
    from pyebpf.bpftrace.translate.casts import narrowed
    from pyebpf.bpftrace.translate.expressions import wrapped
    from pyebpf.bpftrace.translate.members import enumerated

    signature = _signature(s, attach, node)
    names = [each.name for each in signature.parameters]
    if name not in names:
        known = [each for each in names if each.isidentifier()]
        there = closest_or_all(name, known) if known else ": its debugging information names none"
        raise s.error(f"{attach.target} has no argument {name}{there}", node)
    type_ = signature.parameters[names.index(name)].type
    if not _is_word(type_):
        raise s.error(f"{name} is of type {type_.c_name}, which is not passed as an integer or a pointer", node)
    position = _positions(s, signature, node)[names.index(name)]
    if position is None:
        raise s.error(
            f"where {name} is passed is not known: a value before it, or the result, is of a type that compilers pass "
            "in two ways, or of an unknown one",
            node,
        )
    p, found = s.p, s.script.user_types.kernel_type(type_)
    value = registers.argument(p, position, Space.USER)
    if found.kind == "pointer":
        return wrapped(s, pointer_to(value, found, trusted=False, space=Space.USER), node)
    if found.boolean:
        return Condition(Compare(Relation.NE, p.b.emit(Op.ZEXT, value, size=1), p.b.const(0)))
    number = narrowed(s, Integer(value, signed=False), INTEGERS[f"{'s' if found.signed else 'u'}{8 * found.size}"])
    return enumerated(s, number, found) if found.kind == "enum" else number


def argument_names(s: Scope, attach: Uprobe, node: ast.Node) -> list[str]:
    """The names of the arguments that a script can read."""
    signature = _signature(s, attach, node)
    places = _positions(s, signature, node)
    found = [
        each.name
        for each, position in zip(signature.parameters, places, strict=True)
        if each.name.isidentifier() and position is not None and _is_word(each.type)
    ]
    if not found:
        raise s.error(f"{attach.target} has no args", node)
    return found


def _is_word(type_: DebugType) -> bool:
    return type_.kind in ("int", "enum", "pointer") and type_.size in (1, 2, 4, 8)


def _positions(s: Scope, signature: Signature, node: ast.Node) -> list[int | None]:
    try:
        return positions(s.p.target.arch, signature)
    except PyebpfError as error:
        raise s.error(str(error), node) from None


def _signature(s: Scope, attach: Uprobe, node: ast.Node) -> Signature:
    if attach.returns:
        raise s.error("args are gone when a function returns: keep them in a map at its entry", node)
    try:
        found = s.script.user_types.function(attach)
    except PyebpfError as error:
        raise s.error(str(error), node) from None
    if found.signature is None:
        raise s.error(found.unknown, node)
    return found.signature
