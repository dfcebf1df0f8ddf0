"""Types of programs and maps, helpers by program type, kernel functions."""

from __future__ import annotations

import errno
import re
from struct import pack
from typing import TYPE_CHECKING, NamedTuple

from pyebpf.asm import build
from pyebpf.errors import NotFound, NotPermitted
from pyebpf.features.loading import LOADS, Load, attempt, finish, forbidden, target_of
from pyebpf.features.support import Support, from_errno, from_refusal
from pyebpf.kernel import bpf
from pyebpf.kernel.btf_files import btf_modules, read_btf
from pyebpf.kernel.btf_objects import module_btf
from pyebpf.kernel.memory import PAGE_SIZE
from pyebpf.uapi.bpf import MapType, ProgramType
from pyebpf.uapi.errnos import ENOTSUPP
from pyebpf.uapi.flags import BPF_F_MMAPABLE, BPF_F_NO_PREALLOC, BPF_F_XDP_DEV_BOUND_ONLY, BPF_F_XDP_HAS_FRAGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyebpf.asm import Instruction
    from pyebpf.btf import Btf


def program_type(type_: ProgramType, btf: Callable[[], Btf] | None) -> Support:
    """Whether programs of this type load."""
    load = LOADS.get(type_, Load())
    target = target_of(load, btf)
    outcome = attempt(finish(load.result), type_, load=load, target=target or 0)
    if outcome.errno == 0:
        return Support.YES
    # A message comes from the verifier, which runs only for types that there are.
    if outcome.log:
        return Support.YES
    if forbidden(outcome):
        return Support.NO
    return Support.UNKNOWN if target is None else from_errno(outcome.errno)


#: Flags of PROG_LOAD for XDP programs.
XDP_FLAGS = {"frags": BPF_F_XDP_HAS_FRAGS, "hints": BPF_F_XDP_DEV_BOUND_ONLY}
_LOOPBACK = 1


def xdp_flag(name: str) -> Support:
    """Whether XDP programs load with a flag, one of XDP_FLAGS.

    Loopback's driver knows nothing of frames, which a kernel with hints says: EOPNOTSUPP.
    """
    outcome = attempt(
        finish(), ProgramType.XDP, load=Load(flags=XDP_FLAGS[name]), ifindex=_LOOPBACK if name == "hints" else 0
    )
    if outcome.errno in {0, errno.EOPNOTSUPP}:
        return Support.YES
    return from_errno(outcome.errno)


class _Shape(NamedTuple):
    key_size: int = 4
    value_size: int = 4
    max_entries: int = 1
    flags: int = 0
    typed: bool = False


_STORAGE = _Shape(max_entries=0, flags=BPF_F_NO_PREALLOC, typed=True)
_SHAPES: dict[MapType, _Shape] = {
    MapType.STACK_TRACE: _Shape(value_size=8),
    MapType.LPM_TRIE: _Shape(key_size=8, flags=BPF_F_NO_PREALLOC),
    MapType.CGROUP_STORAGE: _Shape(key_size=8, max_entries=0),
    MapType.PERCPU_CGROUP_STORAGE: _Shape(key_size=8, max_entries=0),
    MapType.REUSEPORT_SOCKARRAY: _Shape(value_size=8),
    MapType.QUEUE: _Shape(key_size=0),
    MapType.STACK: _Shape(key_size=0),
    MapType.BLOOM_FILTER: _Shape(key_size=0),
    MapType.SK_STORAGE: _STORAGE,
    MapType.INODE_STORAGE: _STORAGE,
    MapType.TASK_STORAGE: _STORAGE,
    MapType.CGRP_STORAGE: _STORAGE,
    MapType.RINGBUF: _Shape(0, 0, PAGE_SIZE),
    MapType.USER_RINGBUF: _Shape(0, 0, PAGE_SIZE),
    MapType.ARENA: _Shape(0, 0, 1, BPF_F_MMAPABLE),
}


def map_type(type_: MapType) -> Support:
    """Whether maps of this type can be made."""
    shape = _SHAPES.get(type_, _Shape())
    try:
        if type_ is MapType.STRUCT_OPS:
            return _struct_ops()
        if type_ in {MapType.ARRAY_OF_MAPS, MapType.HASH_OF_MAPS}:
            with bpf.map_create(MapType.ARRAY, 4, 4, 1, name="probe") as inner:
                bpf.map_create(type_, 4, 4, 1, name="probe", inner_map_fd=inner.fileno()).close()
        elif shape.typed:
            return _typed_map(type_, shape)
        else:
            bpf.map_create(
                type_, shape.key_size, shape.value_size, shape.max_entries, flags=shape.flags, name="probe"
            ).close()
    except OSError as error:
        return from_errno(error.errno or 0)
    return Support.YES


def long_keys() -> Support:
    """Whether keys of hash maps may be longer than a program's stack.

    Since Linux commit c6bde958a62b ("bpf: Lift hashtab key_size limit") (in v5.11).
    """
    try:
        bpf.map_create(MapType.HASH, 1024, 4, 1, name="probe").close()
    except OSError as error:
        return from_errno(error.errno or 0)
    return Support.YES


def growing_hash() -> Support:
    """Whether a hash map may take memory for its entries as probes make them (BPF_F_NO_PREALLOC), even in an NMI.

    Since Linux commit 34dd3bad1a6f ("bpf: Relax the requirement to use preallocated hash maps in tracing progs.")
    (in v6.1). Before, tracepoints' programs may by the verifier, and deadlock.
    """
    try:
        with bpf.map_create(MapType.HASH, 4, 4, 1, flags=BPF_F_NO_PREALLOC, name="probe") as table:
            program = (build.load_map(build.R1, table.fileno()), *finish())
            outcome = attempt(program, ProgramType.PERF_EVENT)
    except OSError as error:
        return from_errno(error.errno or 0)
    if outcome.errno == 0:
        return Support.YES
    return Support.NO if "preallocated" in outcome.log else Support.UNKNOWN


