"""Parameters and settings that are given to a script from outside; and small functions and builtins."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import pytest

from pyebpf.arch import host
from pyebpf.errors import CompileError, InvalidValue, NotFound
from pyebpf.script import Script
from tests.dsl.fake_target import FakeTarget
from tests.support.scripts import printed, printed_by

if TYPE_CHECKING:
    from pathlib import Path


def test_parameters_stand_in_attach_points() -> None:
    """The kind of a probe, and its parts."""
    (program,) = Script("$1:s:$2 { }", ["interval", "5"]).compile(FakeTarget()).programs
    assert "5" in str(program.attach)
    (program,) = Script("$1 { }", ["interval:s:5"]).compile(FakeTarget()).programs
    assert "5" in str(program.attach)


@pytest.mark.parametrize(("text", "number"), [("0775", 509), ("0x1f", 31), ("-4", -4), ("1e3", 1000)])
def test_a_parameter_is_a_number_as_a_script_writes_it(text: str, number: int) -> None:
    """Octal, hexadecimal, with an exponent."""
    assert printed("BEGIN { print($1); }", arguments=[text]) == f"{number}\n"


def test_a_byte_order_mark_is_no_part_of_a_script(tmp_path: Path) -> None:
    """Nor of a header; editors of Windows begin files with it."""
    assert printed("\ufeffBEGIN { print(1); }\r\n") == "1\n"
    (tmp_path / "own.h").write_bytes(b"\xef\xbb\xbf#define LIMIT 5\n")
    script = Script('#include "own.h"\nBEGIN { print(LIMIT); }', file=str(tmp_path / "script.bt"))
    assert printed_by(script, lambda _: None) == "5\n"


def test_the_room_for_events_is_that_of_perf_rb_pages() -> None:
    """Pages of 4 KiB, a power of two of them, 1 MiB at least; not more than a ring buffer can have."""
    sizes = {
        pages: Script("BEGIN { print(1); }", settings={"perf_rb_pages": pages})._script.script.events.size
        for pages in ("1", "256", "1000", "262144")
    }
    assert sizes == {"1": 1 << 20, "256": 1 << 20, "1000": 1 << 22, "262144": 1 << 30}
    with pytest.raises(
        CompileError, match=r"perf_rb_pages, set outside the script .*: 262145 is out of range: give 0 to 262144 pages"
    ):
        Script("BEGIN { }", settings={"perf_rb_pages": "262145"})


def test_settings_from_outside_go_first() -> None:
    """Before those of the config block, which are as they were."""
    text = 'config = { max_strlen = 8; print_maps_on_exit = 0 } BEGIN { @ = 1; printf("%s|", str("abcdefghij")); }'
    assert Script(text, settings={"max_strlen": "16"})._script.script.settings.max_strlen == 16
    assert Script(text, settings={"no_such": "1"})._script.script.settings.max_strlen == 8


def test_settings_without_an_effect_are_taken() -> None:
    """Among them those that bpftrace had until it did without."""
    assert printed("config = { unstable_map_decl = 1; lazy_symbolication = true } BEGIN { print(1); }") == "1\n"
    assert printed("config = { max_type_res_iterations = 5; unstable_addr = 1 } BEGIN { print(1); }") == "1\n"


def test_settings_have_the_names_that_they_had_before() -> None:
    """Those that bpftrace takes."""
    script = Script("config = { strlen = 8; map_keys_max = 5; cat_bytes_max = 7 } BEGIN { }")
    settings = script._script.script.settings
    assert (settings.max_strlen, settings.max_map_keys, settings.max_cat_bytes) == (8, 5, 7)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("max_strlen = abc", "max_strlen: expecting a number, got abc"),
        ('max_map_keys = "64k"', "max_map_keys: expecting a number, got 64k"),
        ("max_map_keys = 0", "max_map_keys: 0 is out of range: give 1 to 4294967295"),
        ("max_cat_bytes = abc", "max_cat_bytes: expecting a number, got abc"),
        ("perf_rb_pages = abc", "perf_rb_pages: expecting a number, got abc"),
        ("log_size = abc", "log_size: expecting a number, got abc"),
        ("print_maps_on_exit = maybe", "print_maps_on_exit: expecting true or false, or 1 or 0, got maybe"),
        ("cpp_demangle = xx", "cpp_demangle: expecting true or false"),
        ("show_debug_info = xx", "show_debug_info: expecting true or false"),
        ("lazy_symbolication = xx", "lazy_symbolication: expecting true or false"),
        (
            "stack_mode = pref",
            "Invalid value for stack_mode, pref (did you mean perf?): give one of bpftrace, perf, raw",
        ),
        ("max_strln = 200", "there is no setting max_strln (did you mean max_strlen?)"),
        ("potato = 1", "there is no setting potato: those with an effect are max_strlen, max_map_keys"),
    ],
)
def test_settings_that_mean_nothing_are_refused(setting: str, message: str) -> None:
    """At their place, with what they take; from outside with the name of the variable of the environment."""
    with pytest.raises(CompileError) as error:
        Script(f"config = {{ max_probes = 5; {setting} }} BEGIN {{ }}")
    assert message in str(error.value)
    assert str(error.value).startswith("<script>:1: ")
    assert str(error.value).split("\n")[2].count("^") == len(setting)
    if "there is no" in message or setting.startswith(("log", "lazy")):
        return
    name, value = setting.replace('"', "").split(" = ")
    with pytest.raises(CompileError) as outer:
        Script("BEGIN { }", settings={name: value})
    assert f"by BPFTRACE_{name.upper()} or settings=): {message.removeprefix(f'{name}: ')}" in str(outer.value)


def test_settings_are_written_in_several_ways() -> None:
    """A number as a text, in hexadecimal; what is true as a number or a word; modes of missing probes in capitals."""
    text = 'config = { max_strlen = "0x40"; print_maps_on_exit = "no"; missing_probes = WARN } BEGIN { }'
    found = Script(text, settings={"show_debug_info": "2", "cpp_demangle": "off"})._script.script.settings
    assert (found.max_strlen, found.missing_probes) == (64, "warn")
    assert (found.print_maps_on_exit, found.cpp_demangle, found.show_debug_info) == (False, False, True)


@pytest.mark.parametrize("text", ['"abcdef"', "$1", "str($1)", 'comm == "abcdef"', "str($1, 6)"])
def test_strings_that_are_written_are_no_longer_than_max_strlen(text: str) -> None:
    """With their NUL, if it is set: also of the command line; not a format, nor the part that is taken."""
    with pytest.raises(CompileError, match="this string has 6 bytes, and max_strlen = 6 takes 5 and a NUL"):
        printed(f"config = {{ max_strlen = 6 }} BEGIN {{ print({text}); }}", arguments=["abcdef"])
    taken = 'printf("format %s %s %s\\n", "abcde", str($1, 5), str("abcdef", 2));'
    assert (
        printed(f"config = {{ max_strlen = 6 }} BEGIN {{ {taken} }}", arguments=["abcdef"]) == "format abcde abcde ab\n"
    )


def test_cat_ends_at_its_limit(tmp_path) -> None:
    """`max_cat_bytes`."""
    (tmp_path / "file").write_text("abcdef")
    script = Script(f'config = {{ max_cat_bytes = 3 }} BEGIN {{ cat("{tmp_path}/file"); }}')
    assert printed_by(script, lambda _: None) == "abc"


def test_cat_reads_regular_files_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A FIFO would wait for a writer, and a device has no end; files of /proc are regular."""
    os.mkfifo(tmp_path / "fifo")
    for path in (f"{tmp_path}/fifo", "/dev/zero", str(tmp_path)):
        assert printed(f'BEGIN {{ cat("{path}"); print(1); }}') == "1\n"
        assert capsys.readouterr().err == (
            f"ERROR: cat(): '{path}' is not a regular file: FIFOs, sockets, devices and directories are not read\n"
        )
    assert printed('BEGIN { cat("/proc/sys/kernel/ostype"); print(1); }') == "Linux\n1\n"


