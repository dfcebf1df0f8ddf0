"""Events of trace chosen by their messages."""

from __future__ import annotations

from pyebpf.bcc.messages import Messages

HEADING = "PID FUNC -\n"
EVENTS = ["1 f \x1fa\n", "2 a \x1fb\n", "3 f \x1fa b\n", "4 f \x1fc\n", "5 f \x1fa\n"]
STACK = "\n        read+1\n        a+2\n\n"


def test_an_event_is_shown_where_its_message_has_the_text() -> None:
    """Not where another column has it; the heading is shown, the mark is not."""
    assert Messages("a").shown(HEADING + "".join(EVENTS)) == HEADING + "1 f a\n3 f a b\n5 f a\n"


def test_stacks_are_shown_with_their_event() -> None:
    """In one text with it or in the next; what they have is no message."""
    messages = Messages("a")
    assert messages.shown(HEADING + EVENTS[1]) == HEADING
    assert messages.shown(STACK + EVENTS[0]) == "1 f a\n"
    assert messages.shown(STACK + EVENTS[3] + STACK) == STACK


def test_shown_events_are_counted() -> None:
    """The last one's stack is still shown, and nothing behind it."""
    messages = Messages("a", 2)
    assert messages.shown("".join(EVENTS[:2])) == "1 f a\n"
    assert not messages.is_over
    assert messages.shown(EVENTS[2] + STACK + EVENTS[3] + EVENTS[4] + STACK) == "3 f a b\n" + STACK
    assert messages.is_over
