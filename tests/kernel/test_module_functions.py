"""Functions of a module that is loaded: each way counts them, binds by the module's own BTF, names them in stacks."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyebpf import BPF, KernelObject, NotFound, function_ip, kstack, pid, s64, u64
from pyebpf.symbols.kernel import KernelSymbols
from tests.support.needs import needs

if TYPE_CHECKING:
    from collections.abc import Iterator

# Opening /dev/net/tun is one call of tun_chr_open(struct inode *, struct file *); reading from it, before it has an
# interface, one of tun_chr_read_iter(struct kiocb *, struct iov_iter *), which returns -EBADFD.
pytestmark = pytest.mark.machine(modules=("tun",))

DEVICE = Path("/dev/net/tun")
ME = os.getpid()
ENTRY = {"kprobe": "kprobe", "kprobe_multi": "kprobe_multi", "fentry": "fentry", "function": "fentry"}
RETURN = {"kretprobe": "kprobe", "kretprobe_multi": "kprobe_multi", "fexit": "fentry", "function_return": "fentry"}


@pytest.fixture(scope="module", autouse=True)
def _device() -> Iterator[None]:
    """The device's file, which nothing but udev would make."""
    made = not DEVICE.exists()
    if made:
        DEVICE.parent.mkdir(exist_ok=True)
        os.mknod(DEVICE, 0o600 | 0o020000, os.makedev(10, 200))
    yield
    if made:
        DEVICE.unlink()


def opened(times: int) -> None:
    for _ in range(times):
        os.close(os.open(DEVICE, os.O_RDWR))


def read_badly(times: int) -> None:
    file = os.open(DEVICE, os.O_RDWR)
    for _ in range(times):
        with pytest.raises(OSError, match=os.strerror(errno.EBADFD)):
            os.read(file, 1)
    os.close(file)


def decorated(bpf: BPF, how: str, *functions: str) -> Any:
    return getattr(bpf, how)(*functions)


@pytest.mark.parametrize("how", ENTRY)
def test_the_entry_is_counted_until_it_is_detached(how: str) -> None:
    """23 openings, by the inode that the second argument leads to; 7 more that nobody counts."""
    needs(f"attach:{ENTRY[how]}", "setting:/sys/kernel/btf/tun")
    bpf = BPF()
    inodes = bpf.hash(key=u64, value=u64)

    @decorated(bpf, how, "tun:tun_chr_open")
    def on_open(file: KernelObject) -> None:
        if pid() == ME:
            inodes[file.f_path.dentry.d_inode.i_ino] += 1

    with bpf:
        opened(23)
        bpf.detach()
        opened(7)
        assert dict(inodes.items()) == {DEVICE.stat().st_ino: 23}


@pytest.mark.parametrize("how", RETURN)
def test_the_return_has_the_result(how: str) -> None:
    """19 results of -EBADFD; nothing once it is detached."""
    needs(f"attach:{RETURN[how]}", "setting:/sys/kernel/btf/tun")
    bpf = BPF()
    results = bpf.hash(key=s64, value=u64)

    @decorated(bpf, how, "tun_chr_read_iter")
    def on_read(retval: int) -> None:
        if pid() == ME:
            results[retval] += 1

    with bpf:
        read_badly(19)
        bpf.detach()
        read_badly(7)
        assert dict(results.items()) == {-errno.EBADFD: 19}


def test_a_pattern_within_the_module_and_frames_with_its_name() -> None:
    """Each function under its own name, and stacks whose innermost frame says which module it is of."""
    needs("attach:kprobe")
    bpf = BPF()
    calls = bpf.hash(key=u64, value=u64)
    stacks = bpf.hash(key=s64, value=u64)

    @bpf.function("tun:tun_chr_[or]*e*")
    def on_call() -> None:
        if pid() == ME:
            calls[function_ip()] += 1
            stacks[kstack()] += 1

    with bpf:
        opened(13)
        read_badly(5)
        names = {bpf.function_name(address): count for address, count in calls.items()}
        assert (names["tun_chr_open"], names["tun_chr_read_iter"]) == (14, 5)
        modules = {}
        for number, count in stacks.items():
            frames = bpf.stacks.kernel(number)
            (innermost,) = [frame for frame in frames if frame.name in {"tun_chr_open", "tun_chr_read_iter"}]
            modules[innermost.name, innermost.module] = modules.get((innermost.name, innermost.module), 0) + count
            assert {frame.module for frame in frames} <= {"tun", "kernel", "bpf"}
    assert modules == {("tun_chr_open", "tun"): 14, ("tun_chr_read_iter", "tun"): 5}


def test_symbols_of_the_module() -> None:
    """By name and by address, with the module's own."""
    symbols = KernelSymbols()
    (found,) = [symbol for symbol in symbols.find("tun_chr_open") if symbol.module == "tun"]
    frame = symbols.resolve(found.address + 1)
    assert (frame.name, frame.offset, frame.module) == ("tun_chr_open", 1, "tun")


@pytest.mark.parametrize("how", ENTRY)
def test_what_is_not_there(how: str) -> None:
    """A module that is not loaded, a function that the module lacks, one that is elsewhere: a line with the reason."""
    needs(f"attach:{ENTRY[how]}")

    def refusal(function: str) -> str:
        bpf = BPF()

        @decorated(bpf, how, function)
        def probe() -> None:
            pass

        with pytest.raises(NotFound) as caught, bpf:
            pass
        (line,) = str(caught.value).splitlines()
        return line

    assert refusal("pyebpf_none:f").endswith("module pyebpf_none is not loaded (modprobe pyebpf_none)")
    assert "did you mean tun_chr_open" in refusal("tun:tun_chr_opn")
    assert refusal("tun:shmem_file_llseek").endswith("module tun: it is in the kernel itself")
