"""Functions of the kernel: each way to probe them counts exactly, binds by BTF's names, ends when it is detached."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyebpf import (
    BPF,
    CompileError,
    KernelObject,
    NotFound,
    NotSupported,
    Struct,
    helpers,
    pid,
    ptr,
    s32,
    s64,
    u32,
    u64,
)
from pyebpf.arch import host
from pyebpf.errors import InvalidValue
from pyebpf.kernel.tracefs import Tracefs
from tests.support.needs import lacks, needs, unless

if TYPE_CHECKING:
    from collections.abc import Callable

libc = ctypes.CDLL(None, use_errno=True)
ME = os.getpid()
#: A file of memory: its shmem_file_llseek is called through a pointer, so that no compiler inlines it.
FILE = os.memfd_create("pyebpf")
ENTRY = {"kprobe": "kprobe", "kprobe_multi": "kprobe_multi", "fentry": "fentry", "function": "fentry"}
RETURN = {"kretprobe": "kprobe", "kretprobe_multi": "kprobe_multi", "fexit": "fentry", "function_return": "fentry"}


class Seek(Struct):
    offset: s64
    whence: s32


def seek(times: int, offset: int = -5, whence: int = os.SEEK_CUR) -> None:
    """Calls of shmem_file_llseek(struct file *file, loff_t offset, int whence), all refused with EINVAL."""
    for _ in range(times):
        with pytest.raises(OSError, match="Invalid argument"):
            os.lseek(FILE, offset, whence)


def listen_badly(times: int) -> None:
    """Calls of __sys_listen(int fd, int backlog) that return -EBADF."""
    for _ in range(times):
        assert libc.listen(-7, -3) == -1
        assert ctypes.get_errno() == errno.EBADF


def decorated(bpf: BPF, how: str, *functions: str, **options: Any) -> Any:
    return getattr(bpf, how)(*functions, **options)


@pytest.mark.every_kernel
@pytest.mark.parametrize("how", ENTRY)
def test_the_entry_is_counted_with_arguments_by_name_until_it_is_detached(how: str) -> None:
    """23 calls by two arguments of two widths, negative ones too; 17 more that nobody counts."""
    needs(f"attach:{ENTRY[how]}")
    bpf = BPF()
    counts = bpf.hash(key=Seek, value=u64)

    @decorated(bpf, how, "shmem_file_llseek")
    def on_seek(whence: int, offset: int) -> None:
        if pid() == ME:
            counts[Seek(offset=offset, whence=whence)] += 1

    with bpf:
        seek(23)
        seek(3, -1 << 40, os.SEEK_SET)
        bpf.detach()
        seek(17)
        assert dict(counts.items()) == {
            Seek(offset=-5, whence=os.SEEK_CUR): 23,
            Seek(offset=-1 << 40, whence=os.SEEK_SET): 3,
        }


@pytest.mark.parametrize("how", ENTRY)
def test_kernel_objects_are_read_through_arguments(how: str) -> None:
    """The inode of the file whose offset is set: three structs deep."""
    needs(f"attach:{ENTRY[how]}")
    bpf = BPF()
    inodes = bpf.hash(key=u64, value=u64)

    @decorated(bpf, how, "shmem_file_llseek")
    def on_seek(file: KernelObject) -> None:
        if pid() == ME:
            inodes[file.f_path.dentry.d_inode.i_ino] += 1

    with bpf:
        seek(13)
        assert dict(inodes.items()) == {os.fstat(FILE).st_ino: 13}


@pytest.mark.every_kernel
@pytest.mark.parametrize("how", RETURN)
def test_the_return_has_the_result_with_its_sign(how: str) -> None:
    """An int of -EBADF, 19 times; nothing once it is detached."""
    needs(f"attach:{RETURN[how]}")
    bpf = BPF()
    results = bpf.hash(key=s64, value=u64)

    @decorated(bpf, how, "__sys_listen")
    def on_listened(retval: int) -> None:
        if pid() == ME:
            results[retval] += 1

    with bpf:
        listen_badly(19)
        bpf.detach()
        listen_badly(7)
        assert dict(results.items()) == {-errno.EBADF: 19}


@pytest.mark.every_kernel
def test_fexit_has_arguments_and_result() -> None:
    """Negative ints both as they were passed and as returned."""
    needs("attach:fentry")
    bpf = BPF()
    seen = bpf.hash(key=Seek, value=u64)

    @bpf.fexit("__sys_listen")
    def on_listened(backlog: int, retval: int, fd: int) -> None:
        if pid() == ME and fd == -7:
            seen[Seek(offset=retval, whence=backlog)] += 1

    with bpf:
        listen_badly(29)
        assert dict(seen.items()) == {Seek(offset=-errno.EBADF, whence=-3): 29}


@pytest.mark.every_kernel
def test_fmod_ret_decides_the_result() -> None:
    """listen() with a certain backlog is refused, five times; others go through, and all once it is detached."""
    needs("attach:fmod_ret")
    bpf = BPF()
    refused = bpf.array(value=u64)

    @bpf.fmod_ret("security_socket_listen")
    def on_listen(backlog: int) -> int:
        if pid() == ME and backlog == 11:
            refused[0] += 1
            return -errno.EACCES
        return 0

    with bpf, socket.create_server(("127.0.0.1", 0)) as server:
        for _ in range(5):
            with pytest.raises(PermissionError):
                server.listen(11)
        server.listen(12)
        bpf.detach()
        server.listen(11)
        assert refused[0] == 5


@pytest.mark.parametrize("how", ENTRY)
def test_a_system_call_has_its_own_arguments(how: str) -> None:
    """`sys_getcpu` is the kernel's wrapper, whose arguments are in the registers that it was given."""
    needs(f"attach:{ENTRY[how]}")
    bpf = BPF()
    calls = bpf.array(value=u64)
    magic = 0x10_0000_0000 + ME

    @decorated(bpf, how, "sys_getcpu")
    def on_getcpu(unused: u64) -> None:
        if unused == magic:
            calls[0] += 1

    with bpf:
        for _ in range(31):
            libc.syscall(host().system_call("getcpu"), None, None, ctypes.c_long(magic))
        assert calls[0] == 31


