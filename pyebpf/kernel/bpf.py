"""bpf(2): one function a command, named as the command.

Each command's part of `union bpf_attr` is declared as a format with the C struct beside it. Attributes are zeroed
buffers exactly as long as their last field; the kernel takes shorter ones than it knows, and longer ones if the rest
is zero. Descriptors that a command makes are close-on-exec by themselves.

Each function raises the `OSError` of its errno; what an errno means for a command is in its docstring where it is
not the usual (EPERM: privilege, EINVAL: not known or wrong, ENOENT: no such element).
"""

from __future__ import annotations

import errno
import os
from struct import Struct

from pyebpf.dataclass import dataclass
from pyebpf.kernel.descriptor import Descriptor
from pyebpf.kernel.memlock import again_without_limit
from pyebpf.kernel.syscall import address_of, bpf
from pyebpf.uapi.commands import Command
from pyebpf.uapi.flags import BPF_F_REPLACE

_LOAD_ATTEMPTS = 5


def _command(command: int, attribute: bytes | bytearray) -> int:
    buffer = bytearray(attribute)
    return bpf(command, address_of(buffer), len(buffer))


def _charged(command: int, attribute: bytearray) -> int:
    """A command that makes something whose memory kernels before Linux 5.11 charge to the limit of locked memory."""
    try:
        return bpf(command, address_of(attribute), len(attribute))
    except PermissionError as refusal:
        if refusal.errno != errno.EPERM:
            raise
        return again_without_limit(lambda: bpf(command, address_of(attribute), len(attribute)), refusal)


def _buffer(data: bytes) -> tuple[bytearray | None, int]:
    """A copy of `data` that stays in place, and its address; address 0 for no data."""
    if not data:
        return None, 0
    copy = bytearray(data)
    return copy, address_of(copy)


# struct { /* BPF_MAP_CREATE */
#     __u32 map_type, key_size, value_size, max_entries, map_flags, inner_map_fd, numa_node;
#     char map_name[16];
#     __u32 map_ifindex, btf_fd, btf_key_type_id, btf_value_type_id, btf_vmlinux_value_type_id;
#     __u64 map_extra; };
_MAP_CREATE_ATTR = Struct("=7I16s5IQ")


def map_create(
    map_type: int,
    key_size: int,
    value_size: int,
    max_entries: int,
    *,
    flags: int = 0,
    name: str = "",
    inner_map_fd: int = 0,
    numa_node: int = 0,
    btf_fd: int = 0,
    btf_key_type_id: int = 0,
    btf_value_type_id: int = 0,
    btf_vmlinux_value_type_id: int = 0,
    map_extra: int = 0,
) -> Descriptor:
    """Make a map of `enum bpf_map_type` number `map_type`. Sizes in bytes; `name` at most 15 of [A-Za-z0-9_.].

    E2BIG: too large a value (per-CPU: over 32 KiB) or more entries than the kernel can address.
    EINVAL: a kind, flag or size that this kernel does not take.
    """
    attribute = _MAP_CREATE_ATTR.pack(
        map_type, key_size, value_size, max_entries, flags, inner_map_fd, numa_node, name.encode(),
        0, btf_fd, btf_key_type_id, btf_value_type_id, btf_vmlinux_value_type_id, map_extra,
    )  # fmt: skip
    return Descriptor(_charged(Command.MAP_CREATE, bytearray(attribute)), f"map {name}")


# struct { /* BPF_PROG_LOAD */
#     __u32 prog_type, insn_cnt; __aligned_u64 insns, license;
#     __u32 log_level, log_size; __aligned_u64 log_buf;
#     __u32 kern_version, prog_flags; char prog_name[16];
#     __u32 prog_ifindex, expected_attach_type, prog_btf_fd, func_info_rec_size; __aligned_u64 func_info;
#     __u32 func_info_cnt, line_info_rec_size; __aligned_u64 line_info;
#     __u32 line_info_cnt, attach_btf_id, attach_prog_fd /* or attach_btf_obj_fd */, core_relo_cnt;
#     __aligned_u64 fd_array, core_relos;
#     __u32 core_relo_rec_size, log_true_size; };
_PROG_LOAD_ATTR = Struct("=IIQQIIQII16sIIIIQIIQIIIIQQII")
_LOG_TRUE_SIZE_OFFSET = 140
_U32 = Struct("=I")


@dataclass(frozen=True, slots=True)
class LoadResult:
    """Result of PROG_LOAD or BTF_LOAD: a descriptor or the errno, the log, and the log's true size in bytes.

    `true_size` counts the terminating NUL; 0 where the kernel does not tell (before Linux 6.4).
    """

    descriptor: Descriptor | None
    errno: int
    log: str
    true_size: int


