"""BTF objects that the kernel has loaded, as descriptors: what programs that use a module's types are loaded with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.errors import NotFound
from pyebpf.kernel import bpf, info
from pyebpf.kernel.errors_in_words import kernel_error

if TYPE_CHECKING:
    from pyebpf.kernel.descriptor import Descriptor


def module_btf(name: str) -> Descriptor:
    """The BTF object of a kernel module, for attach_btf_obj_fd and fd_array (since Linux 5.11).

    Raises NotFound for a module that is not loaded, NotPermitted without CAP_SYS_ADMIN.
    """
    number = 0
    try:
        while (following := bpf.btf_get_next_id(number)) is not None:
            number = following
            try:
                found = bpf.btf_get_fd_by_id(number)
            except FileNotFoundError:
                continue  # gone since its number was read
            if info.btf_name(found.fileno()) == name:
                return found
            found.close()
    except OSError as error:
        raise kernel_error(error, f"looking for the BTF of module {name}", needs=("CAP_SYS_ADMIN",)) from error
    raise NotFound(f"the kernel has no BTF of a module {name}: load it first (modprobe {name})")
