"""What an object declares `extern`: the kernel's configuration, and names that a kernel may not have."""

from __future__ import annotations

import contextlib
import os

import pytest

from pyebpf.btf import Btf
from pyebpf.errors import MalformedData, NotFound, VerifierError
from pyebpf.kernel.btf_files import read_btf
from pyebpf.kernel.config import read_config, version_code
from pyebpf.objects import Map, Program
from pyebpf.objfile import KernelConfig
from tests.kernel.test_elf_in_kernel import compiled
from tests.support.needs import lacks, needs
from tests.support.release import kernel_release

HEAD = """
#define SEC(name) __attribute__((section(name), used))
#define __kconfig SEC(".kconfig")
#define __ksym SEC(".ksyms")
#define __weak __attribute__((weak))
typedef unsigned int u32; typedef unsigned long long u64;
char _license[] SEC("license") = "GPL";
"""
CONFIGURED = (
    HEAD
    + """
extern u32 LINUX_KERNEL_VERSION __kconfig;
extern _Bool CONFIG_BPF_SYSCALL __kconfig;
extern int CONFIG_HZ __kconfig;
extern char CONFIG_DEFAULT_HOSTNAME[4] __kconfig;
SEC("syscall") int version(void *c) { return LINUX_KERNEL_VERSION; }
SEC("syscall") int rate(void *c) { return CONFIG_BPF_SYSCALL * CONFIG_HZ; }
SEC("syscall") int letter(void *c) { return CONFIG_DEFAULT_HOSTNAME[1]; }
"""
)
WEAK = (
    HEAD
    + """
extern u32 LINUX_KERNEL_VERSION __kconfig;
extern int CONFIG_NO_SUCH_OPTION __kconfig __weak;
extern void bpf_rcu_read_lock(void) __ksym __weak;
extern void bpf_rcu_read_unlock(void) __ksym __weak;
extern int bpf_no_such_function(u64 number) __ksym __weak;
extern const int no_such_variable __ksym __weak;
extern const void schedule_timeout __ksym __weak;
SEC("syscall") int careful(void *c) {
    int result = 1 + CONFIG_NO_SUCH_OPTION;
    if (LINUX_KERNEL_VERSION < 0x10000) return bpf_no_such_function(2);
    if (bpf_no_such_function) result += bpf_no_such_function(1);
    if (&no_such_variable) result += no_such_variable + 4;
    if (&schedule_timeout) result += 8;
    return result;
}
SEC("syscall") int present(void *c) {
    if (!bpf_rcu_read_lock || !bpf_rcu_read_unlock) return 16;
    bpf_rcu_read_lock();
    bpf_rcu_read_unlock();
    return 32;
}
SEC("syscall") int careless(void *c) { return bpf_no_such_function(1); }
"""
)


@contextlib.contextmanager
def loaded(whole, name, config):
    """One program of an object, with its maps."""
    kernel = Btf(read_btf())
    with contextlib.ExitStack() as stack:
        maps = {spec.name: stack.enter_context(Map(spec)) for spec in whole.map_specs(config)}
        yield stack.enter_context(Program(whole.program_spec(name, kernel, config), maps))


def test_options_are_constants(tmp_path):
    """A version, a boolean times a number, a character of a string; the verifier takes them as known."""
    needs("program:syscall")
    whole = compiled(CONFIGURED, tmp_path)
    text = 'CONFIG_BPF_SYSCALL=y\nCONFIG_HZ=241\nCONFIG_DEFAULT_HOSTNAME="(none)"\n'
    results = []
    for name in ("version", "rate", "letter"):
        with loaded(whole, name, KernelConfig(0x60C29, text)) as program:
            results.append(program.test_run().retval)
    assert results == [0x60C29, 241, ord("n")]


def test_this_kernel_is_asked(tmp_path):
    """/proc/config.gz has what it was built with, and the version is the release's."""
    needs("setting:/proc/config.gz")
    config = KernelConfig(*read_config())
    assert config.version == version_code(os.uname().release, os.uname().version)
    with loaded(compiled(CONFIGURED, tmp_path), "rate", config) as program:
        assert program.test_run().retval == int(config.options["CONFIG_HZ"])


def test_a_kernel_that_does_not_tell(tmp_path):
    """Without a configuration the version is known all the same, and an option is an error with its name."""
    lacks("setting:/proc/config.gz")
    lacks(f"setting:/boot/config-{os.uname().release}")
    config = KernelConfig(*read_config())
    assert config.text is None
    major, minor = kernel_release()
    assert config.version >> 8 == major << 8 | minor
    with pytest.raises(MalformedData, match="CONFIG_BPF_SYSCALL: the kernel does not tell how it was built"):
        compiled(CONFIGURED, tmp_path).program_spec("rate", None, config)


def test_weak_names_may_be_missing(tmp_path):
    """A missing option is 0, and a missing name's address NULL; the verifier leaves out what that rules out."""
    needs("program:syscall")
    whole = compiled(WEAK, tmp_path)
    config = KernelConfig(*read_config())
    with loaded(whole, "careful", config) as program:
        assert program.test_run().retval == 1 + 8


def test_a_weak_function_that_is_there_is_called(tmp_path):
    """Its address is not a NULL, and the call is the kernel's."""
    needs("kfunc:bpf_rcu_read_lock")
    with loaded(compiled(WEAK, tmp_path), "present", KernelConfig(*read_config())) as program:
        assert program.test_run().retval == 32


def test_a_missing_function_may_not_be_called(tmp_path):
    """The verifier refuses the call of a weak one that comes unasked; without __weak loading does not begin."""
    needs("program:syscall")
    config = KernelConfig(*read_config())
    with pytest.raises(VerifierError, match="195896080"), loaded(compiled(WEAK, tmp_path), "careless", config):
        pass
    strong = WEAK.replace("bpf_no_such_function(u64 number) __ksym __weak", "bpf_no_such_function(u64 number) __ksym")
    with pytest.raises(NotFound, match="bpf_no_such_function"), loaded(compiled(strong, tmp_path), "careless", config):
        pass


@pytest.mark.parametrize(
    ("release", "version", "signature", "code"),
    [
        ("6.18.44", "#1 SMP PREEMPT_DYNAMIC @0", "", (6, 18, 44)),
        ("6.1.0-37-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.140-1 (2025-05-22)", "", (6, 1, 140)),
        ("5.4.0-12-generic", "#15-Ubuntu SMP", "Ubuntu 5.4.0-12.15-generic 5.4.8\n", (5, 4, 8)),
        ("6.19-rc3", "#1 SMP", "", (6, 19, 0)),
        ("4.9.337", "#1 SMP", "", (4, 9, 255)),
    ],
)
def test_the_version_of_the_source(release, version, signature, code):
    """As LINUX_VERSION_CODE has it; distributions hide the patch level of their releases."""
    major, minor, patch = code
    assert version_code(release, version, signature) == major << 16 | minor << 8 | patch
