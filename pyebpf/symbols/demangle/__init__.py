"""Mangled names of C++ and Rust, read by their specifications: the Itanium C++ ABI, and Rust's RFC 2603."""

from __future__ import annotations

#: Longer ones are left as they are.
MAX_MANGLED = 8192
MAX_LENGTH = 4096


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
    from pyebpf.symbols.demangle import itanium  # here, since most programs are written in C

    try:
        shown, end = itanium.demangled(name, parameters=parameters)
    except itanium.ERRORS:
        return None
    rest = name[end:]
    if not rest or (not parameters and rest.isascii() and rest.isalnum()):
        return shown
    from pyebpf.symbols.demangle.suffixes import with_suffixes

    return with_suffixes(shown, rest, parameters=not parameters, llvm=parameters)


def _rust(name: str, *, parameters: bool) -> str | None:
    from pyebpf.symbols.demangle import rust

    try:
        found = (rust.demangled if name[1] == "R" else rust.legacy)(name, hashes=parameters)
    except rust.ERRORS:
        return None
    if found is None:
        return None
    shown, end = found
    from pyebpf.symbols.demangle.suffixes import with_suffixes

    return with_suffixes(shown, name[end:], parameters=False, llvm=False) if end < len(name) else shown