def test_what_reading_takes_away_is_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither by cat() nor by #include: the kernel's log. A file of that name that is none of the kernel's is read."""
    (tmp_path / "kmsg").write_text("#define SIX 6\n")
    (tmp_path / "link").symlink_to("/proc/kmsg")
    for path in ("/proc/kmsg", f"{tmp_path}/link"):
        assert printed(f'BEGIN {{ cat("{path}"); print(1); }}') == "1\n"
        reason = f"'{path}' is not read: that would take what it has from whoever is to read it"
        assert capsys.readouterr().err == f"ERROR: cat(): {reason}\n"
        with pytest.raises(CompileError, match=re.escape(f"<script>:1: {path} cannot be included: {reason}")):
            printed(f'#include "{path}"\nBEGIN {{ print(1); }}')
    for path, reason in (
        ("/dev/zero", "'/dev/zero' is not a regular file: FIFOs"),
        ("/proc/self/mem", "Input/output error\n    #include"),
    ):
        with pytest.raises(CompileError, match=re.escape(f"<script>:2: {path} cannot be included: {reason}")):
            printed(f'\n#include "{path}"\nBEGIN {{ print(1); }}')
    assert printed(f'#include "{tmp_path}/kmsg"\nBEGIN {{ print(SIX); }}') == "6\n"


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((None,), {}, "Script(text): give the text of a script, not NoneType"),
        ((b"",), {}, "Script(text): give the text of a script, not bytes"),
        (("BEGIN { }", [5]), {}, "Script(arguments=...), $1: give a string, not int"),
        (("BEGIN { }", "12"), {}, "Script(arguments='12'): give a list of strings, such as ['12']"),
        (("BEGIN { }", 3), {}, "Script(arguments=...): give a list of strings, not int"),
        (("BEGIN { }",), {"pid": "5"}, "Script(pid=...): give the number of a process, not str"),
        (("BEGIN { }",), {"pid": -3}, "Script(pid=-3): give the number of a process, 1 or more"),
        (
            ("BEGIN { }",),
            {"settings": 5},
            'Script(settings=...): give a dictionary, such as {"max_strlen": "64"}, not int',
        ),
        (("BEGIN { }",), {"file": None}, "Script(file=...): give the name that errors have for it, not NoneType"),
        (("BEGIN { }",), {"only": 5}, "Script(only=...): give a regular expression, not int"),
        (("BEGIN { }",), {"child": 0}, "Script(child=0): give the number of a process, 1 or more"),
    ],
)
def test_arguments_that_are_none_are_refused(arguments: Any, options: Any, message: str) -> None:
    """With what to give."""
    with pytest.raises(InvalidValue, match=f"^{re.escape(message)}$"):
        Script(*arguments, **options)


