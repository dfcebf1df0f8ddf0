"""To a type checker a probe is an ordinary function over decoded types: mypy --strict over right and wrong uses."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

USES = Path(__file__).with_name("uses.py")
ROOT = Path(__file__).parents[2]

#: For each line marked as wrong: what mypy says of it.
MESSAGES = {
    "key": 'Invalid index type "int" for "HashMap[str, int]"; expected type "str"  [index]',
    "value": 'Incompatible types in assignment (expression has type "str", target has type "int")  [assignment]',
    "key of get": 'No overload variant of "get" of "KeyedMap" matches argument type "int"  [call-overload]',
    "may be None": 'Item "None" of "Lookup | None" has no attribute "started"  [union-attr]',
    "field's type": 'Unsupported operand types for + ("str" and "int")  [operator]',
    "no such field": '"Lookup" has no attribute "hosts"; maybe "host"?  [attr-defined]',
    "no such field of what is decoded": '"Lookup" has no attribute "ended"  [attr-defined]',
    "a value is missing": 'Missing positional argument "host" in call to "Lookup"  [call-arg]',
    "value's type": 'Argument "started" to "Lookup" has incompatible type "str"; expected "int"  [arg-type]',
    "another record": (
        'Argument 1 to "emit" of "RingBuffer" has incompatible type "Lookup"; expected "Drop"  [arg-type]'
    ),
    "key of an aggregation": 'Invalid index type "str" for "KeyedHistogram[int]"; expected type "int"  [index]',
    "called": '"Probe[[ptr[char], int], None]" not callable  [operator]',
    "argument of a subprogram": 'Argument 1 to "twice" has incompatible type "str"; expected "int"  [arg-type]',
    "no type": (
        'No overload variant of "hash" of "MapMethods" matches argument types "int", "type[int]"  [call-overload]'
    ),
    "one number for a tuple": (
        'Invalid index type "int" for "HashMap[tuple[Any, ...], Drop]"; expected type "tuple[Any, ...]"  [index]'
    ),
    "value under a tuple": (
        'Incompatible types in assignment (expression has type "str", target has type "int")  [assignment]'
    ),
    "no such parameter": 'Unexpected keyword argument "key" for "ringbuf" of "MapMethods"  [call-arg]',
    "argument is missing": 'Missing positional argument "pointer" in call to "user_string"  [call-arg]',
    "option": (
        'No overload variant of "__call__" of "OpenDecorator" matches argument types "str", "int"  [call-overload]'
    ),
    "header may be missing": 'Item "None" of "IPv4 | None" has no attribute "ttl"  [union-attr]',
    "returns nothing": (
        'Argument 1 to "__call__" of "VerdictDecorator" has incompatible type "Callable[[], None]"; '
        'expected "Callable[[], int]"  [arg-type]'
    ),
    "returns something": (
        'Argument 1 to "__call__" of "TracingDecorator" has incompatible type "Callable[[], int]"; '
        'expected "Callable[[], None]"  [arg-type]'
    ),
    "summaries are called": '"Snapshot[Count]" has no attribute "poll"  [attr-defined]',
    "option of a tool": 'No overload variant matches argument type "str"  [call-overload]',
}


@pytest.fixture(scope="module")
def errors() -> dict[int, list[str]]:
    """What mypy --strict says of the file, by line."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", str(USES)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[int, list[str]] = {}
    for line in done.stdout.splitlines():
        match = re.fullmatch(r".*uses\.py:(\d+): error: (.*)", line)
        if match:
            found.setdefault(int(match[1]), []).append(match[2])
    assert found, done.stdout + done.stderr
    return found


def marked() -> dict[int, str]:
    """Lines marked as wrong, with their marks."""
    lines = USES.read_text().splitlines()
    return {number: line.split("# wrong: ")[1] for number, line in enumerate(lines, 1) if "# wrong: " in line}


def test_right_uses_are_right_and_wrong_ones_wrong(errors: dict[int, list[str]]) -> None:
    """Exactly the marked lines have errors."""
    assert set(errors) == set(marked())


@pytest.mark.parametrize("mark", MESSAGES)
def test_each_mistake_is_named(mark: str, errors: dict[int, list[str]]) -> None:
    """The message names the mistake in the author's own words: the map's key, the record's field."""
    [line] = [number for number, found in marked().items() if found == mark]
    assert errors[line] == [MESSAGES[mark]]


def test_examples_of_the_docs_are_typed() -> None:
    """Those that say so, or that show types: mypy --strict has nothing to say of them."""
    files = [str(ROOT / "docs" / "examples" / name) for name in ("typed.py", "exporter.py")]
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "Success: no issues found in 2 source files\n"), done.stderr
