"""Fuzzing: the corpus still holds, the search finds what is wrong, and its pieces do what they say."""

from __future__ import annotations

import random
import time
from functools import partial
from pathlib import Path

import pytest

from fuzz.choices import ByteRandom, Choices
from fuzz.coverage import Coverage
from fuzz.driver import EXECUTION_LIMIT, Search, read_corpus
from fuzz.mutation import MAX_BYTES, mutate
from fuzz.targets import NAMES, load
from tests.support.waiting import PATIENCE

CORPUS = Path(__file__).resolve().parents[2] / "fuzz" / "corpus"


@pytest.mark.parametrize("name", NAMES)
def test_every_input_of_the_corpus_holds(name):
    """Also those that broke something once (finding-…), each within the limit of time."""
    inputs = read_corpus(CORPUS / name)
    assert inputs, f"fuzz/corpus/{name} is empty: run `python -m fuzz.seed {name}`"
    target = load(name)
    for data in inputs:
        started = time.process_time()
        target.target(data)
        assert time.process_time() - started < EXECUTION_LIMIT


def test_every_target_says_its_property():
    for name in NAMES:
        target = load(name)
        assert len((target.target.__doc__ or "").strip()) > 40, name
        assert target.COVERS, name


def test_every_target_has_seeds():
    for name in NAMES:
        assert any(load(name).seeds()), name


def test_targets_and_corpora_are_the_same():
    assert sorted(path.name for path in CORPUS.iterdir()) == sorted(NAMES)


class Password:
    """Breaks at one word, letter by letter."""

    COVERS = ("tests/fuzz",)
    TEXT = False
    DICTIONARY = ()

    def target(self, data):
        """Never meets its word."""
        if data[:1] != b"e":
            return
        if data[1:2] != b"B":
            return
        if data[2:3] == b"P":
            raise ValueError("found")


def test_the_search_finds_a_word_by_the_ways_that_lead_to_it(tmp_path):
    """Three letters in a row are out of reach of chance alone; the finding is written down, made small."""
    search = Search("password", Password(), PATIENCE, seed=8, max_executions=20_000, findings_folder=tmp_path)
    search.run([b"some bytes to begin with"])
    assert search.executions == 20_000
    assert list(search.findings.values()) == [b"eBP"]
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"eBP"]


def test_coverage_counts_ways_and_not_executions():
    coverage = Coverage(["tests/fuzz"])
    target = Password()
    assert coverage.run(partial(target.target, b"x"))
    assert not coverage.run(partial(target.target, b"y"))
    assert coverage.run(partial(target.target, b"e"))


def test_mutations_are_bounded_and_the_same_for_a_seed():
    corpus = [b"one line\nanother 12", bytes(range(256)), b""]
    for text in (False, True):
        runs = []
        for _ in range(2):
            chance = random.Random(5)
            data, made = b"start", []
            for _ in range(307):
                data = mutate(data, chance, corpus, [b"word"], text=text)
                made.append(data)
            runs.append(made)
        assert runs[0] == runs[1]
        assert len(set(runs[0])) > 150
        assert max(map(len, runs[0])) <= MAX_BYTES


def test_choices_end_in_zeros():
    """So every generator ends when the bytes do."""
    choices = Choices(b"\x07\x01\x02")
    assert [choices.choose(n) for n in (5, 1000, 2, 1 << 20)] == [2, 513, 0, 0]
    drawn = ByteRandom(b"\x80\xff")
    assert (drawn.random(), drawn.getrandbits(4), drawn.random(), drawn.randrange(97)) == (0.5, 15, 0.0, 0)
