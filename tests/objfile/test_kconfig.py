"""Externs of .kconfig: values of every type from a configuration's text, and what is refused."""

from __future__ import annotations

import struct

import pytest

from pyebpf.asm import Form
from pyebpf.errors import MalformedData
from pyebpf.objfile import KernelConfig, read_object

TEXT = r"""
# CONFIG_OFF is not set
CONFIG_ON=y
CONFIG_PART=m
CONFIG_HZ=250
CONFIG_BASE=0xffffffff81000000
CONFIG_BELOW=-23
CONFIG_NAME="a \"quoted\" name"
"""
CONFIG = KernelConfig(6 << 16 | 12 << 8 | 41, TEXT)
HEAD = """
#define __kconfig SEC(".kconfig")
#define __weak __attribute__((weak))
enum libbpf_tristate { TRI_NO, TRI_YES, TRI_MODULE };
"""
SOURCE = (
    HEAD
    + """
extern _Bool CONFIG_ON __kconfig;
extern enum libbpf_tristate CONFIG_PART __kconfig;
extern char CONFIG_PART_ __kconfig __weak;
extern int CONFIG_HZ __kconfig;
extern u64 CONFIG_BASE __kconfig;
extern short CONFIG_BELOW __kconfig;
extern char CONFIG_NAME[9] __kconfig;
extern u32 LINUX_KERNEL_VERSION __kconfig;
extern _Bool LINUX_HAS_BPF_COOKIE __kconfig __weak;
extern _Bool CONFIG_OFF __kconfig __weak;
SEC("socket") int f(void *c) {
    return CONFIG_ON + CONFIG_PART + CONFIG_PART_ + CONFIG_HZ + CONFIG_BASE + CONFIG_BELOW + CONFIG_NAME[3]
        + LINUX_KERNEL_VERSION + LINUX_HAS_BPF_COOKIE + CONFIG_OFF;
}
"""
)


def test_each_extern_has_a_place_in_one_map(compile_c):
    """Booleans, tristates, numbers of each width, strings cut to fit; what is weak and not set is zero."""
    whole = read_object(compile_c(SOURCE, name="kconfig"))
    module = whole.module_spec(config=CONFIG)
    (spec,) = module.maps
    assert (spec.name, spec.frozen, spec.max_entries) == (".kconfig", True, 1)
    (_, data), = spec.initial  # fmt: skip
    loads = [i for i in module.programs[0].code.instructions if i.op.form is Form.LDDW_MAP]
    assert {i.symbol for i in loads} == {".kconfig"}
    words = [data[at : at + 8] for at in range(0, len(data), 8)]
    values = (1, 2, 0, 250, 0xFFFFFFFF81000000, 0xFFE9)
    assert [int.from_bytes(word, "little") for word in words[:6]] == list(values)
    assert data[48:57] == b'a "quote\0'
    assert [int.from_bytes(data[at : at + 4].ljust(4, b"\0"), "little") for at in (64, 72, 80)] == [0x60C29, 1, 0]
    assert {i.imm >> 32 for i in loads} == {0, 8, 16, 24, 32, 40, 48, 64, 72, 80}


def test_a_number_of_each_width_and_sign(compile_c):
    """The last that fits, and one more."""
    widths = [("signed char", "b", -128, 127), ("u16", "H", 0, 65535), ("int", "i", -(1 << 31), (1 << 31) - 1)]
    for declared, code, least, most in widths:
        source = f"{HEAD} extern {declared} CONFIG_N __kconfig; SEC('socket') int f(void *c) {{ return CONFIG_N; }}"
        whole = read_object(compile_c(source.replace("'", '"'), name="number"))
        for number in (least, most):
            (spec,) = whole.map_specs(KernelConfig(0, f"CONFIG_N={number}"))
            assert spec.initial[0][1] == struct.pack(f"<{code}", number)
        for number in (least - 1, most + 1):
            with pytest.raises(MalformedData, match=f"CONFIG_N is {number} in this kernel, which an extern of type"):
                whole.map_specs(KernelConfig(0, f"CONFIG_N={number}"))


@pytest.mark.parametrize(
    ("declared", "config", "message"),
    [
        ("_Bool CONFIG_X", None, "CONFIG_X is an extern of .kconfig: give the kernel's KernelConfig"),
        (
            "_Bool CONFIG_X",
            KernelConfig(0, None),
            "CONFIG_X: the kernel does not tell how it was built (/proc/config.gz, or /boot/config- and its release),",
        ),
        ("_Bool CONFIG_X", CONFIG, "CONFIG_X is not set in the kernel's configuration, and this extern is not __weak"),
        ("_Bool CONFIG_PART", CONFIG, "CONFIG_PART is m in this kernel, which an extern of type _Bool cannot hold"),
        ("_Bool CONFIG_HZ", CONFIG, "CONFIG_HZ is 250 in this kernel, which an extern of type _Bool cannot hold"),
        ("int CONFIG_ON", CONFIG, "CONFIG_ON is y in this kernel, which an extern of type int cannot hold"),
        ("int CONFIG_NAME", CONFIG, 'CONFIG_NAME is "a \\"quoted\\" name" in this kernel, which an extern of type int'),
    ],
)
def test_what_is_refused(compile_c, declared, config, message):
    """An option without a value, or with one that its type cannot hold, by name."""
    name = declared.split()[-1]
    source = f'{HEAD} extern {declared} __kconfig; SEC("socket") int f(void *c) {{ return {name}; }}'
    with pytest.raises(MalformedData) as caught:
        read_object(compile_c(source, name="refused")).module_spec(config=config)
    assert message in str(caught.value)


def test_weak_names_of_the_kernel_are_noted(compile_c):
    """The program knows which functions and variables may be missing."""
    source = f"""{HEAD}
    extern void bpf_rcu_read_lock(void) SEC(".ksyms");
    extern void bpf_no_such_function(void) SEC(".ksyms") __weak;
    extern const int no_such_variable SEC(".ksyms") __weak;
    SEC("socket") int f(void *c) {{
        bpf_rcu_read_lock();
        if (bpf_no_such_function) bpf_no_such_function();
        return &no_such_variable != 0;
    }}
    """
    code = read_object(compile_c(source, name="weak")).program_spec("f").code
    assert code.weak == {"bpf_no_such_function", "no_such_variable"}
