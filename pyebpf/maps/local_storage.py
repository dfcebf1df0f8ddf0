"""Values of sockets, tasks, inodes and control groups."""

from __future__ import annotations

from typing import Any, TypeVar

from pyebpf.maps.mapping import StoredMapping

__all__ = ["StoredStorage"]

V = TypeVar("V")


class StoredStorage(StoredMapping[Any, V]):
    """Values that belong to a socket, task, inode or control group, and go with it.

    A key is what has a descriptor, or its number: a socket, a pidfd (`os.pidfd_open`), an open file, a control
    group's directory. Items can't be listed.
    """

    def _encode_key(self, key: Any) -> bytes:
        return super()._encode_key(self.store.object_number(key))
