"""What the statements and expressions of the language do, told by the maps that a probe leaves behind."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from pyebpf.builder.drop_counters import DropCounters
from pyebpf.builder.values.entity import Entity
from pyebpf.compiler import compile_module
from pyebpf.module.program import build_program
from tests.differential.evaluation import Maps
from tests.dsl.fake_target import FakeTarget
from tests.dsl.harness import build, namespace, run

PID_TGID = 14


def outcome(body: str, count: int = 5, delta: int = -3, outside: str = "") -> dict[str, dict[Any, Any]]:
    """What a probe with this body leaves in the maps, array elements that are 0 left out."""
    names = namespace()
    inside = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    text = (
        f'{textwrap.dedent(outside)}\n@bpf.tracepoint("syscalls:sys_enter_openat")\ndef probe(count, '
        f"delta):\n{inside}\n"
    )
    made = run(text, names)["probe"]
    built = build_program(made.body, made.attachments[0], FakeTarget(), DropCounters(), "probe")
    compile_module(built.module, FakeTarget(), check=True)
    readable = ("results", "table", "counts", "signed", "records", "pairs")
    specs = {name: names[name].spec for name in readable} | built.maps
    maps = Maps({name: spec for name, spec in specs.items() if spec.key is not None})
    context = bytearray(96)
    context[32:40] = (count & (1 << 64) - 1).to_bytes(8, "little")
    context[48:56] = (delta & (1 << 64) - 1).to_bytes(8, "little")
    returned = maps.run(built.module, bytes(context), {PID_TGID: lambda _evaluator: 77 << 32 | 78})
    assert returned == 1
    found = {name: maps.read(name) for name in readable}
    return {name: {key: value for key, value in entries.items() if value} for name, entries in found.items()}


def results(body: str, count: int = 5, delta: int = -3, outside: str = "") -> list[int]:
    """What a probe leaves in `results`, up to the last number that is not 0."""
    found: dict[int, int] = outcome(body, count, delta, outside)["results"]
    return [found.get(number, 0) for number in range(max(found, default=-1) + 1)]


HELPER = """
def helper(x):
    if x > 3:
        return x * 10
    return 1
