"""A probe's own expressions change nothing outside: what would be changed once, at compile time, is refused."""

from __future__ import annotations

import pytest

from pyebpf.errors import CompileError
from tests.dsl.harness import build, message
from tests.dsl.test_meaning import results

OUTSIDE = """
import bisect, collections, decimal, functools, hashlib, heapq, io, itertools, operator, struct

rows, counter, generated = iter((1, 2, 3)), itertools.count(), (x for x in (1, 2))
memory = io.BytesIO(b"ab")
items, more, chosen = [1, 5], [[1], [2]], {1, 2}
missing, queue, buffer = collections.defaultdict(int), collections.deque([1, 2]), bytearray(b"ab")
tallied, found, large = collections.Counter([1]), {"a": [1]}, list(range(5000))

class Holder:
    rows = iter((1, 2))
    items = [1]
    @property
    def fresh(self): return iter((1, 2))
holder, held = Holder(), (iter((1, 2)), 3)

class Lazy(dict):
    def __missing__(self, key):
        self[key] = key * 2
        return self[key]
lazy = Lazy()

def note(x): return items.append(x)
def kept(values, x): return sum(v * x for v in values)
"""

USED = (
    "is an iterator, which is used up once, at compile time, not on each event: keep what it gives in a tuple, above "
    "the probe"
)
CALLED = "changes what it is called on, once, at compile time, not on each event: keep in a map what events change"
OUTER = "changes an outer object, once, at compile time, not on each event: keep in a map what events change"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("next(rows)", f"rows {USED}"),
        ("sum(rows)", f"rows {USED}"),
        ("2 in rows", f"rows {USED}"),
        ("any(x == 2 for x in rows)", f"rows {USED}"),
        ("any(x == count for x in rows)", f"rows {USED}"),
        ("sum([x for x in rows])", f"rows {USED}"),
        ("len([*rows])", f"rows {USED}"),
        ("len([*zip(rows, (1, 2))])", f"rows {USED}"),
        ("counter.__next__()", f"counter {USED}"),
        ("generated.send(None)", f"generated {USED}"),
        ("len(memory.read())", f"memory {USED}"),
        ("sum(holder.rows)", f"the attribute rows {USED}"),
        ("sum(x for x in holder.rows)", f"holder.rows {USED}"),
        ("len([[y for y in holder.rows] for x in (1, 2)])", f"holder.rows {USED}"),
        ("sum(held[0])", f"the element 0 {USED}"),
        ("len(operator.iadd(items, [3]))", f"this {OUTER}"),
        ("operator.setitem(items, 0, 9) or 1", f"this {OUTER}"),
        ("operator.delitem(items, 0) or 1", f"this {OUTER}"),
        ("len(functools.reduce(operator.iadd, more, items))", f"reduce() {OUTER}"),
        ("functools.partial(operator.setitem, items)(0, 9) or 1", f"this {OUTER}"),
        ("heapq.heappush(items, 4) or 1", f"heappush() {OUTER}"),
        ("bisect.insort(items, 4) or 1", f"insort_right() {OUTER}"),
        ("struct.pack_into('B', buffer, 0, 1) or 1", f"pack_into() {OUTER}"),
        ("len(items.__iadd__([7]))", f"__iadd__() {OUTER}"),
        ("len(chosen.__ior__({5}))", f"__ior__() {OUTER}"),
        ("missing['x']", f"this {OUTER}"),
        ("lazy[4]", f"this {OUTER}"),
        ("len([missing[x] for x in (1, 2)])", f"this {OUTER}"),
        ("len([heapq.heappush(items, x) for x in (1, 2)])", f"this {OUTER}"),
        ("len([operator.iadd(x, [3]) for x in more])", f"this {OUTER}"),
        ("len(operator.iadd(large, [3]))", f"this {OUTER}"),
        ("tallied.update([3]) or 1", f"update() {OUTER}"),
        ("items.__setitem__(0, 8) or 1", f"__setitem__() {CALLED}"),
        ("holder.__dict__.update(z=5) or 1", f"update() {CALLED}"),
        ("setattr(holder, 'z', 3) or 1", f"setattr() {CALLED}"),
        ("delattr(holder, 'z') or 1", f"delattr() {CALLED}"),
        ("object.__setattr__(holder, 'z', 3) or 1", f"__setattr__() {CALLED}"),
        ("list.append(items, 4) or 1", f"append() {CALLED}"),
        ("operator.methodcaller('append', 4)(items) or 1", f"append() {CALLED}"),
        ("len([*map(items.append, (1, 2))])", f"append() {CALLED}"),
        ("len([*map(functools.partial(setattr, holder, 'z'), (1, 2))])", f"setattr() {CALLED}"),
        ("len([setattr(holder, 'z', x) for x in (1, 2)])", f"setattr() {CALLED}"),
        ("found['a'].append(4) or 1", f"append() {CALLED}"),
        ("holder.items.append(4) or 1", f"append() {CALLED}"),
        ("hashlib.md5(b'').update(b'a') or 1", f"update() {CALLED}"),
    ],
)
def test_what_changes_an_outer_object_is_refused(source: str, expected: str) -> None:
    """The spelling does not matter."""
    with pytest.raises(CompileError) as caught:
        build(f"results[0] = {source}", "count", OUTSIDE)
    assert message(caught.value)[0] == expected


def test_a_local_iterator_is_not_used_on_some_events_only() -> None:
    """Which of two loops finds its elements is known at run time only."""
    body = "pairs = zip((1, 2), (3, 4))\nif count:\n    for a, b in pairs:\n        results[a] = b"
    with pytest.raises(CompileError, match="pairs is an iterator"):
        build(body, "count", OUTSIDE)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("results[0] = functools.reduce(operator.ior, (1, 2, 4))", 7),
        ("results[0] = operator.iadd(3, 4)", 7),
        ("results[0] = len(functools.reduce(operator.iadd, ((1,), (2,)), ()))", 2),
        ("results[0] = sum(x for x in holder.fresh) + len([*holder.fresh])", 5),
        ("for a, b in zip((1, 2), (3, 4)):\n    results[0] = results[0] + a * b", 11),
        ("pairs = zip((1, 2), (3, 4))\nfor a, b in pairs:\n    results[0] = results[0] + a * b", 11),
        ("results[0] = kept(reversed((1, 2)), count)", 15),
        ("results[0] = found.get('a')[0] + tallied[1] + len(large) + items[0] + (1 in missing)", 5003),
        ("results[0] = missing.get('x', 4) + len(missing)", 4),
        ("results[0] = int(decimal.Context().add(decimal.Decimal(3), decimal.Decimal(4)))", 7),
        ("results[0] = len(sorted(items, key=lambda x: -x)) + len(hashlib.md5(b'').hexdigest())", 34),
    ],
)
def test_what_changes_nothing_is_computed(body: str, expected: int) -> None:
    """Fresh iterators are used up where they are made; integers have no operator in place."""
    assert results(body, outside=OUTSIDE)[0] == expected
