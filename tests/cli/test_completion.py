"""`pyebpf completion`: what bash, zsh and fish make of its scripts."""

from __future__ import annotations

import os
import re
import shlex
import subprocess

import pytest

from pyebpf.cli.catalogue import find
from pyebpf.cli.completion import Command, Option, commands, run_completion, script, tools, unnamed
from pyebpf.cli.completion_probes import candidates, script_candidates
from pyebpf.cli.completion_scripts import WRITERS
from pyebpf.cli.parser import build_parser
from pyebpf.cli.report import UsageError
from tests.support.needs import needs
from tests.support.waiting import PATIENCE

#: What stands in for the command: it prints candidates that say what it was asked.
COMMAND = """#!/bin/sh
test "$1 $2" = "completion probes" && printf '%s\\n' "$3one" "$3two"
test "$1 $2" = "completion script-probes" && printf '%s\\n' "$3own"
"""
#: A function of bash that it exports to what it loads.
READLINE = "initialize_readline"
#: A tool with what the tools of this distribution do not have: choices, and words with quotes.
EXTRA = Command(
    "a tool's own",
    (
        Option(("-h", "--help"), "show this help", ()),
        Option(("-c", "--color"), "isn't it: 100% $HOME `x` \\ it's", ("red", "green")),
        Option(("-o", "--output"), "where to", ("@file",)),
        Option(("-n",), "how many", ("@any",)),
    ),
    ("left", "right"),
)
#: Command lines, the last word as typed so far, and what it may become.
CASES = [
    (["biolat"], ["biolatency"]),
    (["sch"], ["schema"]),
    (["--pi"], ["--pid"]),
    (["--ve"], ["--verbose", "--version"]),
    (["-e", "x", "--unsa"], ["--unsafe"]),
    (["-q", "-f", ""], ["json", "text"]),
    (["-e", "x", "-o", "fil"], ["file.txt"]),
    (["extra", "--c"], ["--color"]),
    (["extra", "--color", ""], ["green", "red"]),
    (["extra", "-c", "r"], ["red"]),
    (["extra", "-n", ""], []),
    (["extra", "l"], ["left"]),
    (["extra", "--output", "fil"], ["file.txt"]),
    (["doctor", "--al"], ["--all"]),
    (["doctor", "biolat"], ["biolatency"]),
    (["doctor", "extra", "--col"], ["--color"]),
    (["schema", "biolatency", "--mill"], ["--milliseconds"]),
    (["disasm", "--syntax", ""], ["kernel", "mnemonic"]),
    (["asm", "fil"], ["file.txt"]),
    (["help", "docto"], ["doctor"]),
    (["completion", "f"], ["fish"]),
    (["list", "--verb"], ["--verbose"]),
    (["list", "usd"], ["usdt:"]),
    (["-l", "usd"], ["usdt:"]),
    (["-lv", "usd"], ["usdt:"]),
    (["-l", "interv"], ["interval:"]),
    (["list", "interv"], []),
    (["-v", "-l", "--pi"], ["--pid"]),
    (["-lv", "--pi"], ["--pid"]),
    (["run", "--uns"], ["--unsafe"]),
    (["run", "x.bt", "--uns"], ["--unsafe"]),
    (["run", "x.bt", "-f", ""], ["json", "text"]),
    (["run", "x.py", "--uns"], []),
    (["run", "fil"], ["file.txt"]),
    (["-c", "own-comman"], ["own-command"]),
    (["run", "x.bt", "--cmd", "own-comman"], ["own-command"]),
    (["list", "t:sched:x"], ["t:sched:xone", "t:sched:xtwo"]),
]


@pytest.fixture(scope="module")
def scripts():
    """Each shell's, with one more tool."""
    every = {**tools(), "extra": EXTRA}
    return {shell: write(commands(), every, unnamed()) for shell, write in WRITERS.items()}


@pytest.fixture
def folder(tmp_path, scripts):
    """A folder with the scripts, a command that stands in for pyebpf, and a file."""
    for shell, text in scripts.items():
        (tmp_path / f"script.{shell}").write_text(text)
    (tmp_path / "pyebpf").write_text(COMMAND)
    (tmp_path / "pyebpf").chmod(0o755)
    (tmp_path / "file.txt").touch()
    (tmp_path / "own-command").touch(mode=0o755)
    return tmp_path


