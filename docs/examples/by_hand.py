"""A program in assembly, loaded with the map that it names and run on a packet made by hand."""

from pyebpf.asm import assemble
from pyebpf.objects import Map, Program
from pyebpf.specs import Code, FunctionStart, MapSpec, ProgramSpec
from pyebpf.types import U32, U64
from pyebpf.uapi.bpf import MapType, ProgramType

TEXT = """
    r6 = *(u32 *)(r1 + 0)           // struct __sk_buff begins with len
    *(u32 *)(r10 - 4) = 0           // the key
    r1 = map[bytes]
    r2 = r10
    r2 += -4
    call bpf_map_lookup_elem
    if r0 == 0 goto out
    lock *(u64 *)(r0 + 0) += r6
out:
    r0 = r6
    exit
"""
code = Code(assemble(TEXT), (FunctionStart("count", 0),))

with (
    Map(MapSpec("bytes", MapType.ARRAY, U32, U64, 1)) as counted,
    Program(ProgramSpec("count", ProgramType.SOCKET_FILTER, code), {"bytes": counted}) as program,
):
    for size in (64, 114):  # 14 bytes of Ethernet's header are none of a socket's
        print(f"returned {program.test_run(data=bytes(size)).retval}")
    print(f"{counted[0]} bytes")
