"""What holds for every tool: examples that parse, narrow lines, a page in the docs, programs for every kernel."""

from __future__ import annotations

import contextlib
import hashlib
import re
import subprocess
import sys
from argparse import SUPPRESS
from pathlib import Path

import pytest

from pyebpf.asm import encode, listing, resolve, slot_starts
from pyebpf.cli.catalogue import find, names
from pyebpf.cli.parser import build_parser, parse, parse_example
from pyebpf.cli.report import UsageError
from pyebpf.cli.schema import schema_of
from pyebpf.dataclass import MISSING, fields, replace
from pyebpf.errors import InvalidValue, NotFound, NotSupported
from pyebpf.output.columns import Row
from pyebpf.programs import tcpdrop
from pyebpf.tool import EventTool
from tests.programs.record import LACKING, VARIANTS, command_lines

ROOT = Path(__file__).parents[2]
TOOLS = {name: find(name) for name in names()}
LINES = {line: (tool, options) for line, tool, options in command_lines()}


@pytest.fixture(params=TOOLS)
def tool(request):
    return TOOLS[request.param]


def test_the_help_and_the_page_have_the_same_costs(tool):
    """Every time that the help's overhead names is one that the page's names, too."""
    times = re.compile(r"[\d.]+(?: to [\d.]+)? us\b")
    help_ = times.findall(tool.doc.partition("Overhead:")[2])
    page = (ROOT / f"docs/tools/{tool.name}.md").read_text().partition("## Overhead")[2].partition("\n## ")[0]
    assert set(help_) <= set(times.findall(page))


def test_the_examples_parse(tool):
    """Each example of a tool's help is one of its command lines, and there are several."""
    assert len(tool.examples) >= 3
    for example in tool.examples:
        parse_example(tool, example.command)


def test_help_is_narrow(tool):
    """Help has at most 80 columns, the summary, the section of the book and every example."""
    text = build_parser(tool).format_help()
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert tool.summary in " ".join(text.split())
    assert not tool.section or f"section {tool.section}" in text
    assert all(f"pyebpf {example.command}" in text for example in tool.examples)


def test_help_tells_every_default(tool):
    """And every choice, from the declaration."""
    text = " ".join(build_parser(tool).format_help().split())
    for field in fields(tool.options):
        if field.default is not MISSING and field.default not in (None, False, (), ""):
            assert f"default: {field.default})" in text, field.name
        assert all(choice in text for choice in field.metadata["spec"].choices)


#: The letters that are the same in every tool, and in every tool that draws a screen.
COMMON, OF_SCREENS = {"-d", "-T", "-v"}, {"-C", "-r"}


def test_letters_that_mean_something_else_are_in_the_guide():
    """Those of bcc's tools, each with its option; no tool else has one."""
    found = set()
    for name, tool in TOOLS.items():
        parser, own = build_parser(tool), {"-h", "--help"}
        shared = COMMON | (OF_SCREENS if getattr(tool, "screen", False) or name == "profile" else set())
        meanings = {"-d": "duration", "-T": "timestamps", "-v": "verbose", "-C": "clear", "-r": "rows"}
        for action in parser._actions:
            for letter in shared & set(action.option_strings) - own:
                if action.dest != meanings[letter] and action.help != SUPPRESS:  # refused, with what to write instead
                    found.add(f"`{name} {letter}` is `{action.option_strings[-1]}`")
    guide = " ".join((ROOT / "docs/guide.md").read_text().split())
    assert found == set(re.findall(r"`[a-z]+ -\w` is `--[\w-]+`", guide))


def test_a_process_is_chosen_by_its_name_in_the_same_way(tool):
    """--comm NAME, in every tool that can."""
    flags = {flag for field in fields(tool.options) for flag in field.metadata["spec"].flags}
    assert "--comm" in flags or not flags & {"--name", "--process-name"}


