"""Functions of scripts that take the kernel's own objects, or memory of a process, in the running kernel."""

from __future__ import annotations

import ctypes
import os
import re
import socket
import time
from pathlib import Path

import pytest

from pyebpf.errors import CompileError, InvalidValue
from pyebpf.runtime.host import host_target
from pyebpf.script import Script
from tests.support.needs import needs
from tests.support.system_calls import NO_PROCESS, getpgid


def lines(text: str) -> list[str]:
    """The lines that a script prints."""
    return "".join(Script(text).output()).splitlines()


def test_files_have_paths(tmp_path: Path) -> None:
    """Of the files that processes have open; one that is longer than asked for is cut at its beginning."""
    # Linux commit 3d06f34aa89e ("bpf: Allow bpf_d_path in bpf_iter program") (in v5.12).
    needs("helper:d_path@tracing", "kernel:5.12")
    path = tmp_path / "a file with a name"
    with path.open("w") as file:
        mine = f"ctx.task.tgid == {os.getpid()} && ctx.fd == {file.fileno()}"
        found = lines(
            "config = { max_strlen = 200 } iter:task_file { "
            f"if ({mine}) {{ print(path(ctx.file.f_path)); print(path(ctx.file.f_path, 12)); }} }}"
        )
    assert found[:2] == [str(path), str(path)[-11:]]


@pytest.mark.parametrize("room", [1024, 120, 40])
def test_paths_are_strings_as_all_are(tmp_path: Path, room: int) -> None:
    """Of more than half the room, too: they have a length, are joined, and the same path by other ways is equal."""
    needs("helper:d_path@tracing", "kernel:5.12")
    if room == 1024:
        needs("map:long_keys")
    path = tmp_path / ("x" * (119 - len(str(tmp_path))))[:100]
    with path.open("w") as file:
        mine = f"ctx.task.tgid == {os.getpid()} && ctx.fd == {file.fileno()}"
        found = lines(
            f"config = {{ max_strlen = {room} }} iter:task_file {{ if ({mine}) {{ $path = path(ctx.file.f_path); "
            'print(strlen(path(ctx.file.f_path))); print(str_concat($path, "")); print($path); '
            "@[path(ctx.file.f_path)] = 1; @[str($path)] = 2; print(len(@)); } }"
        )
    shown = str(path)[-room + 1 :]
    assert found[:4] == [str(len(shown)), shown, shown, "1"]


def test_sockets_have_cookies() -> None:
    """The same as getsockopt(SO_COOKIE) has."""
    needs("helper:get_socket_cookie@tracing")
    with socket.create_server(("127.0.0.1", 0)) as server:
        cookie = ctypes.c_uint64.from_buffer_copy(server.getsockopt(socket.SOL_SOCKET, 57, 8))
        found = lines("iter:tcp { print(socket_cookie(ctx.sk_common)); }")
    assert str(cookie.value) in found


def test_arguments_of_raw_tracepoints_are_objects() -> None:
    """By name, by number, and by way of a variable: the verifier takes each."""
    needs("helper:get_socket_cookie@tracing")
    for given in ("args.sk", "(struct sock *)arg0", "$sk"):
        script = f"rawtracepoint:inet_sock_set_state {{ $sk = args.sk; @[socket_cookie({given})] = count(); }}"
        with Script(script) as bpf, socket.create_server(("127.0.0.1", 0)):
            assert bpf["@"].snapshot()


@pytest.mark.parametrize("number", [211, -77])
def test_a_variable_of_a_program_is_read(number: int) -> None:
    """`uaddr()` of a variable of the C library, wherever it lies in the process: an int, with its sign."""
    libc = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libc.so" in line)
    wanted = ctypes.c_int.in_dll(ctypes.CDLL(None), "optind")
    wanted.value = number
    bpf = Script(
        f'uprobe:{libc}:getpgid {{ @[*uaddr("optind"), *(uint32 *)uaddr("optind")] = count(); }}', pid=os.getpid()
    )
    try:
        with bpf:
            getpgid(*range(7))
            assert bpf["@"].snapshot() == {(number, number % 2**32): 7}
    finally:
        wanted.value = 1


def test_lines_for_the_trace_pipe_are_taken() -> None:
    """By both helpers; nothing of them is read, since others would miss it."""
    needs("helper:trace_vprintk@raw_tracepoint")
    assert (
        lines('BEGIN { debugf("pyebpf %d %s\\n", 1, comm); debugf("%d %d %d %5d\\n", 1, 2, 3, 4); print(1); }')[0]
        == "1"
    )


