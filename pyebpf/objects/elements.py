"""All elements of a map, as bytes: in batches where the kernel has them, else key by key."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from pyebpf.kernel import map_elements
from pyebpf.uapi.errnos import ENOTSUPP

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_BATCH_BYTES = 1 << 20
_FIRST_BATCH = 64  # below a bucket's population the kernel answers ENOSPC: doubled until it fits
_READINGS = 4
_NO_BATCH = frozenset({errno.EINVAL, ENOTSUPP, errno.EOPNOTSUPP})

Batch = tuple[bytes, bytes, int]
"""Keys, values, how many."""


def once(batches: Iterable[Batch], key_size: int, value_size: int, most: int) -> Iterator[Batch]:
    """Each key's first element only, for tries: where the current key is removed, the kernel starts again.

    Ends after several times the capacity, even if programs keep changing the map.
    """
    seen: set[bytes] = set()
    read_so_far = 0
    for keys_, values, count in batches:
        split = [keys_[at : at + key_size] for at in range(0, len(keys_), key_size)]
        fresh = {key: index for index, key in reversed(list(enumerate(split))) if key not in seen}
        seen.update(fresh)
        if len(fresh) == count:
            yield keys_, values, count
        elif fresh:
            places = sorted(fresh.values())
            kept = b"".join(values[index * value_size : (index + 1) * value_size] for index in places)
            yield b"".join(split[index] for index in places), kept, len(places)
        read_so_far += count
        if read_so_far > _READINGS * most:
            return


def _batch_size(key_size: int, value_size: int, most: int) -> int:
    fits = _BATCH_BYTES // (key_size + value_size)
    return max(min(fits, most), _FIRST_BATCH)


def read(
    fd: int, key_size: int, value_size: int, most: int, flags: int = 0, *, remove: bool = False
) -> Iterator[Batch]:
    """Every element, in the map's own order; with `remove`, each is taken out as it is read.

    `value_size` counts all processors' slots, `most` is the map's capacity. Entries that programs
    add or remove meanwhile may or may not be seen; one that stays the whole time is seen once.
    Raises OSError (EINVAL, ENOTSUPP) at the first step where the kernel has no batches for this kind.
    """
    command = map_elements.map_lookup_and_delete_batch if remove else map_elements.map_lookup_batch
    count = _batch_size(key_size, value_size, most)
    position: bytes | None = None
    while True:
        try:
            keys_, values, done, position = command(fd, position, count, key_size, value_size, flags)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            count *= 2
            continue
        if done:
            yield keys_, values, done
        if position is None:
            return


def keys(fd: int, key_size: int, most: int) -> list[bytes]:
    """Every key, found one by one; no key twice.

    A key that is removed while it is the current one sends the kernel back to the start: keys seen before are passed
    over, and the walk ends after twice the capacity even if programs keep changing the map.
    """
    found: dict[bytes, None] = {}
    key: bytes | None = None
    for _ in range(2 * most + 1):
        key = map_elements.map_get_next_key(fd, key, key_size)
        if key is None:
            break
        found[key] = None
    return list(found)


def read_each(fd: int, key_size: int, value_size: int, most: int, flags: int = 0) -> Iterator[Batch]:
    """As `read`, one look-up a key: for kinds without batches."""
    for key in keys(fd, key_size, most):
        try:
            value = map_elements.map_lookup_elem(fd, key, value_size, flags)
        except FileNotFoundError:
            continue  # removed since its key was read, or an index without a value
        yield key, value, 1


def read_any(fd: int, key_size: int, value_size: int, most: int, flags: int = 0) -> Iterator[Batch]:
    """As `read`, by whichever way the kernel has."""
    batches = read(fd, key_size, value_size, most, flags)
    read_before: list[bytes] = []
    while True:
        try:
            batch = next(batches, None)
        except OSError as error:
            # EINTR: a key without a value is in the way.
            if error.errno not in _NO_BATCH and error.errno != errno.EINTR:
                raise
            seen = {part[at : at + key_size] for part in read_before for at in range(0, len(part), key_size)}
            for one in read_each(fd, key_size, value_size, most, flags):
                if one[0] not in seen:
                    yield one
            return
        if batch is None:
            return
        read_before.append(batch[0])
        yield batch


def take(fd: int, key: bytes, value_size: int) -> bytes:
    """The value of a key, which is removed: in one step where the kernel has that for the kind. ENOENT: no such key."""
    try:
        return map_elements.map_lookup_and_delete_elem(fd, key, value_size)
    except OSError as error:
        if error.errno not in _NO_BATCH:
            raise
    # Stack traces, until a later kernel than 6.12: nothing changes one in place, so that nothing is lost between.
    value = map_elements.map_lookup_elem(fd, key, value_size)
    map_elements.map_delete_elem(fd, key)
    return value


def write(fd: int, count: int, keys_: bytes, values: bytes, flags: int = 0) -> None:
    """Set `count` elements laid end to end. Raises OSError of the first that failed; those before it are there."""
    key_size, value_size = len(keys_) // count, len(values) // count
    some = _batch_size(key_size, value_size, count)
    for done in range(0, count, some):
        number_of = min(some, count - done)
        part = keys_[done * key_size : (done + number_of) * key_size]
        data = values[done * value_size : (done + number_of) * value_size]
        _, number = update(fd, part, data, number_of, flags)
        if number:
            raise OSError(number, os.strerror(number))


def update(fd: int, keys_: bytes, values: bytes, count: int, flags: int = 0) -> tuple[int, int]:
    """As `map_elements.map_update_batch`: how many were set, and the errno that stopped it; key by key without it."""
    done, number = map_elements.map_update_batch(fd, keys_, values, count, flags)
    if done or number not in _NO_BATCH:
        return done, number
    key_size, value_size = len(keys_) // count, len(values) // count
    for at in range(count):
        key, value = keys_[at * key_size : (at + 1) * key_size], values[at * value_size : (at + 1) * value_size]
        try:
            map_elements.map_update_elem(fd, key, value, flags)
        except OSError as error:
            return at, error.errno or 0
    return count, 0


def remove(fd: int, keys_: Sequence[bytes]) -> int:
    """Remove many keys; how many were there."""
    at = removed = 0
    while at < len(keys_):
        part = keys_[at : at + _batch_size(len(keys_[0]), 0, len(keys_))]
        done, number = map_elements.map_delete_batch(fd, b"".join(part), len(part))
        if number in _NO_BATCH:
            return removed + sum(_remove_one(fd, key) for key in keys_[at:])
        if number not in {0, errno.ENOENT}:
            raise OSError(number, os.strerror(number))
        removed += done
        at += done + (number == errno.ENOENT)  # the first missing key ends a batch
    return removed


def _remove_one(fd: int, key: bytes) -> bool:
    try:
        map_elements.map_delete_elem(fd, key)
    except FileNotFoundError:
        return False
    return True


def drain(fd: int, key_size: int, value_size: int, most: int) -> Iterator[Batch]:
    """Take every element out: what a program adds meanwhile is either returned or stays."""
    batches = read(fd, key_size, value_size, most, remove=True)
    try:
        first = next(batches, None)
    except OSError as error:
        if error.errno not in _NO_BATCH:
            raise
        for key in keys(fd, key_size, most):
            try:
                value = take(fd, key, value_size)
            except FileNotFoundError:
                continue  # removed since its key was read
            yield key, value, 1
        return
    if first is not None:
        yield first
        yield from batches
