"""Mangled names of C++ and Rust, read by their specifications: the Itanium C++ ABI, and Rust's RFC 2603."""

from __future__ import annotations

import re

#: Longer ones are left as they are.
MAX_MANGLED = 8192
MAX_LENGTH = 4096

#: What may stand behind a mangled name: the compiler's suffixes, and a version.
_SUFFIXES = re.compile(r"((?:\.(?:[a-z_A-Z]+|[0-9]+))*)(@.*)?\Z", re.DOTALL)
_SUFFIX = re.compile(r"\.[a-z_A-Z]+(?:\.[0-9]+)*|(?:\.[0-9]+)+")
#: Parameters that are not read.
_REST = re.compile(r"[0-9A-Za-z_$]*")


def demangled(name: str, *, parameters: bool = False) -> str:
    """The readable name of a symbol; the name itself where it is none that is mangled.

    `parameters=True` gives all of it, as c++filt does: `void std::map<int, long>::f<long>(int) const`.
    Otherwise parameters, return type and qualifiers of the function are left out, hashes of Rust's crates as well, and
    std's classes have their short names: `std::vector<std::string, std::allocator<std::string> >::push_back`.
    The compiler's suffixes are shown as c++filt shows them, `f [clone .cold]`, and a version as it is, `f@@VERSION`.
    `.llvm.123`, which tells apart what has one name in several files, is left out with the parameters.

    Any text may be given: work and output are bounded, and what exceeds them is left as it is.
    """
    if len(name) > MAX_MANGLED or name[:1] != "_":
        return name
    if name.startswith("_R"):
        shown = _rust(name, parameters=parameters)
    elif name.startswith("_Z"):
        shown = (_rust(name, parameters=parameters) if "17h" in name else None) or _itanium(name, parameters=parameters)
    else:
        return name
    return shown if shown is not None and len(shown) <= MAX_LENGTH else name


def _itanium(name: str, *, parameters: bool) -> str | None:
    from pyebpf.symbols.demangle import itanium  # lazily: most programs are written in C

    try:
        shown, end = itanium.demangled(name, parameters=parameters)
    except itanium.ERRORS:
        return None
    if not parameters and (rest := _REST.match(name, end)):
        end = rest.end()
    return with_suffixes(shown, name[end:], llvm=parameters)


def _rust(name: str, *, parameters: bool) -> str | None:
    from pyebpf.symbols.demangle import rust

    try:
        found = (rust.demangled if name[1] == "R" else rust.legacy)(name, hashes=parameters)
    except rust.ERRORS:
        return None
    return with_suffixes(found[0], name[found[1] :], llvm=False) if found else None


def with_suffixes(shown: str, rest: str, *, llvm: bool) -> str | None:
    """The name with what stands behind it; None if that is nothing which compilers and linkers put there.

    `llvm`: with `.llvm.123`, too, which only tells names of one file from those of others.
    """
    if not rest:
        return shown
    found = _SUFFIXES.match(rest)
    if not found:
        return None
    clones = "".join(f" [clone {each}]" for each in _SUFFIX.findall(found[1]) if llvm or not each.startswith(".llvm."))
    return f"{shown}{clones}{found[2] or ''}"
