"""Errors that come of input which nobody can vouch for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.errors import PyebpfError

if TYPE_CHECKING:
    from collections.abc import Callable


def only_own_errors(
    ask: Callable[..., Any], *arguments: Any, kinds: type[Exception] | tuple[type[Exception], ...] = PyebpfError
) -> Any:
    """What `ask` answers, or the error that it raised, which is one of `kinds`."""
    try:
        return ask(*arguments)
    except kinds as error:
        return error
    except Exception as error:
        raise AssertionError(repr(error)) from error
