"""Annotated locals that are only given constants: they have their type, as those that are given anything else."""

from __future__ import annotations

import pytest

from tests.dsl.test_meaning import results

LATER = "if count > 3:\n    x = 5\n    y = 5"


@pytest.mark.parametrize("later", ["", LATER], ids=["constants", "assigned later under a condition"])
def test_a_constant_has_the_type_of_its_local(later: str) -> None:
    """Arithmetic with a u64 wraps, with an s64 it doesn't, whatever follows."""
    body = f"""x: u64 = 5
y: s64 = 5
results[0] = 1 if x - 7 > 10 else 2
results[1] = 1 if y - 7 > 10 else 2
results[2] = 1 if u64(5) - 7 > 10 else 2
results[3] = x // 2 + (x << 1)
{later}"""
    assert results(body) == [1, 2, 1, 12]


def test_a_parameter() -> None:
    """Of an inlined function, given a constant and something else."""
    outside = "def less(x: u64, y):\n    return 1 if x - y > 10 else 2"
    assert results("results[0] = less(5, count + 2)", outside=outside + "\nfrom pyebpf.types import u64") == [1]


def test_where_it_counts() -> None:
    """Such a local is a bound, an index, a key, a shift and the end of a slice as before."""
    body = """n: u64 = 3
for i in range(n):
    results[i] = n << i
for j in range(n, 5):
    results[j] = 1
results[n + 3] = n
counts[n] = 7
results[7] = counts.get(n, 0)
results[8] = 1 if n else 2
results[9] = 3 if n == 3 and n in (1, 3) and -1 < n <= 3 else 4
x = n
x += count
results[10] = x
results[11] = len((1, 2, 4, 8)[:n])
results[12] = len((1, 2, 4, 8)[n:])"""
    assert results(body) == [3, 6, 12, 1, 1, 0, 3, 7, 1, 3, 8, 3, 1]
