"""Detaching many links: in the reverse order of attaching, and with a word where the kernel takes its time."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pyebpf.runtime import loaded
from pyebpf.runtime.loaded import Loaded

pytestmark = pytest.mark.any_kernel


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.4, ["Detaching 2 more of 5 attachments: this kernel takes its time..."]), (0.2, [])]
)
def test_the_word_comes_once_after_a_second(monkeypatch, seconds, words):
    """Not for links that take less altogether."""
    now, detached, lines = [0.0], [], []
    monkeypatch.setattr(loaded, "monotonic", lambda: now[0])

    def detach(number):
        detached.append(number)
        now[0] += seconds

    made = Loaded(lines.append)
    program = SimpleNamespace()
    made._links = [(program, SimpleNamespace(detach=lambda number=number: detach(number))) for number in range(5)]
    made.close()
    assert detached == [4, 3, 2, 1, 0]
    assert lines == words
