"""Comparisons whose answer the type decides: an option may, a number that the probe writes is a mistake."""

from __future__ import annotations

import pytest

from pyebpf.errors import CompileError
from tests.dsl.test_meaning import results


def test_an_option_may_decide_a_comparison():
    """Its default above all, `elapsed >= options.least` of 0; a number that the probe itself writes is a mistake."""
    outside = "class O: pass\noptions = O()\noptions.least, options.most, options.none = 0, 1 << 64, -1\n"
    body = (
        "results[0] = 1 if count >= options.least else 2\n"
        "results[1] = 1 if count > options.most else 2\n"
        "results[2] = 1 if options.least <= count < options.most else 2\n"
        "results[3] = 1 if options.none == count else 2\n"
        "results[4] = 1 if not count < options.least else 2"
    )
    assert results(body, outside=outside) == [1, 2, 1, 2, 1]
    with pytest.raises(CompileError, match="always true"):
        results("results[0] = 1 if count >= 0 else 2", outside=outside)
