"""What several files of these tests set up: a control group, two joined namespaces, a bpf file system."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyebpf.kernel.descriptor import Descriptor
from pyebpf.kernel.syscall import address_of, syscall
from tests.support.cgroups import cgroup
from tests.support.namespaces import namespace
from tests.support.traffic import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.cgroups import Cgroup
    from tests.support.namespaces import Namespace

FSCONFIG_CMD_CREATE = 6


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
def unmounted_bpffs() -> Iterator[Path]:
    """The path of a bpf file system that is mounted nowhere: it goes away with its descriptor."""
    name = bytearray(b"bpf\0")
    with Descriptor(syscall("fsopen", address_of(name), 1), "bpffs context") as context:
        syscall("fsconfig", context.fileno(), FSCONFIG_CMD_CREATE, 0, 0, 0)
        mount = Descriptor(syscall("fsmount", context.fileno(), 1, 0), "bpffs")
    with mount:
        yield Path(f"/proc/self/fd/{mount.fileno()}")
