"""Python that people expect to work: None, tables, functions inside a probe, sequences, methods, patterns."""

from __future__ import annotations

import ast
import re

import pytest

from tests.dsl.test_meaning import results

HELPERS = """
import collections, functools
from pyebpf.types import Struct, array, field, s8, s64, u8

Point = collections.namedtuple("Point", "x y")

class Account(Struct):
    a: s64
    b: s64
    arr: tuple = field(array(s64, 4), default=(1, 2, 3, 4))
    LIMIT = 7

    @property
    def total(self):
        return self.a + self.b

    def bump(self, by):
        self.a += by
        return self.a

    @staticmethod
    def twice(x):
        return x * 2

accounts = bpf.array(value=Account, size=4, name="accounts")

def add(a, b):
    return a + b

add5 = functools.partial(add, 5)

def pair(x):
    return Point(x, x + 1)

def ends(x):
    if x > 3:
        return x * 2

def bare(x):
    if x < 3:
        return
    return x * 2

def both(x):
    if x < 3:
        return None
    return x * 2, x

def looks(x):
    if x < 3:
        return None
    return counts.get(x)

def finds(x):
    if x < 3:
        return None
    return records.get(x)

def searches(x):
    for i in range(4):
        if i == x:
            return i

def narrow(x: u8):
    x += 1
    return x

def signed_result(x) -> s8:
    return x

K = (7, -9, 300)
BIG = [1, 2, 3, 1 << 63]
NAMES = ("tcp", "udp", "icmpv6", "x")
ROWS = ((1, "a"), (2, "bcd"))
POINTS = (Point(1, 2), Point(3, 4))
NEAR = {1: 10, 2: 20, 5: 50}
FAR = {6: 1, 17: 2, 132: 3, 70000: 1}
TEXTS = {6: "tcp", 17: "udp"}
RAW = b"abc"
"""

