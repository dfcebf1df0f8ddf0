"""Errors about the scripts of specifications: told at the author's own words."""

from __future__ import annotations

import pytest

from pyebpf.bcc.places import of_probe, of_specification
from pyebpf.bcc.scripts import TraceOptions, distribution_script, trace_script
from pyebpf.bcc.specs import parse_distribution, parse_trace
from pyebpf.bpftrace.parser import parse
from pyebpf.errors import (
    CompileError,
    InvalidValue,
    Location,
    NotFound,
    NotSupported,
    VerifierError,
    without_decorators,
)

UNKNOWN = "is no builtin, and no constant of the kernel's"
MACRO = "; macros of C headers are not in BTF: write the number"
#: The specification, what the script's error is about, its message, the message that is told, and the word.
DISTRIBUTIONS = [
    ("t:block:done():u32:args->sectr", "args->sectr", "no field 'sectr'", "no field 'sectr'", "sectr"),
    ("p::f(struct sock *sk):u16:sk->a.b", "((struct sock *)arg0)->a.b", "no member 'b'", "no member 'b'", "b"),
    (
        "p:c:f(int size):int:sze",
        "sze",
        f"sze {UNKNOWN}",
        "sze is no parameter of f, and no constant of the kernel's (did you mean size?)",
        "sze",
    ),
    (
        "p:c:f():int:sze",
        "sze",
        f"sze {UNKNOWN}",
        "sze is nothing that f() names, and no constant of the kernel's",
        "sze",
    ),
    (
        "p:c:f():int:sze",
        "sze",
        f"sze {UNKNOWN}; f has no argument sze",
        "f has no argument sze",
        "sze",
    ),
    (
        "p:c:f(int size):int:sze",
        "sze",
        f"sze {UNKNOWN}; f has no debugging information",
        "sze is no parameter of f, and no constant of the kernel's (did you mean size?)",
        "sze",
    ),
    (
        "r:c:f():int:size",
        "size",
        f"size {UNKNOWN}; args are gone when a function returns",
        "size is gone when the function returns: $entry(size)",
        "size",
    ),
    (
        "r:c:f():int:retvall",
        "retvall",
        f"retvall {UNKNOWN}; args are gone when a function returns",
        "retvall is gone when the function returns: $entry(retvall) (did you mean retval?)",
        "retvall",
    ),
    (
        "p::f(size_t n, gfp_t flags):u64:n:flags&GFP_ATOMIC",
        "GFP_ATOMIC",
        f"GFP_ATOMIC {UNKNOWN}",
        f"GFP_ATOMIC is no parameter of f, and no constant of the kernel's{MACRO}",
        "GFP_ATOMIC",
    ),
    ("t:a:b():u32:$COMM", "comm", "a string", "a string", "$COMM"),
    ("p:c:f(int x):int:foo(x)", "foo(((int)arg0))", "there is no function", "there is no function", "foo"),
    ("p:c:f(int fd, int x):int:x", "((int)arg1)", "no such thing", "no such thing", "x"),
    ("p:c:f():int:arg2", "arg1", "gone", "gone", "arg2"),
    ("u:c:f():int:arg12", "arg11", "gone", "gone", "arg12"),
    ("r:c:f(int fd):int:$entry(fd)", "((int)arg0)", "gone", "gone", "fd"),
]


#: Specifications of trace whose scripts do not parse: the beginning of the message, and the place.
UNPARSED = [
    ('t:a:b (args->flags == ) "%s", args->filename', "a value is expected here", ') "%s'),
    ('t:a:b "%d %d", args->dfd, ? 3', "a value is expected here", "? 3"),
    ('t:a:b "%d", args->dfd +', "a value is expected here", "d +"),
    ('r:a:f (retval ? 3) "%d", $latency', "`:` is expected", ') "%d'),
    ('t:a:b "%d", ? 3', "a value is expected here", "? 3"),
    ('t:a:b (1 ? 2) "%d", 3', "`:` is expected", ') "%d'),
]


def error_at(script: str, words: str, message: str) -> CompileError:
    """The error of a script about the last place that has these words."""
    lines = script.splitlines()
    number = next(number for number, line in enumerate(lines) if words in line)
    column = lines[number].rindex(words)
    return CompileError(message, Location("<argdist>", number + 1, column, column + len(words), lines[number]))