def test_a_duration_is_a_number_of_seconds() -> None:
    """Told before anything is loaded."""
    with pytest.raises(InvalidValue, match=re.escape("output(duration=...): give seconds, not str")):
        next(Script("BEGIN { }").output(duration="5"))  # type: ignore[arg-type]  # that is the point
    for seconds in (-1, float("nan")):
        with pytest.raises(InvalidValue, match="give seconds, 0 or more"):
            next(Script("BEGIN { }").output(duration=seconds))


def test_what_output_and_a_script_take() -> None:
    """Functions, and the number of a process, which True is none of."""
    wrong: dict[str, Any] = {"stop": True, "attached": 5}
    for name, value in wrong.items():
        with pytest.raises(InvalidValue, match=re.escape(f"output({name}={value}): give a function")):
            next(Script("BEGIN { }").output(**{name: value}))
    with pytest.raises(InvalidValue, match=re.escape("Script(pid=True): give the number of a process")):
        Script("BEGIN { }", pid=True)


def test_a_parameter_that_is_no_number_is_told() -> None:
    """Where a format wants one."""
    script = Script('BEGIN { printf("%d", $1); }', ["18446744073709551616"])
    with pytest.raises(CompileError, match=re.escape("$1 is '18446744073709551616', and no number of 64 bits")):
        script.compile(FakeTarget())
    with pytest.raises(CompileError, match="%r does not print") as caught:
        Script('BEGIN { printf("%r", $1); }', ["5"]).compile(FakeTarget())
    assert "$1 is" not in caught.value.message


