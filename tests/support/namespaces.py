"""Network namespaces of the test's own, held by a process each, so that nothing is left when that ends."""

from __future__ import annotations

import contextlib
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Namespace:
    """A network namespace; `pid` is the process that holds it."""

    pid: int

    @property
    def path(self) -> str:
        """A file for setns(2), or for a descriptor that links to the namespace."""
        return f"/proc/{self.pid}/ns/net"

    def inside(self, *command: str) -> list[str]:
        """The command line that runs `command` in this namespace, for subprocess."""
        return ["nsenter", f"--net={self.path}", "--", *command]

    def run(self, *command: str) -> str:
        """Run a command to its end in this namespace and return its output; it must succeed."""
        return subprocess.run(
            self.inside(*command), check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        ).stdout

    def connect(self, other: Namespace, *, name: str = "veth0", network: str = "10.251.0") -> None:
        """Join two namespaces by a veth pair: `name` in both, addresses `.1` here and `.2` there, up."""
        link = ("ip", "link")
        self.run(*link, "add", name, "type", "veth", "peer", "name", name, "netns", str(other.pid))
        for end, address in ((self, 1), (other, 2)):
            end.run("ip", "address", "add", f"{network}.{address}/24", "dev", name)
            end.run(*link, "set", name, "up")


@contextlib.contextmanager
def namespace() -> Iterator[Namespace]:
    """A new network namespace with its loopback interface up."""
    own = Path("/proc/self/ns/net").readlink()
    holder = subprocess.Popen(
        ["unshare", "--net", "sleep", "infinity"], stdin=subprocess.DEVNULL, start_new_session=True
    )
    try:
        deadline = time.monotonic() + 30
        while Path(f"/proc/{holder.pid}/ns/net").readlink() == own:
            if holder.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("unshare --net made no network namespace")
            time.sleep(0.002)
        made = Namespace(holder.pid)
        made.run("ip", "link", "set", "lo", "up")
        yield made
    finally:
        holder.kill()
        holder.wait()