# Bytes of struct bpf_func_info and struct bpf_line_info.
_FUNC_INFO, _LINE_INFO = 8, 16


def prog_load(
    prog_type: int,
    instructions: bytes,
    *,
    license: str = "GPL",  # noqa: A002 - the attribute's own name
    name: str = "",
    expected_attach_type: int = 0,
    flags: int = 0,
    attach_btf_id: int = 0,
    attach_fd: int = 0,
    btf_fd: int = 0,
    func_info: bytes = b"",
    line_info: bytes = b"",
    fd_array: bytes = b"",
    ifindex: int = 0,
    log_level: int = 0,
    log_size: int = 0,
) -> LoadResult:
    """Verify and load a program of `enum bpf_prog_type` number `prog_type`. Does not raise for what the kernel refuses.

    `instructions` is `struct bpf_insn[]` with map and BTF descriptors in place, `func_info` is `struct
    bpf_func_info[]`, `line_info` `struct bpf_line_info[]`, `attach_fd` the descriptor of a BTF object or of the
    program to replace, `ifindex` the interface to load it for. A log is written if `log_level` and `log_size` are
    given.

    errno ENOSPC with a log: the log did not fit, and nothing is said about the program. Linux 6.1 keeps the log's
    head, 6.4 and later its tail.
    """
    code, code_address = _buffer(instructions)
    licence, licence_address = _buffer(license.encode() + b"\0")
    functions, functions_address = _buffer(func_info)
    lines, lines_address = _buffer(line_info)
    descriptors, descriptors_address = _buffer(fd_array)
    log = bytearray(log_size)
    attribute = bytearray(
        _PROG_LOAD_ATTR.pack(
            prog_type, len(instructions) // 8, code_address, licence_address,
            log_level, log_size, address_of(log) if log_size else 0,
            0, flags, name.encode(), ifindex, expected_attach_type, btf_fd,
            _FUNC_INFO if func_info else 0, functions_address, len(func_info) // _FUNC_INFO,
            _LINE_INFO if line_info else 0, lines_address, len(line_info) // _LINE_INFO,
            attach_btf_id, attach_fd, 0, descriptors_address, 0, 0, 0,
        )
    )  # fmt: skip
    result = _load(Command.PROG_LOAD, attribute, log, _LOG_TRUE_SIZE_OFFSET, f"program {name}")
    del code, licence, functions, lines, descriptors  # the kernel read them by address until here
    return result


def _load(command: int, attribute: bytearray, log: bytearray, true_size_at: int, what: str) -> LoadResult:
    descriptor, error = None, 0
    for _ in range(_LOAD_ATTEMPTS):
        try:
            descriptor, error = Descriptor(_charged(command, attribute), what), 0
        except OSError as refusal:
            error = refusal.errno or errno.EINVAL
        # The verifier gives up with EAGAIN when a signal is pending.
        if error != errno.EAGAIN:
            break
    end = log.find(b"\0")  # most of a large buffer was never touched, and is better not copied
    text = log[: end if end >= 0 else len(log)].decode(errors="replace")
    return LoadResult(descriptor, error, text, _U32.unpack_from(attribute, true_size_at)[0])


# struct { /* BPF_BTF_LOAD */
#     __aligned_u64 btf, btf_log_buf; __u32 btf_size, btf_log_size, btf_log_level, btf_log_true_size; };
_BTF_LOAD_ATTR = Struct("=QQIIII")
_BTF_LOG_TRUE_SIZE_OFFSET = 28


def btf_load(btf: bytes, *, log_level: int = 0, log_size: int = 0) -> LoadResult:
    """Load a BTF blob (header, types, strings). Does not raise for what the kernel refuses."""
    data, data_address = _buffer(btf)
    log = bytearray(log_size)
    attribute = bytearray(
        _BTF_LOAD_ATTR.pack(data_address, address_of(log) if log_size else 0, len(btf), log_size, log_level, 0)
    )
    result = _load(Command.BTF_LOAD, attribute, log, _BTF_LOG_TRUE_SIZE_OFFSET, "BTF")
    del data  # the kernel read it by address until here
    return result


# struct { __u64 name; __u32 prog_fd; __u32 :32; __aligned_u64 cookie; } raw_tracepoint;
_RAW_TRACEPOINT_ATTR = Struct("=QI4xQ")
_RAW_TRACEPOINT_ATTR_OLD = 16


