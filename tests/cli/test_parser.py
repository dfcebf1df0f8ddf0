"""From a tool's declaration to its command line."""

from __future__ import annotations

import dataclasses

import pytest

from pyebpf.cli.catalogue import find
from pyebpf.cli.parser import Common, build_parser, parse, parse_example
from pyebpf.cli.report import UsageError
from pyebpf.dataclass import fields
from pyebpf.errors import InvalidValue
from pyebpf.tool import EventTool, dataclass, milliseconds_option, option, tid_option, uid_option
from tests.support.command import pyebpf


def test_options_become_the_tools_dataclass(fakes):
    """With its defaults, and lists split at commas."""
    assert parse(fakes.EVENTS, [])[0] == fakes.EventOptions()
    options, common = parse(
        fakes.EVENTS, ["-p", "42", "-x", "-L", "80, 443", "--kind", "b", "--csv", "-d", "1.5", "-Tv"]
    )
    assert options == fakes.EventOptions(pid=42, failed=True, ports=(80, 443), kind="b")
    assert common == Common(form="csv", duration=1.5, timestamps=True, verbose=True)
    assert parse(fakes.EVENTS, ["-j"])[1] == Common(form="json")


def test_summaries_take_an_interval_and_a_count_after_their_own_arguments(fakes):
    """Event tools take neither."""
    options, common = parse(fakes.SUMMARY, ["sda", "2.5", "7", "-D"])
    assert (options.name, options.by_disk, common.interval, common.count) == ("sda", True, 2.5, 7)
    with pytest.raises(UsageError, match="unrecognized arguments: 1"):
        parse(fakes.EVENTS, ["1"])


def test_a_letter_of_the_tools_own_leaves_the_common_option_its_long_name(fakes):
    """`-d` is this tool's."""
    options, common = parse(fakes.SUMMARY, ["-d", "--duration", "3"])
    assert (options.daytime, common.duration) == (True, 3.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-p", "0"], "--pid: 0 is below 1"),
        (["-p", "4194305"], "--pid: 4194305 is above 4194304"),
        (["-p", "x"], "argument -p/--pid: 'x' is not a whole number"),
        (["-p", "1_0"], "argument -p/--pid: '1_0' is not a whole number"),
        (["-p", "\u0664"], "argument -p/--pid: '\u0664' is not a whole number"),
        (["-p", "9" * 5000], "a number of 5000 digits is too large: numbers have 64 bits at most"),
        (["-L", "80,"], "argument -L/--localport: '' is not a whole number"),
        (["-L", "80,65536"], "--localport: 65536 is above 65535"),
        (["--kind", "c"], "--kind: 'c' is none of a, b"),
        (["-d", "0"], "argument -d/--duration: '0' is not a time above 0, in seconds"),
        (["-d", "inf"], "argument -d/--duration: 'inf' is not a number"),
        (["-d", "1e300"], "argument -d/--duration: '1e300' is more than ten years, in seconds"),
        (["--buffer", "3"], "argument --buffer: 3 bytes are too few for a buffer: give 4096 (4K) or more"),
        (["--buffer=-8M"], "argument --buffer: -8388608 bytes are too few"),
        (
            ["--buffer", "2G"],
            "argument --buffer: 2147483648 bytes are too many for a buffer: give 1073741824 (1G) or less",
        ),
        (["--buffer", "8X"], "'8X' is not a size: give bytes, or a number with K, M or G, such as 16M"),
        (["--json", "--csv"], "argument --csv: not allowed with argument -j/--json"),
        (["--timestamp"], "unrecognized arguments: --timestamp (did you mean --timestamps?)"),
        (["--nonsense"], "unrecognized arguments: --nonsense"),
        (["-Z", "5", "word"], "unrecognized arguments: -Z"),
        (["-Z5"], "unrecognized arguments: -Z5"),
    ],
)
def test_wrong_usage_names_the_option_and_what_is_wrong(fakes, arguments, message):
    """No abbreviations, no numbers that only Python would read."""
    with pytest.raises(UsageError) as caught:
        parse(fakes.EVENTS, arguments)
    assert message in str(caught.value)
    assert caught.value.see == "pyebpf events --help"


@pytest.mark.parametrize("count", ["0", "-1", "1.5"])
def test_a_count_is_a_whole_number_from_1(fakes, count):
    """And nothing is printed for ever by mistake."""
    with pytest.raises(UsageError):
        parse(fakes.SUMMARY, ["vda", "1", count])


def test_usage_is_status_2_and_one_line(command):
    """With the command that tells more."""
    assert command("events", "--pid") == (
        2, "", "pyebpf events: argument -p/--pid: expected one argument; see pyebpf events --help\n",
    )  # fmt: skip


def test_help_has_description_options_and_examples(command):
    """On standard output, status 0."""
    status, out, err = command("events", "--help")
    assert (status, err) == (0, "")
    for part in (
        "Trace opens.",
        "Overhead: little.",
        "section 8.6.10",
        "100% of a kind",
        "--dump",
        "# the web server's",
    ):
        assert part in out


