"""Owners of attachments that outlive their process: a name that no other process on the machine has, and a lock.

A process id will not do: processes of two containers may have the same one, and outside a container it is another's or
nobody's. A random token takes its place. While an owner or its guard process lives, it keeps a BPF map open that bears
the token. Ids of maps are the machine's, whatever namespaces a process is in, and the kernel frees a map with its last
descriptor: where no map bears a token, its owner is dead.
"""

from __future__ import annotations

import errno
import os
import re
from typing import TYPE_CHECKING

from pyebpf.uapi.bpf import MapType

if TYPE_CHECKING:
    from pyebpf.kernel.descriptor import Descriptor

_PREFIX = "pyebpf_"
# With the prefix it fills BPF_OBJ_NAME_LEN, which is 16 with the final zero.
_FIRST, _OTHERS, _LENGTH = "abcdefghijklmnopqrstuvwxyz", "abcdefghijklmnopqrstuvwxyz0123456789", 8
_NAME = re.compile(rf"{_PREFIX}([a-z][a-z0-9]{{{_LENGTH - 1}}})(?:_|$)")

_token = ""


def owned_name(what: str = "", *, most: int = 63) -> str:
    """A name that no other process's attachment has, "pyebpf_<token>_<what>", cut to `most` (15 or more) characters."""
    global _token  # noqa: PLW0603 - one for the process
    if not _token:
        from secrets import choice

        _token = choice(_FIRST) + "".join(choice(_OTHERS) for _ in range(_LENGTH - 1))
    return f"{_PREFIX}{_token}_{what}"[:most]


def owner_of(name: str) -> str:
    """The token of the owner of what bears this name; empty if pyebpf did not name it."""
    match = _NAME.match(name)
    return match[1] if match else ""


def hold(token: str) -> Descriptor:
    """A lock: as long as one descriptor of it is open, whoever has it, the owner counts as alive. Raises OSError."""
    from pyebpf.kernel.bpf import map_create

    return map_create(MapType.ARRAY, 4, 4, 1, name=_PREFIX + token)


def living_owners() -> set[str]:
    """The tokens of all owners on this machine that live, in whatever container.

    Raises OSError where that cannot be told: EPERM without CAP_SYS_ADMIN in the first user namespace.
    """
    from pyebpf.kernel import bpf
    from pyebpf.kernel.info import map_info

    found = set()
    number = bpf.map_get_next_id(0)
    while number is not None:
        try:
            with bpf.map_get_fd_by_id(number) as held:
                found.add(owner_of(map_info(held.fileno()).name))
        except OSError as error:
            if error.errno != errno.ENOENT:  # freed in the meantime
                raise
        number = bpf.map_get_next_id(number)
    return found - {""}


def _in_child() -> None:
    global _token  # noqa: PLW0603 - as above
    _token = ""


os.register_at_fork(after_in_child=_in_child)