#: Bodies of probes; after each, what it leaves in `results`, where count is 5 (a u64) and delta -3 (an s64).
MEANINGS = """
best = None
for i in range(5):
    x = i * delta
    if best is None or x < best:
        best = x
if best is not None:
    results[0] = best
#> [-12]
both = (count, delta)
results[0] = max(both) * 100 + min((3, count, delta))
#> [497]
best = None
for i in range(5):
    x = i + count
    if best is None or x > best:
        best = x
if best is not None:
    results[0] = best
#> [9]
x = None
if count > 3:
    x = 7
results[0] = 1 if x is None else x
#> [7]
x = None
if count > 30:
    x = 7
results[0] = 1 if x is None else x
#> [1]
x = 3
if count > 3:
    x = None
if x is None:
    results[0] = 4
#> [4]
x = None
for i in range(3):
    x = count if x is None else None
if x is not None:
    results[0] = x
#> [5]
a = ends(count)
if a is not None:
    results[0] = a
if ends(delta) is None:
    results[1] = 4
#> [10, 4]
a = bare(count)
if a is not None:
    results[0] = a
if bare(delta) is None:
    results[1] = 4
#> [10, 4]
a = both(count)
if a is not None:
    results[0], results[1] = a
#> [10, 5]
counts[count] = 9
a = looks(count)
if a is not None:
    results[0] = a
if looks(4) is None:
    results[1] = 1
#> [9, 1]
records[count] = Record(at=3, limit=4, name='a')
a = finds(count)
if a is not None:
    results[0] = a.at
if finds(4) is None:
    results[1] = 1
#> [3, 1]
y = searches(count & 3)
if y is not None:
    results[0] = y
if searches(count) is None:
    results[1] = 2
#> [1, 2]
x = count if count > 3 else None
if x is not None:
    results[0] = x
#> [5]
for i in range(3):
    results[i] = K[i]
#> [7, -9, 300]
results[0] = BIG[count & 3]
results[1] = RAW[count & 1]
results[2] = s64(BIG[count & 1 | 2]) % 10
#> [2, 98, 2]
if NAMES[count & 3] == 'udp':
    results[0] = 4
#> [4]
a, b = ROWS[count & 1]
results[0] = a
if b == 'bcd':
    results[1] = 1
#> [2, 1]
p = POINTS[count & 1]
results[0] = p.y
results[1] = POINTS[-delta & 1].x
#> [4, 3]
x = NEAR.get(count)
if x is not None:
    results[0] = x
if NEAR.get(delta) is None:
    results[1] = 3
#> [50, 3]
results[0] = NEAR.get(count, 1)
results[1] = NEAR.get(count + 1, 7)
results[2] = NEAR.get(4, 9)
#> [50, 7, 9]
results[0] = NEAR.get(count - 1, 9)
results[1] = NEAR.get(delta & 3, 9)
#> [9, 10]
results[0] = FAR.get(count + 1, 0)
results[1] = FAR.get(count + 69995, 0)
results[2] = FAR.get(delta, 8)
#> [1, 1, 8]
if TEXTS.get(count + 1, 'other') == 'tcp':
    results[0] = 1
if TEXTS.get(count, 'other') == 'other':
    results[1] = 1
#> [1, 1]
x = 'abc' if count > 3 else 'longer text'
if x == 'abc':
    results[0] = 1
#> [1]
if ('a' if count > 30 else 'b') == 'b':
    results[0] = 1
#> [1]
n = NAMES[count & 3]
x = 65
if count > 3:
    x = n[0]
results[0] = x
results[1] = n[1] if count > 3 else 1
#> [117, 100]
f = lambda x: x + delta
results[0] = f(10)
#> [7]
def f(x, y=3):
    if x > 3:
        return x * y
    return y
results[0] = f(count)
results[1] = f(delta)
#> [15, 3]
k = 2
def f(x):
    return x * k
k = 4
results[0] = f(count)
#> [20]
def f(x):
    def g(y):
        return y + x
    return g(x)
results[0] = f(count)
#> [10]
results[0] = add5(count)
results[1] = add5(b=count)
#> [10, 10]
t = (count, 3)
results[0] = add(*t)
results[1] = add(*(1, 2))
#> [8, 3]
results[0] = narrow(count + 250)
results[1] = signed_result(count + 250)
#> [0, -1]
a = Account(a=1, b=delta)
results[0] = a.total
results[1] = a.bump(3)
results[2] = a.a
#> [-2, 4, 4]
a = Account(a=1, b=2)
results[0] = a.LIMIT
results[1] = a.twice(count)
#> [7, 10]
a = Account(a=1, b=2)
results[0] = a.arr[-1]
a.arr[-2] = 8
results[1] = a.arr[2]
#> [4, 8]
accounts[0].a = 5
accounts[1].a = 9
accounts[0], accounts[1] = accounts[1], accounts[0]
results[0] = accounts[0].a
results[1] = accounts[1].a
#> [9, 5]
results[0] = getattr(Account(a=1, b=2), 'b')
#> [2]
a = Account(a=1, b=2)
results[0] = sum(a.arr)
results[1] = sum(x for x in a.arr if x > count - 3)
#> [10, 7]
a = Account(a=1, b=2)
results[0] = any(x > 3 for x in a.arr)
results[1] = not all(x > 3 for x in a.arr)
#> [1, 1]
a = Account(a=1, b=2)
for i, x in enumerate(a.arr):
    results[i] = x * i
#> [0, 2, 6, 12]
a = Account(a=1, b=2)
for x in reversed(a.arr):
    results[0] = results[0] * 10 + x
#> [4321]
a = Account(a=1, b=2)
for x, y in zip(a.arr, (5, 6)):
    results[0] += x * y
#> [17]
a = Account(a=1, b=2)
for x in a.arr:
    a.arr[3] = 9
    results[0] = x
#> [9]
xs = [count * i for i in range(4)]
results[0] = sum(xs)
results[1] = xs[3]
#> [30, 15]
results[0] = any(count == k for k in (1, 5, 7))
results[1] = all([count == k for k in (1, 5)])
#> [1]
results[0] = sum((count, delta, 1))
#> [3]
for i, x in enumerate((count, 7), 1):
    results[i] = x
#> [0, 5, 7]
results[0] = sum(counts.get(k, 1) * j for k in range(3) for j in (1, 2))
#> [9]
if any((results[i] for i in range(3))):
    results[0] = 9
#> []
q, r = divmod(count, 3)
results[0], results[1] = q, r
results[2], results[3] = divmod(delta, 2)
#> [1, 2, -2, 1]
results[0] = delta ** 3
results[1] = count ** 2
results[2] = delta ** 0
results[3] = pow(delta, 2)
#> [-27, 25, 1, 9]
results[0] = 2 ** (count & 7)
#> [32]
results[0] = count.bit_length()
results[1] = delta.bit_length()
results[2] = (count - 5).bit_length()
#> [3, 2]
results[0] = (u64(1) << 63 | count).bit_length()
results[1] = count.bit_count()
#> [64, 2]
a, *rest = (count, 1, 2)
results[0] = a + rest[1]
*x, y = (1, 2, delta)
results[1] = y
results[2] = len(x)
#> [7, -3, 2]
match count:
    case 1:
        results[0] = 1
    case x:
        results[0] = x + 1
#> [6]
match count:
    case 1 | 5 as x if x > 3:
        results[0] = x
    case y:
        results[0] = 100
#> [5]
match (count, delta):
    case (5, d):
        results[0] = d
    case _:
        results[0] = 1
#> [-3]
match (count, 2, delta):
    case (5, *more):
        results[0] = more[1]
#> [-3]
p = Point(count, delta)
results[0] = p.x
q = pair(delta)
results[1] = q.y
a, b = q
results[2] = b
#> [5, -2, -2]
"""

CASES = [
    (body.strip(), ast.literal_eval(expected))
    for body, expected in re.findall(r"(.+?)\n#> (.+?)\n", MEANINGS, re.DOTALL)
]


@pytest.mark.parametrize(("body", "expected"), CASES, ids=[body for body, _ in CASES])
def test_it_means_what_python_means(body: str, expected: list[int]) -> None:
    """Each probe leaves what Python's own reading of it says."""
    assert results(body, outside=HELPERS) == expected
