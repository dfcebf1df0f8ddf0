"""The language reference keeps its word: examples pass the verifier, refusals are refused in its words."""

from __future__ import annotations

import linecache
import re
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyebpf import CompileError, VerifierError
from tests.support.needs import needs

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "language.md"
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
#: The compiler's words, and the verifier's.
LACKS = re.compile(r"has no helper bpf_(\w+) for ([\w ]+) programs|unknown func bpf_(\w+)")
TEXT = DOCUMENT.read_text(encoding="utf-8")
(PREAMBLE, _), *EXAMPLES = BLOCK.findall(TEXT)


def made(number, source):
    """Run an example; its BPF. Lines are counted from the example's own first."""
    names = {}
    for file, text in ((f"<preamble {number}>", PREAMBLE), (f"<example {number}>", source)):
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec", dont_inherit=True), names)
    return names["bpf"]


@contextmanager
def needed():
    """Ask for the helper that a refusal says this kernel lacks."""
    try:
        yield
    except (CompileError, VerifierError) as error:
        if lacking := LACKS.search(str(error)):
            needs(f"helper:{lacking[1] or lacking[3]}@{(lacking[2] or 'tracing').replace(' ', '_')}")
        raise


@pytest.mark.parametrize("number", [n for n, (_, refused) in enumerate(EXAMPLES) if not refused])
def test_examples_are_loaded(number):
    """The verifier accepts them, and each attaches."""
    with needed(), made(number, EXAMPLES[number][0]) as bpf:
        assert bpf.attachments


@pytest.mark.parametrize("number", [n for n, (_, refused) in enumerate(EXAMPLES) if refused])
def test_what_is_refused_is_refused_in_these_words(number):
    """Message, source and carets; the place before them is the file's."""
    source, expected = EXAMPLES[number]
    with pytest.raises(CompileError) as caught, needed():
        made(number, source).specs()
    assert re.fullmatch(rf"<example {number}>:\d+", str(caught.value.location))
    assert str(caught.value).partition(": ")[2] + "\n" == expected
