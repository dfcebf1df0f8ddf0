"""Functions of a file by their names in C++: `cpp:MyApp::Server::handle`, as bpftrace's attach points have them."""

from __future__ import annotations

import re
from fnmatch import translate
from typing import TYPE_CHECKING

from pyebpf.errors import closest
from pyebpf.symbols.demangle import demangled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.elf.symbols import ElfSymbols, Symbol

PREFIX = "cpp:"

#: A word of a readable name that the mangled one has, too. Of `std` and `operator` it has abbreviations.
_find_words = re.compile(r"[A-Za-z_]\w*").findall
#: Parentheses that are part of a name.
_find_own = re.compile(r"(?<=operator)\(\)|\(anonymous namespace\)")
_ABBREVIATED = frozenset({
    "allocator", "anonymous", "basic_iostream", "basic_istream", "basic_ostream", "basic_string", "bool",
    "char", "char_traits", "const", "delete", "double", "enum", "float", "int", "iostream", "istream", "lambda",
    "long", "namespace", "new", "operator", "ostream", "short", "signed", "std", "string", "struct", "unsigned",
    "unnamed", "void", "volatile",
})  # fmt: skip


def is_cpp(name: str) -> bool:
    """Whether a function is named as C++ names it."""
    return name.startswith(PREFIX)


def cpp_matching(elf: ElfSymbols, function: str) -> Iterator[Symbol]:
    """The functions that `cpp:NAME` means, all that are overloaded.

    NAME is all of the readable name, with `*` and `?` for what is left open: `MyApp::Server::handle(int)`, or without
    parameters for each of them. The return type, which templates have, may be written before it. A mangled name means
    itself.
    """
    pattern = function.removeprefix(PREFIX)
    match = re.compile(translate(pattern.replace("[", "[[]"))).match
    name, parenthesis, _ = _find_own.sub("", pattern).partition("(")
    with_parameters = bool(parenthesis)
    # Reading names takes a thousand times as long as looking for a word.
    words = {word for word in _find_words(name.partition("<")[0]) if word not in _ABBREVIATED}
    for symbol in elf.matching("*"):
        mangled = symbol.name
        if any(word not in mangled for word in words):
            continue
        short = demangled(mangled)
        if short == mangled or match(mangled):
            if match(mangled):
                yield symbol
            continue
        whole = demangled(mangled, parameters=True)
        if match(whole) if with_parameters else match(short) or match(_without_parameters(whole, short)):
            yield symbol


def _without_parameters(whole: str, short: str) -> str:
    """A readable name with its return type, without parameters and what is behind them."""
    start = whole.find(f"{short}(")
    return whole[: start + len(short)] if start >= 0 else short


def similar(elf: ElfSymbols, name: str) -> str:
    """The closest readable names, as a message ends with them."""
    wanted = name.removeprefix(PREFIX)
    mangled = (symbol.name for symbol in elf.matching("_*"))
    return closest(wanted, {demangled(each, parameters="(" in wanted) for each in mangled})
