"""Columns and escapes: headings, alignment, cutting, scaling, and what must not reach a terminal."""

from __future__ import annotations

import json
from dataclasses import dataclass
from ipaddress import ip_address
from types import SimpleNamespace

import pytest
from hypothesis import given, strategies as st

from pyebpf.output.columns import Column, Row, plain
from pyebpf.output.escape import display_width, fit, json_text, visible


@dataclass
class Session:
    pid: int = 42
    comm: str = "server"
    laddr: object = ip_address("127.0.0.1")
    sent: int = 2560
    ns: int = 1_234_567


ROW = Row(
    [
        Column("PID", 7),
        Column("COMM", 16),
        Column("LADDR", 15),
        Column("TX_KB", 5, ">", key="sent", scale=1024, decimals=0),
        Column("MS", key="ns", scale=1_000_000, decimals=2),
    ]
)


def test_heading_and_lines_are_aligned_alike():
    """One space between columns, no spaces at the end."""
    assert ROW.header() == "PID     COMM             LADDR           TX_KB MS"
    assert ROW.line(Session()) == "42      server           127.0.0.1           2 1.23"


def test_whole_units_are_cut_not_rounded():
    """No decimals: 2,047 bytes are 1 KB, as bcc and the book's tools have it; below zero likewise."""
    shown = [ROW.line(Session(sent=sent)).split()[3] for sent in (513, 1023, 1024, 2047, -1023, 1 << 60)]
    assert shown == ["0", "0", "1", "1", "0", str(1 << 50)]


def test_text_is_cut_to_its_column_and_numbers_never():
    """A ragged line is better than a wrong number."""
    line = ROW.line(Session(pid=1234567890, comm="a name of more than 16", laddr="x" * 40))
    assert line == f"1234567890 a name of more t {'x' * 15}     2 1.23"


def test_machine_readable_values_are_scaled_but_not_rounded():
    """JSON and CSV have the unit of the heading and all digits."""
    assert ROW.object(Session()) == {"PID": 42, "COMM": "server", "LADDR": "127.0.0.1", "TX_KB": 2.5, "MS": 1.234567}
    assert ROW.values(Session())[-2:] == [2.5, 1.234567]


def test_none_is_a_dash_in_text_and_null_in_json():
    """What is not known is told from 0 and from empty text."""
    assert ROW.line(Session(comm=None)).split()[1] == "-"
    assert ROW.object(Session(comm=None))["COMM"] is None


def test_a_key_may_be_a_function_of_the_record():
    """For what is not one attribute."""
    assert Row([Column("SUM", key=lambda r: r.pid + r.sent)]).line(Session()) == "2602"


def test_control_characters_and_undecodable_bytes_are_escaped():
    """Escape sequences, C1 controls, line breaks and direction overrides; a readable name stays."""
    assert visible("\x1b[2Jevil\r\n\x7f") == "\\x1b[2Jevil\\x0d\\x0a\\x7f"
    assert visible(b"caf\xc3\xa9 \xff") == "café \\xff"
    assert visible("\x9b31m \u202e \u2028 \U000e0001") == "\\u009b31m \\u202e \\u2028 \\U000e0001"
    assert visible("C:\\x") == "C:\\x"


@given(st.one_of(st.binary(max_size=64), st.text(st.characters(), max_size=64)))
def test_no_text_brings_a_control_character_to_the_terminal(value):
    """Whatever bytes a process chose as its name."""
    text = visible(value)
    assert text.isprintable()
    assert text.encode().decode() == text
    assert Row([Column("COMM", 16, key=lambda r: r)]).line(value).isprintable()


@given(st.one_of(st.binary(max_size=64), st.text(st.characters(codec=None), max_size=64)))
def test_json_text_is_encodable_and_keeps_decodable_text(value):
    """Only undecodable bytes change."""
    text = json_text(value)
    assert json.loads(json.dumps(text)) == text
    text.encode()
    if isinstance(value, str) and not any(0xD800 <= ord(c) < 0xE000 for c in value):
        assert text == value


def test_json_values_have_no_nan_and_no_foreign_types():
    """NaN and infinities are not JSON; other objects are their text."""
    assert plain({"a": [1.5, float("nan"), ip_address("::1")], 2: (True, None)}) == {
        "a": [1.5, None, "::1"],
        "2": [True, None],
    }


@pytest.mark.parametrize(("text", "columns"), [("abc", 3), ("日本語", 6), ("e\u0301", 1)])
def test_width_counts_terminal_columns(text, columns):
    """Wide characters are two, combining ones none."""
    assert display_width(text) == columns


def test_fitting_pads_and_cuts_by_terminal_columns():
    """A wide character is never cut in half."""
    assert fit("日本語", 8) == "日本語  "
    assert fit("日本語", 5, cut=True) == "日本 "
    assert fit("7", 3, right=True) == "  7"
    assert fit("e\u0301e\u0301e\u0301", 2, cut=True) == "e\u0301e\u0301"


def test_text_that_must_not_be_cut_moves_what_follows():
    """An address that lost its end would be another one: it is printed whole, and the line is longer."""
    row = Row([Column("ADDR", 5, cut=False), Column("PORT", 4)])
    assert row.line(SimpleNamespace(addr="fe80::1:2", port=80)) == "fe80::1:2 80"


def test_columns_below_the_line():
    """A line for each frame of a stack, after the record's; a list in JSON, one cell in CSV, nothing in the heading."""
    row = Row([Column("PID", 4), Column("REASON", below=True), Column("STACK", below=True)])
    record = SimpleNamespace(pid=7, reason="why\n", stack=("inner", "outer"))
    assert row.header() == "PID"
    assert row.line(record) == "7\n\twhy\\x0a\n\tinner\n\touter"
    assert row.object(record) == {"PID": 7, "REASON": "why\n", "STACK": ["inner", "outer"]}
    assert row.values(record) == [7, "why\n", "inner;outer"]
    assert row.line(SimpleNamespace(pid=7, reason=None, stack=())) == "7"
