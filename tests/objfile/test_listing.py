"""Sections listed: as llvm-objdump does, and back to the same bytes."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from pyebpf.asm import Label, assemble, decode, encode, kernel_text, parse
from pyebpf.elf.relocations import read_relocatable
from pyebpf.objfile import list_section, read_object

# Everything that clang makes of C: 32 and 64 bits, signs, swaps, atomics, switches, loops, spills, calls.
SOURCE = """
struct { __uint(type, 2); __type(key, u32); __type(value, u64); __uint(max_entries, 8); } counts SEC(".maps");
int seen; u64 table[16]; static const char words[] = "seventeen letters";

static __attribute__((noinline)) long mix(long a, int b, short c, signed char d) {
    long sum = (u64)a / (u32)(b | 3) + (u64)a % 7 + d * 7 - (a >> 3) + ((u64)a >> 5) + (a << b) - c;
#if __BPF_CPU_VERSION__ >= 4
    sum += (a / (b | 1)) + (a % (c | 1));
#endif
    return sum;
}
static __attribute__((noinline)) u64 swaps(u64 x) {
    return __builtin_bswap16(x) ^ __builtin_bswap32(x) ^ __builtin_bswap64(x);
}
SEC("socket") int filter(u8 *context) {
    u32 key = 3;
    u64 *value = bpf_map_lookup_elem(&counts, &key), sum = 0;
    if (!value) return -1;
#if __BPF_CPU_VERSION__ >= 3
    sum += __sync_fetch_and_add(value, 5) + __sync_fetch_and_or(value, 8) + __sync_lock_test_and_set(value, 7);
    sum += __sync_val_compare_and_swap(value, 7, 11);
    __sync_fetch_and_xor(&seen, 1);
#endif
    __sync_fetch_and_add(value, 3);
    for (int n = 0; n < 13; n++) {
        switch (context[n]) {
        case 1: sum += mix(n, 2, 3, 4); break;
        case 5: sum -= swaps(sum); break;
        case 9: sum ^= 0x123456789abcdef; break;
        default: if ((int)sum > n) table[n] = sum; else table[n & 3] = -1;
        }
    }
    return sum + words[sum & 15] + (signed char)seen;
}
SEC("xdp") int second(void *context) { return seen > 4 ? 2 : 1; }
"""


@pytest.fixture(scope="module", params=["v1", "v2", "v3", "v4"])
def compiled(request, compile_c):
    """The object of SOURCE for one instruction-set version."""
    return compile_c(SOURCE, f"-mcpu={request.param}", name=f"listed_{request.param}")


def test_code_is_encoded_again_to_the_same_bytes(compiled):
    """Every section, through instructions, and through either text."""
    whole = read_object(compiled)
    code = [section for section in whole.elf.sections if section.has_code]
    assert sum(section.size for section in code) > 700
    for section in code:
        data = whole.elf.contents(section)
        assert encode(decode(data)) == data
        for syntax in ("kernel", "mnemonic"):
            assert encode(assemble(list_section(whole, section.name, syntax=syntax))) == data


def plain(text):
    """A line without what the two spell differently: bases, widths of registers, where jumps and calls go."""
    text = re.sub(r" <[^<>]*>$", "", text)
    text = re.sub(r"0x([0-9a-f]+)", lambda found: str(int(found[1], 16)), text)
    text = re.sub(r"-(\d+) ll", lambda found: f"{2**64 - int(found[1])} ll", text)
    return re.sub(r"\bw(\d+)", r"r\1", text).replace("call pc", "call ").replace("call +", "call ")


@pytest.mark.skipif(shutil.which("llvm-objdump-19") is None, reason="probe command:llvm-objdump-19: no")
def test_the_listing_says_what_llvm_objdump_says(compiled, tmp_path):
    """Instruction by instruction; and our parser reads theirs, relocations included."""
    path = tmp_path / "listed.o"
    path.write_bytes(compiled)
    elf = read_relocatable(compiled)
    for section in (section for section in elf.sections if section.has_code):
        command = ["llvm-objdump-19", "--mcpu=v4", "-d", f"--section={section.name}", path]
        theirs = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        lines = [line.split("\t")[-1] for line in theirs.splitlines() if re.match(r"\s+\d+:\t", line)]
        ours = decode(elf.contents(section))
        assert list(map(plain, lines)) == [plain(kernel_text(instruction)) for instruction in ours]
        read = [item for item in parse(theirs) if not isinstance(item, Label)]
        assert [item.op.code for item in read] == [instruction.op.code for instruction in ours]


def test_relocations_are_named_beside_the_instructions(compile_c):
    """Maps, data, and functions behind a section's offset."""
    text = list_section(read_object(compile_c(SOURCE, name="named")), "socket", source=False)
    assert text.startswith("filter:\n")
    assert {"counts", "seen", "table", "mix", "swaps"} <= set(re.findall(r"; (\S+)$", text, re.MULTILINE))


def test_source_lines_stand_above_their_instructions(compile_c):
    """As line_info tells."""
    text = list_section(read_object(compile_c(SOURCE, name="lines")), "xdp")
    assert "return seen > 4 ? 2 : 1;" in text
    assert "return seen" not in list_section(read_object(compile_c(SOURCE, name="lines")), "xdp", source=False)


def test_big_endian_objects(compile_c):
    """What clang makes for bpfeb: other byte order, the same instructions."""
    source = 'SEC("socket") int filter(u8 *context) { return context[3] == 7 ? -5 : 0x12345; }'
    other = read_relocatable(compile_c(source, name="little"))
    little = other.contents(other.code_section("socket"))
    whole = read_object(compile_c(source, "-target", "bpfeb", name="big"))
    big = whole.elf.contents(whole.elf.code_section("socket"))
    assert (whole.elf.byteorder, encode(decode(big, "big"), "big")) == ("big", big)
    assert decode(big, "big") == decode(little)
    assert encode(assemble(list_section(whole, "socket")), "big") == big
