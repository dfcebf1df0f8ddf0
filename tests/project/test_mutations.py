"""The list of changes that the tests are measured by still fits the source."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("pyebpf_mutate", ROOT / "tools" / "mutate.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_every_change_still_applies(tool):
    """The text to change stands in its file exactly once: edit tools/mutations.txt when the source changes."""
    mutations = tool.read_list(tool.LIST.read_text())
    assert tool.rotten(mutations) == []
    assert len(mutations) >= 200


def test_every_change_has_tests_that_exist(tool):
    mutations = tool.read_list(tool.LIST.read_text())
    assert {name for each in mutations for name in each.tests if not (ROOT / name).exists()} == set()
    assert all(each.tests for each in mutations)


def test_no_change_is_listed_twice(tool):
    mutations = [str(each) for each in tool.read_list(tool.LIST.read_text())]
    assert sorted({each for each in mutations if mutations.count(each) > 1}) == []


def test_a_line_that_changes_nothing_is_refused(tool):
    with pytest.raises(ValueError, match="no change"):
        tool.read_list("## a.py | tests\nx = 1 => x = 1\n")
