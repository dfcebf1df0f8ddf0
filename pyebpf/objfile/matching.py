"""Whether a kernel's type matches one of an object: `bpf_core_type_matches`, by libbpf's rules.

What stands in the object's type must be in the kernel's under the same name and of the same kind; the kernel's may have
more. Modifiers and typedefs do not count, nor what is behind a pointer to a struct or union but its name.
"""

from __future__ import annotations

from typing import NamedTuple

from pyebpf.btf import Array, Btf, Composite, Enum, Enum64, FuncProto, Fwd, Int, Node, Ptr, Union

_DEEPEST = 32


# Answers so far, by the types' ids and whether a pointer led there.
_Known = dict[tuple[int, int, bool], bool]


class _Type(NamedTuple):
    """A type of one BTF, without its modifiers and typedefs."""

    btf: Btf
    node: Node

    def other(self, type_id: int) -> _Type:
        """One that it refers to."""
        return _resolved(self.btf, type_id)


def types_match(local: Btf, local_id: int, kernel: Btf, kernel_id: int) -> bool:
    """Whether what `local` says of its type holds of the kernel's."""
    return _match(_resolved(local, local_id), _resolved(kernel, kernel_id), {}, behind=False, depth=0)


def _resolved(btf: Btf, type_id: int) -> _Type:
    return _Type(btf, btf.type_by_id(btf.resolve(type_id)))


def _same_name(one: str, two: str) -> bool:
    """Without the `___flavour`."""
    return one.partition("___")[0] == two.partition("___")[0]


def _match(local: _Type, kernel: _Type, known: _Known, *, behind: bool, depth: int) -> bool:
    if depth > _DEEPEST or not _same_name(local.node.name, kernel.node.name):
        return False
    pair = local.node.id, kernel.node.id, behind
    if pair not in known:
        known[pair] = True  # of a function's type that takes itself
        known[pair] = _decide(local, kernel, known, behind=behind, depth=depth + 1)
    return known[pair]


def _decide(local: _Type, kernel: _Type, known: _Known, *, behind: bool, depth: int) -> bool:
    ours, theirs = local.node, kernel.node
    if isinstance(ours, Fwd) or (behind and isinstance(ours, Composite)):
        # Behind a pointer a struct may be declared only, on either side.
        return _is_union(ours) == _is_union(theirs) and (behind or isinstance(theirs, Fwd))
    if isinstance(ours, Enum | Enum64):
        return isinstance(theirs, Enum | Enum64) and _enums_match(ours, theirs)
    if isinstance(ours, Composite):
        return type(ours) is type(theirs) and _members_match(local, kernel, known, behind=behind, depth=depth)
    if isinstance(ours, Int):
        return isinstance(theirs, Int) and (ours.size, ours.signed) == (theirs.size, theirs.signed)
    if isinstance(ours, Ptr):
        return isinstance(theirs, Ptr) and _match(
            local.other(ours.type), kernel.other(theirs.type), known, behind=True, depth=depth
        )
    if isinstance(ours, Array):
        return (
            isinstance(theirs, Array)
            and ours.length == theirs.length
            and _match(local.other(ours.type), kernel.other(theirs.type), known, behind=behind, depth=depth)
        )
    if isinstance(ours, FuncProto):
        if not isinstance(theirs, FuncProto) or len(ours.params) != len(theirs.params):
            return False
        pairs = [(one.type, two.type) for one, two in zip(ours.params, theirs.params, strict=True)]
        return all(
            _match(local.other(one), kernel.other(two), known, behind=behind, depth=depth)
            for one, two in (*pairs, (ours.type, theirs.type))
        )
    return type(ours) is type(theirs) and not ours.id  # void


def _is_union(node: Node) -> bool | None:
    """Whether it is a union, also one that is declared only; None for what is not a struct, either."""
    if isinstance(node, Fwd):
        return node.union
    return isinstance(node, Union) if isinstance(node, Composite) else None


def _enums_match(ours: Enum | Enum64, theirs: Enum | Enum64) -> bool:
    """By the names of their members: numbers may differ."""
    return ours.size == theirs.size and all(
        any(_same_name(one.name, two.name) for two in theirs.enumerators) for one in ours.enumerators
    )


def _members_match(local: _Type, kernel: _Type, known: _Known, *, behind: bool, depth: int) -> bool:
    assert isinstance(local.node, Composite)
    assert isinstance(kernel.node, Composite)
    theirs = kernel.node.members
    return len(local.node.members) <= len(theirs) and all(
        any(
            _same_name(one.name, two.name)
            and _match(local.other(one.type), kernel.other(two.type), known, behind=behind, depth=depth)
            for two in theirs
        )
        for one in local.node.members
    )
