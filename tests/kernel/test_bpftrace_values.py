"""Values of scripts that the running kernel's types and symbols tell."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import time
from pathlib import Path

import pytest

from pyebpf.arch import host
from pyebpf.errors import CompileError, InvalidValue, NotFound
from pyebpf.script import Script
from tests.support.needs import needs
from tests.support.system_calls import getpgid


def printed(text: str) -> list[str]:
    """The lines that a script prints."""
    return "".join(Script(text).output()).splitlines()


def test_a_type_is_known_by_its_bare_name() -> None:
    """A typedef of the kernel's."""
    script = "BEGIN { let $a: typeof(pid_t) = 7; let $b: typeof(pid_t*) = &$a; print((*$b, sizeof(pid_t))); }"
    assert printed(script)[0] == "(7, 4)"


def test_variables_of_a_processor() -> None:
    """By its number, or of the one that the probe runs on."""
    needs("variable:runqueues", "btf_variable:runqueues")
    script = """BEGIN {
        $here = percpu_kaddr("runqueues"); $by_number = percpu_kaddr("runqueues", cpu);
        printf("%d %d %d\\n", $here == $by_number, $here.cpu == cpu, percpu_kaddr("runqueues", 100000) == 0);
    }"""
    assert printed(script)[0] == "1 1 1"


def test_a_raw_tracepoint_of_a_module_that_has_none_such() -> None:
    """As bpftrace refuses it; the kernel itself is vmlinux."""
    with pytest.raises(CompileError, match="No matches for rawtracepoint nonsense:sys_enter"):
        Script("rawtracepoint:nonsense:sys_enter { }").specs()
    assert Script("rawtracepoint:vmlinux:sys_enter { }").specs()
    with pytest.raises(NotFound, match=r"no raw tracepoint matches nonsense:sys_\*"):
        Script("rawtracepoint:nonsense:sys_* { }").specs()


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("rawtracepoint:sys_ent*", "rawtracepoint:vmlinux:sys_enter"),
        ("rawtracepoint:vmlin*:sys_[e]nter", "rawtracepoint:vmlinux:sys_enter"),
        ("rawtracepoint:sys_enter", "rawtracepoint:vmlinux:sys_enter"),
        ("tracepoint:raw_sys*:sys_e?ter", "tracepoint:raw_syscalls:sys_enter"),
        ("tracepoint:*:sys_enter_getpgi*", "tracepoint:syscalls:sys_enter_getpgid"),
    ],
)
def test_tracepoints_by_patterns(place: str, name: str) -> None:
    """Also of modules and categories; `probe` names what the event is at."""
    script = Script(f"{place} /pid == {os.getpid()}/ {{ print(probe); exit(); }}")
    assert next(script.output(attached=lambda _: getpgid(1), duration=5)).splitlines()[0] == name


def test_texts_are_cut_as_bpftrace_cuts_them() -> None:
    """A literal to so many bytes, others to one less, for the NUL; a length that is known at run time only, too."""
    script = (
        'BEGIN { $s = "abcdef"; $n = (pid & 0) + 4; print(str("abcdef", 3)); print(str($s, 2)); '
        'print(str("abcdef", 0)); print(str($s, 0)); print(str($s, 100)); print(str($s, $n)); '
        'print(str("abcdef", 3) == "abc"); '
        "print(str(comm, 4)); print(str(curtask.comm, 4)); }"
    )
    name = Path("/proc/self/comm").read_text()[:3]
    assert printed(script) == ["abc", "a", "", "", "abcdef", "abc", "true", name, name, "", ""]


def test_an_entry_is_printed_as_its_value() -> None:
    """Of an aggregation, too; a histogram stands below its name. A range that steps do not fill ends with the last."""
    script = (
        "BEGIN { @s[1] = sum(3); @s[1] = sum(4); @a[1] = avg(3); @t[1] = stats(4); @h[1] = hist(4); print(@s[1]); "
        "print(@a[1]); print(@t[1]); print(@h[1]); @ = lhist(5, 0, 100, 30); @ = lhist(95, 0, 100, 30); print(@); "
        "print(probe); clear(@s); clear(@a); clear(@t); clear(@h); clear(@); }"
    )
    found = [line.split("|")[0].strip() for line in printed(script)]
    assert found[:6] == ["7", "3", "{ .count = 1, .average = 4, .total = 4 }", "@h[1]:", "[4, 8)                 1", ""]
    assert [line.split() for line in found[7:11]] == [
        ["[0,", "30)", "1"],
        ["[30,", "60)", "0"],
        ["[60,", "90)", "0"],
        ["[90,", "...)", "1"],
    ]
    assert found[12] == "begin"


