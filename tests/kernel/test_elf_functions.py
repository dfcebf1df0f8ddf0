"""Functions of clang's objects: the verifier verifies global ones once, by themselves; freplace replaces them."""

from __future__ import annotations

import subprocess

import pytest

from pyebpf.attach.freplace import Freplace
from pyebpf.btf import BtfBuilder
from pyebpf.dataclass import replace
from pyebpf.errors import VerifierError
from pyebpf.link import attach
from pyebpf.objects import Program
from pyebpf.objects.btf import shared_btf
from pyebpf.objfile import read_object
from pyebpf.specs.programs import CodeTypes
from tests.support.needs import needs

CALLS = 128
SOURCE = """
#define SEC(name) __attribute__((section(name), used))
#define NOINLINE __attribute__((noinline))
typedef unsigned long long u64;
LINKAGE NOINLINE u64 heavy(u64 sum) {
    #pragma clang loop unroll(disable)
    for (int i = 0; i < 3000; i++) {
        if (sum & 1) sum = sum * 3 + 1; else sum >>= 1;
        asm volatile("" : "+r"(sum));
    }
    return sum & 255;
}
#define EIGHT(do) do do do do do do do do
#define CALL sum += heavy(sum);
SEC("socket") int filter(void *context) {
    u64 sum = *(unsigned *)context;  // the length
    EIGHT(EIGHT(CALL)) EIGHT(EIGHT(CALL))
    return sum;
}
char _license[] SEC("license") = "GPL";
"""
REPLACEMENT = """
#define SEC(name) __attribute__((section(name), used))
typedef unsigned long long u64;
SEC("freplace/heavy") u64 light(u64 sum) { return 7; }
char _license[] SEC("license") = "GPL";
"""
HIDDEN = '__attribute__((visibility("hidden")))'


def program_spec(source, folder, name):
    """A program of the object that clang makes of a source."""
    needs("command:clang-19")
    path, target = folder / f"{name}.c", folder / f"{name}.o"
    path.write_text(source)
    subprocess.run(["clang-19", "-target", "bpf", "-O2", "-g", "-c", path, "-o", target], check=True)
    return read_object(target.read_bytes()).program_spec(name)


def expected(length, turns=3000):
    """What `filter` returns for a length."""
    total = length
    for _ in range(CALLS):
        number = total
        for _ in range(turns):
            number = (number * 3 + 1) % (1 << 64) if number & 1 else number >> 1
        total += number & 255
    return total


@pytest.mark.parametrize("linkage", ["", "__attribute__((weak))"])
def test_a_global_function_is_verified_once(tmp_path, linkage):
    """128 calls of a function with a long loop load, and its result is right."""
    with Program(program_spec(SOURCE.replace("LINKAGE", linkage), tmp_path, "filter"), {}) as program:
        assert program.test_run(data=bytes(64)).retval == expected(50)  # 14 bytes of Ethernet's header are not counted


@pytest.mark.parametrize("linkage", ["static", HIDDEN])
def test_a_static_function_is_verified_at_each_call(tmp_path, linkage):
    """The same calls of a static or hidden one are too many instructions for the verifier."""
    spec = program_spec(SOURCE.replace("LINKAGE", linkage), tmp_path, "filter")
    with pytest.raises(VerifierError, match=r"filter: .* too (complex|large)"):
        Program(spec, {})


def test_types_that_the_kernel_refuses_are_left_out(tmp_path):
    """A program whose BTF has what this kernel does not take is loaded all the same."""
    spec = program_spec(SOURCE.replace("LINKAGE", "static").replace("3000", "3"), tmp_path, "filter")
    btf = BtfBuilder()
    prototype = btf.add_func_proto(btf.add_int("int", 4))
    unknown = [btf.add_func(each.name, prototype, linkage=7) for each in spec.code.subprograms]
    types = CodeTypes(btf.to_bytes(), tuple(unknown))
    assert shared_btf(types.btf) is None
    with Program(replace(spec, code=replace(spec.code, btf=types)), {}) as program:
        assert program.test_run(data=bytes(64)).retval == expected(50, turns=3)


def test_a_global_function_is_replaced(tmp_path):
    """While another object's program is attached, each of the calls adds its 7."""
    needs("attach:freplace")
    replacement = program_spec(REPLACEMENT, tmp_path, "light")
    with Program(program_spec(SOURCE.replace("LINKAGE", ""), tmp_path, "filter"), {}) as program:
        place = Freplace(program, "heavy", (), None)
        with Program(replace(replacement, attach=place), {}) as light:
            with attach(light, place):
                assert program.test_run(data=bytes(64)).retval == 50 + CALLS * 7
            assert program.test_run(data=bytes(64)).retval == expected(50)