def test_the_default_heading_is_narrow(tool):
    """The heading has at most 80 columns, with a unit wherever a column has one."""
    columns = tool.columns_for(parse_example(tool, tool.examples[0].command)[0])
    if columns:
        assert len(Row(columns).header()) <= 80
    else:
        assert not isinstance(tool, EventTool)


def test_the_page_of_the_docs(tool):
    """`docs/tools/NAME.md` tells every option, every column, the overhead and what departs from the book."""
    page = (ROOT / "docs" / "tools" / f"{tool.name}.md").read_text()
    assert page.startswith(f"# {tool.name}\n")
    for heading in ("## Options", "## Overhead", "## Departures from the book"):
        assert heading in page
    for field in fields(tool.options):
        for spelling in field.metadata["spec"].flags:
            assert f"`{spelling}" in page, spelling
    everything = [tool.columns_for(options) for _, (owner, options) in LINES.items() if owner is tool]
    for column in {column.name for columns in everything for column in columns if column.printed}:
        assert f"`{column}`" in page, column


def test_the_fields_on_the_page(tool):
    """`docs/tools/NAME.md` has a table of every field of `pyebpf schema NAME`, with any option, and its type.

    Beside those it may have what a histogram's key adds, and a stack's column of CSV.
    """
    page = (ROOT / "docs" / "tools" / f"{tool.name}.md").read_text()
    _, heading, table = page.partition("| field | type | meaning |\n|---|---|---|\n")
    assert heading, "the section Fields has a table | field | type | meaning | of --json and --csv"
    rows = re.findall(r"^\| `(\w+)` \| ([a-z ]+) \|", table.partition("\n\n")[0], re.MULTILINE)
    told, parts, declared = dict(rows), set(), {}
    for options in options_of(tool):
        for part in schema_of(tool, options)["oneOf"][:-1]:
            parts.add(part["title"])
            for name, field in part["properties"].items():
                declared[name] = field["type"] if isinstance(field["type"], str) else " or ".join(field["type"])
    wanted = {name: kind for name, kind in declared.items() if name not in OPTIONAL or name in told}
    missing = [f"| `{name}` | {kind} | … |" for name, kind in wanted.items() if told.get(name) != kind]
    assert not missing, "rows that the table lacks:\n" + "\n".join(missing)
    assert len(told) == len(rows)
    assert parts & {"histogram", "stack"} or told.keys() == declared.keys()


def test_one_name_means_one_thing():
    """A field has one type in all tools, beside null, and base units; flags are a number of open(2) or TCP's names."""
    kinds: dict[str, dict[str, set[str]]] = {}
    for tool, options in LINES.values():
        for part in schema_of(tool, options)["oneOf"][:-1]:
            for name, field in part["properties"].items():
                found = [field["type"]] if isinstance(field["type"], str) else field["type"]
                for kind in found:
                    kinds.setdefault(name, {}).setdefault(kind, set()).add(tool.name)
    several = {name for name, found in kinds.items() if len(found.keys() - {"null"}) > 1}
    assert several == {"flags"}
    assert kinds["error"].keys() == {"string", "null"}
    assert kinds["error"]["string"] == kinds["error"]["null"] >= {"opensnoop", "soconnect", "soaccept", "tcpbind"}
    # The book's CSV of tcpwin has it so.
    assert [name for name in kinds if name.endswith(("_us", "_ms", "_kb"))] == ["time_us"]


def test_the_key_of_a_histogram_calls_a_threads_name_comm():
    """As the fields of events do."""
    for name in ("soconnlat", "socksize", "bitesize"):
        names = sys.modules[f"pyebpf.programs.{name}"].Key.__match_args__
        assert "comm" in names
        assert "process" not in names


#: Fields of histograms that keep their sum, and of stacks with parts: few tools' are.
OPTIONAL = {"sum", "parts"}


