"""Formats of records: many at once have the text that each has by itself."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from hypothesis import given, settings, strategies as st

from pyebpf.bpftrace.events import Action
from pyebpf.bpftrace.formats import parse_format
from pyebpf.bpftrace.json_printer import JsonPrinter, message, plain, quoted
from pyebpf.bpftrace.printer import Printer
from pyebpf.bpftrace.record_formats import value_column
from pyebpf.bpftrace.tables import Shown
from pyebpf.bpftrace.value_types import (
    Address,
    Array,
    Boolean,
    Buffer,
    Characters,
    Inet,
    KernelStack,
    MacAddress,
    Number,
    Record,
    String,
    Timestamp,
    Tuple,
)
from pyebpf.builder.values.memory import Space
from pyebpf.output.escape import escaped
from pyebpf.types import U64, TupleType

NUMBERS = (Number(signed=True), Number(signed=False), Address(None, Space.KERNEL))
PARTS = st.sampled_from(
    [
        *NUMBERS,
        Number(names=((1, "ONE"), (0, "NONE"))),
        Number(enum="colour"),
        Boolean(),
        String(16),
        String(5, cut=True),
        Buffer(9),
        Inet(),
        MacAddress(),
        KernelStack(3, ""),
        Timestamp("%H"),
        Array(Number(size=1), 3),
        Array(Characters(4), 2),
        Array(Boolean(), 2),
    ]
)
TYPES = st.recursive(
    PARTS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: Tuple(tuple(parts))),
        st.lists(inner, max_size=3).map(lambda parts: Record(tuple(["a%", "b", "é"][: len(parts)]), tuple(parts))),
    ),
    max_leaves=6,
)
#: Names that are told apart, with what a format of Python's would take for a specifier.
NAMES = SimpleNamespace(
    kernel_stack=lambda number, limit, mode: f"\n    stack{number}%d{limit}{mode}\n",
    enumerator=lambda enum, number: f"{enum}%{number}",
    time=lambda layout, nanoseconds, clock: f"{layout}{nanoseconds}{clock}",
    shown=escaped,
    trailer="%…",
    gfp_flags=lambda flags: f"%{flags:#x}",
)


@st.composite
def specifiers(draw: st.DrawFn) -> tuple[str, object]:
    """A specifier and a type that it prints."""
    flags = draw(st.sampled_from(["", "-", "0", "+", "-0", "+0", "#"]))
    width = draw(st.sampled_from(["", "1", "7", "23"]))
    if draw(st.booleans()):
        precision = draw(st.sampled_from(["", ".0", ".3", ".40"]))
        return f"%{flags}{width}{precision}s", draw(TYPES)
    if draw(st.integers(0, 9)) == 0:
        return f"%{flags}{width}{draw(st.sampled_from(['r', 'rx', 'rh']))}", Buffer(9)
    length = draw(st.sampled_from(["", "hh", "h", "l", "ll"]))
    kind = draw(st.sampled_from(["d", "i", "o", "u", "x", "X", "c", "p", "gr"]))
    return f"%{flags}{width}{'' if kind == 'gr' else length}{kind}", draw(st.sampled_from([*NUMBERS, Boolean()]))


def printed(printer: Printer, action: Action, records: list[bytes]) -> str:
    """All that is printed of an action's records."""
    events = SimpleNamespace(actions=[action, action], of=lambda _: action, action=None)
    return "".join(printer.texts(events, records))


def layout_of(types: list[object], behind: tuple[bool, ...]) -> TupleType:
    """The layout of an action's records."""
    return TupleType([U64, *(each.storage for each, apart in zip(types, behind, strict=True) if not apart)])