def raw_tracepoint_open(prog_fd: int, name: str | None = None, *, cookie: int = 0) -> Descriptor:
    """Attach a raw-tracepoint program to `name`, or a BTF-typed one (tp_btf, fentry, LSM) where its load says (None).

    ENOENT: no such tracepoint. EEXIST: attached before (Linux 6.1). A cookie came with Linux 6.10; without one the
    attribute ends before it, since older kernels take only zeros there.
    """
    text, address = _buffer(name.encode() + b"\0" if name is not None else b"")
    attribute = _RAW_TRACEPOINT_ATTR.pack(address, prog_fd, cookie)
    fd = _command(Command.RAW_TRACEPOINT_OPEN, attribute if cookie else attribute[:_RAW_TRACEPOINT_ATTR_OLD])
    del text  # the kernel read it by address until here
    return Descriptor(fd, f"raw tracepoint {name or prog_fd}")


# struct { __u32 prog_fd, target_fd /* or target_ifindex */, attach_type, flags; union { … } at 16; } link_create;
_LINK_CREATE_ATTR = Struct("=IIII")


def link_create(
    prog_fd: int, target: int, attach_type: int, *, flags: int = 0, options: bytes = b"", what: str = "link"
) -> Descriptor:
    """Attach a program by a link of `enum bpf_attach_type` number `attach_type`.

    `target` is a descriptor or an interface index; `options` the bytes of the kind's own part of the union, from
    offset 16 (a perf event's cookie: u64).
    """
    attribute = _LINK_CREATE_ATTR.pack(prog_fd, target, attach_type, flags) + options
    return Descriptor(_command(Command.LINK_CREATE, attribute), what)


# struct { __u32 link_fd, new_prog_fd, flags, old_prog_fd; } link_update;
_LINK_UPDATE_ATTR = Struct("=IIII")


def link_update(link_fd: int, new_prog_fd: int, *, old_prog_fd: int | None = None) -> None:
    """Exchange a link's program. With `old_prog_fd`, only if that one is attached (else EPERM)."""
    flags = BPF_F_REPLACE if old_prog_fd is not None else 0
    _command(Command.LINK_UPDATE, _LINK_UPDATE_ATTR.pack(link_fd, new_prog_fd, flags, old_prog_fd or 0))


# struct { __u32 target_fd, attach_bpf_fd, attach_type, attach_flags, replace_bpf_fd; }
_ATTACH_ATTR = Struct("=IIIII")


def prog_attach(target: int, prog_fd: int, attach_type: int) -> None:
    """Attach a program to the map `target`, which holds it as long as the map has descriptors.

    For targets without links only: on control groups it would outlive the process.
    """
    _command(Command.PROG_ATTACH, _ATTACH_ATTR.pack(target, prog_fd, attach_type, 0, 0))


def prog_detach(target: int, prog_fd: int, attach_type: int) -> None:
    """Take a program off again. ENOENT: it is not attached there."""
    _command(Command.PROG_DETACH, _ATTACH_ATTR.pack(target, prog_fd, attach_type, 0, 0))


# struct { __u32 link_fd, flags; } iter_create;
_ITER_CREATE_ATTR = Struct("=II")


def iter_create(link_fd: int) -> Descriptor:
    """A readable instance of an iterator link."""
    return Descriptor(_command(Command.ITER_CREATE, _ITER_CREATE_ATTR.pack(link_fd, 0)), "iterator")


# struct { __u32 bpf_fd, info_len; __aligned_u64 info; } info;
_INFO_ATTR = Struct("=IIQ")


def obj_get_info_by_fd(fd: int, info: bytearray) -> int:
    """Fill `info` (`struct bpf_{prog,map,link,btf}_info`, its inputs set); the number of bytes that were filled.

    Older kernels fill less; bytes beyond what they know must be zero.
    """
    attribute = bytearray(_INFO_ATTR.pack(fd, len(info), address_of(info)))
    bpf(Command.OBJ_GET_INFO_BY_FD, address_of(attribute), len(attribute))
    known: int = _INFO_ATTR.unpack(attribute)[1]
    return known


# struct { __u32 start_id /* or prog_id, map_id, … */, next_id, open_flags; };
_ID_ATTR = Struct("=III")


def _next_id(command: int, start_id: int) -> int | None:
    attribute = bytearray(_ID_ATTR.pack(start_id, 0, 0))
    try:
        bpf(command, address_of(attribute), len(attribute))
    except FileNotFoundError:
        return None
    following: int = _ID_ATTR.unpack(attribute)[1]
    return following


def prog_get_next_id(start_id: int) -> int | None:
    """The next loaded program's id after `start_id`; None at the end."""
    return _next_id(Command.PROG_GET_NEXT_ID, start_id)


def map_get_next_id(start_id: int) -> int | None:
    """The next map's id after `start_id`; None at the end."""
    return _next_id(Command.MAP_GET_NEXT_ID, start_id)


