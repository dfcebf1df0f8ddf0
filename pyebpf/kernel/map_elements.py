"""bpf(2) commands on the elements of a map: one function a command, named as the command.

Keys and values are bytes as the kernel holds them; a per-CPU map's value is one slot of `round_up(value_size, 8)`
bytes for each possible processor. Attribute, key and value share one buffer: these calls are hot.
"""

from __future__ import annotations

import errno
from struct import Struct

from pyebpf.kernel.syscall import address_of, bpf, bpf_once
from pyebpf.uapi.commands import Command

_LOOKUP_ELEM, _UPDATE_ELEM = Command.MAP_LOOKUP_ELEM, Command.MAP_UPDATE_ELEM
_DELETE_ELEM, _GET_NEXT_KEY = Command.MAP_DELETE_ELEM, Command.MAP_GET_NEXT_KEY

# struct { __u32 map_fd; __aligned_u64 key; union { value, next_key }; __u64 flags; };
_ELEMENT_ATTR = Struct("=I4xQQQ")
_KEY_AT = _ELEMENT_ATTR.size
_pack_element = _ELEMENT_ATTR.pack_into

# struct { __aligned_u64 in_batch, out_batch, keys, values; __u32 count, map_fd; __u64 elem_flags, flags; } batch;
_BATCH_ATTR = Struct("=QQQQIIQQ")
_COUNT_AT = 32
_U32 = Struct("=I")


def map_lookup_elem(fd: int, key: bytes, value_size: int, flags: int = 0) -> bytes:
    """A copy of the value of `key`. ENOENT: no such key. Raises for queues and ring buffers (EOPNOTSUPP)."""
    value_at = _KEY_AT + (len(key) + 7 & ~7)
    buffer = bytearray(value_at + value_size)
    base = address_of(buffer)
    buffer[_KEY_AT : _KEY_AT + len(key)] = key
    _pack_element(buffer, 0, fd, base + _KEY_AT, base + value_at, flags)
    bpf(_LOOKUP_ELEM, base, _KEY_AT)
    return bytes(buffer[value_at:])


def map_lookup_elem_in_place(fd: int, value: bytes) -> bytes:
    """A look-up without a key, into a buffer that holds `value` first.

    Queues and stacks write their head there (ENOENT: empty), Bloom filters test what it holds (ENOENT: never added).
    """
    buffer = bytearray(_KEY_AT) + value
    base = address_of(buffer)
    _pack_element(buffer, 0, fd, 0, base + _KEY_AT, 0)
    bpf(_LOOKUP_ELEM, base, _KEY_AT)
    return bytes(buffer[_KEY_AT:])


def map_lookup_and_delete_elem(fd: int, key: bytes, value_size: int) -> bytes:
    """The value of `key`, which is removed (queues and stacks: no key).

    ENOENT: no such key. ENOTSUPP: not for this kind.

    Hash kinds have it since Linux commit 3e87f192b405 ("bpf: Add lookup_and_delete_elem support to hashtab") (v5.14).
    """
    value_at = _KEY_AT + (len(key) + 7 & ~7)
    buffer = bytearray(value_at + value_size)
    base = address_of(buffer)
    buffer[_KEY_AT : _KEY_AT + len(key)] = key
    _pack_element(buffer, 0, fd, base + _KEY_AT if key else 0, base + value_at, 0)
    bpf(Command.MAP_LOOKUP_AND_DELETE_ELEM, base, _KEY_AT)
    return bytes(buffer[value_at:])


def map_update_elem(fd: int, key: bytes, value: bytes, flags: int = 0) -> None:
    """Set a value. `flags`: BPF_ANY 0, BPF_NOEXIST 1 (else EEXIST), BPF_EXIST 2 (else ENOENT).

    E2BIG: the map is full.
    """
    value_at = _KEY_AT + (len(key) + 7 & ~7)
    buffer = bytearray(value_at + len(value))
    base = address_of(buffer)
    buffer[_KEY_AT : _KEY_AT + len(key)] = key
    buffer[value_at:] = value
    _pack_element(buffer, 0, fd, base + _KEY_AT if key else 0, base + value_at, flags)
    bpf(_UPDATE_ELEM, base, _KEY_AT)


def map_delete_elem(fd: int, key: bytes) -> None:
    """Remove a key. ENOENT: there is none. EINVAL: the kind's elements cannot be removed."""
    buffer = bytearray(_KEY_AT + len(key))
    base = address_of(buffer)
    buffer[_KEY_AT:] = key
    _pack_element(buffer, 0, fd, base + _KEY_AT, 0, 0)
    bpf(_DELETE_ELEM, base, _KEY_AT)


