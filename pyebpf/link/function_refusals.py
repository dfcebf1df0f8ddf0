"""Why a function of the kernel takes no probe: found out once the kernel has said no."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.errors import NotFound, NotPermitted, NotSupported, closest
from pyebpf.specs.attach.functions import not_loaded, split

if TYPE_CHECKING:
    from pyebpf.link.host import Host
    from pyebpf.symbols.search import SymbolText

__all__ = ["missing", "refused"]


def missing(function: str) -> NotFound | None:
    """The error for a function that the kernel does not have, with what may have been meant; None if it has it."""
    from pyebpf.symbols.search import SymbolText

    module, name, _ = split(function)
    symbols = SymbolText()
    found = symbols.find(name, module)
    if any(symbol.is_function for symbol in found):
        return None
    if module and not symbols.has_module(module):
        return not_loaded(function)
    if found:
        return NotFound(f"no function {function}: {name} is data")
    variants = symbols.variants(name)
    if variants:
        return NotFound(
            f"no function {function}: the compiler made {' and '.join(variants)} of it, whose parameters may be "
            "others: probe that, and bind parameters by position"
        )
    elsewhere = symbols.find(name)
    if elsewhere:
        return NotFound(f"no function {name} in module {module}: it is in {elsewhere[0].module or 'the kernel itself'}")
    if _in_btf(name):
        return NotFound(f"no function {function} to put a probe on: the compiler has inlined it wherever it is called")
    hint = closest(name, symbols.similar(name))
    return NotFound(f"no function {function}{hint}" + ("" if hint else "; one of a module is there once it is loaded"))


def _in_btf(name: str) -> bool:
    from pyebpf.btf import Btf, Kind
    from pyebpf.kernel.btf_files import read_btf

    try:
        return bool(Btf(read_btf()).find(name, {Kind.FUNC}))
    except NotSupported:
        return False


def refused(function: str, host: Host) -> str:
    """Why the kernel takes no probe on a function that it has: the end of a line."""
    from pyebpf.kernel.functions import kprobe_blacklist
    from pyebpf.symbols.search import SymbolText

    module, name, _ = split(function)
    symbols = SymbolText()
    several = [symbol for symbol in symbols.find(name, module) if symbol.is_function]
    if len(several) > 1:
        homes = sorted({symbol.module for symbol in several})
        remedy = f': write "{homes[-1]}:{name}"' if len(homes) > 1 else ""
        return f"{len(several)} functions have that name, and a name cannot say which{remedy}"
    if name in (kprobe_blacklist() or ()):
        return "the kernel forbids probes there (its kprobes blacklist)"
    if several and not several[0].module and _of_the_start(symbols, several[0].address):
        return "it ran while the kernel started, and is gone (__init)"
    try:
        if not any(host.traceable().matching(name)):
            return "ftrace does not reach it: it is not compiled for tracing (notrace, noinstr or assembler)"
    except (OSError, NotPermitted, NotSupported):
        pass
    return "it is no place for a probe: assembler, or in a section that the kernel keeps probes out of"


def _of_the_start(symbols: SymbolText, address: int) -> bool:
    """Whether an address is in the section of functions that the kernel frees when it has started."""
    first, last = symbols.find("_sinittext"), symbols.find("_einittext")
    return bool(first and last) and first[0].address <= address < last[0].address