def sleepable_map(type_: MapType) -> Support:
    """Whether programs that may sleep can use maps of this type, which are made of plain keys and values."""
    shape = _SHAPES.get(type_, _Shape())
    try:
        with bpf.map_create(
            type_, shape.key_size, shape.value_size, shape.max_entries, flags=shape.flags, name="probe"
        ) as table:
            outcome = attempt((build.load_map(build.R1, table.fileno()), *finish()), ProgramType.SYSCALL)
    except OSError as error:
        return from_errno(error.errno or 0)
    if outcome.errno == 0:
        return Support.YES
    return Support.NO if "leepable programs can only use" in outcome.log else Support.UNKNOWN


def _typed_map(type_: MapType, shape: _Shape) -> Support:
    from pyebpf.btf import BtfBuilder

    builder = BtfBuilder()
    number = builder.add_int("int", 4, signed=True)
    loaded = bpf.btf_load(builder.to_bytes())
    if loaded.descriptor is None:
        return Support.UNKNOWN
    with loaded.descriptor as types:
        bpf.map_create(
            type_,
            shape.key_size,
            shape.value_size,
            shape.max_entries,
            flags=shape.flags,
            name="probe",
            btf_fd=types.fileno(),
            btf_key_type_id=number,
            btf_value_type_id=number,
        ).close()
    return Support.YES


def _struct_ops() -> Support:
    # BTF type 1 is no operations structure: ENOTSUPP says so, EINVAL that there is no such map type.
    try:
        bpf.map_create(MapType.STRUCT_OPS, 4, 4, 1, name="probe", btf_vmlinux_value_type_id=1).close()
    except OSError as error:
        if error.errno == ENOTSUPP:
            return Support.YES
        return from_refusal(error)
    return Support.YES


# 6.1: "unknown func bpf_x#35" where the program type lacks it; 6.12: "program of this type cannot use helper bpf_x#35".
_LACKS = re.compile(r"invalid func |unknown func |of this type cannot use helper |not supported for program type")


def helper(number: int, type_: ProgramType, btf: Callable[[], Btf] | None) -> Support:
    """Whether programs of this type may call the helper: what the verifier says about a call without arguments."""
    load = LOADS.get(type_, Load())
    target = target_of(load, btf)
    if target is None:
        return Support.UNKNOWN
    # R1 stays the context: some helpers are checked further once they get one.
    program = (
        *(build.mov64(register, 0) for register in (build.R2, build.R3, build.R4, build.R5)),
        build.call(number),
        *finish(load.result),
    )
    outcome = attempt(program, type_, load=load, target=target)
    if outcome.errno == 0:
        return Support.YES
    if _LACKS.search(outcome.log):
        return Support.NO
    # Any other complaint about the call is one about its arguments.
    if f"#{number}" in outcome.log:
        return Support.YES
    return Support.NO if outcome.errno == errno.EINVAL and not outcome.log else Support.UNKNOWN


#: Kinds that kernel functions are asked of: each has functions that the others may not call.
_CALLERS = (ProgramType.TRACEPOINT, ProgramType.SYSCALL, ProgramType.XDP, ProgramType.SCHED_CLS)


def kernel_function(name: str, btf: Callable[[], Btf] | None) -> Support:
    """Whether programs may call the kernel function `name`: it is in BTF, and the verifier knows it as a kfunc.

    The BTF is vmlinux's or that of a module that is loaded; programs are those of _CALLERS.
    """
    if btf is None:
        return Support.UNKNOWN
    from pyebpf.btf import Kind

    found = btf().find(name, {Kind.FUNC})
    if found:
        return _callable(name, build.call_kfunc(found[0]), b"")
    for module, number in _in_modules(name, btf()):
        try:
            with module_btf(module) as types:
                return _callable(name, build.call_kfunc(number, 1), pack("=2i", 0, types.fileno()))
        except NotFound:
            continue  # unloaded meanwhile
        except NotPermitted:
            return Support.UNKNOWN
    return Support.NO


def _in_modules(name: str, vmlinux: Btf) -> Iterator[tuple[str, int]]:
    """Modules whose BTF has the function, and its id there."""
    from pyebpf.btf import Btf, Kind

    for module in btf_modules():
        try:
            data = read_btf(module)
        except NotFound:
            continue
        if name.encode() in data:  # else it need not be taken apart
            for number in Btf(data, base=vmlinux).find(name, {Kind.FUNC}):
                yield module, number


def _callable(name: str, call: Instruction, fd_array: bytes) -> Support:
    # Since Linux 7.3 reports say of much else that it "is not allowed".
    refusals = (f"kernel function {name} is not allowed", "calling kernel function")
    program = (
        *(build.mov64(register, 0) for register in (build.R1, build.R2, build.R3, build.R4, build.R5)),
        call,
        *finish(),
    )
    outcomes = []
    for type_ in _CALLERS:
        outcome = attempt(program, type_, fd_array=fd_array)
        if "BPF_CALL uses reserved fields" in outcome.log:
            return Support.NO  # a kernel before 5.13, where no program calls any
        allowed = not any(refusal in outcome.log for refusal in refusals)
        if outcome.errno == 0 or (outcome.errno in {errno.EINVAL, errno.EACCES} and outcome.log and allowed):
            return Support.YES
        outcomes.append(allowed)
    return Support.UNKNOWN if any(outcomes) else Support.NO
