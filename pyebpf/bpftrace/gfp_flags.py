"""Flags of allocations in words, as `%gr` prints them.

The number of each bit is the running kernel's, whose BTF has them since Linux 6.10: before, a number is printed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_RECLAIM = ("DIRECT_RECLAIM", "KSWAPD_RECLAIM")
_KERNEL = (*_RECLAIM, "IO", "FS")
_HIGHUSER = (*_KERNEL, "HARDWALL", "HIGHMEM")
_MOVABLE = (*_HIGHUSER, "MOVABLE", "SKIP_KASAN")
_LIGHT = (*[each for each in _MOVABLE if each not in _RECLAIM], "COMP", "NOMEMALLOC", "NOWARN")
#: Bits that have one name together, those of more bits first: include/linux/gfp_types.h.
_TOGETHER = {
    "GFP_TRANSHUGE": (*_LIGHT, "DIRECT_RECLAIM"),
    "GFP_TRANSHUGE_LIGHT": _LIGHT,
    "GFP_HIGHUSER_MOVABLE": _MOVABLE,
    "GFP_HIGHUSER": _HIGHUSER,
    "GFP_USER": (*_KERNEL, "HARDWALL"),
    "GFP_KERNEL_ACCOUNT": (*_KERNEL, "ACCOUNT"),
    "GFP_KERNEL": _KERNEL,
    "GFP_NOFS": (*_RECLAIM, "IO"),
    "GFP_ATOMIC": ("HIGH", "KSWAPD_RECLAIM"),
    "GFP_NOIO": _RECLAIM,
    "GFP_NOWAIT": ("KSWAPD_RECLAIM", "NOWARN"),
    "GFP_DMA": ("DMA",),
    "GFP_DMA32": ("DMA32",),
}
#: Bits by themselves.
_ALONE = (
    *("HIGHMEM", "MOVABLE", "RECLAIMABLE", "HIGH", "IO", "FS", "ZERO", "DIRECT_RECLAIM", "KSWAPD_RECLAIM", "WRITE"),
    *("NOWARN", "RETRY_MAYFAIL", "NOFAIL", "NORETRY", "MEMALLOC", "COMP", "NOMEMALLOC", "HARDWALL", "THISNODE"),
    *("ACCOUNT", "ZEROTAGS", "SKIP_ZERO", "SKIP_KASAN", "NOLOCKDEP", "NO_OBJ_EXT"),
)


def words(flags: int, bit: Callable[[str], int | None]) -> str:
    """The names of some flags; what is left as a number. `bit` gives the number of a bit, by the end of its name."""
    found = []
    names = {**_TOGETHER, **{f"__GFP_{each}": (each,) for each in _ALONE}}
    for name, parts in names.items():
        bits = [bit(each) for each in parts]
        mask = sum([1 << each for each in bits if each is not None])
        is_known = all(each is not None or part == "SKIP_KASAN" for part, each in zip(parts, bits, strict=True))
        if mask and is_known and flags & mask == mask:
            found.append(name)
            flags &= ~mask
    if flags or not found:
        found.append(f"{flags:#x}" if flags else "0")
    return "|".join(found)
