"""BTF that several maps and programs have in common.

To the kernel, types of two BTF objects are two types even if their bytes are equal. What a program allocates and puts
into the list of a map's value must be of one, so the object that was loaded first is found again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.kernel import bpf
from pyebpf.kernel.info import btf_id

if TYPE_CHECKING:
    from pyebpf.kernel.descriptor import Descriptor

__all__ = ["shared_btf"]

#: The kernel's number of each; it gives none twice, and forgets one that nobody holds.
_numbers: dict[bytes, int] = {}


def shared_btf(data: bytes) -> Descriptor | None:
    """The BTF object of these bytes, which the caller closes: the same as before while somebody holds it.

    None if the kernel refuses the bytes. Finding one again takes CAP_SYS_ADMIN; without, each is a new one.
    """
    if data in _numbers:
        try:
            return bpf.btf_get_fd_by_id(_numbers[data])
        except OSError:
            del _numbers[data]
    loaded = bpf.btf_load(data).descriptor
    if loaded is not None:
        _numbers[data] = btf_id(loaded.fileno())
    return loaded