def map_get_next_key(fd: int, key: bytes | None, key_size: int) -> bytes | None:
    """The key after `key` in the map's own order; the first one for None, and for a key that a hash no longer holds.

    None at the end.
    """
    next_at = _KEY_AT + (key_size + 7 & ~7)
    buffer = bytearray(next_at + key_size)
    base = address_of(buffer)
    if key is not None:
        buffer[_KEY_AT : _KEY_AT + key_size] = key
    _pack_element(buffer, 0, fd, base + _KEY_AT if key is not None else 0, base + next_at, 0)
    try:
        bpf(_GET_NEXT_KEY, base, _KEY_AT)
    except FileNotFoundError:
        return None
    return bytes(buffer[next_at:])


def map_freeze(fd: int) -> None:
    """Refuse writes from user space from now on. EBUSY: mapped for writing or frozen before."""
    buffer = bytearray(_U32.pack(fd))
    bpf(Command.MAP_FREEZE, address_of(buffer), len(buffer))


def _read_batch(
    command: int, fd: int, position: bytes | None, count: int, key_size: int, value_size: int, flags: int
) -> tuple[bytes, bytes, int, bytes | None]:
    # A position takes four bytes for hash and array kinds, a key for tries: room for either.
    room = max(key_size, 8)
    keys, values = bytearray(key_size * count), bytearray(value_size * count)
    buffer = bytearray(_BATCH_ATTR.size + 2 * room)
    base = address_of(buffer)
    in_at, out_at = _BATCH_ATTR.size, _BATCH_ATTR.size + room
    if position is not None:
        buffer[in_at : in_at + len(position)] = position
    _BATCH_ATTR.pack_into(
        buffer, 0, base + in_at if position is not None else 0, base + out_at,
        address_of(keys), address_of(values), count, fd, flags, 0,
    )  # fmt: skip
    following: bytes | None
    try:
        bpf_once(command, base, _BATCH_ATTR.size)
        following = bytes(buffer[out_at:])
    except FileNotFoundError:
        following = None  # the end, with the last elements in place
    done: int = _U32.unpack_from(buffer, _COUNT_AT)[0]
    return bytes(keys[: done * key_size]), bytes(values[: done * value_size]), done, following


def map_lookup_batch(
    fd: int, position: bytes | None, count: int, key_size: int, value_size: int, flags: int = 0
) -> tuple[bytes, bytes, int, bytes | None]:
    """Up to `count` elements from `position` (None: the start): keys, values, how many, next position (None: the end).

    `value_size` counts all processors' slots; `flags` BPF_F_LOCK. ENOSPC: a bucket holds more than `count`; ask for
    more. EINTR: keys without values (of kinds that are no hash) in the way; go on key by key. Newer kernels than 6.12
    pass over them.
    EINVAL or ENOTSUPP: not for this kind. Since Linux commit cb4d03ab499d ("bpf: Add generic support for lookup batch
    op") (v5.6).
    """
    return _read_batch(Command.MAP_LOOKUP_BATCH, fd, position, count, key_size, value_size, flags)


def map_lookup_and_delete_batch(
    fd: int, position: bytes | None, count: int, key_size: int, value_size: int, flags: int = 0
) -> tuple[bytes, bytes, int, bytes | None]:
    """As `map_lookup_batch`, removing what it returns. Hash kinds only."""
    return _read_batch(Command.MAP_LOOKUP_AND_DELETE_BATCH, fd, position, count, key_size, value_size, flags)


def _write_batch(command: int, fd: int, keys: bytes, values: bytes, count: int, flags: int) -> tuple[int, int]:
    key_buffer, value_buffer = bytearray(keys), bytearray(values)
    buffer = bytearray(_BATCH_ATTR.size)
    _BATCH_ATTR.pack_into(
        buffer, 0, 0, 0, address_of(key_buffer), address_of(value_buffer) if values else 0, count, fd, flags, 0
    )
    error = 0
    try:
        bpf(command, address_of(buffer), len(buffer))
    except OSError as refusal:
        error = refusal.errno or errno.EINVAL
    done: int = _U32.unpack_from(buffer, _COUNT_AT)[0]
    # A refusal before the first element leaves the count as it was given; one behind the last there is none.
    return 0 if error and done == count else done, error


def map_update_batch(fd: int, keys: bytes, values: bytes, count: int, flags: int = 0) -> tuple[int, int]:
    """Set `count` elements given one after the other; how many were done, and the errno that stopped it (0: none)."""
    return _write_batch(Command.MAP_UPDATE_BATCH, fd, keys, values, count, flags)


def map_delete_batch(fd: int, keys: bytes, count: int) -> tuple[int, int]:
    """Remove `count` keys; how many were done, and the errno that stopped it (ENOENT at the first missing key)."""
    return _write_batch(Command.MAP_DELETE_BATCH, fd, keys, b"", count, 0)
