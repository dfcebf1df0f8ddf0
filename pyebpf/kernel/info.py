"""Information about loaded programs, maps and links (OBJ_GET_INFO_BY_FD)."""

from __future__ import annotations

from struct import Struct
from typing import Any, NamedTuple

from pyebpf.kernel.bpf import btf_get_fd_by_id, obj_get_info_by_fd
from pyebpf.kernel.syscall import address_of
from pyebpf.uapi.bpf import LinkType, PerfEventType

# struct bpf_prog_info {
#     __u32 type, id; __u8 tag[8]; __u32 jited_prog_len, xlated_prog_len; __u64 jited_prog_insns, xlated_prog_insns;
#     __u64 load_time; __u32 created_by_uid, nr_map_ids; __u64 map_ids; char name[16]; __u32 ifindex, gpl_compatible:1;
#     __u64 netns_dev, netns_ino; __u32 nr_jited_ksyms, nr_jited_func_lens; __u64 jited_ksyms, jited_func_lens;
#     __u32 btf_id, func_info_rec_size; __u64 func_info; __u32 nr_func_info, nr_line_info;
#     __u64 line_info, jited_line_info; __u32 nr_jited_line_info, line_info_rec_size, jited_line_info_rec_size,
#     nr_prog_tags; __u64 prog_tags, run_time_ns, run_cnt, recursion_misses;
#     __u32 verified_insns, attach_btf_obj_id, attach_btf_id; };
_PROGRAM = Struct("=II8sIIQQQIIQ16sIIQQIIQQIIQIIQQIIIIQQQQIII4x")

# struct bpf_btf_info { __aligned_u64 btf; __u32 btf_size, id; __aligned_u64 name; __u32 name_len, kernel_btf; };
_BTF = Struct("=QIIQII")

# struct bpf_map_info {
#     __u32 type, id, key_size, value_size, max_entries, map_flags; char name[16];
#     __u32 ifindex, btf_vmlinux_value_type_id; __u64 netns_dev, netns_ino;
#     __u32 btf_id, btf_key_type_id, btf_value_type_id, btf_vmlinux_id; __u64 map_extra; };
_MAP = Struct("=6I16sIIQQIIIIQ")

# struct bpf_link_info { __u32 type, id, prog_id; union { … } at 16; };
_LINK = Struct("=III4x")
_LINK_SIZE = 72
_U32, _U64 = Struct("=I"), Struct("=Q")
_RAW_TRACEPOINT = Struct("=QI")

_PERF_EVENT_KPROBES = (PerfEventType.KPROBE, PerfEventType.KRETPROBE)


class ProgramInfo(NamedTuple):
    """A loaded program. Run time and runs are counted only while statistics are enabled.

    `recursion_misses`: runs left out since the program, or another of its kind, was running on the same processor.
    """

    type: int
    id: int
    name: str
    tag: bytes
    jited_size: int
    translated_size: int
    run_time_ns: int
    run_count: int
    recursion_misses: int
    verified_instructions: int


class MapInfo(NamedTuple):
    """A map as the kernel made it. BTF ids are 0 where it has none; `extra` is the kind's own number."""

    type: int
    id: int
    key_size: int
    value_size: int
    max_entries: int
    flags: int
    name: str
    btf_id: int = 0
    key_btf_type: int = 0
    value_btf_type: int = 0
    vmlinux_value_type: int = 0
    extra: int = 0


class LinkInfo(NamedTuple):
    """A link. `missed`: events that reached no program, where the kernel counts them for this kind, else None."""

    type: int
    id: int
    program_id: int
    missed: int | None


def _text(name: bytes) -> str:
    return name.partition(b"\0")[0].decode(errors="replace")


def _info(fd: int, layout: Struct) -> tuple[Any, ...]:
    """The fields of what the kernel says of an object; those that it does not know are 0."""
    buffer = bytearray(layout.size)
    obj_get_info_by_fd(fd, buffer)
    return layout.unpack(buffer)


def program_info(fd: int) -> ProgramInfo:
    """Ask for `struct bpf_prog_info`. Fields that the kernel does not know are 0."""
    values = _info(fd, _PROGRAM)
    return ProgramInfo(
        type=values[0],
        id=values[1],
        tag=values[2],
        jited_size=values[3],
        translated_size=values[4],
        name=_text(values[11]),
        run_time_ns=values[32],
        run_count=values[33],
        recursion_misses=values[34],
        verified_instructions=values[35],
    )


def map_info(fd: int) -> MapInfo:
    """Ask for `struct bpf_map_info`."""
    values = _info(fd, _MAP)
    return MapInfo(
        type=values[0],
        id=values[1],
        key_size=values[2],
        value_size=values[3],
        max_entries=values[4],
        flags=values[5],
        name=_text(values[6]),
        vmlinux_value_type=values[8],
        btf_id=values[11],
        key_btf_type=values[12],
        value_btf_type=values[13],
        extra=values[15],
    )


def btf_id(fd: int) -> int:
    """The kernel's number of a BTF object."""
    number: int = _info(fd, _BTF)[2]
    return number


def btf_bytes(number: int) -> bytes:
    """The BTF object of that number. PermissionError without CAP_SYS_ADMIN."""
    with btf_get_fd_by_id(number) as descriptor:
        data = bytearray(_info(descriptor.fileno(), _BTF)[1])
        obj_get_info_by_fd(descriptor.fileno(), bytearray(_BTF.pack(address_of(data), len(data), 0, 0, 0, 0)))
        return bytes(data)


def btf_name(fd: int) -> str:
    """Name of a BTF object: "vmlinux" or a module's for the kernel's own (since Linux 5.11), else empty."""
    name = bytearray(64)  # MODULE_NAME_LEN is 56
    buffer = bytearray(_BTF.pack(0, 0, 0, address_of(name), len(name), 0))
    obj_get_info_by_fd(fd, buffer)
    return _text(bytes(name)) if _BTF.unpack(buffer)[5] else ""


def link_info_bytes(fd: int) -> bytearray:
    """`struct bpf_link_info` as it is; the union of the kinds begins at 16."""
    buffer = bytearray(_LINK_SIZE)
    obj_get_info_by_fd(fd, buffer)
    return buffer


def raw_tracepoint_name(fd: int) -> str:
    """The tracepoint of a raw-tracepoint link."""
    name = bytearray(128)
    buffer = bytearray(_LINK_SIZE)
    # struct { __aligned_u64 tp_name; __u32 tp_name_len; } raw_tracepoint;
    _RAW_TRACEPOINT.pack_into(buffer, 16, address_of(name), len(name))
    obj_get_info_by_fd(fd, buffer)
    return _text(bytes(name))


def link_info(fd: int) -> LinkInfo:
    """Ask for `struct bpf_link_info`."""
    buffer = bytearray(_LINK_SIZE)
    known = obj_get_info_by_fd(fd, buffer)
    kind, number, program = _LINK.unpack_from(buffer)
    missed = None
    # Since Linux commit 7acf3a127bb7 ("bpf: Add missed value to kprobe perf link info") (v6.7) and its neighbour for
    # kprobe.multi; older kernels fill less.
    if kind == LinkType.KPROBE_MULTI and known >= 40:
        missed = _U64.unpack_from(buffer, 32)[0]
    elif kind == LinkType.PERF_EVENT and known >= 56 and _U32.unpack_from(buffer, 16)[0] in _PERF_EVENT_KPROBES:
        missed = _U64.unpack_from(buffer, 48)[0]
    return LinkInfo(kind, number, program, missed)
