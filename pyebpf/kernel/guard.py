"""The guard, seen from its owner: what no descriptor holds is removed by another process if this one is killed.

    removal = guard("event", path, "-:pyebpf_k3f9x2ab_probes/open")  # before the attachment is made
    ...                                                              # attach
    removal.perform()                                                # detach: removes it here and tells the guard

One guard serves a process. It starts with the first removal, ends with the last, and holds one end of a socket whose
other end dies with this process, however that dies.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

from pyebpf.errors import NotSupported
from pyebpf.kernel.descriptor import Descriptor
from pyebpf.kernel.owners import hold
from pyebpf.kernel.removals import REMOVALS

if TYPE_CHECKING:
    from collections.abc import Sequence

_CODE = "import sys; sys.path.insert(0, sys.argv[1]); from pyebpf.kernel.guard_process import main; main()"


class Removal:
    """One promise to remove something: kept by `perform`, or by the guard after this process's death."""

    def __init__(self, name: str, arguments: Sequence[str | int], descriptors: Sequence[int], owner: str) -> None:
        self.name = name
        self.owner = owner
        self.arguments = tuple(arguments)
        self.descriptors = tuple(descriptors)

    def perform(self) -> None:
        """Remove it now. A second call does nothing. Raises OSError."""
        if _state.holds(self):
            try:
                REMOVALS[self.name](*self.arguments, *self.descriptors)
            finally:
                self.forget()

    def forget(self) -> None:
        """Leave it as it is: it was never made, or is meant to stay."""
        _state.drop(self)


class _Guard:
    """The process, and the socket that ends with this one."""

    def __init__(self) -> None:
        if not sys.executable:
            raise NotSupported("this attachment needs a guard process, and sys.executable names no Python to run it")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket = ours
        self.descriptor = Descriptor(ours.fileno(), "socket to the guard process", ours.close)
        # -I and -S: no environment, no site-packages; the one directory that has pyebpf.
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        with theirs:
            try:
                self.process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", _CODE, root],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except BaseException:
                self.descriptor.close()
                raise

    def add(self, number: int, removal: Removal, lock: Descriptor | None) -> None:
        """Hand over a removal, with copies of its descriptors, and of its owner's lock."""
        message = {"add": number, "removal": removal.name, "arguments": removal.arguments, "locked": lock is not None}
        descriptors = [*removal.descriptors, *([lock.fileno()] if lock is not None else [])]
        socket.send_fds(self.socket, [json.dumps(message).encode()], descriptors)

    def drop(self, number: int) -> None:
        """Take a removal back."""
        with contextlib.suppress(OSError):  # someone killed it
            self.socket.send(json.dumps({"drop": number}).encode())

    def end(self) -> None:
        """End it: it has nothing left to do, and may be starting yet."""
        self.process.kill()
        self.process.wait()
        self.descriptor.close()


class _State:
    """Promises of this process, by number, and the guard for them."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.promises: dict[int, Removal] = {}
        self.locks: dict[str, Descriptor] = {}
        self.guard: _Guard | None = None
        self.last = 0

    def add(self, removal: Removal) -> None:
        with self.lock:
            if self.guard is None or self.guard.process.poll() is not None:
                self._start()
            assert self.guard is not None
            self.last += 1
            self.promises[self.last] = removal
            try:
                if removal.owner and removal.owner not in self.locks:
                    self.locks[removal.owner] = hold(removal.owner)
                self.guard.add(self.last, removal, self.locks.get(removal.owner))
            except BaseException:
                self.drop(removal)
                raise

    def _start(self) -> None:
        """Start a guard, and hand it what one that somebody killed had."""
        if self.guard is not None:
            self.guard.descriptor.close()
        self.guard = _Guard()
        for number, removal in self.promises.items():
            self.guard.add(number, removal, self.locks.get(removal.owner))

    def holds(self, removal: Removal) -> bool:
        return any(each is removal for each in self.promises.values())

    def drop(self, removal: Removal) -> None:
        with self.lock:
            for number in [number for number, each in self.promises.items() if each is removal]:
                del self.promises[number]
                assert self.guard is not None
                if self.promises:
                    self.guard.drop(number)
                else:
                    guard, self.guard = self.guard, None
                    guard.end()
            for owner in self.locks.keys() - {each.owner for each in self.promises.values()}:
                self.locks.pop(owner).close()

    def in_child(self) -> None:
        """After fork: the child owns nothing, and must not keep the guard waiting for its own death."""
        guard, self.guard = self.guard, None
        self.lock = threading.RLock()
        self.promises.clear()
        while self.locks:  # else the owner would count as alive as long as the child
            self.locks.popitem()[1].close()
        if guard is not None:
            guard.descriptor.close()
            guard.process.returncode = 0  # no child of this process: nothing to wait for


_state = _State()
os.register_at_fork(after_in_child=_state.in_child)


def guard(name: str, *arguments: str | int, descriptors: Sequence[int] = (), owner: str = "") -> Removal:
    """Promise a removal of `REMOVALS`, by its name, before what it removes is made.

    `arguments` are plain data (JSON's), followed by `descriptors`, which the guard gets copies of. `owner` is the token
    in the name of what is removed (`owner_of`): it counts as alive until the promise is kept. Raises NotSupported or
    OSError where no guard can be started: then nothing must be attached.
    """
    removal = Removal(name, arguments, descriptors, owner)
    _state.add(removal)
    return removal