def test_functions_of_the_kernel_for_programs() -> None:
    """Those that it has, and those that there are not."""
    needs("kfunc:bpf_task_acquire")
    assert lines('BEGIN { print((kfunc_exist("bpf_task_acquire"), kfunc_exist("nonsense"))); }')[0] == "(true, false)"
    assert lines('BEGIN { print((kfunc_exist("vfs_read"), kfunc_allowed("vfs_read"))); }')[0] == "(true, false)"


def test_an_address_of_a_map_leads_to_the_kernels_own_struct() -> None:
    """Of one that is declared, and of one that a function fills."""
    script = "let @b = hash(33); BEGIN { @b[1] = 5; @c[2] = count(); print(((&@b)->max_entries, (&@c)->max_entries)); }"
    assert lines(script)[0] == "(33, 4096)"


def test_numbers_of_the_kernels_enums_have_names() -> None:
    """By a cast; as numbers they are numbers."""
    assert lines('BEGIN { print((enum pid_type)1); printf("%d\\n", (enum pid_type)1); }')[:2] == ["PIDTYPE_TGID", "1"]


def test_a_field_of_a_tracepoint_that_is_an_enum_has_names() -> None:
    """As the record says its type: the reason for which a packet is dropped."""
    needs("kernel:5.17")
    script = Script(
        f'tracepoint:skb:kfree_skb /pid == {os.getpid()}/ {{ printf("%d %s\\n", args.reason, args.reason); }}'
    )
    ended = False

    def attached(_: int) -> None:
        nonlocal ended
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"nobody is there", ("127.0.0.1", 9))
        ended = True

    number, name = "".join(script.output(lambda: ended, attached=attached)).split()[:2]
    assert number.isdecimal()
    assert name.startswith("SKB_") or name == "NOT_SPECIFIED"


def test_a_struct_of_the_kernel_is_printed_whole() -> None:
    """Member by member, and one inside another."""
    assert lines("BEGIN { print(curtask->cred->uid); }")[0] == f"{{ .val = {os.getuid()} }}"
    script = "BEGIN { $t = curtask->se.run_node; print($t); @ = $t; }"
    assert all(".rb_right = 0x" in line for line in lines(script)[::3])


def test_another_process_has_a_name(capfd: pytest.CaptureFixture[str]) -> None:
    """As its task has it; where there is none there is a warning, and BEGIN may not ask."""
    needs("kfunc:bpf_task_from_pid")
    script = (
        "iter:task { if (ctx.task.pid) { @[comm(ctx.task.pid) == ctx.task.comm] = count(); } } "
        "iter:bpf_map { print(comm(-5)); exit(); }"
    )
    found = lines(script)
    assert "N/A" in found
    assert any(line.startswith("@[true]: ") for line in found)
    assert "WARNING: No such process (pid=-5)\n" in capfd.readouterr().err
    with pytest.raises(CompileError, match=r"comm\(\) of a process calls bpf_task_from_pid"):
        Script("BEGIN { print(comm(1)); }").specs()


def test_packets_are_captured(tmp_path: Path) -> None:
    """Those that this process sends on loopback, without the header of the link; the function says that it worked."""
    needs("helper:skb_output@tracing")
    path = tmp_path / "sent.pcap"
    script = Script(
        f"rawtracepoint:net_dev_queue /pid == {os.getpid()}/ "
        f'{{ @[skboutput("{path}", args.skb, args.skb.len, 14)] = count(); }}'
    )
    ended = False

    def attached(_: int) -> None:
        nonlocal ended
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        ):
            receiver.bind(("127.0.0.1", 0))
            for number in range(7):
                sender.sendto(b"packet %d of pyebpf" % number, receiver.getsockname())
        ended = True

    assert "".join(script.output(lambda: ended, attached=attached)).strip() == "@[0]: 7"
    found = path.read_bytes()
    assert found[20:24] == (101).to_bytes(4, "little")
    assert [found.count(b"packet %d of pyebpf" % number) for number in range(7)] == [1] * 7
    assert found[24 + 16] >> 4 == 4


def test_packets_are_not_captured_where_another_user_says(tmp_path: Path) -> None:
    """Through his link in a folder that everybody can write to; nor is a FIFO's reader waited for."""
    needs("user:root", "helper:skb_output@tracing")
    tmp_path.chmod(0o1777)
    (tmp_path / "ours").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "ours")
    os.chown(tmp_path / "link", 65534, 65534, follow_symlinks=False)
    os.mkfifo(tmp_path / "fifo")
    for name, why in (("link", "is another user's link"), ("fifo", "nobody reads this FIFO")):
        script = Script(
            f'rawtracepoint:net_dev_queue {{ skboutput("{tmp_path / name}", args.skb, args.skb.len, 14); }}'
        )

        def attached(_: int) -> None:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.sendto(b"packet", ("127.0.0.1", 9))

        with pytest.raises(InvalidValue, match=rf"skboutput\(\): {tmp_path / name} cannot be written: .*{why}"):
            list(script.output(attached=attached, duration=10))
    assert (tmp_path / "ours").read_text() == "old"


