"""What is known while compiling, what only each event knows, and what names mean."""

from __future__ import annotations

import pytest

from pyebpf.compiler.ir import Branch
from pyebpf.errors import InvalidValue, OnlyInProbe
from tests.language.harness import Case, message_of


def branches(case):
    """How many run-time decisions there are."""
    return sum(isinstance(block.terminator, Branch) for function in case.module.functions for block in function.blocks)


def test_an_if_on_what_is_known_keeps_one_branch():
    case = Case(
        "if limit is None or limit > 3:\n    out[0].r0 = 1\nelse:\n    out[0].r0 = nothing.at_all", "", "limit = 5"
    )
    assert branches(case) == 0
    assert case.evaluate()[0] == 1


def test_an_option_left_out_costs_nothing():
    """The instructions are those of the probe without the filter."""
    text = "if wanted is not None and w != wanted:\n    return\nout[0].r0 = 1"
    plain = Case("out[0].r0 = 1", "w").module.main
    assert Case(text, "w", "wanted = None").module.main.blocks[0].terminator == plain.blocks[0].terminator
    assert Case(text, "w", "wanted = 7").evaluate(w=7)[0] == 1
    assert Case(text, "w", "wanted = 7").evaluate(w=8)[0] == 0


def test_and_and_or_stop_where_the_answer_is_known():
    case = Case("if False and s > 0:\n    out[0].r0 = 1\nif True or s > 0:\n    out[0].r1 = 1", "s")
    assert branches(case) == 0
    assert case.evaluate()[:2] == [0, 1]


def test_a_local_assigned_only_known_values_outside_conditions_is_known():
    assert Case("x = 2\nx = x * 3\nfor p in unroll(range(x)):\n    out[0].r0 = p").evaluate()[0] == 5


def test_a_local_that_a_run_time_if_assigns_is_a_run_time_variable_everywhere():
    error = Case("x = 2\ny = (5, 6, 7)[x]\nif s > 0:\n    x = 1\nout[0].r0 = y", "s").refused()
    message, under = message_of(error)
    assert message == (
        "a Python tuple exists only while compiling, and the index only on each event: keep the values in a bpf.array; "
        "x is a run-time variable since line 6, where it is assigned under the run-time `if` of line 6"
    )
    assert (under, error.location.line) == ("(5, 6, 7)[x]", 5)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "x = 1\nfor j in range(3):\n    x += 1\nfor p in unroll(range(x)):\n    pass",
            "unroll() needs what is known while compiling, not a range with run-time ends; x is a run-time variable "
            "since line 5, where it is assigned in the run-time `for` of line 5",
        ),
        (
            "x = 1\nwhile x < 3:\n    x += 1\nfor p in unroll(range(x)):\n    pass",
            "unroll() needs what is known while compiling, not a range with run-time ends; x is a run-time variable "
            "since line 5, where it is assigned in the `while` of line 5",
        ),
        (
            "x = str(w)",
            "str() is Python's and runs while compiling, but a u32 is known only on each event; keep the number, and format "
            "it in user space; w is a run-time variable since line 3, where it is a parameter",
        ),
    ],
)
def test_a_run_time_value_where_a_known_one_is_needed_names_what_made_it_so(body, expected):
    assert message_of(Case(body, "w").refused())[0] == expected


def test_probes_made_in_a_loop_each_see_their_own_value():
    case = Case("out[0].r0 = 1")
    text = "made = []\nfor number in (3, 5, 7):\n    @bpf.raw_tracepoint('numbers')\n    def each():\n        out[0].r0 = number\n    made.append(each)\n"
    made = case.run_more(text)["made"]
    found = []
    for probe in made:
        case.probe = probe
        case.__dict__.pop("module", None)
        found.append(case.evaluate()[0])
    assert found == [3, 5, 7]


def test_a_name_bound_after_the_probe_is_looked_up_when_it_is_compiled():
    case = Case("out[0].r0 = later")
    case.run_more("later = 19\n")
    assert case.evaluate()[0] == 19


def test_a_captured_name_that_was_rebound_is_an_error():
    case = Case("out[0].r0 = limit", "", "limit = 5")
    case.run_more("limit = 6\n")
    message, under = message_of(case.refused())
    assert message == (
        "limit was 5 when the probe was made, and is 6 now: a probe keeps the value that it saw; give the other one "
        "another name"
    )
    assert under == "limit"


def test_an_unknown_name_is_an_error_with_the_closest():
    assert message_of(Case("out[0].r0 = countr", "", "counter = 5").refused()) == (
        "countr is not defined",
        "countr",
    )
    assert message_of(Case("limited = 5\nout[0].r0 = limted").refused()) == (
        "limted is not defined (did you mean limited?)",
        "limted",
    )


