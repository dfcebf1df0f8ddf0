"""This machine as a `Target`: facts from /sys/kernel/btf, tracefs and feature probes, each when first asked."""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING

from pyebpf.errors import NotPermitted, NotSupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyebpf.btf import Btf
    from pyebpf.features import Features
    from pyebpf.kernel.functions import Traceable
    from pyebpf.kernel.tracefs import Tracefs
    from pyebpf.target import LiveTarget

#: Kind of the cache's entries: changes with the index's format.
_INDEX = "btf-index-3"


@functools.cache
def kernel_btf(name: str = "vmlinux") -> Btf:
    """BTF never changes while the kernel runs; its index is kept between runs, found by the kernel's build id."""
    from pyebpf.btf import Btf, Index, digest
    from pyebpf.kernel.btf_files import kernel_build_id, read_btf
    from pyebpf.kernel.cache import cached

    data = read_btf(name)
    if name != "vmlinux":
        return Btf(data, base=kernel_btf())
    identity = kernel_build_id()
    # Told by its build id 5 ms sooner than by its content.
    identity = identity.ljust(Index.IDENTITY, b"\0")[: Index.IDENTITY] if identity else digest(data)
    kept = cached(_INDEX, f"{identity.hex()}-{len(data)}", lambda: Btf(data).index.to_bytes(identity))
    # An entry that does not fit this BTF is not believed: None makes the reader build its own.
    return Btf(data, index=Index.from_bytes(kept, identity))


def _module_btf() -> Iterable[tuple[str, Btf]]:
    from pyebpf.kernel.btf_files import btf_modules

    for name in btf_modules():
        yield name, kernel_btf(name)


def _traceable(tracefs: Callable[[], Tracefs]) -> Traceable:
    from pyebpf.kernel.functions import Traceable

    return Traceable(tracefs())


def _matching(traceable: Callable[[], Traceable], pattern: str) -> tuple[str, ...]:
    """Functions by a pattern: what ftrace reaches, by one name each; where that is not told, what kallsyms lists.

    A module's are given with its name. A plain name is one of kallsyms, whether ftrace reaches it or not.
    """
    from pyebpf.kernel.functions import is_pattern
    from pyebpf.symbols.aliases import other_names

    module, colon, name = pattern.rpartition(":")
    if not is_pattern(name):
        from pyebpf.symbols.search import SymbolText

        found = SymbolText().find(name, module)
        return (pattern,) if any(symbol.is_function for symbol in found) else ()
    try:
        reached = traceable()
        listed = list(reached.matching(name, module))
        listed += other_names(reached, {each for each, _, _ in listed}, name, module)
        return tuple(dict.fromkeys(f"{home}:{each}" if colon else each for each, home, _ in listed))
    except (OSError, NotSupported, NotPermitted):
        pass
    from pyebpf.symbols.kernel import KernelSymbols

    symbols = KernelSymbols().functions(name, module or None)
    # Of several names for one address, the first; where addresses are hidden, they are all 0.
    first = {symbol.address or symbol.name: symbol for symbol in reversed(symbols)}
    once = (symbol for symbol in symbols if first[symbol.address or symbol.name] is symbol)
    return tuple(dict.fromkeys(f"{symbol.module}:{symbol.name}" if colon else symbol.name for symbol in once))


def _may_use(features: Features, name: str) -> bool:
    """Whether to compile for a feature: one that is there, or an attachment or helper that may be.

    Where a probe could not tell, as without privileges, trying gives the kernel's own reason. Instructions have
    others to stand in for them, so that they are used only where they are known.
    """
    from pyebpf.features import Support

    answer = features.promise(name)
    return answer is Support.YES or (answer is Support.UNKNOWN and name.startswith(("attach:", "helper:")))


def host_target(tracefs: Callable[[], Tracefs], traceable: Callable[[], Traceable] | None = None) -> LiveTarget:
    """The running kernel and this process's place in it; `tracefs` opens the directory when a format is asked for.

    `traceable` has the functions that ftrace reaches, where somebody else needs them too.
    """
    from pyebpf.features import Features
    from pyebpf.kernel.cpus import possible_cpus
    from pyebpf.kernel.privileges import pid_namespace
    from pyebpf.target import LiveTarget

    namespace = pid_namespace()
    return LiveTarget(
        arch=os.uname().machine,
        byteorder=sys.byteorder,
        page_size=os.sysconf("SC_PAGESIZE"),
        possible_cpus=possible_cpus(),
        pid_namespace=None if namespace.initial else (namespace.dev, namespace.ino),
        btf=kernel_btf,
        modules=_module_btf,
        formats=lambda category, name: tracefs().event_format(category, name),
        features=functools.partial(_may_use, Features(kernel_btf)),
        tracepoints=lambda category: tracefs().events(category),
        categories=lambda: tracefs().categories(),
        functions=lambda pattern: _matching(traceable or functools.partial(_traceable, tracefs), pattern),
    )
