"""Checks of a map's spec against its kind's row: each refusal says what to give instead."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyebpf.errors import InvalidValue
from pyebpf.specs.map_kinds import FLAG_NAMES, Can, Entries, Key, Value
from pyebpf.specs.maps import MapKind
from pyebpf.uapi.flags import (
    BPF_F_NUMA_NODE,
    BPF_F_RDONLY,
    BPF_F_RDONLY_PROG,
    BPF_F_STACK_BUILD_ID,
    BPF_F_WRONLY,
    BPF_F_WRONLY_PROG,
)

if TYPE_CHECKING:
    from pyebpf.specs.map_kinds import MapRules
    from pyebpf.specs.maps import MapSpec
    from pyebpf.types import Type

__all__ = ["check"]

_NAME = re.compile(r"[A-Za-z0-9_.]{1,15}")
_MOST = (1 << 32) - 1
_MOST_KEY = 512 - 32
_MOST_PREFIX = 256
_MOST_HASHES = 15
_MOST_OF_ARENA = 1 << 32
_LEAST_PAGE = 4096  # of the architectures that Linux has

_KEY_SIZES = {Key.INDEX: (4,), Key.DESCRIPTOR: (4,), Key.CGROUP: (8, 16)}
_KEY_WORDS = {Key.INDEX: "u32", Key.DESCRIPTOR: "s32", Key.CGROUP: "u64"}
_VALUE_SIZES = {Value.DESCRIPTOR: (4,), Value.SOCKET: (4, 8), Value.DEVICE: (4, 8), Value.PROCESSOR: (4, 8)}


def check(spec: MapSpec, page_size: int) -> None:
    """Raise InvalidValue for a shape that no kernel takes; a page has `page_size` bytes."""
    rules = spec.kind.rules
    if not _NAME.fullmatch(spec.name):
        raise InvalidValue(f"map name {spec.name!r}: give 1 to 15 of letters, digits, _ and .")
    _key(spec, rules)
    _value(spec, rules)
    _entries(spec, rules, page_size)
    _flags(spec, rules)
    if rules.needs_inner != (spec.inner is not None):
        fix = "give inner=, the spec of the maps in it" if rules.needs_inner else "leave out inner="
        raise _wrong(spec, fix)
    if spec.inner is not None:
        check(spec.inner, page_size)
        if spec.inner.inner is not None:
            raise _wrong(spec, "maps nest one level deep: give an inner spec that has no inner of its own")
    if spec.typed and not rules.can & Can.TYPED:
        raise _wrong(spec, "the kernel takes no BTF for this kind: leave out typed=")
    if spec.extra and spec.kind not in {MapKind.BLOOM_FILTER, MapKind.ARENA}:
        raise _wrong(spec, "extra= is for Bloom filters (hash functions) and arenas (address): leave it out")
    if spec.kind is MapKind.BLOOM_FILTER and not 0 <= spec.extra <= _MOST_HASHES:
        raise _wrong(spec, f"{spec.extra} hash functions: give extra= 1 to {_MOST_HASHES}, or 0 for the kernel's 5")
    if (spec.kind is MapKind.STRUCT_OPS) != bool(spec.operations):
        fix = 'give operations=, such as "tcp_congestion_ops"' if not spec.operations else "leave out operations="
        raise _wrong(spec, fix)
    if spec.frozen and spec.kind is MapKind.STRUCT_OPS:
        raise _wrong(spec, "the kernel freezes no struct_ops map: leave out frozen=")


def _wrong(spec: MapSpec, fix: str) -> InvalidValue:
    return InvalidValue(f"map {spec.name} ({spec.kind.name}): {fix}")


def _fixed(given: Type | None) -> str:
    return "none is given" if given is None else f"not {given!r}, {given.size} bytes"


def _key(spec: MapSpec, rules: MapRules) -> None:
    key = spec.key
    if rules.key is Key.NONE:
        if key is not None:
            raise _wrong(spec, f"this kind has no keys: leave out key={key!r}")
    elif rules.key in _KEY_SIZES:
        if key is not None and key.size not in _KEY_SIZES[rules.key]:
            raise _wrong(spec, f"keys are {rules.key.value}, {_fixed(key)}: give key={_KEY_WORDS[rules.key]}")
    elif key is None:
        raise _wrong(spec, "give key=, the type of its keys")
    elif rules.key is Key.PREFIX:
        if not 5 <= key.size <= 4 + _MOST_PREFIX:
            raise _wrong(spec, f"keys are a {rules.key.value}, {_fixed(key)}: give key=ipv4_prefix or ipv6_prefix")
    elif key.size > _MOST_KEY:
        raise _wrong(spec, f"a key of {key.size} bytes: a program's stack holds at most {_MOST_KEY}")


def _value(spec: MapSpec, rules: MapRules) -> None:
    value = spec.value
    if rules.value is Value.NONE:
        if value is not None:
            raise _wrong(spec, f"this kind has no values: leave out value={value!r}")
    elif rules.value is Value.OPERATIONS:
        if value is not None:
            raise _wrong(spec, "the kernel's BTF gives the value: leave out value=")
    elif rules.value in _VALUE_SIZES:
        if value is not None and value.size not in _VALUE_SIZES[rules.value]:
            raise _wrong(spec, f"values are {rules.value.value}, {_fixed(value)}: leave out value=")
    elif value is None:
        raise _wrong(spec, "give value=, the type of its values")
    elif rules.value is Value.TRACE:
        frame = 32 if spec.flags & BPF_F_STACK_BUILD_ID else 8
        if value.size % frame:
            raise _wrong(spec, f"a frame has {frame} bytes, {_fixed(value)}: give value=array(u64, 127)")


def _entries(spec: MapSpec, rules: MapRules, page_size: int) -> None:
    count = spec.max_entries
    if not 0 <= count <= _MOST:
        raise _wrong(spec, f"{count} is no size: give 1 to {_MOST}")
    match rules.entries:
        case Entries.COUNT | Entries.PAGES:
            if not count:
                raise _wrong(spec, f"a size of 0: give the number of {rules.entries.value}")
            if rules.entries is Entries.PAGES and count * page_size > _MOST_OF_ARENA:
                most = _MOST_OF_ARENA // page_size
                raise _wrong(spec, f"{count} pages of {page_size} bytes: give at most {most}, which are 4 GiB")
        case Entries.BYTES:
            # Where pages are larger, the ring is as large as one of them.
            if count < _LEAST_PAGE or count & (count - 1):
                raise _wrong(
                    spec, f"{count} bytes: give a power of two from {_LEAST_PAGE} on, such as {64 * _LEAST_PAGE}"
                )
        case Entries.ZERO | Entries.ONE:
            if count != int(rules.entries.value):
                raise _wrong(spec, f"{count} entries: give {rules.entries.value}, the kernel makes what is needed")


def flag_names(flags: int) -> str:
    """Flags as text, `BPF_F_NO_PREALLOC | 0x80000000`."""
    names = [f"BPF_F_{name}" for bit, name in FLAG_NAMES.items() if flags & bit]
    rest = flags & ~sum(FLAG_NAMES)
    return " | ".join([*names, hex(rest)] if rest else names) or "no flag"


def _flags(spec: MapSpec, rules: MapRules) -> None:
    flags = spec.flags
    if unknown := flags & sum(FLAG_NAMES) & ~rules.flags:
        raise _wrong(
            spec, f"this kind does not take {flag_names(unknown)}: leave it out (it takes {flag_names(rules.flags)})"
        )
    if missing := rules.required & ~flags:
        raise _wrong(spec, f"this kind needs {flag_names(missing)}: add it to flags=")
    for one, other in ((BPF_F_RDONLY, BPF_F_WRONLY), (BPF_F_RDONLY_PROG, BPF_F_WRONLY_PROG)):
        if flags & one and flags & other:
            raise _wrong(spec, f"{flag_names(one)} and {flag_names(other)} exclude each other: give one")
    if spec.numa_node is not None and not rules.flags & BPF_F_NUMA_NODE:
        raise _wrong(spec, "memory of this kind lies on no one NUMA node: leave out numa_node=")
    if flags & BPF_F_NUMA_NODE and spec.numa_node is None:
        raise _wrong(spec, "BPF_F_NUMA_NODE names no node: give numa_node= instead of the flag")
