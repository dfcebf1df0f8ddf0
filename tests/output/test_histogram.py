"""Histograms: bucket bounds, and text laid out as bcc lays it out."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pyebpf.errors import InvalidValue
from pyebpf.output.histogram import Bucket, Histogram, linear, log2, log_linear


def test_log2_text_has_bccs_layout():
    """bcc: `%10d -> %-10d : %-8d |%-40s|` below a heading with the unit."""
    text = str(log2([2, 0, 13, 7, 0], unit="usecs"))
    assert text.split("\n") == [
        "     usecs               : count     distribution",
        "         0 -> 0          : 2        |******                                  |",
        "         1 -> 1          : 0        |                                        |",
        "         2 -> 3          : 13       |****************************************|",
        "         4 -> 7          : 7        |*********************                   |",
    ]


def test_values_beyond_32_bits_take_bccs_wide_layout():
    """bcc: `%20d -> %-20d : %-8d |%-20s|` once a bound has more than ten digits."""
    lines = list(log2([0] * 40 + [3], unit="nsecs").lines())
    assert lines[0] == "               nsecs                         : count     distribution"
    assert lines[-1] == "        549755813888 -> 1099511627775        : 3        |********************|"
    assert len(lines) == 2


def test_linear_text_has_bccs_layout():
    """bcc: `        %-10d : %-8d |%-40s|`."""
    assert str(linear([0, 4, 0, 1, 0], unit="CPU")).split("\n") == [
        "     CPU           : count     distribution",
        "        1          : 4        |****************************************|",
        "        2          : 0        |                                        |",
        "        3          : 1        |**********                              |",
    ]


def test_linear_steps_and_what_lies_outside_them_have_ranges():
    """A step above 1 prints ranges; values below and above the steps have rows of their own, if there are any."""
    rows = [line.split(" : ")[0].strip() for line in linear([1, 1], start=10, step=5, below=3, above=2).lines()]
    assert rows == ["value", "< 10", "10 -> 14", "15 -> 19", ">= 20"]
    assert [b.count for b in linear([1, 1], start=10, step=5).rows()] == [1, 1]


def test_negative_values_share_one_row_that_is_there_only_if_needed():
    """`< 0` stands before the row of zero."""
    lines = list(log2([1], negative=2).lines())
    assert lines[1] == "         < 0             : 2        |****************************************|"
    assert lines[2] == "         0 -> 0          : 1        |********************                    |"
    assert len(list(log2([1]).lines())) == 2


def test_an_empty_histogram_prints_nothing():
    """Neither rows nor a heading."""
    assert list(log2([0, 0, 0]).lines()) == []
    assert str(Histogram(())) == ""


def test_keys_stand_in_a_heading_line():
    """Text in quotes, numbers without, control characters escaped."""
    assert log2([1], labels={"disk": "vda"}).heading() == "disk = 'vda'"
    assert log2([1], labels={"disk": b"v\x1b", "flags": 7}).heading() == "disk = 'v\\x1b', flags = 7"
    assert str(log2([1], labels={"disk": "vda"})).startswith("disk = 'vda'\n     value  ")


def test_rows_begin_with_the_first_that_counted():
    """Empty rows before it would say nothing."""
    histogram = log_linear([0] * 21 + [5], bits=2)
    assert histogram.rows() == (Bucket(80, 95, 5),)
    assert log2([0, 0, 3, 0, 1, 0]).rows() == (Bucket(2, 3, 3), Bucket(4, 7, 0), Bucket(8, 15, 1))


def test_a_tuple_in_a_key_has_a_line_for_each_item():
    """The frames of a stack, say, below the other parts of the key."""
    assert log2([1], labels={"comm": "a", "stack": ("f\x1b", "g")}).heading() == "comm = 'a'\n\tf\\x1b\n\tg"
    assert log2([1], labels={"stack": ("f",)}).heading() == "\tf"


@given(st.integers(0, 2**64 - 1), st.integers(0, 5))
def test_every_value_is_in_the_log_linear_bucket_that_the_layout_gives_it(value, bits):
    """Index: the value itself below 2**bits; then power and leading bits."""
    top = value.bit_length() - 1
    index = value if value < 1 << bits else ((top - bits + 1) << bits) + (value >> (top - bits)) - (1 << bits)
    bucket = log_linear([0] * index + [1], bits=bits).rows()[-1]
    assert bucket.low <= value <= bucket.high


@given(st.integers(0, 2**64 - 1))
def test_every_value_is_in_the_log2_bucket_of_its_bit_length(value):
    """`counts[i]` is for values of i bits."""
    bucket = log2([0] * value.bit_length() + [1]).rows()[-1]
    assert bucket.low <= value <= bucket.high


counts = st.lists(st.integers(0, 2**64 - 1), max_size=65)


@given(
    st.one_of(
        st.builds(log2, counts, negative=st.integers(0, 2**64 - 1)),
        st.builds(
            linear, counts, start=st.integers(-(2**63), 2**63), step=st.integers(1, 2**32), above=st.integers(0, 99)
        ),
        st.builds(log_linear, counts, bits=st.integers(0, 5)),
    )
)
def test_no_line_is_wider_than_80_columns_and_the_most_counted_row_is_full(histogram):
    """Whatever the bounds and counts; and no bucket overlaps or leaves a gap."""
    lines = list(histogram.lines())
    assert all(len(line) <= 80 for line in lines)
    assert len({len(line) for line in lines[1:]}) <= 1
    assert not lines or any(" " not in line.partition("|")[2] for line in lines[1:])
    for one, other in zip(histogram.buckets, histogram.buckets[1:], strict=False):
        assert one.high + 1 == other.low
    assert histogram.total == sum(row.count for row in histogram.rows())


def test_a_step_below_1_and_a_negative_count_are_refused():
    """Both would be nonsense quietly printed."""
    with pytest.raises(InvalidValue, match="step of a linear histogram is at least 1, not 0"):
        linear([1], step=0)
    with pytest.raises(InvalidValue, match="less than 0 times"):
        log2([-1])