@pytest.mark.parametrize("way", ["perf link", "perf ioctl", "kprobe_events"])
def test_kprobes_have_three_interfaces(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link, else the perf event itself, else an event of tracefs: each counts, and no line is left of the last."""
    needs("attach:kprobe", *(["attach:perf"] if way == "perf link" else []))

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EINVAL, "as a kernel without links says")

    if way == "perf ioctl":
        monkeypatch.setattr("pyebpf.kernel.bpf.link_create", refuse)
    if way == "kprobe_events":
        monkeypatch.setattr("pyebpf.link.kprobes.pmu_type", lambda _: None)
    bpf = BPF()
    counts = bpf.array(value=u64, name="counts")

    @bpf.kprobe("shmem_file_llseek")
    def on_seek() -> None:
        if pid() == ME:
            counts[0] += 1

    with Tracefs() as tracefs:
        with bpf:
            assert list(bpf.attachments) == [f"on_seek: kprobe shmem_file_llseek, by {way}"]
            assert (b"pyebpf_" in tracefs.read_top("kprobe_events")) == (way == "kprobe_events")
            seek(13)
            bpf.detach()
            seek(5)
            assert counts[0] == 13
        assert f"pyebpf_{ME}_".encode() not in tracefs.read_top("kprobe_events")


def test_a_probe_within_a_function_is_at_an_instruction() -> None:
    """What runs as often as the function is counted; where none begins, or arm64's ftrace has its own, a line says so.

    On x86-64 one of two offsets is the second instruction's. On arm64 ftrace has the second instruction, or the third.
    """
    needs("attach:kprobe")
    arm64 = host().name == "aarch64"
    counted, refused, of_ftrace = [], [], []
    for offset in (4, 5, 8, 12) if arm64 else (4, 5):
        bpf = BPF()
        counts = bpf.array(value=u64, name="counts")

        @bpf.kprobe(f"shmem_file_llseek+{offset:#x}")
        def on_instruction() -> None:
            if pid() == ME:
                counts[0] += 1  # noqa: B023 - captured when decorated

        try:
            with bpf:
                seek(17)
                counted.append(counts[0])
        except NotSupported as error:
            if "ftrace" in str(error):
                of_ftrace.append(offset)
            else:
                refused.append((str(error), f"kprobe shmem_file_llseek+{offset:#x}: no instruction begins there"))
    assert counted == [17] * (2 if arm64 else 1)
    assert of_ftrace in ([[4], [8]] if arm64 else [[]])
    assert [message == expected for message, expected in refused] == [True]


def test_a_session_sees_entry_and_return_of_what_it_asks_for() -> None:
    """The cookie keeps an argument until the return; a call that the entry is not interested in has none."""
    needs("attach:kprobe_session")
    bpf = BPF()
    entries = bpf.array(value=u64)
    kept = bpf.hash(key=Seek, value=u64)

    @bpf.kprobe_session("__sys_listen")
    def on_listen(ctx: Any, fd: int, retval: int) -> int:
        if pid() != ME:
            return 1
        if ctx.is_return:
            kept[Seek(offset=retval, whence=ctx.cookie)] += 1
            return 0
        entries[0] += 1
        ctx.cookie = 1009
        return int(fd != -7)

    with bpf:
        listen_badly(17)
        assert libc.listen(-8, 1) == -1
        assert entries[0] == 18
        assert dict(kept.items()) == {Seek(offset=-errno.EBADF, whence=1009): 17}


def test_cookies_tell_functions_apart() -> None:
    """Two functions by one link and one program, each with a number of its own."""
    needs("attach:kprobe_multi")
    bpf = BPF()
    counts = bpf.hash(key=u64, value=u64)

    @bpf.kprobe_multi("shmem_file_llseek", "__sys_listen", cookies={"shmem_file_llseek": 1 << 40, "__sys_listen": 7})
    def on_either(ctx: Any) -> None:
        if pid() == ME:
            counts[helpers.get_attach_cookie(ctx)] += 1

    with bpf:
        seek(5)
        listen_badly(3)
        assert len(bpf.programs) == 1
        assert dict(counts.items()) == {1 << 40: 5, 7: 3}


@pytest.mark.parametrize("how", ["kprobe", "kprobe_multi", "fentry"])
def test_several_functions_of_one_signature_are_one_program(how: str) -> None:
    """`fd` is the first int of both: compiled once; kprobes share the loaded program, too."""
    needs(f"attach:{ENTRY[how]}")
    bpf = BPF()
    descriptors = bpf.hash(key=s32, value=u64)

    @decorated(bpf, how, "__sys_listen", "__sys_accept4")
    def on_call(fd: int) -> None:
        if pid() == ME:
            descriptors[fd] += 1

    spec = bpf.specs()
    assert len({id(program.code) for program in spec.programs}) == 1
    assert len(spec.programs) == (2 if how == "fentry" else 1)
    with bpf:
        listen_badly(11)
        for _ in range(7):
            assert libc.accept4(-9, None, None, 0) == -1
        assert dict(descriptors.items()) == {-7: 11, -9: 7}


def test_the_context_has_registers() -> None:
    """`ctx.di` is the first argument on x86-64, `ctx.x0` on arm64, whatever the function."""
    needs("attach:kprobe")
    bpf = BPF()
    counts = bpf.array(value=u64)

    @bpf.kprobe("__sys_listen")
    def on_listen(ctx: Any, fd: int) -> None:
        first = ctx.x0 if host().name == "aarch64" else ctx.di
        if pid() == ME and first & 0xFFFFFFFF == fd & 0xFFFFFFFF:
            counts[0] += 1

    with bpf:
        listen_badly(7)
        assert counts[0] == 7


def test_the_best_way_is_taken_and_told() -> None:
    """`bpf.choices` has the way, and why not those before it."""
    needs("attach:fentry")
    bpf = BPF()

    @bpf.function("shmem_file_llseek")
    def on_seek(whence: u32) -> None:
        pass

    with bpf:
        assert [(each.candidate, each.rejected) for each in bpf.choices] == [("fentry", ())]
        assert list(bpf.attachments) == ["on_seek: fentry shmem_file_llseek, by trampoline"]


def test_a_function_without_btf_binds_by_position() -> None:
    """What the compiler made a variant of: its parameters are the registers, as annotated, and fentry can't do."""
    needs("attach:kprobe")
    variants = host_functions("*.isra.0")
    unless(variants, "function:*.isra.0")
    bpf = BPF()
    counts = bpf.array(value=u64)

    @bpf.function(variants[0])
    def on_call(first: ptr[u64]) -> None:
        counts[0] += u64(first) != 0

    with bpf:
        assert bpf.choices[0].candidate in {"kprobe", "kprobe.multi"}
        assert bpf.choices[0].rejected[0] == ("fentry", f"the kernel's BTF has no function {variants[0]}")


def host_functions(pattern: str) -> tuple[str, ...]:
    from pyebpf.runtime.host import host_target

    with Tracefs() as tracefs:
        return host_target(lambda: tracefs).functions(pattern)


# -- refusals ----------------------------------------------------------------------------------------------------------


def refusal(
    how: str, *functions: str, kind: type[Exception], probe: Callable[..., Any] | None = None, **options: Any
) -> str:
    """The one line that comes of a probe."""
    bpf = BPF()

    def on_call() -> None:
        pass

    decorated(bpf, how, *functions, **options)(probe or on_call)
    with pytest.raises(kind) as caught, bpf:
        pass
    message = str(caught.value)
    if kind is not CompileError:
        assert "\n" not in message
    return message


@pytest.mark.parametrize("how", ENTRY)
def test_a_function_that_does_not_exist_gets_the_closest_names(how: str) -> None:
    """One line, from BTF or from the kernel's symbols."""
    needs(f"attach:{ENTRY[how]}")
    message = refusal(how, "shmem_file_llseeek", kind=NotFound)
    assert "shmem_file_llseeek" in message
    assert "shmem_file_llseek" in message.replace("shmem_file_llseeek", "")


def test_one_missing_of_several_is_an_error_unless_optional() -> None:
    """The other function is still counted."""
    needs("attach:kprobe")
    assert "no function no_such_function" in refusal("kprobe", "shmem_file_llseek", "no_such_function", kind=NotFound)
    bpf = BPF()
    counts = bpf.array(value=u64)

    @bpf.kprobe("shmem_file_llseek", "no_such_function", optional=True)
    def on_seek() -> None:
        if pid() == ME:
            counts[0] += 1

    with bpf:
        seek(11)
        assert counts[0] == 11


def listed_data() -> str:
    """A global variable that the kernel lists as data: Linux 7.3 lists init_task and jiffies_64 as text."""
    with Path("/proc/kallsyms").open() as lines:
        return next(name for _, kind, name, *module in map(str.split, lines) if kind in "DBR" and not module)


def test_what_the_kernel_forbids_is_named() -> None:
    """A blacklisted function, data, a module that is not loaded, something inlined: each with its reason."""
    needs("attach:kprobe")
    message = refusal("kprobe", "no_such_module:some_function", kind=NotFound)
    assert message == (
        "no function no_such_module:some_function: module no_such_module is not loaded (modprobe no_such_module)"
    )
    data = listed_data()
    assert refusal("kprobe", data, kind=NotFound) == f"no function {data}: {data} is data"
    assert refusal("kprobe", "tcp_init", kind=NotSupported).endswith(
        "kprobe tcp_init: it ran while the kernel booted, and has been freed (__init)"
    )
    assert "blacklist" in refusal(
        "kprobe", "do_int3" if host().name == "x86_64" else "el0t_64_sync_handler", kind=NotSupported
    )


def test_a_trampoline_on_what_runs_around_programs_is_refused_before_the_kernel_is_asked() -> None:
    """Linux 6.1 would stop for good."""
    needs("attach:fentry")
    assert "a probe would hang the machine" in refusal("fentry", "__rcu_read_lock", kind=NotFound)


@pytest.mark.parametrize("how", ["kprobe", "kprobe_multi"])
def test_a_pattern_of_too_many_functions_asks_for_more(how: str) -> None:
    """With the number, and what to write."""
    needs(f"attach:{ENTRY[how]}")
    message = refusal(how, "tcp_*", max_probes=10, kind=InvalidValue)
    assert message.startswith("'tcp_*' matches ")
    assert "more than 10: narrow it, or allow more with max_probes=" in message
    assert "matches 'no_such_*'" in refusal(how, "no_such_*", kind=NotFound)


def test_parameters_that_a_function_lacks_are_errors_with_its_own() -> None:
    """At compile time, with the source line."""

    def on_seek(whance: int) -> None:
        pass

    message = refusal("kprobe", "shmem_file_llseek", kind=CompileError, probe=on_seek)
    assert "shmem_file_llseek() has no parameter whance (did you mean whence?): it has file, offset, whence" in message

    def on_return(whence: int) -> None:
        pass

    message = refusal("kretprobe", "shmem_file_llseek", kind=CompileError, probe=on_return)
    assert "a function's arguments are gone when it returns" in message

    def early(retval: int) -> None:
        pass

    assert "use @bpf.kretprobe" in refusal("kprobe", "shmem_file_llseek", kind=CompileError, probe=early)


def test_without_any_way_one_line_says_so() -> None:
    """Where the kernel has neither trampolines nor kprobes."""
    lacks("attach:fentry", "attach:kprobe_multi", "attach:kprobe")
    message = refusal("function", "shmem_file_llseek", kind=NotSupported)
    assert "no candidate works here" in message
    for way in ("fentry", "kprobe.multi", "kprobe"):
        assert f"{way}: this kernel " in message
