"""A function of a running program is replaced by another, and given back."""

from pyebpf import BPF, SkBuff, u32

base = BPF()


@base.replaceable
def passes(length: u32) -> u32:
    return 1 if length < 50 else 0


@base.socket_filter()
def look(ctx: SkBuff) -> int:
    return passes(ctx.len)


other = BPF()


@other.freplace(look, passes)
def passes_all(length: int) -> int:
    return 1 if length > 0 else 0


def tried() -> int:
    """The verdict of the program on a packet of 66 bytes."""
    return int(look.program.test_run(data=bytes(80)).retval)


with base:
    print(f"before: {tried()}")
    with other:
        print(f"replaced: {tried()}")
    print(f"after: {tried()}")