def records_of(layout: TupleType, raws: list[bytes], texts: bytes = b"") -> list[bytes]:
    """Records with such bytes, and texts behind them."""
    return [bytes(8) + (raw * (layout.size // len(raw) + 1))[: layout.size - 8] + texts for raw in raws]


def printers() -> list[Printer]:
    """One for each kind of output."""
    return [kind({}, NAMES, lambda text: text, lambda text: text, lambda text: text) for kind in (Printer, JsonPrinter)]


RAWS = st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=4)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(specifiers(), st.sampled_from(["", " ", "%%", "é {}\n"])), max_size=4),
    RAWS,
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.sampled_from([1, 20, 300]),
)
def test_formats_at_once_have_the_text_of_one(parts, raws, apart, count):
    """Of all specifiers, with flags, widths, lengths and precisions, and of texts behind the record."""
    format_ = parse_format("".join(f"{specifier}{piece}" for (specifier, _), piece in parts))
    types = [type_ for (_, type_), _ in parts]
    behind = tuple(far and isinstance(type_, String) for far, type_ in zip(apart, types, strict=False))
    layout = layout_of(types, behind)
    action = Action("printf", tuple(types), format_, behind=behind, layout=layout)
    records = records_of(layout, raws, b"abc\0" * sum(behind)) * count
    text, as_json = printers()
    each = [format_.apply(action.values(record), types, NAMES) for record in records]
    assert printed(text, action, records) == "".join(each)
    assert printed(as_json, action, records) == "".join([message("printf", quoted(one)) for one in each])


@settings(max_examples=150, deadline=None)
@given(TYPES, RAWS, st.sampled_from([1, 20, 300]))
def test_values_at_once_have_the_text_of_one(type_, raws, count):
    """Of tuples in tuples, and as JSON."""
    layout = layout_of([type_], (False,))
    action = Action("print", (type_,), behind=(False,), layout=layout)
    records = records_of(layout, raws) * count
    text, as_json = printers()
    values = [action.values(record)[0] for record in records]
    assert printed(text, action, records) == "".join([f"{type_.text(each, NAMES)}\n" for each in values])
    assert printed(as_json, action, records) == "".join(
        [message("value", plain(type_, each, NAMES)) for each in values]
    )


@pytest.mark.parametrize(
    ("type_", "is_kept"),
    [(MacAddress(), True), (KernelStack(3, ""), False), (Tuple((Boolean(), KernelStack(3, ""))), False)],
)
def test_names_that_may_change_are_looked_up_each_time(type_, is_kept):
    """A stack's number is that of another one later."""
    asked = []
    column = value_column(type_, lambda value: str(asked.append(value)))
    for _ in range(3):
        column.text(bytes(type_.storage.size))
    assert len(asked) == (1 if is_kept else 3)


def test_long_values_are_not_kept():
    """A thousand of them would take the memory that they no longer take in the buffer."""
    asked = []
    column = value_column(Buffer(4096), lambda value: str(asked.append(value)))
    for _ in range(3):
        column.text(bytes(4100))
    assert len(asked) == 3


@pytest.mark.parametrize("kind", [Printer, JsonPrinter])
def test_a_map_is_read_once_until_it_is_changed(kind):
    """All events were before, so that it has all of them. It is read again behind what clears it, and commands."""
    number = Number()
    actions = [
        Action("print_map", map="@x", numbers=(0, 0), layout=TupleType([U64])),
        Action("clear", map="@x", layout=TupleType([U64])),
        Action("print", (number,), behind=(False,), layout=layout_of([number], (False,))),
        Action("print_entry", (number,), map="@x", behind=(False,), layout=layout_of([number], (False,))),
    ]
    entries, reads = {7: 70, 8: 80}, []

    class Entries(Shown):
        name, key_type, value_type = "@x", number, number

        def _entries(self):
            reads.append(len(entries))
            return dict(entries)

        def absent(self):
            return 0

        clear = staticmethod(entries.clear)

    def record(action, value=0):
        layout = actions[action].layout
        return layout.encode((action, value)[: len(layout.fields)])

    events = SimpleNamespace(
        actions=actions,
        of=lambda raw: actions[raw[0]],
        action=lambda raw: (actions[raw[0]], actions[raw[0]].values(raw)),
    )
    printer = kind({"@x": Entries()}, NAMES, str, str, str)
    before = [record(0), record(2, 5), record(0), record(3, 7), record(3, 8), record(3, 7)]
    asked = [*before, record(1), record(0), record(3, 7)]
    text = "".join(printer.texts(events, asked))
    assert reads == [2, 2, 2, 0, 0]
    if kind is Printer:
        assert text == "@x[7]: 70\n@x[8]: 80\n5\n@x[7]: 70\n@x[8]: 80\n70\n80\n70\n0\n"
    else:
        assert [json.loads(line)["data"] for line in text.splitlines()] == [
            {"@x": {"7": 70, "8": 80}}, 5, {"@x": {"7": 70, "8": 80}}, 70, 80, 70, 0,
        ]  # fmt: skip
