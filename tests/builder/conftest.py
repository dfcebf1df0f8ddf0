"""Small programs built by hand and run by the evaluator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.builder.harness import Probe

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def probe() -> Callable[[], Probe]:
    """Makes programs under construction."""
    return Probe
