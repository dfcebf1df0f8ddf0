"""What is known at compile time, values known only at run time, and what names mean."""

from __future__ import annotations

import pytest

from pyebpf import BPF, u32, u64
from pyebpf.compiler.ir import Branch
from pyebpf.errors import CompileError, InvalidValue, OnlyInProbe
from tests.language.harness import Case, message_of

MODULE_COUNTS = BPF().hash(key=u32, value=u64)


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
    error = Case("x = 2\nfor y in unroll(range(x)):\n    out[0].r0 = y\nif s > 0:\n    x = 1", "s").refused()
    message, under = message_of(error)
    assert message == (
        "unroll() needs what is known at compile time, not a range with run-time ends; "
        "x is a run-time variable since line 7, where it is assigned under the run-time `if` of line 7"
    )
    assert (under, error.location.line) == ("unroll(range(x))", 5)


def test_probes_made_in_a_loop_each_see_their_own_value():
    case = Case("out[0].r0 = 1")
    text = """
made = []
for number in (3, 5, 7):
    @bpf.raw_tracepoint("numbers")
    def each():
        out[0].r0 = number
    made.append(each)
"""
    made = case.run_more(text)["made"]
    found = []
    for probe in made:
        case.probe = probe
        case.__dict__.pop("_built", None)
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
        "countr is not defined (did you mean counter or counts?)",
        "countr",
    )
    assert message_of(Case("limited = 5\nout[0].r0 = limted").refused()) == (
        "limted is not defined (did you mean limited?)",
        "limted",
    )
    assert message_of(Case("total = 5\ntotl += 1").refused())[0] == (
        "totl has no value here (did you mean total?): assign it first"
    )


def test_an_unknown_name_may_be_one_around_the_function():
    """A map that the probe misspells, and so does not use: of its module, of a function around it, or Python's own."""

    def declared(target):
        bpf = BPF()
        lookups = bpf.hash(key=u32, value=u64)

        @bpf.raw_tracepoint("sys_enter")
        def probe() -> None:
            if target == "lookupz":
                lookupz[1] += 1  # noqa: F821 - the mistake
            elif target == "MODULE_COUNTZ":
                MODULE_COUNTZ[1] = 2  # noqa: F821 - the mistake
            else:
                lenn("abc")  # noqa: F821 - the mistake

        assert lookups is not None
        return bpf

    for name, meant in {"lookupz": "lookups", "MODULE_COUNTZ": "MODULE_COUNTS", "lenn": "len"}.items():
        with pytest.raises(CompileError) as refused:
            declared(name).specs()
        assert refused.value.message == f"{name} is not defined (did you mean {meant}?)"


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


def test_a_kernels_name_that_python_keeps_for_itself_gets_an_underscore():
    """And one that is called ctx is `ctx_`, since `ctx` is the context."""
    body = "out[0].r0 = class_\nout[0].r1 = ctx_\nout[0].r2 = from_\nout[0].r3 = ctx.from_ + ctx.class_"
    case = Case(body, "ctx, class_, ctx_, from_", targets='"keywords"')
    assert case.evaluate(s=3, t=5, u=7)[:4] == [3, 5, 7, 10]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("s, ctx", "`ctx`, the context, is the first parameter; a kernel argument of that name is `ctx_`"),
        ("*s", "a probe's parameters are named one by one: leave out *s"),
        ("s=1", "a probe's parameters have no defaults: the kernel gives every argument"),
        ("ss", "raw tracepoint numbers has no argument ss"),
    ],
)
def test_parameters_that_are_refused(parameters, expected):
    assert message_of(Case("pass", parameters).refused())[0].partition(" (did")[0] == expected


def test_an_annotated_parameter_is_converted():
    case = Case("out[0].r0 = s\nout[0].r1 = u >> 1\nout[0].r2 = t", "s: s8, u: s64, t: u16")
    assert case.evaluate(s=200, u=(1 << 64) - 2, t=-1)[:3] == [-56, -1, 65535]


def test_ctx_target_is_a_string_known_while_compiling():
    case = Case("if ctx.target == 'numbers':\n    out[0].r0 = len(ctx.target)", "ctx")
    assert branches(case) == 0
    assert case.evaluate()[0] == len("numbers")


def test_the_context_cannot_be_written():
    expected = "the context of a raw tracepoint program cannot be written: s"
    assert message_of(Case("ctx.s = 5", "ctx").refused()) == (expected, "ctx.s = 5")


def test_with_number_iterators_a_loop_may_have_more_rounds():
    message, _ = message_of(Case(f"for j in range({(1 << 23) + 1}):\n    pass").refused())
    assert message.startswith(
        "range() needs a bound that can be proved, of at most 8388608 iterations (here up to 8388609"
    )


def test_a_function_called_with_known_values_is_run_by_python():
    """So it may do what no probe can."""
    outside = "def table_of(n):\n    return {str(i): i ** 2 for i in range(n)}"
    assert Case("out[0].r0 = table_of(12)['11'] + s", "s", outside).evaluate(s=-1)[0] == 120


def test_inlined_functions_have_locals_of_their_own():
    outside = "def f(x):\n    y = x + 1\n    x = 0\n    return y"
    assert Case("x = s\ny = 7\nz = f(x)\nout[0].r0 = x * 100 + y * 10 + z", "s", outside).evaluate(s=2)[0] == 273