def test_a_filter_that_would_not_end_is_refused() -> None:
    """One that repeats what repeats; others may have some repetitions."""
    for only in ("(a+)+$", "((a*)b*)*c", ".*.*.*.*.*"):
        with pytest.raises(InvalidValue, match=re.escape(f"--probe-filter {only!r}: this regular expression may take")):
            Script("interval:s:5 { }", only=only)
    (program,) = Script("interval:s:5 { }", only=".*v.*l:.*(5|6)").compile(FakeTarget()).programs
    assert program.name == "interval_s"


def test_cat_prints_no_more_than_fits_into_memory() -> None:
    """What `max_cat_bytes` asks for is made no room for before a file is so large."""
    setting = {"max_cat_bytes": "67108864"}
    assert Script("BEGIN { }", settings=setting)._script.script.settings.max_cat_bytes == 1 << 26
    with pytest.raises(CompileError, match="max_cat_bytes: 9999999999 is out of range: give 0 to 67108864"):
        Script("config = { max_cat_bytes = 9999999999 } BEGIN { }")


def test_a_file_that_cannot_be_read_is_told_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    """In bpftrace's words; nothing is printed."""
    assert printed('BEGIN { cat("/nowhere"); print(1); }') == "1\n"
    assert capsys.readouterr().err == "ERROR: failed to open file '/nowhere' (No such file or directory)\n"


def test_a_header_stands_beside_the_script(tmp_path: Path) -> None:
    """Its constants, structs and enums are the script's."""
    (tmp_path / "own.h").write_text("#define LIMIT 5\nstruct pair { int a; int b; };\nenum color { RED = 3 };\n")
    text = '#include "own.h"\nBEGIN { printf("%d %d %d", LIMIT, RED, sizeof(struct pair)); }'
    script = Script(text, file=str(tmp_path / "script.bt"))
    assert printed_by(script, lambda _: None) == "5 3 8"
    assert script.kernel_changes(FakeTarget()) == []


def test_a_header_that_is_not_there_is_told(tmp_path: Path) -> None:
    """The script goes on without it."""
    script = Script('#include "none.h"\nBEGIN { print(1); }', file=str(tmp_path / "script.bt"))
    (line,) = script.kernel_changes(FakeTarget())
    assert "script.bt:1: none.h is left out: there is no such file beside this one" in line
    assert printed_by(script, lambda _: None) == "1\n"


def test_the_process_of_a_command_has_a_name() -> None:
    """`cpid`; where there is none it is 0, with a warning."""
    assert printed_by(Script("BEGIN { print(cpid); }", child=42), lambda _: None) == "42\n"
    alone = Script("BEGIN { print(cpid); print(cpid + 1); }")
    assert printed_by(alone, lambda _: None) == "0\n1\n"
    (warning,) = alone.remarks
    assert warning.startswith("<script>:1:15-19: WARNING: cpid is 0: no command runs with the script, give one by -c\n")


def test_messages_begin_with_their_place(capsys: pytest.CaptureFixture[str]) -> None:
    """The file, the line, and columns from 1, the end behind the last; warnings may be unwanted."""
    text = 'BEGIN { errorf("bad %d", 7); warnf("so so\\n"); print(1); }'
    assert printed(text) == "1\n"
    error, warning = "<script>:1:9-28: ERROR: bad 7\n", "<script>:1:30-46: WARNING: so so\n"
    assert capsys.readouterr().err == error + warning
    script = Script(text)
    script.warns = False
    assert printed_by(script, lambda _: None) == "1\n"
    assert capsys.readouterr().err == error


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("strerror(2)", os.strerror(2)),
        ("signal_name(2)", "Interrupt"),
        ("signal_name(0)", "Unknown signal 0"),
        ("comm() == comm", "true"),
        ("pid() == pid", "true"),
        ("nsecs(monotonic) <= nsecs(boot)", "true"),
        ("bswap(bswap(0x1234))", str(0x1234)),
        ("bswap(0x1122334455667788)", str(0x8877665544332211)),
        (
            "(bswap(255), bswap(65535), bswap(32768), bswap(4294967295))",
            "(65280, 4294901760, 8388608, 18446744069414584320)",
        ),
        ("(bswap(-2), bswap(-300), bswap((int8)-3), bswap((uint8)7))", "(254, 54526, 253, 7)"),
        ("bswap(0x12340000 + (uint64)0x5678)", str(0x7856341200000000)),
    ],
)
def test_small_functions(expression: str, text: str) -> None:
    """Descriptions of numbers, builtins as calls, clocks, and the size of a literal."""
    assert printed(f"BEGIN {{ print({expression}); return 3; }}") == f"{text}\n"


