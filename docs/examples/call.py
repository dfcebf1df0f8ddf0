"""A program that Python calls, with a record that comes back."""

from pyebpf import BPF, Struct, s64, u32, u64


class Question(Struct):
    """The number asked about, and what the program answers."""

    number: u64
    bits: u32 = 0
    squared: s64 = 0


bpf = BPF()
calls = bpf.array(value=u64)


@bpf.syscall(Question)
def examine(ctx: Question) -> int:
    calls[0] += 1
    bits = 0
    for shift in range(64):
        bits += (ctx.number >> shift) & 1
    ctx.bits = bits
    ctx.squared = s64(ctx.number) * s64(ctx.number)
    return 0 if ctx.number > 0 else -1


with bpf:
    for number in (7, 0, 1023):
        answer = examine.run(Question(number))
        print(f"{number}: {answer.record.bits} bits, squared {answer.record.squared}, returned {answer.value}")
    print(f"{calls[0]} calls")
