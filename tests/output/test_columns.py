"""Columns and escapes: headings, alignment, cutting, scaling, and what must not reach a terminal."""

from __future__ import annotations

import json
from dataclasses import dataclass
from ipaddress import ip_address
from types import SimpleNamespace

import pytest
from hypothesis import example, given, strategies as st

from pyebpf.errors import InvalidValue
from pyebpf.output.columns import Column, Row, plain
from pyebpf.output.escape import display_width, escaped, fit, json_text, visible
from tests.support.folded import unescaped


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
        Column("LADDR", 15, field="local_address"),
        Column("TX_KB", 5, ">", key="sent", scale=1024, decimals=0, field="sent_bytes"),
        Column("MS", key="ns", scale=1_000_000, decimals=2, field="lifespan_ns"),
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


def test_machine_readable_values_are_in_base_units():
    """JSON and CSV have fields, neither scaled nor rounded."""
    assert ROW.object(Session()) == {
        "pid": 42, "comm": "server", "local_address": "127.0.0.1", "sent_bytes": 2560, "lifespan_ns": 1_234_567,
    }  # fmt: skip
    assert ROW.values(Session())[-2:] == [2560, 1_234_567]
    assert ROW.fields == ["pid", "comm", "local_address", "sent_bytes", "lifespan_ns"]


def test_the_name_of_a_field_is_its_keys():
    """The attribute's, or the heading's in lower case; the time is not one: every record begins with it."""
    row = Row([Column("TIME", 8), Column("BYTES", key="sent"), Column("PID")])
    assert row.object(Session()) == {"sent": 2560, "pid": 42}


@pytest.mark.parametrize(
    "column",
    [
        {"name": "LAT(us)"},
        {"name": "A", "key": "local.version"},
        {"name": "A", "field": "latencyNs"},
        {"name": "A", "field": "_latency"},
        {"name": "A", "field": "latency__ns"},
        {"name": "A", "field": "latency-ns"},
        {"name": "A", "field": "2nd"},
    ],
)
def test_fields_are_in_snake_case(column):
    """A heading or key that is not, and has no field beside it, is an error that says what to write."""
    with pytest.raises(InvalidValue, match=r"snake_case, with its base unit: Column\(.*, …, field="):
        Column(**column)


def test_two_columns_of_one_field():
    """One would hide the other."""
    with pytest.raises(InvalidValue, match=r"^two columns are the field pid in JSON and CSV: give one another field=$"):
        Row([Column("PID"), Column("TGID", key=str, field="pid")])
    row = Row([Column("A", key=str, field=None), Column("B", key=str, field=None)])
    assert row.fields == []
    assert row.header() == "A B"


def test_columns_of_text_or_of_fields_alone():
    """Without a field it is for people, not printed it is for programs; `value` takes what programs get."""
    row = Row(
        [
            Column("ENDS", key=lambda each: f"{each.laddr}:{each.pid}", field=None),
            Column("ADDRESS", key="laddr", printed=False, field="address"),
            Column("FLAGS", key=lambda each: f"{each.sent:o}", value="sent"),
            Column("DOUBLE", key="pid", field="double", value=lambda each: each.pid * 2),
        ]
    )
    assert row.header() == "ENDS FLAGS DOUBLE"
    assert row.line(Session()) == "127.0.0.1:42 5000 42"
    assert row.object(Session()) == {"address": "127.0.0.1", "flags": 2560, "double": 84}


def test_none_is_a_dash_in_text_and_null_in_json():
    """What is not known is told from 0 and from empty text."""
    assert ROW.line(Session(comm=None)).split()[1] == "-"
    assert ROW.object(Session(comm=None))["comm"] is None


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
    """Only undecodable bytes and backslashes change."""
    text = json_text(value)
    assert json.loads(json.dumps(text)) == text
    text.encode()
    if isinstance(value, str) and not any(0xD800 <= ord(c) < 0xE000 for c in value):
        assert text == value.replace("\\", "\\\\")


@given(st.one_of(st.binary(max_size=64), st.text("\\xuU0f\n\udcff\u2028", max_size=16)))
@example(b"/tmp/zz\xff")
@example(b"/tmp/zz\\xff")
def test_no_two_names_look_alike(value):
    """What is printed, as text and in JSON, stands for one name: it can be taken back."""
    name = value.decode(errors="surrogateescape") if isinstance(value, bytes) else value
    assert unescaped(escaped(value)) == name
    assert unescaped(json_text(value)) == name
    assert escaped(value).isprintable()


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
    """A line for each frame of a stack, after the record's; a list in JSON, nothing in the heading."""
    row = Row([Column("PID", 4), Column("REASON", below=True), Column("STACK", below=True)])
    record = SimpleNamespace(pid=7, reason="why\n", stack=("inner", "outer"))
    assert row.header() == "PID"
    assert row.line(record) == "7\n\twhy\\x0a\n\tinner\n\touter"
    assert row.object(record) == {"pid": 7, "reason": "why\n", "stack": ["inner", "outer"]}
    assert row.values(record) == [7, "why\n", ("inner", "outer")]
    assert row.line(SimpleNamespace(pid=7, reason=None, stack=())) == "7"


def test_a_table_without_columns_has_empty_lines():
    """As a garbled recording may declare one."""
    row = Row([])
    assert (row.line(object()), row.header(), row.object(object())) == ("", "", {})
