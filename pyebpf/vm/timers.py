"""Timers: started by programs, fired by the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.dataclass import dataclass

if TYPE_CHECKING:
    from pyebpf.vm.maps import VmMap


@dataclass(slots=True)
class Timer:
    """One struct bpf_timer, in the value of a map."""

    map: VmMap
    callback: int = 0
    due: int | None = None


class Timers:
    """All timers of a machine by their address."""

    def __init__(self) -> None:
        self._timers: dict[int, Timer] = {}

    def init(self, address: int, owner: VmMap) -> bool:
        """Whether there was none yet."""
        if address in self._timers:
            return False
        self._timers[address] = Timer(owner)
        return True

    def set_callback(self, address: int, callback: int) -> bool:
        """Whether the timer is initialised."""
        timer = self._timers.get(address)
        if timer is not None:
            timer.callback = callback
        return timer is not None

    def start(self, address: int, due: int) -> bool:
        """Whether the timer is initialised and has a callback."""
        timer = self._timers.get(address)
        if timer is None or not timer.callback:
            return False
        timer.due = due
        return True

    def cancel(self, address: int) -> bool | None:
        """Whether it was started; None for a timer that is not initialised."""
        timer = self._timers.get(address)
        if timer is None:
            return None
        started, timer.due = timer.due is not None, None
        return started

    def next_due(self) -> tuple[int, Timer] | None:
        """Address of the started timer that is due first, and itself; None if none is started."""
        started = [(timer.due, address, timer) for address, timer in self._timers.items() if timer.due is not None]
        if not started:
            return None
        _, address, timer = min(started, key=lambda each: each[:2])
        return address, timer
