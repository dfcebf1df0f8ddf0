"""Network namespaces of the test's own, held by a process each, so that nothing is left when that ends."""

from __future__ import annotations

import contextlib
import subprocess
from dataclasses import dataclass
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

    def configure(self, *commands: str) -> None:
        """Run these commands of ip(8) in this namespace, by one process: in a machine each takes long to start."""
        lines = "".join(f"{command}\n" for command in commands)
        subprocess.run(self.inside("ip", "-batch", "-"), check=True, input=lines, text=True)

    def disable_ipv6(self) -> None:
        """Nothing of IPv6 is sent in this namespace: no multicast, no search for neighbours or routers."""
        self.run("sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6")

    def connect(self, other: Namespace, *, name: str = "veth0", network: str = "10.251.0") -> None:
        """Join two namespaces by a veth pair: `name` in both, addresses `.1` here and `.2` there, up."""
        made = f"link add {name} type veth peer name {name} netns {other.pid}"
        self.configure(made, f"address add {network}.1/24 dev {name}", f"link set {name} up")
        other.configure(f"address add {network}.2/24 dev {name}", f"link set {name} up")


@contextlib.contextmanager
def namespace() -> Iterator[Namespace]:
    """A new network namespace with its loopback interface up."""
    holder = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec sleep infinity"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert holder.stdout is not None
        with holder.stdout as told:
            if told.readline() != "up\n":
                raise RuntimeError("unshare --net made no network namespace")
        yield Namespace(holder.pid)
    finally:
        holder.kill()
        holder.wait()