@pytest.mark.parametrize(("text", "words", "message", "told", "word"), DISTRIBUTIONS)
def test_an_error_is_told_at_the_authors_word(text: str, words: str, message: str, told: str, word: str) -> None:
    """The specification stands below the message, with a caret at the word, behind the signature where it is there."""
    spec = parse_distribution(text)
    found = of_specification(error_at(distribution_script([("count", spec)]), words, message), [spec])
    place = text.index(word, text.index(")"))
    assert str(found) == f"{told}\n    {text}\n    {' ' * place}^"


@pytest.mark.parametrize(("text", "told", "place"), UNPARSED)
def test_an_error_about_an_operator_is_told_behind_the_word_before_it(text: str, told: str, place: str) -> None:
    """Nothing of the script is shown, which is not the author's; of several specifications that of the line."""
    others = [parse_trace('r:a:b (STRCMP("$entry", $retval)) "%d", $pid'), parse_trace('a:f "%d", arg2')]
    specs = [others[0], parse_trace(text), others[1]]
    with pytest.raises(CompileError) as caught:
        parse(trace_script(specs, TraceOptions()), "<trace>")
    message, shown, caret = str(of_specification(caught.value, specs)).split("\n")
    assert message.startswith(told)
    assert shown == f"    {text}"
    assert caret == f"    {' ' * text.index(place)}^"


def test_the_specification_with_the_word_is_told() -> None:
    """Of several at one place, and of trace."""
    specs = [parse_trace('c:open "%d", arg1'), parse_trace('c:open "%d", argz')]
    error = error_at(trace_script(specs, TraceOptions()), "argz", "no")
    assert str(of_specification(error, specs)) == 'no\n    c:open "%d", argz\n                 ^'


@pytest.mark.parametrize(
    ("message", "place"),
    [
        ("the kernel's BTF has no function '__kmalloc' (did you mean __kmalloc_noprof?)", "__kmalloc("),
        ("there is no library or program nosuch; a path names any file", "nosuch:"),
        ("c has no function gone", "gone()"),
    ],
)
def test_an_error_about_a_probe_is_told_at_its_name(message: str, place: str) -> None:
    """Or at its file; one that names neither stays as it is."""
    specs = [parse_distribution(text) for text in ("p::__kmalloc(u64 n):u64:n", "p:nosuch:f()", "r:c:gone()")]
    spec = next(each for each in specs if place in each.text)
    assert str(of_probe(NotFound(message), specs)) == f"{message}\n    {spec.text}\n    {' ' * spec.text.index(place)}^"
    assert of_probe(NotFound("the verifier refuses all of it"), specs) is None


def test_an_error_about_an_address_names_no_option_of_scripts() -> None:
    """These commands have none that allows it."""
    spec = parse_trace("5")
    message = "a kprobe at an address may stand anywhere: allow it by --unsafe, or Script(unsafe=True)"
    found = of_specification(error_at(trace_script([spec], TraceOptions()), "kprobe:5", message), [spec])
    told = "a kprobe at an address may stand anywhere: a script may, by pyebpf -e with --unsafe"
    assert str(found) == f"{told}\n    5\n    ^"


def test_an_error_about_a_probe_has_no_words_of_decorators() -> None:
    """Nor options that these commands have not."""
    spec = parse_trace("p:c:m*")
    error = NotSupported("@uprobe('c', 'm*') on uprobe_m: no candidate works here: no uprobes")
    error.of_tool = "c, m* cannot be traced: no uprobes"
    assert str(of_probe(error, [spec])) == "c, m* cannot be traced: no uprobes\n    p:c:m*\n        ^"
    many = InvalidValue(
        "m* matches 2000 functions of c, more than 1000: narrow it, or allow more with max_probes=2000 (--max-probes)"
    )
    assert without_decorators(many) == "m* matches 2000 functions of c, more than 1000: narrow it"


def test_what_the_verifier_refuses_is_told_at_the_authors_word() -> None:
    """As what the compiler refuses."""
    spec = parse_distribution("p:c:f(int x):int:x")
    place = error_at(distribution_script([("count", spec)]), "((int)arg0)", "").location
    found = of_specification(VerifierError("R1 is no pointer", location=place), [spec])
    assert str(found) == f"R1 is no pointer\n    {spec.text}\n    {' ' * (len(spec.text) - 1)}^"


def test_an_error_about_nothing_that_was_given_stays_as_it_is() -> None:
    """Neither a place in no specification, nor no place."""
    spec = parse_distribution("p:c:f():int:arg1")
    script = distribution_script([("count", spec)], pid=5)
    assert of_specification(error_at(script, "print_maps_on_exit", "no"), [spec]) is None
    assert of_specification(CompileError("no"), [spec]) is None