def test_a_name_stands_behind_a_byte() -> None:
    """In keys and tuples, where it is not aligned."""
    name = Path("/proc/self/comm").read_text().strip()
    script = "BEGIN { @t[pid > 0, comm] = 1; @u = (1 == 1, nsecs > 0, comm); @v[(pid > 0, comm)] = sum(5); }"
    assert printed(script)[2:] == [f"@t[true, {name}]: 1", f"@u: (true, true, {name})", f"@v[true, {name}]: 5"]


def test_pointers_to_pointers_of_system_calls() -> None:
    """The words of a program that is executed."""
    script = Script(
        "tracepoint:syscalls:sys_enter_execve /tid != 0/ { $a = args.argv; @[str(args.argv[0]), str($a[1])] = count(); "
        "@first[str(*args.argv)] = count(); }"
    )
    with script:
        subprocess.run(["/bin/true", "words of its own"], check=True)
        found = dict(script["@"].snapshot())
        firsts = dict(script["@first"].snapshot())
    assert found["/bin/true", "words of its own"] == 1
    assert "/bin/true" in firsts


@pytest.mark.parametrize(
    ("script", "lines"),
    [
        ("let $a : uint8 = 255; $a++; print($a); $a += 10; print($a);", ["0", "10"]),
        ("let $a : int8 = 127; $a++; print($a); let $b : uint16; $b--; print($b);", ["-128", "65535"]),
        ("let $a : uint64 = 0; $a--; print($a); print($a > 5);", ["18446744073709551615", "true"]),
        ("let $a : int16 = 32767; print($a + 1); $a += 1; print($a);", ["32768", "-32768"]),
        ("let $a : uint8; $b = (uint64)300; $a = $b; print($a);", ["44"]),
        ("if (1) { let $a : uint8 = 255; $a++; print($a); } let $a = 255; $a++; print($a);", ["0", "256"]),
        ('if (1) { let $a = 6; print($a); } else { let $a = "x"; } let $a = "y"; print($a);', ["6", "y"]),
        ('if (1) { $a = 1; } if (1) { let $a = "s"; print($a); } print($a);', ["s", "1"]),
        ("if (1) { $a = 1; print($a); } let $a; if (0) { $a = 3; } print($a);", ["1", "0"]),
        ("let $a = 1; if (1) { $a = 2; let $b = $a; print($b); } print($a);", ["2", "2"]),
        ("$a = (uint32)5; print(~$a); print(-$a);", ["4294967290", "4294967291"]),
        ("$a = (uint64)5; print(-$a); print(~(uint8)5 + 1);", ["18446744073709551611", "251"]),
        ("print(-(uint16)3); print(~(int64)3); print(~3); print(-3);", ["65533", "-4", "18446744073709551612", "-3"]),
        ("print(sizeof(BTF_VAR_STATIC)); print(sizeof(300));", ["8", "2"]),
        ("print(-pid < 0); print(-curtask.pid < 0);", ["false", "true"]),
        ('printf("[%.2d] [%5.1d] [%.3x] [%p] [%4p]\\n", 5, 5, 5, 0, 0);', ["[5] [    5] [5] [0] [   0]"]),
    ],
)
def test_numbers_have_the_types_that_are_declared(script: str, lines: list[str]) -> None:
    """As bpftrace 0.27 prints them."""
    assert printed(f"BEGIN {{ {script} }}")[: len(lines)] == lines


@pytest.mark.parametrize(
    "script",
    ["let $a = 1; let $a = 2;", "$a = 5; if (1) { let $a = 6; }", "for ($a : 0..2) { let $a = 5; }"],
)
def test_a_variable_hides_none(script: str) -> None:
    """As in bpftrace."""
    with pytest.raises(CompileError, match=r"\$a is there already, in this block or around it: take another name"):
        Script(f"BEGIN {{ {script} }}")


