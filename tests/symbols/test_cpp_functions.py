"""Functions of files by their names in C++."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from pyebpf.errors import InvalidValue, NotFound
from pyebpf.symbols.files import ElfFile
from pyebpf.symbols.user_functions import find_functions, matching_functions
from tests.support.needs import needs

if TYPE_CHECKING:
    from pathlib import Path

#: Names in C++, as c++filt reads them, and as symbols have them: written in C, for machines without a compiler of C++.
HANDLE, OF_TEXT = "_ZN5MyApp6Server6handleEi", "_ZN5MyApp6Server6handleEPKc"
TWICE, INDEX, CALL = "_ZN5MyApp6Server5twiceIiEET_S2_", "_ZN5MyApp6ServerixEi", "_ZNK5MyApp6ServerclEi"
NESTED, PLAIN, ONE, OTHER = "_ZN3Old5MyApp6handleEi", "_Z5plainim", "_ZN5MyApp6ServerC1Ev", "_ZN5MyApp6ServerC2Ev"
HIDDEN = "_ZN12_GLOBAL__N_16hiddenEi"
NAMES = (HANDLE, OF_TEXT, TWICE, INDEX, CALL, NESTED, PLAIN, ONE, HIDDEN, "handle")
FOUND = {
    "MyApp::Server::handle": {HANDLE, OF_TEXT},
    "MyApp::Server::handle(int)": {HANDLE},
    "MyApp::Server::handle(char const*)": {OF_TEXT},
    "MyApp::Server::handle(*)": {HANDLE, OF_TEXT},
    "MyApp::Server::*": {HANDLE, OF_TEXT, TWICE, INDEX, CALL, ONE, OTHER},
    "*::handle": {HANDLE, OF_TEXT, NESTED},
    "handle": {"handle"},
    "*handle(int)": {HANDLE, NESTED},
    "MyApp::Server::twice<int>": {TWICE},
    "int MyApp::Server::twice<int>": {TWICE},
    "MyApp::Server::twice<*>": {TWICE},
    "int MyApp::Server::twice<int>(int)": {TWICE},
    "MyApp::Server::operator[]": {INDEX},
    "MyApp::Server::operator()": {CALL},
    "*(anonymous namespace)::hidden": {HIDDEN},
    "(anonymous namespace)::hidden(int)": {HIDDEN},
    "MyApp::Server::operator()(int) const": {CALL},
    "MyApp::Server::Server": {ONE, OTHER},
    "plain": {PLAIN},
    "plain(int, unsigned long)": {PLAIN},
    PLAIN: {PLAIN},
    "plai": set(),
    "Server::handle": set(),
    "MyApp::Server::handle(int": set(),
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A library with those functions; a constructor has two names, as g++ gives it."""
    needs("command:gcc")
    folder: Path = tmp_path_factory.mktemp("cpp")
    source, path = folder / "names.c", folder / "libnames.so"
    lines = [
        f'int f{at}(int x) __asm__("{name}"); int f{at}(int x) {{ return x + {at}; }}' for at, name in enumerate(NAMES)
    ]
    lines.append(f'int other(int x) __asm__("{OTHER}") __attribute__((alias("{ONE}")));')
    source.write_text("\n".join(lines))
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", path, source], check=True)
    return str(path)


@pytest.mark.parametrize("name", FOUND)
def test_found(library: str, name: str) -> None:
    """All that are overloaded, or the one with such parameters; names of one place are there once."""
    elf, wanted = ElfFile(library), FOUND[name]
    if not wanted:
        with pytest.raises(NotFound, match=re.escape(f"no function of {library} matches cpp:{name}")):
            find_functions(elf, (f"cpp:{name}",))
        return
    places = find_functions(elf, (f"cpp:{name}",)).places
    assert {each for place in places for each in place.name.split("/")} == wanted
    assert len(places) == len(wanted - {OTHER})
    listed, left_out = matching_functions(elf, f"cpp:{name}")
    assert (set(listed), left_out) == (wanted, "")


def test_refused(library: str) -> None:
    """The closest readable names; what to write for one without `cpp:`; too many."""
    elf = ElfFile(library)
    with pytest.raises(NotFound, match=re.escape("did you mean MyApp::Server::handle")):
        find_functions(elf, ("cpp:MyApp::Server::hande",))
    with pytest.raises(NotFound, match=re.escape("did you mean MyApp::Server::handle(int)")):
        find_functions(elf, ("cpp:MyApp::Server::handle(long)",))
    with pytest.raises(
        NotFound, match=r"has no symbol MyApp::Server::handle: .* readable name is cpp:MyApp::Server::handle$"
    ):
        find_functions(elf, ("MyApp::Server::handle",))
    with pytest.raises(InvalidValue, match=r"cpp:\* matches \d+ functions of .*, more than 3"):
        find_functions(elf, ("cpp:*",), max_probes=3)
