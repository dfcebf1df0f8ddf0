"""freplace: a program in place of another program's function."""

from __future__ import annotations

import errno
from struct import Struct
from typing import TYPE_CHECKING

from pyebpf.asm import build, encode
from pyebpf.btf import BtfBuilder
from pyebpf.features.loading import Outcome, finish, forbidden
from pyebpf.features.support import TRANSIENT_ERRNOS, Support, from_errno
from pyebpf.kernel import bpf
from pyebpf.uapi.bpf import ProgramType

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.btf import Btf

_FUNC_INFO = Struct("=II")  # struct bpf_func_info: instruction, type
_GLOBAL = 1  # BTF_FUNC_GLOBAL


def replacement(_: Callable[[], Btf] | None) -> Support:
    """Whether a function of a program of our own can be replaced: one is, and given back at once."""
    builder = BtfBuilder()
    number = builder.add_int("int", 4, signed=True)
    main = builder.add_func("probe", builder.add_func_proto(number, [("context", builder.add_ptr(0))]))
    taken = builder.add_func("taken", builder.add_func_proto(number, [("argument", number)]), _GLOBAL)
    loaded = bpf.btf_load(builder.to_bytes())
    if loaded.descriptor is None:
        return Support.UNKNOWN
    program = (build.mov64(build.R1, 0), build.call_local(1), build.exit_(), *finish())
    with loaded.descriptor as types:
        functions = _FUNC_INFO.pack(0, main) + _FUNC_INFO.pack(3, taken)
        target = bpf.prog_load(
            ProgramType.SOCKET_FILTER, encode(program), name="probe", btf_fd=types.fileno(), func_info=functions
        )
        if target.descriptor is None:
            return Support.UNKNOWN
        with target.descriptor as replaced:
            result = bpf.prog_load(
                ProgramType.EXT,
                encode(finish()),
                name="probe",
                attach_fd=replaced.fileno(),
                attach_btf_id=taken,
                btf_fd=types.fileno(),
                func_info=_FUNC_INFO.pack(0, taken),
            )
            if result.descriptor is None:
                no_more = result.errno == errno.EPERM and forbidden(Outcome(result.errno, ""))
                return Support.NO if no_more else from_errno(result.errno)
            with result.descriptor as extension:
                try:
                    bpf.raw_tracepoint_open(extension.fileno()).close()
                except OSError as error:
                    return Support.UNKNOWN if error.errno in TRANSIENT_ERRNOS - {errno.EPERM} else Support.NO
    return Support.YES