def btf_get_next_id(start_id: int) -> int | None:
    """The next BTF object's id after `start_id`; None at the end."""
    return _next_id(Command.BTF_GET_NEXT_ID, start_id)


def link_get_next_id(start_id: int) -> int | None:
    """The next link's id after `start_id`; None at the end."""
    return _next_id(Command.LINK_GET_NEXT_ID, start_id)


def prog_get_fd_by_id(number: int) -> Descriptor:
    """Open a loaded program by its id. ENOENT: there is none. Needs CAP_SYS_ADMIN, as the next three do."""
    return Descriptor(_command(Command.PROG_GET_FD_BY_ID, _ID_ATTR.pack(number, 0, 0)), f"program id {number}")


def map_get_fd_by_id(number: int) -> Descriptor:
    """Open a map by its id."""
    return Descriptor(_command(Command.MAP_GET_FD_BY_ID, _ID_ATTR.pack(number, 0, 0)), f"map id {number}")


def btf_get_fd_by_id(number: int) -> Descriptor:
    """Open a BTF object by its id."""
    return Descriptor(_command(Command.BTF_GET_FD_BY_ID, _U32.pack(number)), f"BTF id {number}")


def link_get_fd_by_id(number: int) -> Descriptor:
    """Open a link by its id."""
    return Descriptor(_command(Command.LINK_GET_FD_BY_ID, _U32.pack(number)), f"link id {number}")


# struct { /* BPF_PROG_TEST_RUN */
#     __u32 prog_fd, retval, data_size_in, data_size_out; __aligned_u64 data_in, data_out;
#     __u32 repeat, duration, ctx_size_in, ctx_size_out; __aligned_u64 ctx_in, ctx_out;
#     __u32 flags, cpu, batch_size; };
_TEST_RUN_ATTR = Struct("=IIIIQQIIIIQQIII4x")


@dataclass(frozen=True, slots=True)
class RunResult:
    """Result of PROG_TEST_RUN: r0's low 32 bits, mean duration in ns, the data and context written back."""

    retval: int
    duration: int
    data: bytes
    context: bytes


def prog_test_run(
    prog_fd: int,
    *,
    data: bytes = b"",
    data_out: int = 0,
    context: bytes = b"",
    in_place: bool = False,
    repeat: int = 0,
    flags: int = 0,
    cpu: int = 0,
) -> RunResult:
    """Run a program once or `repeat` times on `data` and `context`.

    `data_out` is the size in bytes of the buffer for the packet afterwards (ENOSPC if too small); the context is
    returned in as many bytes as were given. `in_place`: the kind (SYSCALL) writes to the context that it was given, and
    takes no other to write to. ENOTSUPP (524): not for this kind of program.
    """
    packet, packet_address = _buffer(data)
    ctx, ctx_address = _buffer(context)
    output = bytearray(data_out)
    attribute = bytearray(
        _TEST_RUN_ATTR.pack(
            prog_fd, 0, len(data), data_out, packet_address, address_of(output) if data_out else 0,
            repeat, 0, len(context), 0 if in_place else len(context),
            ctx_address, 0 if in_place else ctx_address, flags, cpu, 0,
        )
    )  # fmt: skip
    bpf(Command.PROG_TEST_RUN, address_of(attribute), len(attribute))
    values = _TEST_RUN_ATTR.unpack(attribute)
    del packet  # the kernel read it by address until here
    return RunResult(values[1], values[7], bytes(output[: values[3]]), bytes(ctx or b""))


def enable_stats(kind: int = 0) -> Descriptor:
    """Count run time and runs of all programs while the descriptor is open (`enum bpf_stats_type`: 0 is RUN_TIME)."""
    return Descriptor(_command(Command.ENABLE_STATS, _U32.pack(kind)), "statistics")


# struct { __aligned_u64 pathname; __u32 bpf_fd, file_flags; };
_OBJ_ATTR = Struct("=QII")


def obj_pin(fd: int, path: str | os.PathLike[str]) -> None:
    """Pin a map, program or link to a new file on a bpf file system."""
    text, address = _buffer(os.fsencode(path) + b"\0")
    _command(Command.OBJ_PIN, _OBJ_ATTR.pack(address, fd, 0))
    del text  # the kernel read it by address until here


def obj_get(path: str | os.PathLike[str]) -> Descriptor:
    """Open what is pinned at `path`."""
    text, address = _buffer(os.fsencode(path) + b"\0")
    fd = _command(Command.OBJ_GET, _OBJ_ATTR.pack(address, 0, 0))
    del text  # the kernel read it by address until here
    return Descriptor(fd, f"pinned {path}")
