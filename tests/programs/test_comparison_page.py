"""docs/comparison.md: an answer for each of bcc's and bpftrace's tools, and nothing in it that pyebpf does not have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyebpf import BPF
from pyebpf.cli import main
from pyebpf.cli.catalogue import find, names
from pyebpf.cli.parser import parse_example
from pyebpf.cli.peer_tools import peer_tools

PAGE = (Path(__file__).resolve().parents[2] / "docs/comparison.md").read_text(encoding="utf-8")
TABLE, _, OTHERS = PAGE.partition("\n## The table\n")[2].partition("\n## ")
ROWS = re.findall(r"^\| ([\w-]+) \| (bcc|bpftrace|both) \| (.+) \|$", TABLE, re.MULTILINE)
OURS = frozenset(names())

#: The names of bcc 0.37's tools, without its commands for single languages, and of bpftrace 0.27's.
_OF_BCC = """
    argdist bashreadline bindsnoop biolatency biolatpcts biopattern biosnoop biotop bitesize bpflist btrfsdist
    btrfsslower cachestat cachetop capable compactsnoop cpudist cpuunclaimed criticalstat dbslower dbstat dcsnoop
    dcstat deadlock dirtop drsnoop execsnoop exitsnoop ext4dist ext4slower f2fsslower filegone filelife fileslower
    filetop funccount funcinterval funclatency funcslower gethostlatency hardirqs inject killsnoop klockstat
    kvmexit llcstat mdflush memleak mountsnoop mptcpify mysqld_qslower netqtop nfsdist nfsslower numasched
    offcputime offwaketime oomkill opensnoop pidpersec ppchcalls profile rdmaucma readahead reset-trace runqlat
    runqlen runqslower shmsnoop slabratetop sofdsnoop softirqs softirqslower solisten sslsniff stackcount
    statsnoop swapin syncsnoop syscount tcpaccept tcpcong tcpconnect tcpconnlat tcpdrop tcplife tcpretrans tcprtt
    tcpstates tcpsubnet tcpsynbl tcptop tcptracer threadsnoop tplist trace ttysnoop ucalls uflow ugc uobjnew ustat
    uthreads vfscount vfsstat virtiostat wakeuptime wqlat xfsdist xfsslower zfsdist zfsslower
"""
_OF_BPFTRACE = """
    bashreadline biolatency biolatency-kp biosnoop biostacks bitesize capable cpuwalk dcsnoop execsnoop
    gethostlatency killsnoop loads mdflush naptime oomkill opensnoop pidpersec runqlat runqlen setuids ssllatency
    sslsnoop statsnoop swapin syncsnoop syscount tcpaccept tcpconnect tcpdrop tcplife tcpretrans tcpsynbl
    threadsnoop undump vfscount vfsstat writeback xfsdist
"""
BCC, BPFTRACE = _OF_BCC.split(), _OF_BPFTRACE.split()


def linked(answer: str) -> list[str]:
    """The tools of pyebpf whose pages an answer links to, each under its own name."""
    found = re.findall(r"\[([\w-]+)\]\(tools/([\w-]+)\.md\)", answer)
    assert all(name == page for name, page in found), answer
    return [name for name, _ in found]


def test_every_tool_has_a_row():
    """Each of bcc's and bpftrace's tools once, in the order of the alphabet, with who has it."""
    assert len(ROWS) == TABLE.count("\n| ") - 1
    assert [name for name, _, _ in ROWS] == sorted({*BCC, *BPFTRACE})
    for name, of, _ in ROWS:
        assert of == ("both" if name in BCC and name in BPFTRACE else "bcc" if name in BCC else "bpftrace")


def test_each_row_has_an_answer():
    """A tool of pyebpf, a command, a hook, a reason; and a tool of the same name is the first that is named."""
    for name, _, answer in ROWS:
        tools = linked(answer)
        assert answer.startswith(("[", "probe: ", "not yet", "none: "))
        assert OURS.issuperset(tools)
        if name in OURS:
            assert tools[0] == name
            assert answer.startswith("[")
        as_for = re.search(r"^probe: as for (\w+),", answer)
        assert not answer.startswith("probe: ") or "`@bpf." in answer or "`bpf." in answer or as_for
        assert as_for is None or as_for.group(1) in BCC


def test_every_tool_of_pyebpf_is_on_the_page_once():
    """In the row of its name, or else in the list of the others."""
    others = linked(OTHERS)
    assert others == sorted(OURS.difference(BCC, BPFTRACE))
    assert OURS.difference(others) == {name for name, _, answer in ROWS if name in linked(answer) and name in OURS}


COMMANDS = [code for _, _, answer in ROWS for code in re.findall(r"`([^`]+)`", answer) if code.split()[0] in OURS]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_parse(command):
    """A command line of one of the tools is one that the tool takes."""
    tool = find(command.split()[0])
    assert isinstance(parse_example(tool, command)[0], tool.options)


def test_there_are_commands():
    """The test above is about some."""
    assert len(COMMANDS) >= 10


def test_the_library_has_what_probes_are_told_to_use():
    """`@bpf.NAME(…)` declares a probe with the arguments shown; other `bpf.NAME` exist."""
    shown = {code for _, _, answer in ROWS for code in re.findall(r"`(@?bpf\.[^`]+)`", answer)}
    assert len(shown) >= 20
    for code in shown:
        bpf = BPF()
        name = re.match(r"@?bpf\.(\w+)", code)
        assert name
        assert callable(getattr(bpf, name.group(1))), code
        if code.startswith("@") and "…" not in code:
            decorator = eval(code[1:], {"bpf": bpf})
            assert callable(decorator)


def test_the_command_gives_the_answers_of_the_page(capsys):
    """To who types another's name: from one table, without the page's marks."""
    assert peer_tools() == {name: (of, answer) for name, of, answer in ROWS}
    assert main(["capable"]) == 2
    assert capsys.readouterr().err == (
        "pyebpf: there is no tool 'capable'; for bcc's and bpftrace's: probe: @bpf.function(\"cap_capable\"); "
        "functions (docs/attachments.md); see pyebpf list\n"
    )
    assert main(["tplist"]) == 2
    assert "for bcc's: pyebpf list -v (docs/list.md); see" in capsys.readouterr().err
    assert main(["bindsnop"]) == 2
    assert "there is no tool 'bindsnop' (did you mean" in capsys.readouterr().err