def test_a_declared_variable_begins_as_nothing() -> None:
    """Whatever a block before has put into one of that name."""
    text = 'BEGIN { if (1) { $x = 1; $y = "a"; } let $x; let $y; if ($x) { $x = 5; } print(($x, $y)); $y = "b"; }'
    assert printed(text) == "(0, )\n"


def test_a_range_may_end_where_nobody_knows_before() -> None:
    """Its border is read once; continue goes on with the next number."""
    body = "for ($i : $a..$b) { if ($i == 1) { continue; } if ($i == 4) { break; } print($i); $b = 1; }"
    assert printed(f"BEGIN {{ $a = -1; $b = 9; {body} }}") == "-1\n0\n2\n3\n"
    assert printed("BEGIN { @n = 2; for ($i : 0..@n) { @n += 1; } }") == "@n: 4\n"


def test_an_empty_map_without_a_key_prints_a_zero() -> None:
    """As bpftrace 0.27; one with keys prints nothing, nor a histogram."""
    begin = "print(@n); print(@s); print(@t); print(@k); print(@h);"
    end = '@n = 1; @s = stats(1); @t = "x"; @k[1] = 2; @h = hist(1); delete(@n); clear(@s); clear(@h);'
    found = printed(f"BEGIN {{ {begin} }} END {{ {end} }}").splitlines()
    assert found == ["@n: 0", "@s: { .count = 0, .average = 0, .total = 0 }", "@t: ", "@k[1]: 2", "@t: x"]


def test_options_that_nothing_asks_for_are_refused() -> None:
    """With those that getopt() asks for, and their descriptions."""
    text = 'BEGIN { print((getopt("aa", 10, "Description of aa"), getopt("b"))); }'
    assert printed(text, arguments=["--aa=5"]) == "(5, false)\n"
    with pytest.raises(InvalidValue, match=r"unexpected options of the script: --c, --help; it has --aa: Desc.*, --b$"):
        printed(text, arguments=["--c=4", "--b", "--help"])


def test_an_argument_without_its_beginning() -> None:
    """`str($1 + 1)`, as if it were an address."""
    assert printed('BEGIN { printf("%s|%s", str($1 + 1), str($2 + 1)); }', arguments=["hello", "x"]) == "ello|"
    assert (
        printed("BEGIN { print((str($1 + 1), str($1 + 1, 1), str(1 + $1))); }", arguments=["123"]) == "(23, 2, 124)\n"
    )


def test_a_license_is_one_of_the_kernel_s() -> None:
    """Programs are GPL in any case."""
    assert printed('config = { license = "GPL" } BEGIN { print(1); }') == "1\n"
    with pytest.raises(CompileError, match="Invalid value for license"):
        Script('config = { license = "Potato" } BEGIN { }')


def test_missing_entries_are_told_if_that_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    """`-k`: at the place, in bpftrace's words; a map without keys always has its value."""
    text = "BEGIN { @[1] = 1; print((@[2], @[1], @n)); @n = 5; clear(@n); }"
    script = Script(text)
    script.checks_lookups = True
    assert printed_by(script) == "(0, 1, 0)\n@[1]: 1\n"
    assert capsys.readouterr().err == (
        "<script>:1:26-30: WARNING: Can't lookup map element because it does not exist.\n"
        f"Additional Info - helper: map_lookup_elem, retcode: 0\n{text}\n{' ' * 25}~~~~\n"
    )