def test_all_arguments_are_a_record() -> None:
    """Of a tracepoint and of a raw one, where a truth value is one; BEGIN has none."""
    text = "tracepoint:syscalls:sys_enter_getpgid { @[args] = count(); } "
    script = Script(f"{text} rawtracepoint:sched_switch {{ @s = args; }}", pid=os.getpid())
    with script:
        getpgid(*range(3))
        time.sleep(0.01)  # another process has its turn
        found = script.printer().maps()
    assert all(f"@[{{ .pid = {NO_PROCESS + number} }}]: 1\n" in found for number in range(3))
    assert "@s: { .preempt = false, .prev = 0x" in found.replace("true", "false")
    with pytest.raises(CompileError, match="BEGIN has no arguments: args and arg0 are for"):
        Script("BEGIN { print(args); }").specs()


def test_an_enum_that_only_a_typedef_names() -> None:
    """`socket_state` has names for its numbers; that a task's member of this name is gone is not told of a socket's."""
    with socket.socket() as plain:
        private = f"((struct socket *)curtask.files.fdt.fd[{plain.fileno()}].private_data)"
        script = Script(
            f"tracepoint:syscalls:sys_enter_getpgid {{ $s = {private}.state; print($s); print(($s, 1)); "
            f'@[$s] = count(); printf("%s %d\\n", $s, $s); print({private}.state == SS_UNCONNECTED); exit(); }}',
            pid=os.getpid(),
        )
        found = "".join(script.output(attached=lambda _: getpgid(0), duration=10)).splitlines()
    assert found[:4] == ["SS_UNCONNECTED", "(SS_UNCONNECTED, 1)", "SS_UNCONNECTED 1", "true"]
    assert "@[SS_UNCONNECTED]: 1" in found
    assert script.remarks == []


def test_a_struct_with_members_without_names(tmp_path: Path) -> None:
    """Theirs stand in their places, also of those below; `unsigned char[n]` is a text, and `u8[n]` is numbers."""
    with (tmp_path / "told").open("w") as file, socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as mapped:
        mapped.connect(("::ffff:127.0.0.2", 9))
        script = Script(
            f"tracepoint:syscalls:sys_enter_getpgid {{ $fd = curtask.files.fdt.fd; "
            f"$d = $fd[{file.fileno()}].f_path.dentry; print($d.d_name); $n = $d.d_name; @n = $n; print(@n.len); "
            f"print($d.d_lockref); $all = *$d; print($all.d_flags == $d.d_flags); "
            f"$a = ((struct socket *)$fd[{mapped.fileno()}].private_data).sk.__sk_common.skc_v6_daddr.in6_u.u6_addr8; "
            f"print($a[10]); print(ntop($a)); exit(); }}",
            pid=os.getpid(),
        )
        found = "".join(script.output(attached=lambda _: getpgid(0), duration=10)).splitlines()
    name, length, lock, same, byte, address, *_ = found
    number = r"[0-9]+"
    assert re.fullmatch(rf"\{{ \.hash = {number}, \.len = 4, \.hash_len = {number}, \.name = 0x[0-9a-f]+ \}}", name)
    assert int(name.split()[9].rstrip(",")) >> 32 == int(length) == len("told")
    assert re.match(rf"\{{ \.lock_count = {number}, \.lock = \{{ ", lock)
    assert (same, byte, address) == ("true", "255", "::ffff:127.0.0.2")


def test_names_in_unsigned_characters(tmp_path: Path) -> None:
    """The short name inside a dentry, which newer kernels have in a union."""
    newer = host_target(lambda: pytest.fail("no tracefs is needed")).has_field("struct dentry", "d_shortname")
    member = "d_shortname.string" if newer else "d_iname"
    with (tmp_path / "told").open("w") as file:
        script = Script(
            f"tracepoint:syscalls:sys_enter_getpgid {{ $d = curtask.files.fdt.fd[{file.fileno()}].f_path.dentry; "
            f"$n = $d.{member}; print($n); "
            f'print(strlen($n)); print($n == "told"); printf("%6s|\\n", $n); @[$n] = count(); exit(); }}',
            pid=os.getpid(),
        )
        found = "".join(script.output(attached=lambda _: getpgid(0), duration=10)).splitlines()
    assert found[:4] == ["told", "4", "true", "  told|"]
    assert "@[told]: 1" in found