def options_of(tool):
    """Those of each command line of the tool, and with each flag that they leave out, unless that is refused."""
    for owner, options in LINES.values():
        if owner is tool:
            yield options
            for field in fields(tool.options):
                if getattr(options, field.name) is False:
                    with contextlib.suppress(InvalidValue):
                        yield replace(options, **{field.name: True})


def test_the_library_opens_by_the_module(tool):
    """`from pyebpf.programs import NAME; NAME.open(...)` is the tool's own."""
    module = sys.modules[f"pyebpf.programs.{tool.name}"]
    assert module.open == tool.open
    assert {"TOOL", "build", "open"} <= set(vars(module))
    assert tool.options in vars(module).values()
    assert module.__doc__ == tool.doc


#: The kernel's variables that tools read, each with a number of a type.
VARIABLES = {"vm_zone_stat": (1, 0)}


@pytest.mark.parametrize("line", LINES)
def test_compiles_without_root(line, kernel):
    """For each recorded kernel, every command line compiles to programs with a target, from its facts alone.

    And for each map of which something can be lost, the tool says what is in it.
    """
    tool, options = LINES[line]
    if "--netns" in line:
        # The kernel tells the number of a namespace: there is none in the run of the pure half.
        pytest.importorskip("pyebpf.kernel.namespaces", exc_type=ImportError)
    bpf = tool.build(options)
    spec = specs_of(bpf, kernel)
    unsaid = {loss.map for loss in bpf.drop_reasons if not loss.map.startswith(".")} - tool.drop_labels.keys()
    assert unsaid <= {""}
    if spec is None:
        return
    assert spec.programs
    for program in spec.programs:
        assert program.attach is not None
        assert program.license == "GPL"
        maps = {each.name: number for number, each in enumerate(spec.maps, 3)}
        starts = slot_starts(program.code.instructions)
        functions = {each.name: starts[each.start] for each in program.code.subprograms}
        assert encode(resolve(program.code.instructions, maps, functions, ksyms=VARIABLES))


def compiled(tool, options, kernel):
    """A command line's programs; None as of `specs_of`."""
    return specs_of(tool.build(options), kernel)


def specs_of(bpf, kernel):
    """A module's programs; None where the kernel lacks a driver, or cannot trace its functions, and says so."""
    try:
        return bpf.compile(kernel)
    except (NotFound, NotSupported) as error:
        if LACKING.search(str(error)):
            return None
        if "no candidate works here" in str(error) and not kernel.has("attach:kprobe"):
            return None
        raise


def test_an_option_that_a_kernel_is_too_old_for(kernel):
    """Before Linux 5.17 no reason is told why a packet is dropped: the error says since when, and what to leave out."""
    bpf = TOOLS["tcpdrop"].build(tcpdrop.Options(reasons=("NO_SOCKET",)))
    if kernel.has_field(tcpdrop.EVENT, "reason"):
        assert bpf.compile(kernel).programs
    else:
        with pytest.raises(NotSupported, match=r"--reason: .* Linux 5\.17 and later do: leave --reason out"):
            bpf.compile(kernel)


def digest(kernels):
    """A digest of all bytes of all command lines on all kernels."""
    from pyebpf.target import RecordedTarget

    found = hashlib.sha256()
    for path in kernels:
        target = RecordedTarget.from_json(Path(path).read_text())
        for tool, options in LINES.values():
            spec = compiled(tool, options, target)
            for program in spec.programs if spec is not None else ():
                found.update(listing(program.code.instructions).encode())
    return found.hexdigest()


def test_the_same_bytes_with_every_hash_seed():
    """PYTHONHASHSEED has no influence on the programs, for the oldest kernel and for one that has every attachment."""
    kernels = [str(Path(__file__).with_name("kernels") / f"{name}.json") for name in ("5.10", "6.12")]
    script = f"from tests.programs.test_every_tool import digest; print(digest({kernels!r}))"
    found = {
        subprocess.run(
            [sys.executable, "-c", script], env={"PYTHONHASHSEED": seed}, cwd=ROOT, check=True, capture_output=True
        ).stdout
        for seed in ("0", "1009")
    }
    assert len(found) == 1