def test_a_format_may_have_a_nul() -> None:
    """It is printed, and what follows it; a text that is a value ends there."""
    found = "".join(Script(r'BEGIN { printf("%d x\x00y %s\n", 5, "a\0b"); }').output())
    assert found.startswith("5 x\0y a\n")


def test_a_number_that_does_not_fit_its_variable() -> None:
    """The variable's range is in the message."""
    with pytest.raises(CompileError, match="300 does not fit the variable's type: it holds 0 to 255"):
        Script("BEGIN { let $a : uint8 = 300; }").specs()
    with pytest.raises(CompileError, match="-1 does not fit the variable's type: it holds 0 to 65535"):
        Script("BEGIN { let $a : uint16; $a = -1; }").specs()


def test_numbers_in_network_order() -> None:
    """As C reads them: `bswap` and `ntop` make ports and addresses of them, in structs of the kernel and in arrays."""
    places = [("127.0.0.1", 9000), ("127.0.0.2", 9003), ("127.0.0.1", 9000)]

    def connect(_places: int) -> None:
        for place in places:
            with socket.socket() as end:
                end.connect_ex(place)
        with socket.socket(socket.AF_INET6) as end:
            end.connect_ex(("::1", 9005))

    script = Script(
        f"""tracepoint:syscalls:sys_enter_connect /pid == {os.getpid()}/ {{
            $s = (struct sockaddr_in *)args.uservaddr; $six = (struct sockaddr_in6 *)args.uservaddr;
            if ($s->sin_family == {socket.AF_INET}) {{
                printf("%x %d %s\\n", $s->sin_port, bswap($s->sin_port), ntop($s->sin_addr.s_addr));
                @ports = lhist(bswap($s->sin_port), 9000, 9004, 2);
            }} else {{
                $word = $six->sin6_addr.in6_u.u6_addr32[3];
                printf("%d %s %x\\n", bswap($six->sin6_port), ntop($six->sin6_addr.in6_u.u6_addr8), $word);
            }}
        }}"""
    )
    lines = "".join(script.output(lambda: True, attached=connect)).splitlines()
    assert lines[:4] == ["2823 9000 127.0.0.1", "2b23 9003 127.0.0.2", "2823 9000 127.0.0.1", "9005 ::1 1000000"]
    assert [line.split()[2] for line in lines if line.startswith("[")] == ["2", "1"]


def test_arguments_of_a_raw_tracepoint_by_number() -> None:
    """64 bits each, as the kernel passes them."""
    script = Script(
        f"rawtracepoint:sys_enter /pid == {os.getpid()} && arg1 == {host().system_call('getpgid')}/ "
        "{ @[arg1 == args.id] = count(); }"
    )
    text = "".join(script.output(lambda: True, attached=lambda _: getpgid(*range(7))))
    assert "@[true]: 7\n" in text
    with pytest.raises(CompileError, match="sys_enter has 2 arguments: arg0 to arg1"):
        Script("rawtracepoint:sys_enter { @ = arg2; }").specs()


def test_a_stack_as_a_key_of_json() -> None:
    """Its lines have no spaces before them there."""
    script = Script(
        f"rawtracepoint:sys_enter /pid == {os.getpid()} && args.id == {host().system_call('getpgid')}/ "
        "{ @k[kstack(1), 5] = count(); @v = kstack(1); }"
    )
    lines = "".join(script.output(lambda: True, attached=lambda _: getpgid(1), json=True)).splitlines()
    found = {name: value for line in lines if line for name, value in json.loads(line)["data"].items()}
    ((key, count),) = found["@k"].items()
    assert count == 1
    assert re.fullmatch(r"\n\S+\+\d+\n,5", key)
    assert re.fullmatch(r"\n        \S+\+\d+\n", found["@v"])


