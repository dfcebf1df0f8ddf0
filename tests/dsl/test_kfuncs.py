"""Functions of the kernel that programs call: vmlinux's by their id, a module's by name, which loading looks up."""

from __future__ import annotations

import pytest

from pyebpf import BPF, CompileError, kfunc, u64
from pyebpf.builder.intrinsics.kfuncs import ACQUIRES, MODULES
from pyebpf.target import KernelFunction, KernelParameter
from tests.dsl.fake_target import INT, FakeTarget


class Target(FakeTarget):
    """With one function of the kernel's, and the same of a module."""

    def function(self, name: str) -> KernelFunction:
        if name not in ("plain", "modular"):
            return super().function(name)
        module = "some_module" if name == "modular" else ""
        return KernelFunction(name, 4711, (KernelParameter("n", INT),), INT, module=module)


def calls(name: str) -> list[tuple[int, int, str | None]]:
    """Id, offset and name of each call of a kernel function in a program that calls this one twice."""
    bpf = BPF()
    kept = bpf.array(value=u64)

    @bpf.syscall()
    def probe() -> int:
        kept[0] += kfunc(name)(1) + kfunc(name)(2)
        return 0

    (program,) = bpf.compile(Target()).programs
    return [(i.imm, i.offset, i.symbol) for i in program.code.instructions if i.op.name == "call_kfunc"]


def test_a_modules_function_is_found_when_the_program_is_loaded() -> None:
    """Its id alone would be that of something else: the module's types have a descriptor then."""
    assert calls("plain") == [(4711, 0, None)] * 2
    assert calls("modular") == [(0, 0, "modular")] * 2


def refusal(name: str) -> str:
    with pytest.raises(CompileError) as caught:
        calls(name)
    return caught.value.message


def test_what_is_missing_is_a_modules_or_misspelt() -> None:
    """The module's name with its command; else the closest of those that modules are known to have."""
    assert refusal("bpf_xdp_flow_lookup") == (
        "this kernel has no function bpf_xdp_flow_lookup for programs: it is one of the module nf_flow_table, as some "
        "kernels have it: load that (modprobe nf_flow_table)"
    )
    assert "; of functions of modules (did you mean bpf_xdp_flow_lookup or " in refusal("bpf_xdp_flow_lokup")
    assert "modules" not in refusal("something_else")


def test_what_is_acquired_in_a_module_is_released_there() -> None:
    """The functions that give and take back an object are of one module."""
    pairs = {give: take for give, take in ACQUIRES.items() if give in MODULES}
    assert set(pairs) == {"bpf_xdp_ct_lookup", "bpf_skb_ct_lookup"}
    assert all(MODULES[give] == MODULES[take] for give, take in pairs.items())
