"""Registry of emulated helpers: a function for each, named as the kernel's less `bpf_`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pyebpf.uapi.helpers import HELPER_IDS

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")

HELPERS: dict[int, Callable[..., Any]] = {}
"""By number: a function of the machine and the helper's arguments, giving R0 (None: nothing)."""


def emulates(*names: str) -> Callable[[F], F]:
    """List a function as the emulation of these helpers."""

    def add(function: F) -> F:
        for name in names:
            HELPERS[HELPER_IDS[name]] = function
        return function

    return add
