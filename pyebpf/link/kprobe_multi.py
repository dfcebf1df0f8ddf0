"""kprobe.multi and kprobe.session: one link for any number of functions."""

from __future__ import annotations

import errno
from struct import Struct
from typing import TYPE_CHECKING

from pyebpf.errors import KernelError, NotFound, NotPermitted, NotSupported
from pyebpf.kernel import bpf
from pyebpf.kernel.syscall import address_of
from pyebpf.link.base import Link, attach_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyebpf.kernel.descriptor import Descriptor
    from pyebpf.link.host import Host
    from pyebpf.objects import Program
    from pyebpf.specs.attach.functions import KprobeMulti

__all__ = ["attach_kprobe_multi"]

# struct { __u32 flags, cnt; __aligned_u64 syms, addrs, cookies; } kprobe_multi; flags: BPF_F_KPROBE_MULTI_RETURN
_OPTIONS = Struct("=IIQQQ")
_RETURN = 1
_ADDRESSES = Struct("=Q")


def attach_kprobe_multi(program: Program, target: KprobeMulti, host: Host) -> Link:
    """Attach `program` (loaded with the target's attach type) to all functions of `target`.

    Raises NotFound with the names that there are none of, NotSupported without such links, NotPermitted, KernelError.
    """
    what = str(target)
    # A name twice is as unknown to the kernel as one that does not exist.
    cookies = dict(zip(target.functions, target.cookies or (0,) * len(target.functions), strict=True))
    links: list[Descriptor] = []
    try:
        for functions, addresses in _groups(tuple(cookies)):
            numbers = [cookies[function] for function in functions] if target.cookies else ()
            links.append(_create(program, target, functions, addresses, numbers))
    except BaseException as error:
        for link in links:
            link.close()
        if not isinstance(error, OSError) or isinstance(error, KernelError):
            raise
        if error.errno == errno.ESRCH:
            raise _unknown(what, tuple(cookies), host) from error
        raise attach_error(
            error,
            program.name,
            what,
            meanings=dict.fromkeys((errno.EINVAL, errno.EOPNOTSUPP), _without(what, session=target.session)),
        ) from error
    return Link(what, "kprobe session" if target.session else "kprobe.multi link", links)


def _groups(functions: Sequence[str]) -> Iterator[tuple[Sequence[str], Sequence[int]]]:
    """Functions by their names, and, since the kernel takes names without a module's, those of modules by addresses.

    One link has names or addresses. Raises NotFound for a function that its module lacks.
    """
    plain = [function for function in functions if ":" not in function]
    if plain:
        yield plain, ()
    if len(plain) == len(functions):
        return
    from pyebpf.link.function_refusals import missing
    from pyebpf.symbols.search import SymbolText

    symbols = SymbolText()
    qualified = [function for function in functions if ":" in function]
    addresses = []
    for function in qualified:
        module, _, name = function.partition(":")
        found = [symbol.address for symbol in symbols.find(name, module) if symbol.is_function]
        if not found:
            raise missing(function) or NotFound(f"no function {function}")
        addresses.append(found[0])
    # Where addresses are hidden, names have to do.
    yield qualified, addresses if all(addresses) else ()


def _without(what: str, *, session: bool) -> KernelError:
    # fprobe is what such links are made of; Debian's 6.1 is built without.
    reason = (
        "kprobe sessions (since Linux 6.10, with CONFIG_FPROBE)" if session else "kprobe.multi links (CONFIG_FPROBE)"
    )
    return NotSupported(f"{what}: this kernel has no {reason}")


def _create(
    program: Program, target: KprobeMulti, functions: Sequence[str], addresses: Sequence[int], cookies: Sequence[int]
) -> Descriptor:
    names = [bytearray(function.rpartition(":")[2].encode() + b"\0") for function in functions]
    places = addresses or [address_of(name) for name in names]
    packed = bytearray(b"".join(_ADDRESSES.pack(place) for place in places))
    numbers = bytearray(b"".join(_ADDRESSES.pack(cookie % (1 << 64)) for cookie in cookies))
    options = _OPTIONS.pack(
        _RETURN if target.returns else 0,
        len(names),
        0 if addresses else address_of(packed),
        address_of(packed) if addresses else 0,
        address_of(numbers) if numbers else 0,
    )
    link = bpf.link_create(program.fileno(), 0, target.attach_type, options=options, what=str(target))
    del names, packed, numbers  # the kernel read them by address until here
    return link


def _unknown(what: str, functions: Sequence[str], host: Host) -> Exception:
    """The kernel does not say which names it does not know: ask what it lists."""
    from pyebpf.link.function_refusals import missing, refused

    try:
        reached = host.traceable().names()
    except (OSError, NotPermitted, NotSupported):
        return NotFound(f"{what}: one of these is no function, or none that ftrace reaches: {', '.join(functions[:5])}")
    lacking = [function for function in functions if function.rpartition(":")[2].encode() not in reached]
    if not lacking:
        return NotFound(f"{what}: the kernel finds no such function, though it lists all of them")
    gone = missing(lacking[0])
    also = f" (nor of {', '.join(lacking[1:5])})" if len(lacking) > 1 else ""
    if gone is not None:
        return NotFound(f"{gone}{also}")
    reason = refused(lacking[0], host)
    return NotSupported(f"{what}: {lacking[0]} takes no probe: {reason}{also}")
