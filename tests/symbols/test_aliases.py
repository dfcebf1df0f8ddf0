"""Functions that ftrace lists by one of their names: a pattern finds them by the others, each address once."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from pyebpf.kernel.functions import Traceable
from pyebpf.symbols.aliases import other_names
from pyebpf.symbols.search import SymbolText

if TYPE_CHECKING:
    from pyebpf.kernel.tracefs import Tracefs

SYMBOLS = (
    b"ffffffff81000010 t __do_sys_pause\n"
    b"ffffffff81000010 T __ia32_sys_pause\n"
    b"ffffffff81000010 T __x64_sys_pause\n"
    b"ffffffff81000020 T __x64_sys_getpid\n"
    b"ffffffff81000030 t no_trace_pause\n"
    b"ffffffff81000030 t no_trace_sleep\n"
    b"ffffffff81000040 D __x64_sys_table\n"
    b"ffffffff81000040 t table_code\n"
    b"ffffffffc0000010 t queue_add\t[sch_fq]\n"
    b"ffffffffc0000010 t queue_put\t[sch_fq]\n"
)
LISTED = b"__do_sys_pause\n__x64_sys_getpid\ntable_code\nqueue_add [sch_fq]\n"


class Files:
    """A tracefs."""

    def read_top(self, name: str) -> bytes:
        if name.endswith("_addrs"):
            raise FileNotFoundError
        return LISTED


def found(pattern: str, module: str = "", symbols: bytes = SYMBOLS) -> list[str]:
    """What matches: the names that are listed, then the others."""
    reached = Traceable(cast("Tracefs", Files()))
    listed = [name for name, _, _ in reached.matching(pattern, module)]
    others = list(other_names(reached, set(listed), pattern, module, SymbolText(symbols)))
    return listed + [f"{home}:{name}" if home else name for name, home, _ in others]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("__x64_sys_*", ["__x64_sys_getpid", "__x64_sys_pause"]),
        ("__[ix]*_sys_pause", ["__ia32_sys_pause"]),
        ("*pause", ["__do_sys_pause"]),
        ("no_trace_*", []),
        ("*put", ["sch_fq:queue_put"]),
        ("queue_*", ["queue_add"]),
        ("__x64_sys_table", []),
    ],
)
def test_each_address_by_one_name_that_matches(pattern: str, names: list[str]) -> None:
    """The one that is listed, else the first; data, and what ftrace does not reach, by none."""
    assert found(pattern) == names


def test_of_one_module() -> None:
    """Others are left out."""
    assert found("*put", "sch_fq") == ["sch_fq:queue_put"]
    assert found("*put", "ext4") == []


def test_hidden_addresses_tell_nothing() -> None:
    """All are 0, so all names would be one function's."""
    hidden = b"".join(b"0" * 16 + line[16:] for line in SYMBOLS.splitlines(keepends=True))
    assert found("__x64_sys_*", symbols=hidden) == ["__x64_sys_getpid"]


def test_all_names_at_an_address() -> None:
    """In the kernel's order, without data."""
    text = SymbolText(SYMBOLS)
    assert text.names_at(0xFFFFFFFF81000010) == ("__do_sys_pause", "__ia32_sys_pause", "__x64_sys_pause")
    assert text.names_at(0xFFFFFFFF81000040) == ("table_code",)
    assert text.names_at(0xFFFFFFFFC0000010) == ("queue_add", "queue_put")
    assert text.names_at(0xFFFFFFFF81000011) == ()
