"""What several files of these tests set up: a control group, joined namespaces, network cards, a bpf file system."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyebpf.kernel.descriptor import Descriptor
from pyebpf.kernel.syscall import address_of, syscall
from tests.support.cgroups import cgroup
from tests.support.namespaces import namespace
from tests.support.needs import needs, unless
from tests.support.scsi_debug import scsi_debug_disk
from tests.support.traffic import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.cgroups import Cgroup
    from tests.support.namespaces import Namespace
    from tests.support.scsi_debug import ScsiDisk

FSCONFIG_CMD_CREATE = 6
#: Of the two network cards that tests/vm/devices.py has.
CARDS = ("52:54:00:00:00:01", "52:54:00:00:00:02")


@pytest.fixture
def group() -> Iterator[Cgroup]:
    """A control group of the test's own."""
    with cgroup() as made:
        yield made


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Namespace, Namespace]]:
    """Two namespaces, joined by a veth pair whose ends are called veth0: 10.251.0.1 and 10.251.0.2."""
    with namespace() as here, namespace() as there:
        connect(here, there)
        yield here, there


@pytest.fixture
def cards(machine_release: str | None) -> Iterator[tuple[Namespace, Namespace, str]]:
    """Two namespaces with one of a machine's two cards each, 10.252.0.1 and 10.252.0.2; the first card's name."""
    paths = Path("/sys/class/net").iterdir() if machine_release else ()  # a host's own cards are in use
    names = {(path / "address").read_text().strip(): path.name for path in paths if (path / "address").exists()}
    unless(set(CARDS) <= names.keys(), "device:nic")
    with namespace() as here, namespace() as there:
        for number, space in enumerate((here, there)):
            name = names[CARDS[number]]
            space.disable_ipv6()
            subprocess.run(["ip", "link", "set", name, "netns", str(space.pid)], check=True)  # it comes back by itself
            space.configure(
                f"address add 10.252.0.{number + 1}/24 dev {name}",
                f"link set {name} up",
                f"neighbour replace 10.252.0.{2 - number} lladdr {CARDS[1 - number]} dev {name} nud permanent",
            )
        yield here, there, names[CARDS[0]]


@pytest.fixture
def scsi_disk() -> Iterator[ScsiDisk]:
    """A disk that misbehaves on demand."""
    needs("module:scsi_debug", "module:sd_mod")
    with scsi_debug_disk() as disk:
        yield disk


@pytest.fixture
def unmounted_bpffs() -> Iterator[Path]:
    """The path of a bpf file system that is mounted nowhere: it goes away with its descriptor."""
    name = bytearray(b"bpf\0")
    with Descriptor(syscall("fsopen", address_of(name), 1), "bpffs context") as context:
        syscall("fsconfig", context.fileno(), FSCONFIG_CMD_CREATE, 0, 0, 0)
        mount = Descriptor(syscall("fsmount", context.fileno(), 1, 0), "bpffs")
    with mount:
        yield Path(f"/proc/self/fd/{mount.fileno()}")