def test_the_value_of_a_block_is_gathered() -> None:
    """An aggregation behind statements."""
    assert printed("BEGIN { @ = { let $a = 100; avg($a) }; @ = { $b = 50; avg($b) }; }") == "@: 75\n"


def test_names_of_signals() -> None:
    """Those of real time, those that there are not."""
    text = "BEGIN { $n = (int64)$1; print(signal_name($n)); }"
    names = {"2": "Interrupt", "0": "Unknown signal 0", "64": "Real-time signal 30", "65": "N/A", "-1": "N/A"}
    assert {number: printed(text, arguments=[number]).rstrip("\n") for number in names} == names


def test_a_file_that_cat_does_not_find(capsys: pytest.CaptureFixture[str]) -> None:
    """On standard error, in bpftrace's words."""
    assert printed('BEGIN { cat("/does/not/exist"); print(1); }') == "1\n"
    assert capsys.readouterr().err == "ERROR: failed to open file '/does/not/exist' (No such file or directory)\n"


def test_buffers_are_compared_and_of_several_sizes() -> None:
    """A variable has room for the longest; behind the shorter there is nothing."""
    text = (
        'BEGIN { $a = cpu < 5 ? buf("hi", 2) : buf("bye", 3); print($a); $b = buf("hi", 2); $c = buf("hix", 3); '
        'print(($a == $b, $b == $c, $c != $a, $c == $c)); $a = buf("bye", 3); print($a); }'
    )
    assert printed(text).splitlines()[1:] == ["(true, false, true, true)", "bye"]


def test_buffers_of_several_sizes_are_keys_and_parts() -> None:
    """Of maps and of tuples."""
    keys = '@x[buf("ab", 2)] = 1; @x[buf("abc", 3)] = 2;'
    text = f'BEGIN {{ {keys} $t = (1, buf("abc", 3)); $t = (2, buf("ab", 2)); print($t); }}'
    assert printed(text) == "(2, ab)\n@x[ab]: 1\n@x[abc]: 2\n"


def test_times_differ_by_what_lies_between_them() -> None:
    """To the microsecond, since the start of the machine is asked for once."""
    times = ", ".join(f'strftime("%s%f", {number})' for number in (5123000, 5000000, 0))
    text = printed(f'BEGIN {{ printf("%s %s %s", {times}); }}')
    later, middle, first = map(int, text.split())
    assert (later - middle, middle - first) == (123, 5000)


def test_strings_may_be_long() -> None:
    """Up to 16384 bytes."""
    long = "x" * 9000
    assert printed(
        "config = { max_strlen = 9999 } BEGIN { @s = str($1); print(@s); clear(@s); }", arguments=[long]
    ) == (f"@s: {long}\n")
    with pytest.raises(CompileError, match="max_strlen: 16385 is out of range: give 1 to 16384 bytes"):
        Script("config = { max_strlen = 16385 } BEGIN { }").compile(FakeTarget())


def test_numbers_of_system_calls_have_c_s_names() -> None:
    """By both of their prefixes, for the machine that the script is compiled for."""
    assert printed("#include <syscall.h>\nBEGIN { print((__NR_openat, SYS_openat)); }") == (
        f"({host().system_call('openat')}, {host().system_call('openat')})\n"
    )
    with pytest.raises(CompileError, match=r"SYS_opena: .* has no system call 'opena' .did you mean openat"):
        Script("BEGIN { print(SYS_opena); }").specs()


def test_a_pattern_stands_for_no_more_places_than_are_allowed() -> None:
    """By `max_probes`, of the script or from outside."""
    for text, outer in (("config = { max_probes = 2 } ", {}), ("", {"max_probes": "2"})):
        with pytest.raises(InvalidValue, match="matches 3 tracepoints, more than 2"):
            Script(f"{text}tracepoint:syscalls:sys_enter_* {{ }}", settings=outer).compile(FakeTarget())


def test_a_script_without_any_of_its_places_is_refused() -> None:
    """Whatever `missing_probes` says of single ones."""
    with pytest.raises(NotFound, match="No probes to attach"):
        Script("config = { missing_probes = warn } tracepoint:syscalls:nonsense { }").compile(FakeTarget())