def test_no_new_instruction_for_an_old_kernel():
    """What is compiled for 6.1 has none of the instructions that came later."""
    from pyebpf.target import RecordedTarget

    path = Path(__file__).with_name("kernels") / "6.1.json"
    target = RecordedTarget.from_json(path.read_text())
    for tool, options in LINES.values():
        spec = compiled(tool, options, target)
        for program in spec.programs if spec is not None else ():
            text = listing(program.code.instructions)
            assert not re.search(r"may_goto|= \(s(8|16|32)\)|\*\(s(8|16|32) \*\)|s/=|s%=|bswap", text)


def test_variants_name_tools():
    """Each variant is recorded for some tool."""
    assert {variant.split()[0] for variant in VARIANTS} <= TOOLS.keys()


def attachments(line, kernel):
    tool, options = LINES[line]
    return [str(program.attach) for program in tool.build(options).compile(kernel).programs]


def test_the_attachments_of_each_tool(kernel):
    """What is attached by default: nothing dearer than the job needs."""
    assert attachments("biolatency", kernel) == [
        "tp_btf block_rq_issue",
        "tp_btf block_rq_requeue",
        "tp_btf block_rq_complete",
    ]
    assert attachments("syscount", kernel) == ["raw_tp sys_enter"]
    assert attachments("profile 10", kernel) == ["perf event cpu-clock at 49 Hz"]
    assert attachments("tcpdrop", kernel) == ["tp_btf kfree_skb"]
    assert attachments("tcplife", kernel) == [
        "tracepoint syscalls:sys_exit_accept",
        "tracepoint syscalls:sys_exit_accept4",
        "tp_btf inet_sock_set_state",
    ]
    calls = ("openat", "open", "openat2")
    assert sorted(attachments("opensnoop", kernel)) == sorted(
        f"tracepoint syscalls:sys_{end}_{call}" for end in ("enter", "exit") for call in calls
    )


@pytest.mark.parametrize(
    "line",
    [
        "biolatency 0",
        "biolatency 1 0",
        "biolatency -D 1 2 3",
        "opensnoop -p 0",
        "opensnoop -u -1",
        "opensnoop 1",
        "qdisclat net/fq",
        "syscount -T 0",
        "syscount -p init",
        "tcplife -L 65536",
        "tcplife -L 80,",
        "tcplife -d 0",
        "tcplife --json --csv",
        "funccount tcp_\u00e9*",
        "funccount t:sched:\x01",
        "gethostlatency --library=",
    ],
)
def test_what_makes_no_sense_is_refused(line):
    """A value out of range, or an argument that the tool does not take, is a usage error, before anything is done."""
    name, *arguments = line.split()
    with pytest.raises(UsageError):
        parse(TOOLS[name], arguments)


def test_the_library_checks_the_same_bounds():
    """An option that the command would refuse, the library refuses."""
    with (
        pytest.raises(InvalidValue, match=r"^local_ports: 65536 is above 65535"),
        TOOLS["tcplife"].open(local_ports=(65536,)),
    ):
        pass


SIZES = {
    "biolatency": 96,
    "nvmelatency": 143,
    "opensnoop": 350,
    "profile": 457,
    "syscount": 30,
    "tcpdrop": 660,
    "tcplife": 385,
}


@pytest.mark.parametrize(("tool", "most"), SIZES.items())
def test_programs_stay_small(tool, most, kernel):
    """Instructions of all programs of a tool with default options: more than this is a step back of the compiler."""
    spec = compiled(TOOLS[tool], TOOLS[tool].options(), kernel)
    programs = spec.programs if spec else ()
    assert sum(len(program.code.instructions) for program in programs) <= most
