"""Scripts on programs: arguments of USDT probes, their names, patterns and files; pointers to pointers."""

from __future__ import annotations

import os
from contextlib import ExitStack

import pytest

from pyebpf.arch.x86_64_lengths import LONGEST, length
from pyebpf.errors import CompileError, InvalidValue
from pyebpf.script import Script
from pyebpf.symbols.files import ElfFile
from tests.kernel.test_usdt import FORMS
from tests.support.command import running
from tests.support.needs import needs
from tests.support.traced import Traced, binary


@pytest.fixture(autouse=True)
def _uprobes() -> None:
    """USDT probes are uprobes."""
    needs("attach:uprobe")


def test_all_arguments_have_the_values_of_the_probe() -> None:
    """Twelve, in every form that an argument has: registers, memory, constants, symbols."""
    path = binary("pie")
    values = ", ".join(f"(int64)arg{number}" for number in range(12))
    script = Script(f"usdt:{path}:traced:forms {{ @[{values}] = count(); }}")
    with script, Traced(path) as traced:
        traced.tell("forms 3")
        assert script["@"].snapshot() == {tuple(FORMS): 3}


def test_each_place_of_a_probe_has_its_own_arguments() -> None:
    """Of `twice` the second place has a constant and the stack."""
    path = binary("pie")
    script = Script(f"usdt:{path}:twice {{ @[(int64)arg0, (int64)arg1] = count(); }}")
    with script, Traced(path) as traced:
        traced.tell("twice 2")
        assert script["@"].snapshot() == {(1, -1): 1, (4242, 1000): 1, (2, -2): 1, (4242, 2000): 1}


def test_arguments_of_usdt_probes_are_signed() -> None:
    """A negative one is below 0, and printed as one; an unsigned narrower one keeps its bits."""
    path = binary("pie")
    script = Script(
        f"usdt:{path}:twice /arg1 < 0/ {{ @least = min(arg1); @[arg0, arg1] = count(); }} "
        f"usdt:{path}:forms {{ @wide[arg1, arg5] = count(); }}"
    )
    with script, Traced(path) as traced:
        traced.tell("twice 2")
        traced.tell("forms 1")
        assert script["@"].snapshot() == {(1, -1): 1, (2, -2): 1}
        assert script["@least"].only() == -2
        assert script["@wide"].snapshot() == {(FORMS[1], FORMS[5]): 1}


def test_a_pattern_is_each_of_its_probes() -> None:
    """Each by its name, with its own number of arguments; the provider may be left out."""
    path = binary("pie")
    script = Script(f"usdt:{path}:* {{ @[probe] = count(); }}")
    with script, Traced(path) as traced:
        traced.tell("forms 5")
        traced.tell("twice 2")
        assert script["@"].snapshot() == {f"usdt:{path}:traced:forms": 5, f"usdt:{path}:traced:twice": 4}


def test_without_a_file_those_of_the_process() -> None:
    """With -p the file may be left out."""
    path = binary("pie")
    with Traced(path) as traced:
        script = Script("usdt::traced:forms { @[(int64)arg0] = count(); }", pid=traced.pid)
        with script:
            traced.tell("forms 4")
            assert script["@"].snapshot() == {FORMS[0]: 4}


def test_blocks_of_one_place_run_in_their_order() -> None:
    """What one has written, the next one reads."""
    path = binary("pie")
    script = Script(f"usdt:{path}:forms {{ @n = @n * 10 + 1; }} usdt:{path}:forms {{ @n = @n * 10 + 2; }}")
    with script, Traced(path) as traced:
        traced.tell("forms 1")
        assert script["@n"].snapshot() == {0: 12}


def test_an_argument_that_the_probe_has_not() -> None:
    """The probe is refused, with the arguments that it has."""
    path = binary("pie")
    with (
        pytest.raises(InvalidValue, match="the probe has 2 arguments, not 6"),
        Script(f"usdt:{path}:twice {{ @ = arg5; }}"),
    ):
        pass


def test_a_pointer_to_a_pointer_keeps_what_that_leads_to() -> None:
    """Structs of the script, numbers of their size, through variables, elements and maps."""
    path = binary("pie")
    first = path.encode()
    script = Script(
        f"""struct Text {{ char c[8]; }}
        uprobe:{path}:main {{
            $texts = (struct Text **)arg1;
            @kept = $texts;
            @[(*$texts).c[1], $texts[0]->c[2], (*@kept)->c[3]] = **(uint32 **)arg1;
            @numbers = (**(uint16 **)arg1, **(int8 **)arg1, *(*(char **)arg1 + 1));
        }}"""
    )
    with script, Traced(path) as traced:
        traced.tell("twice 0")
        assert script["@"].snapshot() == {tuple(first[1:4]): int.from_bytes(first[:4], "little")}
        assert script["@numbers"].snapshot() == {0: (int.from_bytes(first[:2], "little"), first[0], first[1])}


def test_arguments_have_names_at_the_entry_alone() -> None:
    """Not at the function's second instruction."""
    elf = ElfFile(binary("pie"))
    (symbol,) = elf.find("negative")
    second = length(elf.read(symbol.offset or 0, LONGEST), 0) if os.uname().machine == "x86_64" else 4
    with pytest.raises(CompileError) as error:
        Script(f"uprobe:{elf.path}:negative+{second} {{ print(args.a); }}").specs()
    assert f"at the entry of a function that is named, and negative+{second:#x} is another place" in str(error.value)


def test_floats_of_the_scripts_own_structs_have_their_room() -> None:
    """They are null in a struct that is printed, and the members behind them stand where C puts them."""
    path = binary("pie")
    script = Script(
        f"""struct Mixed {{ char c; float f; char d; double e; char g; }}
        uprobe:{path}:main {{
            $m = (struct Mixed *)*(char **)arg1;
            @ = ($m->c, $m->d, $m->g, offsetof(struct Mixed, e));
        }}"""
    )
    with script, Traced(path) as traced:
        traced.tell("twice 0")
        text = path.encode().ljust(25, b"\0")
        assert script["@"].snapshot() == {0: (text[0], text[8], text[24], 16)}


def test_a_text_that_was_cut_ends_in_two_dots() -> None:
    """In events and maps, and not where the script says how long it is; or in what the script sets, or in nothing."""
    path = binary("pie")
    body = f"""uprobe:{path}:main {{
        $path = str(*(char **)arg1);
        printf("%s|%6s|%s\\n", $path, $path, str(*(char **)arg1, 3));
        print(($path, 1));
        @[$path] = 1;
        exit();
    }}"""
    for trailer, shown in (("", ".."), ('str_trunc_trailer = "_"; ', "_"), ('str_trunc_trailer = ""; ', "")):
        script = Script(f"config = {{ {trailer}max_strlen = 5 }} {body}")
        text = f"{path[:5]}{shown}"
        with ExitStack() as stack:

            def begin(_: int) -> None:
                stack.enter_context(Traced(path))

            lines = "".join(script.output(attached=begin)).splitlines()
        assert lines == [f"{text}|{text:>6}|{path[:2]}", f"({text}, 1)", "", "", f"@[{text}]: 1"]


def test_specifications_of_bcc_have_them_too() -> None:
    """`trace` prints an argument, with a condition on another."""
    path = binary("pie")
    with Traced(path) as traced, running("trace", f'u:{path}:traced:twice (arg2 == 1000) "first %d", arg1') as tool:
        traced.tell("twice 2")
        tool.stop()
    (line,) = [line for line in tool.out.splitlines() if "first" in line]
    assert line.endswith("first 4242")