"""

#: Body, what stands before the probe, what it leaves in `results` where count is 5 (a u64) and delta -3 (an s64).
MEANINGS: list[tuple[str, str, list[int]]] = [
    # Assignment
    ("results[0] = count", "", [5]),
    ("a = b = delta\nresults[0] = a + b", "", [-6]),
    ("a, b = delta, 7\na, b = b, a\nresults[0], results[1] = a, b", "", [7, -3]),
    ("(a, (b, c)) = (1, (delta, 3))\nresults[0] = a + b + c", "", [1]),
    ("a = delta\na += 1\na *= 5\na <<= 2\na //= 3\nresults[0] = a", "", [-14]),
    ("x: u8 = delta\nresults[0] = x", "", [253]),
    ("x: u8 = delta\nx += 4\nresults[0] = x", "", [1]),
    ("x: s16 = count * 13107\nresults[0] = x", "", [-1]),
    ("x: u64 = delta\nresults[0] = x >> 60", "", [15]),
    ("x: bool = delta\nresults[0] = x", "", [1]),
    ("x: int = delta\nresults[0] = x", "", [-3]),
    ("if (n := delta * 2) < 0:\n    results[0] = n", "", [-6]),
    # Conditions
    ("results[0] = 1 if delta < 0 else 2", "", [1]),
    ("results[0] = count if delta > 0 else 9", "", [9]),
    ("if delta > 0:\n    results[0] = 1\nelif count == 5:\n    results[0] = 2\nelse:\n    results[0] = 3", "", [2]),
    ("if delta > 0 or count == 5 and not delta == 0:\n    results[0] = 1", "", [1]),
    ("results[0] = delta < 0\nresults[1] = delta > 0\nresults[2] = not delta", "", [1]),
    ("results[0] = -5 < delta < 0 < count", "", [1]),
    ("results[0] = 0 or delta\nresults[1] = count and 7\nresults[2] = delta and 0 or 4", "", [-3, 7, 4]),
    ("if count in (1, 5) and delta not in (1, 5):\n    results[0] = 1", "", [1]),
    ("if delta in range(-5, 0) and count not in range(5):\n    results[0] = 1", "", [1]),
    (
        "if count in range(delta, count):\n    results[0] = 1\nif delta in range(delta, count):\n    results[1] = 1",
        "",
        [0, 1],
    ),
    ("results[0] = min(delta, 7, count - 9)\nresults[1] = max(delta, 2)\nresults[2] = abs(delta)", "", [-3, 2, 3]),
    ("results[0] = bool(delta)\nresults[1] = int(count)", "", [1, 5]),
    ("match count:\n    case 4 | 5:\n        results[0] = 1\n    case 6:\n        results[0] = 2", "", [1]),
    ("match delta:\n    case -3 if count == 1:\n        results[0] = 1\n    case _:\n        results[0] = 2", "", [2]),
    ("match counts.get(1):\n    case None:\n        results[0] = 1", "", [1]),
    ("match 'compile' + ' time':\n    case 'compile time':\n        results[0] = 1", "", [1]),
    # Loops
    ("for i in range(4):\n    results[i] = i * i", "", [0, 1, 4, 9]),
    ("for i in range(4, -3, -3):\n    results[i & 7] = i", "", [0, 1, 0, 0, 4, 0, -2]),
    ("total = 0\nfor i in range(min(count, 10)):\n    total += i\nresults[0] = total", "", [10]),
    ("for i in range(9):\n    if i == 2: continue\n    if i == 4: break\n    results[i] = 1", "", [1, 1, 0, 1]),
    ("for i in range(9):\n    if i == 3: return\n    results[i] = 1", "", [1, 1, 1]),
    ("n = 5\nwhile n > 0:\n    n -= 1\n    if n == 3: continue\n    results[n] = 1", "", [1, 1, 1, 0, 1]),
    ("n = count\nwhile n:\n    n >>= 1\n    results[0] += 1", "", [3]),
    (
        "for i in range(3):\n    for j in range(3):\n        if j > i: break\n        results[i * 3 + j] = 1",
        "",
        [1, 0, 0, 1, 1, 0, 1, 1, 1],
    ),
    ("for name, n in {'a': 1, 'b': 2}.items():\n    results[n] = len(name)", "", [0, 1, 1]),
    ("for i in unroll(range(3)):\n    results[(1, 3, 5)[i]] = i + 1", "", [0, 1, 0, 2, 0, 3]),
    (
        "for x in (1, 2, 3):\n    if x == count - 3: continue\n    if x == count: break\n    results[x] = x",
        "",
        [0, 1, 0, 3],
    ),
    ("total = 0\nfor x in (1, 2, 3):\n    total += x\nresults[total] = 1", "", [0] * 6 + [1]),
    ("for i, x in enumerate((5, 6)):\n    results[i] = x", "", [5, 6]),
    ("x = 0\nfor i in range(3):\n    x = i\nresults[0] = x", "", [2]),
    ("for i in range(0):\n    results[0] = 1\nresults[1] = 1", "", [0, 1]),
    # Functions
    ("results[0] = helper(delta)\nresults[1] = helper(count)", HELPER, [1, 50]),
    ("results[0] = helper(x=delta)", HELPER, [1]),
    ("results[0] = helper(5)", HELPER + "\nassert helper(5) == 50", [50]),
    (
        "a, b = both(delta)\nresults[0], results[1] = a, b",
        "def both(x):\n    if x > 0:\n        return x, 1\n    return 1, x",
        [1, -3],
    ),
    ("bump(3)\nbump(4)", "def bump(i):\n    results[i] += 1", [0, 0, 0, 1, 1]),
    ("results[0] = twice(twice(delta))", "def twice(x): return x * 2", [-12]),
    ("results[0] = double(delta)", "double = lambda x: x * 2", [-6]),
    (
        "results[0] = first(delta)",
        "def first(x):\n    for i in (1, 2, 3):\n        if i + x == 0: return i\n    return 9",
        [3],
    ),
    (
        "results[0] = total(count)",
        "def total(n):\n    s = 0\n    for i in range(min(n, 9)): s += i\n    return s",
        [10],
    ),
    (
        "results[0] = sub(delta, 250)",
        "@bpf.subprogram\ndef sub(a: s64, b: u8) -> s32:\n    if a < 0: return a + b\n    return 0",
        [247],
    ),
    ("results[0] = sub(300) + sub(1)", "@bpf.subprogram\ndef sub(a: u8) -> u8:\n    return a + 255", [43]),
    ("note(7)", "@bpf.subprogram\ndef note(a: s64) -> None:\n    results[a & 7] = a", [0] * 7 + [7]),
    ("results[0] = LIMITS['open'] + delta", "LIMITS = {'open': 10}", [7]),
    ("results[0] = sum([n * 2 for n in LIMITS]) + delta", "LIMITS = (1, 2)", [3]),
    ("results[len(f'{LIMIT:04}')] = 1", "LIMIT = 5", [0, 0, 0, 0, 1]),
    ("results[0] = pid() + delta", "", [74]),
    ("results[0] = first(count)", "def first(x):\n    if x > 9: return 0\n    return x", [5]),
    ("results[0] = helper(*ARGUMENTS)", HELPER + "ARGUMENTS = (5,)", [50]),
    ("results[0] = helper(**OPTIONS) + delta", HELPER + "OPTIONS = {'x': 5}", [47]),
    (
        "results[0] = tool.scaled(delta)",
        "class Tool:\n    factor = 4\n    def scaled(self, x):\n        return x * self.factor\ntool = Tool()",
        [-12],
    ),
    ("results[0] = u64(0) - 1 > 5\nresults[1] = u64(3) >> 1", "", [1, 1]),
    (
        "results[0] = sub(delta, True)",
        "from __future__ import annotations\n@bpf.subprogram\ndef sub(a: 's64', b: bool) -> s64:\n    return a + b",
        [-2],
    ),
    ("nothing()\nresults[0] = 1", "def nothing():\n    if pid() == 1: return\n    results[1] = 2\n    return", [1, 2]),
    # Compile time
    ("if 1 in (1, 2) and LIMIT is None and None is LIMIT:\n    results[0] = 1", "LIMIT = None", [1]),
    ("x = delta > 0 and 3 > 2\nresults[0] = (1 < 2 < 3) + (3 < 2 < delta)", "", [1]),
    ("results[0] = (LIMIT and delta) or 4\nresults[1] = LIMIT or delta", "LIMIT = 0", [4, -3]),
    ("x: u8 = 5\nresults[x] = 1", "", [0] * 5 + [1]),
    ("x: u8 = 5\nif delta < 0:\n    x = 7\nresults[0] = x", "", [7]),
    ("x: u64\nx = delta\nresults[0] = x >> 63", "", [1]),
    ("for i in ROUNDS:\n    results[i] = i", "ROUNDS = range(1, 4)", [0, 1, 2, 3]),
    ("if delta < 0:\n    for n in (1, 2):\n        results[n] = 1\nresults[0] = 1", "", [1, 1, 1]),
    ("for x in (1, 2):\n    x += delta\n    results[0] += x", "", [-3]),
    ("t = (delta, 3)\nresults[0] = t[0] + t[-1] * len(t)", "", [3]),
    ("t = (delta, (count, 2))\nif delta > 0:\n    t = (1, (count, 3))\nresults[0] = t[1][1]", "", [2]),
    ("match delta < 0:\n    case True:\n        results[0] = 1", "", [1]),
    ("x = 1\nmatch x:\n    case True:\n        results[0] = 1\n    case 1:\n        results[0] = 2", "", [2]),
    ("match not delta:\n    case True:\n        results[0] = 1\n    case False:\n        results[0] = 2", "", [2]),
    ("x = Pair(1, 2)\nx = Pair(3, 4)\nresults[0] = x.low", "", [3]),
    ("n = 0\nwhile n < min(count, 3):\n    n += 1\nresults[0] = n", "", [3]),
    ("n = 0\nwhile n < LIMIT.most - 1 and n != count:\n    n += 1\nresults[0] = n", "class LIMIT: most = 5", [4]),
    ("n = 0\nwhile n != 4:\n    n += 1\nresults[0] = n", "", [4]),
    ("x = counts.get(1)\nif x is None:\n    return\nresults[0] = x or 3", "", []),
    ("if VERBOSE:\n    results[0] = missing_name\nelse:\n    results[0] = 2", "VERBOSE = False", [2]),
    ("if VERBOSE or delta > 0:\n    results[0] = 1", "VERBOSE = True", [1]),
    ("x = 3\nif VERBOSE:\n    x = 4\nfor i in unroll(range(x)):\n    results[i] = 1", "VERBOSE = True", [1, 1, 1, 1]),
    ("if has_field('struct sock', 'sk_cookie'):\n    results[0] = enum('TCP_LISTEN')", "", [10]),
    ("results[0] = 1 if has_enum('TCP_LISTEN') and not has_enum('TCP_MISSPELT') else enum('TCP_MISSPELT')", "", [1]),
    ("results[0] = 2**62 // 2**60 - 10**30 // 10**30", "", [3]),
    # Records
    ("r = Pair(low=delta, high=7)\nr.low += 1\nresults[0] = r.low * r.high", "", [-14]),
    (
        "r = Pair(5, 2)\nr.low += change(r)\nresults[0] = r.low",
        "def change(r):\n    r.low = pid()\n    return 1",
        [6],
    ),
    ("r = Pair(1, 2)\ns = r\ns.low = delta\nresults[0] = r.low", "", [-3]),
    (
        "r = Record(count, delta, 'abc')\nresults[0] = r.limit\nresults[1] = r.name == 'abc'\nresults[2] = len(r.name)",
        "",
        [4294967293, 1, 3],
    ),
    (
        (
            "records[1] = Record(1, 2, 'x')\ne = records.get(1)\nif e is not None:\n    e.limit += 5\n    "
            "results[0] = e.limit"
        ),
        "",
        [7],
    ),
    ("e = records.get(1)\nif e is None:\n    results[0] = 1\n    return\nresults[0] = e.limit", "", [1]),
]


@pytest.mark.parametrize(("body", "outside", "expected"), MEANINGS)
def test_meaning(body: str, outside: str, expected: list[int]) -> None:
    """The probe leaves in `results` what Python would."""
    assert results(body, outside=outside) == expected


def test_maps() -> None:
    """Counting, storing, inserting, removing, and asking."""
    body = """
    counts[1] += 2
    counts[1] += count
    counts[2] = 9
    counts[3] |= 6
    results[0] = counts.get(1, 0)
    results[1] = counts.get(4, 44)
    results[2] = counts.add(2, 1)
    results[3] = counts.add(5, 1)
    results[4] = 2 in counts
    del counts[2]
    del counts[99]
    results[5] = 2 not in counts
    found = counts.pop(3)
    if found is not None:
        results[6] = found
    table[count] += 3
    pairs[Pair(1, delta)] += 4
    signed[1] -= 5
    """
    found = outcome(body)
    assert found["counts"] == {1: 7, 5: 1}
    assert [found["results"].get(n, 0) for n in range(7)] == [7, 44, 0, 1, 1, 1, 6]
    assert found["table"] == {5: 3}
    assert [(key.low, key.high, value) for key, value in found["pairs"].items()] == [(1, -3, 4)]
    assert found["signed"] == {1: -5}


def test_what_control_cannot_reach_has_no_effect() -> None:
    """Statements behind a return, in either branch."""
    assert results("results[0] = 1\nreturn\nresults[0] = 2") == [1]
    assert results("if delta:\n    return\nelse:\n    results[0] = 1\nresults[1] = 2") == []


def test_short_circuits_evaluate_nothing_more() -> None:
    """A call on the right of `and` and `or` happens only where its value decides."""
    outside = "def bump(i):\n    results[i] += 1\n    return 1"
    assert results(
        "if delta > 0 and bump(0): pass\nif delta < 0 or bump(1): pass\nif delta < 0 and bump(2): pass", outside=outside
    ) == [0, 0, 1]
    assert results(
        "x = 0 < delta < bump(0)\ny = delta > 0 and bump(1)\nz = bump(2) if delta else bump(3)", outside=outside
    ) == [0, 0, 1]


def test_every_value_is_taken_before_any_name_is_bound() -> None:
    """A rotation of three."""
    assert results("a, b, c = delta, count + 0, 3\na, c = c, a\nresults[0], results[1] = a, c") == [3, -3]


class Guard(Entity):
    """Something to use with `with`: counts how often it was entered and left."""

    def __init__(self, results: Any) -> None:
        self.results = results

    def enter(self, p: Any) -> Any:
        self.results.augment_item(p, 14, "+", 1)
        return 7

    def leave(self, p: Any) -> None:
        self.results.augment_item(p, 15, "+", 1)


@pytest.mark.parametrize(
    "body",
    [
        "with guard: results[0] = 1",
        "with guard:\n    return",
        "with guard as seven:\n    if seven == 7 and delta < 0: return\n    results[0] = 1",
        "for i in range(5):\n    with guard:\n        if i == 1: continue\n        if i == 3: break",
        "for i in range(5):\n    with guard:\n        if i == 3: return",
        "for i in (1, 2, 3):\n    with guard:\n        if delta + i == 0: break\n        if delta < 0: continue",
        "with guard, guard:\n    inner()",
        "inner()\ninner()",
        "with guard:\n    for i in range(3):\n        if i == 1: break\n        inner()",
    ],
)
def test_with_is_left_on_every_way_out(body: str) -> None:
    """By its end, by `break`, `continue` and `return`, in loops of both kinds and inlined functions."""
    outside = """
    from tests.dsl.test_meaning import Guard
    guard = Guard(results)
    def inner():
        with guard:
            if pid() == 77: return 3
        return 4
    """
    found = outcome(body, outside=outside)["results"]
    assert found[14] == found[15] > 0


@pytest.mark.parametrize(
    "body",
    [
        'x = comm().startswith("a")\nsigned[1] = x',
        "x = counts.add(1, 2)\nsigned[1] = x + 1",
        "x: u8 = counts.add(1, 2)\nsigned[1] = x",
        "if (x := counts.add(1, 2)):\n    signed[1] = x",
    ],
)
def test_what_is_true_or_not_is_kept_in_a_name(body: str) -> None:
    """What a method answers by True or False is a number in a variable."""
    build(body)
