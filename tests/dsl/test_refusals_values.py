"""Values: what their operators, attributes and comparisons mean."""

from __future__ import annotations

import pytest

from pyebpf.errors import CompileError
from tests.dsl.harness import build, message

#: Statements of a probe whose parameters are count, a u64, and delta, an s64; what stands before it in its file; the
#: message; what its carets stand under.
CASES = [
    (
        "counts[pid] += 1",
        "",
        "pid without its parentheses is no number",
        "counts[pid] += 1",
    ),
    (
        'x = f"{pid()}"',
        "",
        "a string can't be formatted on each event: emit a record with the values, and format in user space",
        'f"{pid()}"',
    ),
    (
        "x = [pid() for _ in count]",
        "",
        (
            "a comprehension over what only each event knows can't be built: write a `for` loop; count is a run-time "
            "variable since line 3, where it is a parameter"
        ),
        "[pid() for _ in count]",
    ),
    (
        "records[1].limit = 3",
        "",
        "records[k] may be missing: write records.get(k) and test it with `is None`",
        "records[1]",
    ),
    (
        "total = sum(counts.values())",
        "",
        "sum() can't go over a map on each event: write a `for` loop over it",
        "sum(counts.values())",
    ),
    (
        "keys = [key for key in counts]",
        "",
        "a comprehension over what only each event knows can't be built: write a `for` loop",
        "[key for key in counts]",
    ),
    (
        """
x = counts.get(3)
if x: pass
""",
        "",
        "the truth of counts.get(…) cannot tell None from 0: write `is None` or `is not None`",
        "x",
    ),
    (
        "x = counts.get(3) or 1",
        "",
        "the truth of counts.get(…) cannot tell None from 0: write `is None` or `is not None`",
        "counts.get(3)",
    ),
    (
        "x = not counts.get(3)",
        "",
        "the truth of counts.get(…) cannot tell None from 0: write `is None` or `is not None`",
        "counts.get(3)",
    ),
    (
        "while counts.get(3): pass",
        "",
        (
            "nothing shows that this `while` ends: write `for i in range(n):` with the most rounds there "
            "can be, and `if not …: break`"
        ),
        "counts.get(3)",
    ),
    (
        """
x = counts.get(3)
results[0] = x
""",
        "",
        "counts.get(…) may be None: test it with `is None` first, or give get() what stands in for it: .get(k, 0)",
        "results[0] = x",
    ),
    (
        "x = counts.get(3) + 1",
        "",
        "counts.get(…) may be None: test it with `is None` first, or give get() what stands in for it: .get(k, 0)",
        "counts.get(3) + 1",
    ),
    (
        """
x = records.get(3)
results[0] = x.limit
""",
        "",
        "the record Record (an entry of records) may be None: test it with `is None` first",
        "x.limit",
    ),
    (
        """
e = records.get(3)
if e is None: return
del records[3]
results[0] = e.limit
""",
        "",
        "the record Record (an entry of records) is used after `del` on records: copy what you need first",
        "e.limit",
    ),
    (
        'x = opens["a"]',
        "",
        "opens[k] may be missing: write opens.get(k) and test it with `is None`, or opens.get(k, 0)",
        'opens["a"]',
    ),
    (
        "x = table[count]",
        "",
        (
            "this index of the map table may lie outside 0 to 7: test it first, or write table.get(i) and "
            "test that with `is None`"
        ),
        "table[count]",
    ),
    ("x = table[8]", "", "index 8 is outside the map table, which has 8 entries", "table[8]"),
    ("x = count is count", "", "`is` asks for None only: compare values by ==", "count is count"),
    ("x = count is not delta", "", "`is` asks for None only: compare values by ==", "count is not delta"),
    ("x = count == None", "", "None is compared by `is None` or `is not None`, not by ==", "count == None"),
    ("x = delta is None", "", "an s64 is never None", "delta is None"),
    ("x = count.foo", "", "a u64 has no attribute foo: it has bit_length, bit_count", "count.foo"),
    ("x = u32.foo", "", "an IntType has no attribute foo", "u32.foo"),
    ("x = bpf.opns", "", "a Module has no attribute opns", "bpf.opns"),
    ("x = None.foo", "", "None has no attribute foo", "None.foo"),
    ("x = (1).bar", "", "an int has no attribute bar", "(1).bar"),
    ("x = (count, 1).bar", "", "a tuple has no attribute bar in a probe", "(count, 1).bar"),
    ("x = (count, 1) + (2,)", "", "tuples of run-time values have no operator +", "(count, 1) + (2,)"),
    (
        "x = 1 // 0",
        "",
        "computing this while compiling raised ZeroDivisionError: integer division or modulo by zero",
        "1 // 0",
    ),
    (
        'x = "a" + 1',
        "",
        'computing this while compiling raised TypeError: can only concatenate str (not "int") to str',
        '"a" + 1',
    ),
    ("x = [1, 2][7]", "", "computing this while compiling raised IndexError: list index out of range", "[1, 2][7]"),
    ("x = count / 2", "", "BPF has no fractions: write // for the quotient rounded down", "count / 2"),
    (
        "x = count ** delta",
        "",
        "x ** n takes an n from 0 to 63 that is known while compiling: write a product in a loop",
        "count ** delta",
    ),
    (
        "x = 3 ** count",
        "",
        "3 ** n with an n of each event: write 1 << n for a power of two, n being 0 to 63",
        "3 ** count",
    ),
    ("x = count @ 2", "", "there are no matrices here: write * for a product", "count @ 2"),
    (
        "x = count << 64",
        "",
        "shift by 64: a constant count is 0 to 63 (one that only each event knows is taken modulo 64)",
        "count << 64",
    ),
    (
        "x = count >> -1",
        "",
        "shift by -1: a constant count is 0 to 63 (one that only each event knows is taken modulo 64)",
        "count >> -1",
    ),
    ("x = count // 0", "", "a u64 // 0: nothing is divided by zero", "count // 0"),
    ("x = count % 0", "", "a u64 % 0: nothing is divided by zero", "count % 0"),
    (
        "x = count // delta",
        "",
        (
            "// of a u64 and an s64 that may be negative: write u64(x) to divide as unsigned, or s64(y) "
            "to divide as signed"
        ),
        "count // delta",
    ),
    ("x = -count", "", "-x of a u64 has no sign to change: write s64(x) first", "-count"),
    ("x = abs(count)", "", "abs(x) of a u64 has no sign to change: write s64(x) first", "abs(count)"),
    ("if count < 0: pass", "", "a u64 < 0 is never true: u64 holds 0 to 18446744073709551615", "count < 0"),
    ("if count == -1: pass", "", "a u64 == -1 is never true: u64 holds 0 to 18446744073709551615", "count == -1"),
    ("if pid: pass", "", "pid stands here without its parentheses: write pid()", "pid"),
    ("x = pid + 1", "", "pid stands here without its parentheses: write pid()", "pid + 1"),
    ("x = -now", "", "now stands here without its parentheses: write now()", "-now"),
    ("if now == 3: pass", "", "now stands here without its parentheses: write now()", "now == 3"),
    ("x = not comm", "", "comm stands here without its parentheses: write comm()", "comm"),
    ("opens.x = 3", "", "the map opens has no attribute x to assign to", "opens.x = 3"),
    (
        "opens.x += 3",
        "",
        "the map opens has no attribute x: it has get, add, pop, for_each, items, keys, values",
        "opens.x += 3",
    ),
    ('opens[comm()] += "a"', "", "'a' is no number", 'opens[comm()] += "a"'),
    *(
        (
            statement,
            "",
            (
                f"{literal} is a float, and BPF has integers only: multiply first, then divide by // (x * 3 // 2), or "
                "scale in user space"
            ),
            place,
        )
        for statement, literal, place in (
            ("x = count * 1.5", "1.5", "count * 1.5"),
            ("x = 1.5 + count", "1.5", "1.5 + count"),
            ("if count > 0.5: pass", "0.5", "count > 0.5"),
            ("opens[comm()] += 1.5", "1.5", "opens[comm()] += 1.5"),
        )
    ),
    ("x = u64(1.5)", "", "u64(1.5): give an integer", "u64(1.5)"),
    (
        'if count == "127.0.0.1": pass',
        "",
        "a u64 cannot be compared with '127.0.0.1' by ==: an IPv4 address is a number here, int(ip_address(…))",
        'count == "127.0.0.1"',
    ),
    (
        'if count == "1.2": pass',
        "",
        (
            "a u64 cannot be compared with '1.2' by ==: if it is the address of a text, compare user_string(…) or "
            "kernel_string(…) of it"
        ),
        'count == "1.2"',
    ),
    (
        "sizes[comm()] += 1",
        'sizes = bpf.counter(key=char[16], name="sizes")',
        "an entry of a counter sizes has no operator +: write .add(…) behind it, and read it in user space",
        "sizes[comm()] += 1",
    ),
    ("opens[3] += 1", "", "3 does not fit char[16]: give a str or bytes", "opens[3] += 1"),
    (
        "opens[comm()] *= 2",
        "",
        (
            "opens[k] is shared with other processors, and *= has no atomic form: use + - & | ^, or read "
            "it, compute, and assign"
        ),
        "opens[comm()] *= 2",
    ),
    ("opens[comm()] = -1", "", "-1 does not fit u64, which holds 0 to 18446744073709551615", "opens[comm()] = -1"),
    (
        "table[0] = 1 << 64",
        "",
        "18446744073709551616 does not fit u64, which holds 0 to 18446744073709551615",
        "table[0] = 1 << 64",
    ),
    (
        "bpf.x = 3",
        "",
        "bpf is a Python object: a probe runs in the kernel and can't assign to it; keep the value in a map",
        "bpf.x = 3",
    ),
    (
        "bpf.maps[0] = 3",
        "",
        "bpf.maps is a Python object: a probe runs in the kernel and can't assign to it; keep the value in a map",
        "bpf.maps[0] = 3",
    ),
    (
        "bpf.x += 3",
        "",
        "bpf is a Python object: a probe runs in the kernel and can't assign to it; keep the value in a map",
        "bpf.x",
    ),
    (
        "bpf.maps[0] += 3",
        "",
        "bpf.maps is a Python object: a probe runs in the kernel and can't assign to it; keep the value in a map",
        "bpf.maps[0]",
    ),
    (
        'x = Record(1, 2, "a") if count > 3 else Pair(1, 3)',
        "",
        (
            "the conditional expression gives the record Record on one path and the record Pair on "
            "another: write `if` with a statement for each"
        ),
        'Record(1, 2, "a") if count > 3 else Pair(1, 3)',
    ),
    (
        "x = opens if count > 3 else counts",
        "",
        (
            "the conditional expression gives the map opens on one path, which is known only while "
            "compiling: write `if` with a statement for each"
        ),
        "opens if count > 3 else counts",
    ),
    (
        "x = count if delta else -1",
        "",
        "the conditional expression gives a u64 on one path and -1 on another: write u64(…) or s64(…)",
        "count if delta else -1",
    ),
    (
        "x = count if delta else delta",
        "",
        "the conditional expression gives a u64 on one path and an s64 on another: write u64(…) or s64(…)",
        "count if delta else delta",
    ),
    (
        "x = delta if count else 1 << 63",
        "",
        "the conditional expression gives a number from 2**63 on, a u64, and an s64: write u64(…) or s64(…)",
        "delta if count else 1 << 63",
    ),
    (
        "x = delta or count",
        "",
        "`or` gives a u64 on one path and an s64 on another: write u64(…) or s64(…)",
        "delta or count",
    ),
    (
        'x = delta and "a"',
        "",
        "`and` gives 'a' on one path, which is known only while compiling: write `if` with a statement for each",
        'delta and "a"',
    ),
    (
        "x = records.get(1) and 3",
        "",
        "the truth of the record Record (an entry of records) may mean None: write `is None` or `is not None`",
        "records.get(1)",
    ),
    ("x = opens or delta", "", "the map opens is neither true nor false", "opens"),
    (
        "x = (1, 2)[count]",
        "",
        "this index may lie outside 0 to 1: test it first, if 0 <= i < 2, or mask it",
        "(1, 2)[count]",
    ),
    (
        "x = {1: 2}[count]",
        "",
        (
            "this key may be missing, and there are no exceptions in a probe: write .get(k), and test that with "
            "`is None`, or .get(k, default)"
        ),
        "{1: 2}[count]",
    ),
    (
        """
t = (delta, 3)
x = t[count]
""",
        "",
        "a tuple of 2 is indexed by a number known while compiling, not by a u64",
        "t[count]",
    ),
    (
        "x = 99999999999999999999999 + delta",
        "",
        "99999999999999999999999 does not fit 64 bits",
        "99999999999999999999999 + delta",
    ),
    ("results[0] = 1.5", "", "1.5 does not fit s64: give an integer", "results[0] = 1.5"),
    (
        'if comm() == "a name that is too long": pass',
        "",
        "'a name that is too long' can never stand in char[16]: at most 15 bytes, none of them NUL",
        'comm() == "a name that is too long"',
    ),
    (
        'x = comm() + "a"',
        "",
        (
            "comm() has no operator +: strings are not put together or taken apart in a probe: emit the "
            "pieces as fields of their own"
        ),
        'comm() + "a"',
    ),
    (
        'x = comm() < "a"',
        "",
        "the char[16] of a local has no operator <: strings are compared by == and !=",
        'comm() < "a"',
    ),
    (
        """
r = Record(1, 2, "a")
r.limt = 3
""",
        "",
        "Record has no field limt (did you mean limit?)",
        "r.limt = 3",
    ),
    (
        """
r = Record(1, 2, "a")
x = r.limt
""",
        "",
        "Record has no field limt (did you mean limit?)",
        "r.limt",
    ),
    ("if delta: results[0] = count in opens", "", "a u64 does not fit char[16]", "count in opens"),
    ("x = comm() or delta", "", "`or` as a value is for integers, and comm() is none: write `if`", "comm()"),
    ("x = delta or comm()", "", "`or` as a value is for integers, and comm() is none: write `if`", "comm()"),
    (
        "x = 3 if delta else comm",
        "",
        (
            "the conditional expression gives comm without its parentheses on one path, which is known only while "
            "compiling: write `if` with a statement for each"
        ),
        "3 if delta else comm",
    ),
]


@pytest.mark.parametrize(("body", "outside", "expected", "under"), CASES)
def test_refused(body: str, outside: str, expected: str, under: str) -> None:
    """What is outside the language is refused at its place, and the message says what to write."""
    with pytest.raises(CompileError) as caught:
        build(body, "count, delta", outside)
    assert message(caught.value) == (expected, under)
