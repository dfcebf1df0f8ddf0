"""The traceback of an error that nobody caught: the user's own frames, and this package's only when asked for.

An error of a probe or a map is about the line that uses it; thirty frames of a compiler below that line say nothing to
who wrote it. `PYEBPF_TRACEBACK=1` shows them. Only what is printed changes, and only where this package took part: the
hooks of `sys`, `threading` and IPython call those that were there before.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType, TracebackType

SETTING = "PYEBPF_TRACEBACK"
_PACKAGE = __name__.partition(".")[0]
#: Of the standard library, what stands between a user's line and this package: `with tool.open(): ...`.
_BETWEEN = {"contextlib", "functools", "importlib", "importlib._bootstrap", "importlib._bootstrap_external"}

_NOT_THE_USERS = sys.stdlib_module_names | {"construct", "pyroute2"}


def hide_own_frames(error: BaseException) -> None:
    """Take this package's frames out of an error's traceback, and causes that show nothing else; once it is caught."""
    if os.environ.get(SETTING):
        return
    shown = _hide(error, {})
    # Its own errors say all there is to say, and a missing key does. Of others it may be the package's fault.
    known = isinstance(error, (LookupError, KeyboardInterrupt))
    if shown and not known and type(error).__module__.partition(".")[0] != _PACKAGE:
        error.add_note(f"(in {_PACKAGE}: {SETTING}=1 in the environment shows where)")


def place_outside(error: BaseException) -> str:
    """FILE:LINE of the code, such as a tool's in a file, that this package called and that raised it; else empty."""
    place, called = "", False
    for traceback in _frames(error.__traceback__)[0]:
        frame = traceback.tb_frame
        # Code that this package writes as it runs has no module.
        if _is_own(frame) or "__name__" not in frame.f_globals:
            place, called = "", True
        elif called and str(frame.f_globals["__name__"]).partition(".")[0] not in _NOT_THE_USERS:
            place = f"{frame.f_code.co_filename}:{traceback.tb_lineno}"
    return place


def _hide(error: BaseException, hidden: dict[int, bool]) -> bool:
    """Whether the error was raised in this package. `hidden`, by identity: whether all of an error happened here."""
    hidden[id(error)] = False
    frames, inside = _frames(error.__traceback__)
    if any(_is_own(traceback.tb_frame) for traceback in frames):
        kept: list[TracebackType] = []
        for traceback in frames:
            if _is_own(traceback.tb_frame):
                while kept and kept[-1].tb_frame.f_globals.get("__name__") in _BETWEEN:
                    kept.pop()
            else:
                kept.append(traceback)
        following = None
        for traceback in reversed(kept):
            following = type(traceback)(following, traceback.tb_frame, traceback.tb_lasti, traceback.tb_lineno)
        error.__traceback__ = following
        hidden[id(error)] = following is None
    for other in (error.__cause__, error.__context__, *getattr(error, "exceptions", ())):
        if isinstance(other, BaseException) and id(other) not in hidden:
            _hide(other, hidden)
    _skip_hidden_causes(error, hidden)
    return inside


def _skip_hidden_causes(error: BaseException, hidden: Mapping[int, bool]) -> None:
    """Leave out causes that happened in this package: an OSError says less than what was made of it."""
    first = before = _shown_before(error)
    while before is not None and hidden.get(id(before), False):
        before = _shown_before(before)
    if before is not first:
        # The cause is as a rule the context, too.
        error.__cause__, error.__context__ = None, before
        error.__suppress_context__ = before is None


def _shown_before(error: BaseException) -> BaseException | None:
    """The exception that is printed before this one."""
    if error.__cause__ is not None:
        return error.__cause__
    return None if error.__suppress_context__ else error.__context__


def _frames(traceback: TracebackType | None) -> tuple[list[TracebackType], bool]:
    """The frames, outermost first, and whether the innermost is this package's."""
    found = []
    while traceback is not None:
        found.append(traceback)
        traceback = traceback.tb_next
    return found, bool(found) and _is_own(found[-1].tb_frame)


def _is_own(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__")
    return isinstance(name, str) and name.partition(".")[0] == _PACKAGE


def install() -> None:
    """Put the hooks in place, each once: again after `threading` was imported."""
    _install_in(sys)
    threading = sys.modules.get("threading")
    if threading is not None:
        _install_in_threads(threading)
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None and not shell.custom_exceptions:
        shell.set_custom_exc((Exception,), _show_in_ipython)


def _install_in(module: Any) -> None:
    before = module.excepthook
    if getattr(before, "__module__", "") == __name__:
        return

    def excepthook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        if error is not None:
            if traceback is not None:
                error.__traceback__ = traceback
            hide_own_frames(error)
            traceback = error.__traceback__
        before(kind, error, traceback)

    module.excepthook = excepthook


def _install_in_threads(threading: Any) -> None:
    before = threading.excepthook
    if getattr(before, "__module__", "") == __name__:
        return

    def excepthook(arguments: Any) -> None:
        if arguments.exc_value is not None:
            hide_own_frames(arguments.exc_value)
            error = arguments.exc_value
            arguments = threading.ExceptHookArgs((type(error), error, error.__traceback__, arguments.thread))
        before(arguments)

    threading.excepthook = excepthook


def _show_in_ipython(
    shell: Any, kind: type[BaseException], error: BaseException, _traceback: object, tb_offset: int | None = None
) -> None:
    hide_own_frames(error)
    shell.showtraceback((kind, error, error.__traceback__), tb_offset=tb_offset, running_compiled_code=True)