def run(shell, folder, program, *options):
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    environment |= {"XDG_CONFIG_HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    done = subprocess.run(
        [shell, *options, "-c", program],
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        timeout=PATIENCE,
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def split_at_colons(word):
    """A word as readline splits it: colons and equals signs are words of their own, unless they are quoted."""
    return [word] if word.startswith("'") else [part for part in re.split(r"([:=]+)", word) if part] or [""]


def completed_by_bash(folder, lines):
    """What bash's function sets for each command line."""
    program = ["source ./script.bash"]
    for words in lines:
        parts = [each for word in ("pyebpf", *words) for each in split_at_colons(word)]
        program += [
            f"COMP_WORDS=({shlex.join(parts)}); COMP_CWORD={len(parts) - 1}; COMPREPLY=(); _pyebpf",
            "printf '%s\\n' \"${COMPREPLY[@]}\" --end",
        ]
    out = run("bash", folder, "\n".join(program), "--norc", "--noprofile")
    return [sorted(filter(None, part.split("\n"))) for part in out.split("--end\n")[:-1]]


def test_bash(folder):
    """The function is called with the words as bash splits them; behind a colon only the rest is returned."""
    needs("command:bash")
    found = completed_by_bash(folder, [words for words, _ in CASES])
    assert found[:-1] == [wanted for _, wanted in CASES[:-1]]
    assert found[-1] == ["xone", "xtwo"]


def test_bash_with_a_quote(folder):
    """In quotes a colon does not split a word, so all of it is returned."""
    needs("command:bash")
    (found,) = completed_by_bash(folder, [["list", "'t:sched:x"]])
    assert found == ["t:sched:xone", "t:sched:xtwo"]


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_a_dash_stands_for_options_and_no_tools(folder, shell):
    """Those of scripts, by both names, and what stands alone."""
    needs("command:bash", "command:fish")
    if shell == "bash":
        (found,) = completed_by_bash(folder, [["-"]])
    else:
        out = run("fish", folder, "source ./script.fish; complete --do-complete 'pyebpf -'", "--no-config")
        found = sorted(line.partition("\t")[0] for line in out.splitlines())
    assert found == sorted(name for option in script().options for name in option.flags)
    assert {"-e", "-l", "-p", "--cmd", "-o", "-f", "-d", "--version", "--help"} < set(found)


def test_every_option_has_a_description():
    """One that --help fills in late, too."""
    every = {**commands(), **tools(), **unnamed()}
    assert [(name, each) for name, command in every.items() for each in command.options if not each.help] == []
    (buffer,) = (each for each in tools()["tcplife"].options if each.flags == ("--buffer",))
    assert "default: 256K" in buffer.help
    assert not any("--address" in each.flags for each in commands()["trace"].options)


def test_bash_has_each_option_of_each_tool(folder):
    """Those that --help shows of three of them; of all the others, more than the five that every tool has."""
    needs("command:bash")
    every = sorted(tools())
    found = dict(zip(every, completed_by_bash(folder, [[name, "-"] for name in every]), strict=True))
    assert min(map(len, found.values())) > 5
    for name in ("biolatency", "profile", "tcplife"):
        shown = build_parser(find(name)).format_help().split("\n\nBPF Performance Tools", 1)[-1].split("\nexamples:")[0]
        flags = {
            flag for line in re.findall(r"^  (-[^\n]*?)(?:  |$)", shown, re.MULTILINE) for flag in line.split(", ")
        }
        assert {flag.split()[0] for flag in flags} == set(found[name])


#: Stand-ins for what is there only while zsh completes: they print what they are given.
ZSH = r"""
compdef() { print -r -- "compdef $*" }
compadd() { while [[ $1 != -- ]]; do shift; done; shift; print -rl -- ${(M)@:#${words[CURRENT]}*} }
_describe() { print -rl -- ${(M)${(@P)@[-1]}:#${words[CURRENT]}*} }
_command_names() { print -rl -- ${(k)commands[(I)${words[CURRENT]}*]} }
_files() { print -rl -- ${words[CURRENT]}*(N) }
"""


def test_zsh(folder):
    """With what zsh's own functions are given, those that begin with the word."""
    needs("command:zsh")
    run("zsh", folder, "zsh -n ./script.zsh", "-f")
    program = [ZSH, "source ./script.zsh"]
    for words, _ in CASES:
        program.append(f"words=({shlex.join(('pyebpf', *words))}); CURRENT={len(words) + 1}; _pyebpf; print -- --end")
    registered, *found = run("zsh", folder, "\n".join(program), "-f").split("\n", 1)
    assert registered == "compdef _pyebpf pyebpf"
    parts = [part.split("\n") for part in found[0].split("--end\n")[:-1]]
    shown = [
        sorted(re.sub(r"(?<!t)(?<!sched)(?<!usdt)(?<!interval):.*", "", line) for line in part if line)
        for part in parts
    ]
    assert shown == [wanted for _, wanted in CASES]


def test_zsh_finds_the_function_in_a_folder(folder):
    """As `_pyebpf` in a folder of fpath: the file is the function, and completes when it is called first."""
    needs("command:zsh")
    program = f"{ZSH}\nfpath=(. $fpath); autoload -Uz _pyebpf; words=(pyebpf biolat); CURRENT=2; _pyebpf; _pyebpf"
    (folder / "_pyebpf").write_text((folder / "script.zsh").read_text())
    out = run("zsh", folder, program, "-f").splitlines()
    assert [line.partition(":")[0] for line in out if line] == ["biolatency"] * 2


def test_fish(folder):
    """As fish itself completes each command line."""
    needs("command:fish")
    run("fish", folder, "fish -n ./script.fish", "--no-config")
    program = ["source ./script.fish"]
    for words, _ in CASES:
        line = " ".join(("pyebpf", *words))
        program.append(f"complete --do-complete {shlex.quote(line)}; echo -- --end")
    parts = run("fish", folder, "\n".join(program), "--no-config").split("--end\n")[:-1]
    found = [sorted(line.partition("\t")[0] for line in part.split("\n") if line) for part in parts]
    assert found == [wanted for _, wanted in CASES]


def test_help_is_text_to_every_shell(folder):
    """Quotes, backslashes, dollar signs and percent signs in it mean nothing."""
    needs("command:fish", "command:zsh")
    text = EXTRA.options[1].help
    out = run("fish", folder, "source ./script.fish; complete --do-complete 'pyebpf extra --col'", "--no-config")
    assert out == f"--color\t{text}\n"
    program = f"{ZSH}\nsource ./script.zsh; words=(pyebpf extra --col); CURRENT=3; _pyebpf"
    assert run("zsh", folder, program, "-f") == f"compdef _pyebpf pyebpf\n--color:{text}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bsh"], "there is no script for 'bsh' (did you mean bash or zsh?)"),
        (["powershell"], "there is no script for 'powershell': give one of bash, zsh, fish"),
        (["bash", "zsh"], "unexpected argument 'zsh'"),
        (["probes"], "give the beginning of an attach point, perhaps ''"),
    ],
)
def test_wrong_arguments(arguments, message):
    """A line, with what there is."""
    with pytest.raises(UsageError) as caught:
        run_completion(arguments)
    assert str(caught.value) == message