@pytest.mark.parametrize(("text", "size"), [("4096", 4096), ("5k", 8192), ("16M", 16 << 20), ("1G", 1 << 30)])
def test_the_size_of_a_buffer(fakes, text, size):
    """Bytes, or with a unit; the next power of two."""
    assert parse(fakes.EVENTS, ["--buffer", text])[1].buffer == size


def test_the_help_of_the_buffer_has_the_units_the_bounds_and_the_tools_own_sizes():
    """As the tool's maps are declared."""
    wanted = "memory for events that wait to be printed, in bytes, or such as 64K, 16M (4K to 1G; default: {})"
    for name, default in (("opensnoop", "8M"), ("tcplife", "256K"), ("tcpconnect", "256K")):
        assert wanted.format(default) in " ".join(build_parser(find(name)).format_help().split())


def test_the_help_of_an_interval_names_the_option_that_it_is_for():
    """Of a tool that prints events, and with an option counts."""
    text = " ".join(build_parser(find("tcpconnect")).format_help().split())
    assert "interval seconds between summaries with -c (default: one, at the end)" in text
    assert "count how many summaries with -c (default: no limit)" in text
    assert "seconds between summaries (default: every second)" in " ".join(
        build_parser(find("tcptop")).format_help().split()
    )


def test_examples_are_parsed_as_command_lines(fakes):
    """A wrong one is found."""
    for tool in (fakes.EVENTS, fakes.SUMMARY):
        for example in tool.examples:
            parse_example(tool, example.command)
    options, common = parse_example(fakes.SUMMARY, "summary 'my disk' 1 10")
    assert (options.name, common.interval, common.count) == ("my disk", 1.0, 10)
    with pytest.raises(UsageError, match="an example calls tcptop"):
        parse_example(fakes.EVENTS, "tcptop")


def test_the_summary_of_a_tool_is_its_docstrings_first_line(fakes):
    """Without the full stop."""
    assert fakes.EVENTS.summary == "Trace opens"


def test_ready_made_options_have_the_letters_that_mean_the_same_in_every_tool():
    """-t TID, -u UID, -m."""

    @dataclass(frozen=True)
    class Options:
        tid: int | None = tid_option()
        uid: int | None = uid_option()
        milliseconds: bool = milliseconds_option()

    assert [item.metadata["spec"].flags[0] for item in fields(Options)] == ["-t", "-u", "-m"]


def test_options_of_the_standard_librarys_dataclass_are_refused(fakes):
    """It would take option(...) itself for the default."""

    @dataclasses.dataclass(frozen=True)
    class Options:
        pid: int | None = option("-p", "--pid", help="which")

    with pytest.raises(InvalidValue, match=r"tool x: declare its options by `from pyebpf\.tool import dataclass`"):
        EventTool(name="x", doc="", tracing="", options=Options, build=fakes.Tracer, records=fakes.opens)


def test_a_declaration_that_no_command_line_can_have_is_refused(fakes):
    """An option without a flag; one of a type that has no spelling."""
    with pytest.raises(InvalidValue, match="at least one flag"):
        option(help="what")

    @dataclass(frozen=True)
    class Options:
        address: complex | None = option("--address", help="where")

    tool = EventTool(
        name="x", doc="", section="", tracing="", options=Options, build=fakes.Tracer, records=fakes.opens, columns=()
    )
    with pytest.raises(InvalidValue, match=r"cannot be of type complex \| None"):
        parse(tool, [])


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("biotop", "-r", "99999999999999999999"), "99999999999999999999 is too large: numbers have 64 bits at most"),
        (("biotop", "-r", "9999999999999999999"), "9999999999999999999 is too large: at most 9223372036854775807"),
        (("runqslower", "9" * 30), f"{'9' * 30} is too large: numbers have 64 bits at most"),
        (("runqslower", "--", "-1"), "min_us: -1 is below 0"),
        (("memleak", "-p", "1", "-s", "9999999999"), "--sample-rate: 9999999999 is above 4294967295"),
        (("memleak", "-p", "1", "-z", "10", "-Z", "5"), "nothing has both 10 bytes at least and 5 at most"),
        (("funccount", "--max-probes", "2000000", "x"), "--max-probes: 2000000 is above 1000000"),
    ],
)
def test_numbers_that_no_tool_can_use_are_refused(command, message):
    """Before anything is compiled, with the option and the bound."""
    done = pyebpf(*command)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert message in done.stderr


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_what_is_no_name_is_no_disk(name):
    """A folder that is there is no partition."""
    assert f"there is no disk {name}" in pyebpf("biolatency", "--disk", name).stderr


def test_who_gives_d_a_disk_is_told_the_option():
    """As in bcc's tools; a number that is none is told as before."""
    assert "'sda' is not a number; a disk is --disk sda; see" in pyebpf("biosnoop", "-d", "sda").stderr
    assert "--disk" not in pyebpf("biosnoop", "-d", "1x").stderr
    assert "--disk" not in pyebpf("opensnoop", "-d", "sda").stderr
