"""Names of signals."""

from __future__ import annotations

import signal


def signal_name(number: int) -> str:
    """A signal's name, "SIGKILL"; of a real-time signal "SIGRTMIN+3", of what is none the number."""
    if signal.SIGRTMIN < number < signal.SIGRTMAX:
        return f"SIGRTMIN+{number - signal.SIGRTMIN}"
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