def test_the_bytes_of_an_address() -> None:
    """The kernel's `char[14]`, or `char[]`, with zeros among the bytes."""
    script = Script(
        "tracepoint:syscalls:sys_enter_connect /pid == $1/ { $s = (struct sockaddr *)args.uservaddr; "
        '@[buf($s->sa_data, 6), $s->sa_data[3], memcmp($s->sa_data, "\\x00\\x09\\xfe", 3)] = 1; }',
        [str(os.getpid())],
    )
    with script, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.connect(("127.1.0.3", 9))
        ((key, _),) = script["@"].snapshot().items()
    assert key == ((6, b"\x00\x09\x7f\x01\x00\x03"), 1, 0x7F - 0xFE)


def test_constants_of_the_kernel_s_enums_are_printed_by_their_names() -> None:
    """Of enums with a name and without; numbers where they are computed with, or are of several enums."""
    found = printed(
        'BEGIN { print((TCP_LISTEN, BPF_MAP_TYPE_HASH)); printf("%d %s\\n", PIDTYPE_PID, PIDTYPE_PID); '
        "$a = TCP_LISTEN; $a = TCP_CLOSE; print($a); print(pid ? TCP_LISTEN : TCP_CLOSE); print(TCP_LISTEN + 0); "
        "print(TCP_LISTEN == 10); $b = TCP_LISTEN; $b = PIDTYPE_PID; print($b); "
        "@[TCP_LISTEN, IPPROTO_UDP] = PIDTYPE_PID; }"
    )
    assert found[:7] == [
        "(TCP_LISTEN, BPF_MAP_TYPE_HASH)",
        "0 PIDTYPE_PID",
        "TCP_CLOSE",
        "TCP_LISTEN",
        "10",
        "true",
        "0",
    ]
    assert found[-1] == "@[TCP_LISTEN, IPPROTO_UDP]: PIDTYPE_PID"


def test_a_stack_without_frames() -> None:
    """As long as it says, and all alike."""
    script = "BEGIN { @k[kstack(0), ustack(perf, 0)] = len(kstack(0)); @k[kstack(0), ustack(perf, 0)] += 5; }"
    assert "".join(printed(script)).split() == ["@k[,", "]:", "5"]


def test_the_length_of_a_stack() -> None:
    """As many as are printed; of one that was cut, and of one that a map or a variable holds."""
    script = (
        "BEGIN { $k = kstack; @k[1] = ustack(2); print(len($k)); print(len(kstack(2))); print(len(@k[1])); print($k); "
        "clear(@k); }"
    )
    own, cut, user, *frames = [line for line in printed(script) if line]
    assert len(frames) == int(own) > 2
    assert (cut, int(user) in (1, 2)) == ("2", True)


@pytest.mark.parametrize(
    ("place", "name"), [("i:ms:1", "interval:ms:1"), ("tick=i:us:997", "interval:us:997"), ("p:hz:97", "profile:hz:97")]
)
def test_a_probe_is_called_by_its_kind_in_full(place: str, name: str) -> None:
    """Whatever short form the script writes, and whatever name it gives."""
    assert printed(f"{place} {{ print(probe); exit(); }}")[0] == name


def test_a_series_is_read_by_its_key() -> None:
    """Its points with their times; and inside the `with` an exit() is told, which ends nothing."""
    text = (
        "BEGIN { @ts[1] = tseries(5, 1s, 5); @ts[2] = tseries(6, 1s, 5); @t = tseries(7, 1s, 5); exit(3); } "
        "interval:s:1000 { }"
    )
    with Script(text) as script:
        found = script["@ts"].snapshot()
        assert {key: [value for _, value in points if value] for key, points in found.items()} == {1: [5], 2: [6]}
        read = script["@ts"]
        assert (read[2], read.get(2), read.get(3)) == (found[2], found[2], None)
        assert (len(read), list(read), 2 in read, 3 in read) == (2, [1, 2], True, False)
        assert dict(read.items()) == dict(zip(read.keys(), read.values(), strict=True)) == found
        with pytest.raises(KeyError):
            read[3]
        assert abs(found[1][0][0] - time.clock_gettime_ns(time.CLOCK_TAI)) < 10**12
        assert script["@t"].snapshot() == {0: script["@t"].only()}
        with pytest.raises(InvalidValue, match="@t is a series of intervals by itself"):
            script["@t"].interval()
        assert (script.exited, script.status) == (False, 0)
        assert list(script.printed()) == []
        assert (script.exited, script.status) == (True, 3)