@pytest.mark.parametrize(("word", "found"), [("trac", ["tracepoint:"]), ("nosuch:x", []), ("t:a*", []), ("k:", [])])
def test_words_that_nothing_is_asked_about(word, found):
    """Kinds are known; patterns are complete, and functions too many to show."""
    assert candidates(word) == found


def test_files_by_path(tmp_path):
    """Folders end with a slash and files with a colon; a name that shells would read as more than that is left out."""
    (tmp_path / "folder").mkdir()
    for name in ("file", "fi$(le)", "other"):
        (tmp_path / name).touch()
    assert sorted(candidates(f"u:{tmp_path}/f")) == [f"u:{tmp_path}/{name}" for name in ("file:", "folder/")]


def test_functions_of_a_file():
    """Behind the file's name, as the word has it."""
    needs("command:bash")
    assert f"u:bash:{READLINE}" in candidates(f"u:bash:{READLINE[:-3]}")


def test_functions_by_the_letters_of_bcc():
    """`p:` and `r:`, as `pyebpf list` takes them."""
    needs("command:bash")
    for kind in "pr":
        assert f"{kind}:bash:{READLINE}" in candidates(f"{kind}:bash:{READLINE[:-3]}")


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("interv", ["interval:"]),
        ("interval:h", ["interval:hz:"]),
        ("software:pa", ["software:page-faults:"]),
        ("s:pa", ["s:page-faults:"]),
        ("self:", ["self:signal:SIGUSR1"]),
        ("watchp", []),
        ("nosuch:x", []),
    ],
)
def test_kinds_that_scripts_have(word, found):
    """By the names that `pyebpf -l` has for them."""
    assert script_candidates(word) == found


def test_the_script_is_printed(capsys):
    """By the command, in whole."""
    assert run_completion(["bash"]) == 0
    assert capsys.readouterr() == (WRITERS["bash"](commands(), tools(), unnamed()), "")
