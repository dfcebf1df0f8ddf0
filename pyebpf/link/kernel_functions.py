"""Reasons why a kernel function cannot be probed: found out once the kernel has said no."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.attach.kernel_functions import not_loaded, split
from pyebpf.errors import NotFound, NotPermitted, NotSupported, closest

if TYPE_CHECKING:
    from pyebpf.btf import Btf
    from pyebpf.link.host import Host
    from pyebpf.symbols.search import SymbolText

NO_INSTRUCTION = "no instruction begins there"
#: Arguments that every kernel's trampolines pass on.
_LEAST_PASSED = 6


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
            f"no function {function}: the compiler made {' and '.join(variants)} of it, with parameters that may "
            "differ: probe that, and bind parameters by position"
        )
    elsewhere = symbols.find(name)
    if elsewhere:
        return NotFound(f"no function {name} in module {module}: it is in {elsewhere[0].module or 'the kernel itself'}")
    if _in_btf(name):
        return NotFound(f"no function {function} to put a probe on: the compiler has inlined it wherever it is called")
    hint = closest(name, symbols.similar(name))
    return NotFound(f"no function {function}{hint}" + ("" if hint else "; one of a module is there once it is loaded"))


def places_of(function: str) -> tuple[str, ...]:
    """The places of the functions that share a name, which probes take in place of it; none where they are hidden.

    By their distance from the kernel's first symbol, as perf probe does: an event of tracefs takes several such places,
    and only one address. Those of modules are addresses.
    """
    from pyebpf.symbols.search import SymbolText

    module, name, offset = split(function)
    symbols = SymbolText()
    first = next((symbol.address for symbol in symbols.find("_text")), 0)
    found = {symbol.address: symbol.module for symbol in symbols.find(name, module) if symbol.is_function}
    if not first or not all(found):
        return ()
    within = int(offset or "0", 0)
    return tuple(
        f"{address + within:#x}" if home else f"_text+{address + within - first:#x}"
        for address, home in sorted(found.items())
    )


def _in_btf(name: str) -> bool:
    from pyebpf.btf import Kind

    try:
        return bool(_btf().find(name, {Kind.FUNC}))
    except NotSupported:
        return False


def _btf() -> Btf:
    from pyebpf.btf import Btf
    from pyebpf.kernel.btf_files import read_btf

    return Btf(read_btf())


def without_trampoline(function: str) -> str:
    """Explain why a function takes no trampoline, whose program the kernel has loaded (ENOTSUPP): the end of a line."""
    from pyebpf.features import Features, Support

    try:
        btf = _btf()
        if Features(lambda: btf).promise("attach:fentry") is Support.NO:
            # ftrace there cannot call a trampoline: CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS.
            return "this kernel loads programs for trampolines, but attaches none (arm64: since Linux 6.4)"
        _, name, _ = split(function)
        count = len(btf.prototype(name).params)
    except (NotFound, NotSupported):
        count = 0
    if count > _LEAST_PASSED:
        # 6 on x86-64 before Linux 6.3, 8 on arm64 in 6.12.
        return f"its {count} arguments are more than trampolines pass on here (6 or 8, by architecture and release)"
    return "this kernel's trampolines do not support it"


def reason_against_probe(function: str, host: Host) -> str:
    """Explain why a function of the kernel, or an instruction in it, cannot be probed: the end of a line."""
    from pyebpf.arch import host as architecture
    from pyebpf.kernel.functions import kprobe_blacklist
    from pyebpf.symbols.search import SymbolText

    module, name, offset = split(function)
    distance = int(offset or "0", 0)
    if distance % architecture().instruction_size:
        return NO_INSTRUCTION
    symbols = SymbolText()
    several = [symbol for symbol in symbols.find(name, module) if symbol.is_function]
    if len(several) > 1:
        homes = sorted({symbol.module for symbol in several})
        remedy = f': write "{homes[-1]}:{name}"' if len(homes) > 1 else ""
        return f"{len(several)} functions have that name, and a name does not select one{remedy}"
    if name in (kprobe_blacklist() or ()):
        return "the kernel forbids probes there (its kprobes blacklist)"
    if several and not several[0].module and _of_the_start(symbols, several[0].address):
        return "it ran while the kernel booted, and has been freed (__init)"
    try:
        listed = list(host.traceable().matching(name, module))
    except (OSError, NotPermitted, NotSupported):
        listed = None
    if distance and several and listed:
        if {several[0].address + distance} & {address for _, _, address in listed}:
            return "the instruction there is ftrace's, and a kprobe cannot share it: probe the function's start"
        return "no probe can be put on this instruction: it is ftrace's, or one that the kernel cannot single-step"
    if listed is not None and not listed:
        return "ftrace cannot trace it: it is not compiled for tracing (notrace, noinstr or assembler)"
    return "it cannot be probed: it is assembler, or in a section that the kernel excludes from probing"


def _of_the_start(symbols: SymbolText, address: int) -> bool:
    """Whether an address is in the section of functions that the kernel frees when it has started."""
    first, last = symbols.find("_sinittext"), symbols.find("_einittext")
    return bool(first and last) and first[0].address <= address < last[0].address
