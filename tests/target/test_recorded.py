"""Facts recorded while asking, and a target that knows only those."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given, strategies as st

from pyebpf.errors import MalformedData, NotFound
from pyebpf.target import RecordedTarget, Recorder
from tests.support.errors import only_own_errors


def ask_everything(target):
    """An answer or the error's text for each kind of question."""
    queue = target.type_named("struct queue")
    questions = [
        lambda: target.arch,
        lambda: target.byteorder,
        lambda: target.page_size,
        lambda: target.possible_cpus,
        lambda: target.pid_namespace,
        lambda: queue,
        lambda: target.type_named("struct nothing"),
        lambda: [target.member(queue, name) for name in ("disk", "port", "mode", "state", "text", "counts", "call")],
        lambda: target.member(queue, "nothing"),
        lambda: target.member(target.raw_tracepoint("nvme_sq").parameters[0].type.element, "queue"),
        lambda: target.has_field("struct queue", "disk.name"),
        lambda: target.has_field("struct queue", "nothing"),
        lambda: target.struct_member("struct queue", "counts[0][1]"),
        lambda: target.enumerator("BUSY"),
        lambda: target.enum_of("BUSY"),
        lambda: target.enumerator("NVME_LIVE", "nvme_state"),
        lambda: target.enumerator("NOTHING"),
        lambda: target.function("submit"),
        lambda: target.raw_tracepoint("start"),
        lambda: target.raw_tracepoints("*s*"),
        lambda: target.tracepoint_format("block", "start"),
        lambda: target.tracepoints("block", "s*"),
        lambda: target.tracepoint_categories("b*"),
        lambda: target.has("isa:v4"),
        lambda: target.has("isa:v5"),
    ]
    answers = []
    for question in questions:
        try:
            answers.append(question())
        except NotFound as error:
            answers.append(str(error))
    return answers


def test_a_recording_answers_as_the_kernel_did(kernel):
    """Types, members, formats, features and refusals, through JSON and without."""
    recorder = Recorder(kernel)
    answers = ask_everything(recorder)
    assert answers == ask_everything(kernel)
    assert ask_everything(recorder.recorded()) == answers
    assert ask_everything(RecordedTarget.from_json(recorder.to_json())) == answers


def test_only_what_was_asked_is_written(kernel):
    recorder = Recorder(kernel)
    recorder.has("isa:v4")
    recorder.enumerator("BUSY")
    assert json.loads(recorder.to_json()) == {
        "version": 1,
        "facts": {"has isa:v4": {"answer": True}, "enumerator BUSY": {"answer": 5}},
    }


@pytest.mark.parametrize(
    ("ask", "fact"),
    [
        (lambda t: t.arch, "arch"),
        (lambda t: t.has("isa:v4"), "has isa:v4"),
        (lambda t: t.enumerator("X", "e"), "enumerator X e"),
        (lambda t: t.has_field("struct x", "y.z"), "has_field struct x y.z"),
        (lambda t: t.tracepoint_format("a", "b"), "tracepoint_format a b"),
    ],
)
def test_an_unknown_question_names_the_fact(ask, fact):
    with pytest.raises(NotFound, match=f"the fact '{fact}' was not recorded"):
        ask(RecordedTarget({}))


def test_the_order_of_questions_does_not_show(kernel):
    one, other = Recorder(kernel), Recorder(kernel)
    one.has("isa:v4"), one.enumerator("BUSY"), one.enumerator("IDLE")
    other.enumerator("IDLE"), other.enumerator("BUSY"), other.has("isa:v4")
    assert one.to_json() == other.to_json()


def test_the_text_does_not_depend_on_the_hash_seed():
    code = (
        "from pyebpf.btf import Btf, BtfBuilder\n"
        "from pyebpf.target import LiveTarget, Recorder\n"
        "b = BtfBuilder()\n"
        "i = b.add_int('int', 4)\n"
        "b.add_struct('s', 4, [(c, i, 0, 0) for c in 'abcdef'])\n"
        "r = Recorder(LiveTarget(btf=lambda: Btf(b.to_bytes())))\n"
        "s = r.type_named('struct s')\n"
        "for c in {'a', 'b', 'c', 'd', 'e', 'f'}: r.member(s, c)\n"
        "print(r.to_json())\n"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "no recorded facts of version 1"),
        ('{"version": 2, "facts": {}}', "no recorded facts of version 1"),
        ('{"version": 1, "facts": []}', "no recorded facts of version 1"),
        ('{"version": 1, "facts": {"arch": 7}}', "neither an answer nor missing"),
    ],
)
def test_text_that_holds_no_facts_is_refused(text, message):
    with pytest.raises(MalformedData, match=message):
        RecordedTarget.from_json(text)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(0, 99) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["kind", "size", "element", "type", "name", "fields"]), inner, max_size=3)
    ),
)


@given(PLAIN)
def test_a_garbled_answer_is_refused_by_name(plain):
    facts = {asked: {"answer": plain} for asked in ("member s#1 x", "type s", "function f", "tracepoint_format a b")}
    target = RecordedTarget(facts)
    for ask in (
        lambda: target.type_named("s"),
        lambda: target.function("f"),
        lambda: target.tracepoint_format("a", "b"),
    ):
        only_own_errors(ask)


#: Where in a recording, what stands there instead, and what is said of it.
GARBLED = [
    ("tracepoint_format block start", ("fields", 0, "offset"), "", ".fields[0].offset is the text '', not an integer"),
    ("tracepoint_format block start", ("fields", 0, "name"), None, ".fields[0].name is null, not a text"),
    ("tracepoint_format block start", ("fields", 0, "type"), 5, ".fields[0].type is the number 5, not a text"),
    ("tracepoint_format block start", ("fields", 0, "size"), [], ".fields[0].size is an array [], not an integer"),
    ("tracepoint_format block start", ("fields", 0, "size"), -1, ".fields[0].size is the number -1: sizes, offsets"),
    ("tracepoint_format block start", ("fields", 0, "signed"), 1, ".fields[0].signed is the number 1, not true or"),
    ("tracepoint_format block start", ("fields", 0, "more"), 1, ".fields[0] has no field 'more'"),
    ("raw_tracepoint start", ("parameters", 0, "type", "element"), "int", "element is the text 'int', not an object"),
    ("raw_tracepoint start", ("parameters", 0, "type", "kind"), "word", "kind is the text 'word', not 'void' or"),
    ("raw_tracepoint start", ("parameters",), 7, ".parameters is the number 7, not an array"),
    ("byteorder", (), "middle", " is the text 'middle', not 'little' or 'big'"),
    ("page_size", (), True, " is true, not an integer"),
    ("page_size", (), 1 << 70, " is the number 1180591620717411303424, which 64 bits do not hold"),
    ("pid_namespace", (), [1, 2, 3], " has 3 elements, not 2"),
]


@pytest.mark.parametrize(("asked", "path", "wrong", "expected"), GARBLED)
def test_facts_of_other_types_are_refused_by_name(kernel, asked, path, wrong, expected):
    """The error says which fact, and where in it, before anybody computes with it."""
    recorder = Recorder(kernel)
    ask_everything(recorder)
    stored = json.loads(recorder.to_json())
    place, keys = stored["facts"][asked], ("answer", *path)
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = wrong
    with pytest.raises(MalformedData) as caught:
        ask_everything(RecordedTarget.from_json(json.dumps(stored)))
    assert str(caught.value).startswith(f"the recorded fact {asked!r}")
    assert expected in str(caught.value)