@pytest.mark.parametrize(
    ("body", "expected", "under"),
    [
        ("print(w)", "a probe can't print: emit a record to a ring buffer, `events.emit(Record(…))`, and print it in user space", "print(w)"),
        ("seen.append(w)", "seen.append() is plain Python: it would run while compiling, not on each event", "seen.append(w)"),
        ("sorted((1, 2))", "sorted() is plain Python: it would run while compiling, not on each event", "sorted((1, 2))"),
        ("w == 3", "this comparison has no effect: write `=` to assign", "w == 3"),
        ("w + 3", "this expression has no effect: assign it, or leave it out", "w + 3"),
        ("'text'\nout[0].r0 = 1\n'text'", "a string alone has no effect: write a comment, `# …`", "'text'"),
        ("...", "`...` has no meaning in a probe: write `pass`", "..."),
        ("seen[0] = w", "seen is a Python object: a probe runs in the kernel and can't assign to it; keep the value in a map", "seen[0] = w"),
        ("x = 1 / 0", "computing this while compiling raised ZeroDivisionError: division by zero", "1 / 0"),
        ("x = missing", "missing is not defined", "missing"),
        ("x = limit.bits", "an int has no attribute bits", "limit.bits"),
        ("global limit\nlimit = 5", "a global name can't be assigned by a probe, which runs in the kernel: keep the value in a map", "global limit"),
        ("limit += 5", "limit is assigned in this function, which makes it a local name, and has no value here: a probe can't assign to an outer name; keep the value in a map", "limit"),
        ("if w > 3:\n    x = 5\nout[0].r0 = x", "x is assigned on one path only (line 6): assign it on every path to here", "x"),
        ("for j in range(c):\n    x = j\nout[0].r0 = x", "x is assigned on one path only (line 6): assign it on every path to here", "x"),
        ("out[0].r0 = x\nx = 5", "x has no value here: assign it first", "x"),
        ("return 5", "a tracing probe returns nothing: write `return` alone, and keep values in maps or records", "5"),
        ("if pid == 5:\n    return", "pid stands here without its parentheses: write pid()", "pid == 5"),
        ("x = pid(3)", "pid(): too many positional arguments", "pid(3)"),
    ],
)  # fmt: skip
def test_refused(body, expected, under):
    case = Case(body, "w, c", "seen = []\nlimit = 5")
    assert message_of(case.refused()) == (expected, under)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("for j in range(u):\n    pass", "range() needs a bound that can be proved, of at most 4096 rounds: write range(min(n, 64)), or test n first"),
        ("for j in range(w):\n    pass", "range() needs a bound that can be proved, of at most 4096 rounds (here up to 4294967295 rounds): write range(min(n, 64)), or test n first"),
        ("for j in range(4097):\n    pass", "range() needs a bound that can be proved, of at most 4096 rounds (here up to 4097 rounds): write range(min(n, 64)), or test n first"),
        ("for j in range(0, 9, w):\n    pass", "the step of range() must be known while compiling"),
        ("for j in range(0, 9, 0):\n    pass", "the step of range() must not be zero"),
        ("for j in range(3):\n    pass\nelse:\n    pass", "`else` of a loop can't be used in a probe: note in a local whether the loop was left by `break`"),
        ("while True:\n    pass", "nothing shows that this `while` ends: write `for i in range(n):` with the most rounds there can be, and `if not …: break`"),
        ("while s:\n    s >>= 1", "nothing shows that this `while` ends: write `for i in range(n):` with the most rounds there can be, and `if not …: break`"),
        ("while u > 0:\n    u //= 10", "nothing shows that this `while` ends: write `for i in range(n):` with the most rounds there can be, and `if not …: break`"),
        ("while u != 3:\n    u >>= 1", "nothing shows that this `while` ends: write `for i in range(n):` with the most rounds there can be, and `if not …: break`"),
        ("for j in {1, 2}:\n    pass", "a set has no order, so the code would differ from run to run: use a tuple, or sorted(…)"),
        ("for j in counts:\n    pass", "the map counts can't be iterated over on each event: a `for` in a probe goes over range(…), or over a tuple, list or dict.items() known while compiling"),
        ("for j in unroll(range(5000)):\n    pass", "more than 4096 rounds can't be written out: use `for … in range(n)`"),
    ],
)  # fmt: skip
def test_loops_that_are_refused(body, expected):
    assert message_of(Case(body, "u, w, s", "", target="oldest").refused())[0] == expected


def test_a_loop_with_a_test_before_it_has_its_bound():
    case = Case("n = 0\nif w <= 100:\n    for j in range(w):\n        n += 1\nout[0].r0 = n", "w")
    assert case.evaluate(w=97)[0] == 97


def test_python_cannot_call_what_belongs_to_probes():
    case = Case("out[0].r0 = pid()")
    with pytest.raises(OnlyInProbe, match="probe is a probe: the kernel runs it on each event, Python can't call it"):
        case.probe()
    with pytest.raises(OnlyInProbe, match=r"pid\(\) has an answer only inside a probe"):
        case.names["pid"]()


def test_a_probe_is_a_plain_function():
    bpf = Case("pass").bpf
    with pytest.raises(InvalidValue, match="a probe can't wait, leave out `async`"):

        @bpf.raw_tracepoint("numbers")
        async def waits() -> None:
            """Wait."""


def test_decorators_stack_and_return_one_probe():
    case = Case("out[0].r0 = 1", targets='"numbers")\n@bpf.raw_tracepoint("more_numbers"')
    assert [str(request) for request in case.probe.requests] == [
        "@raw_tracepoint('more_numbers')",
        "@raw_tracepoint('numbers')",
    ]
    assert case.bpf.probes == [case.probe]
