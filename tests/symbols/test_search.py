"""/proc/kallsyms as text: names, modules, what the compiler made, what may have been meant."""

from __future__ import annotations

from pyebpf.symbols.kernel import KernelSymbol
from pyebpf.symbols.search import SymbolText

TEXT = SymbolText(
    b"ffffffff81000000 T _stext\n"
    b"ffffffff81000010 t tcp_one\n"
    b"ffffffff81000020 D tcp_table\n"
    b"ffffffff81000030 t tcp_two.isra.0\n"
    b"ffffffff81000040 T tcp_three\n"
    b"ffffffffc0000000 t tcp_one\t[sch_fq]\n"
    b"ffffffffc0000010 t fq_enqueue\t[sch_fq]\n"
)


def test_names_are_found_with_their_modules() -> None:
    """A static function's name may stand in several places."""
    assert TEXT.find("tcp_one") == (
        KernelSymbol("tcp_one", 0xFFFFFFFF81000010, "t", ""),
        KernelSymbol("tcp_one", 0xFFFFFFFFC0000000, "t", "sch_fq"),
    )
    assert [each.module for each in TEXT.find("tcp_one", "sch_fq")] == ["sch_fq"]
    assert not TEXT.find("tcp_table")[0].is_function
    assert TEXT.find("tcp_") == TEXT.find("_one") == TEXT.find("tcp_o.e") == ()
    assert TEXT.has_module("sch_fq")
    assert not TEXT.has_module("sch_f")


def test_variants_and_what_may_have_been_meant() -> None:
    """By the name's beginning and end."""
    assert TEXT.variants("tcp_two") == ("tcp_two.isra.0",)
    assert TEXT.variants("tcp_one") == ()
    assert "tcp_three" in TEXT.similar("tcp_thre")
    assert "fq_enqueue" in TEXT.similar("fx_enqueue")
    assert "tcp_table" not in TEXT.similar("tcp_tabel")


def test_addresses_have_names() -> None:
    """Of functions that begin there."""
    assert TEXT.name_at(0xFFFFFFFF81000040) == "tcp_three"
    assert TEXT.name_at(0xFFFFFFFFC0000010) == "fq_enqueue"
    assert TEXT.name_at(0xFFFFFFFF81000041) == TEXT.name_at(0xFFFFFFFF81000020) == ""
