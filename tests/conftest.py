"""What every test gets: a check that it leaves nothing behind, and fixtures for devices and networks of its own."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.loop import LoopDevice
    from tests.support.namespaces import Namespace

# Emulated machines and shared processors make wall-clock deadlines meaningless.
hypothesis.settings.register_profile("default", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.register_profile("few", parent=hypothesis.settings.get_profile("ci"), max_examples=5)
hypothesis.settings.register_profile(
    "vm",
    parent=hypothesis.settings.get_profile("ci"),
    max_examples=20,  # code runs about ten times slower there
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
)
RELEASE_IN_MACHINE = "PYEBPF_VM"  # set by tests/vm to the release of the kernel that it started
hypothesis.settings.load_profile(
    "vm" if RELEASE_IN_MACHINE in os.environ else "ci" if "CI" in os.environ else "default"
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests under tests/kernel need bpf(2); a refusal, found by trying, is the only reason to skip them."""
    for item in items:
        if "kernel" in item.path.parts[-3:-1]:
            item.add_marker(pytest.mark.usefixtures("bpf_allowed"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what asks for hardware or modules (`machine`) that this kernel has not got."""
    for mark in item.iter_markers("machine"):
        from tests.support.needs import needs

        needs(*(f"module:{name}" for name in mark.kwargs.get("modules", ())))
        needs(*(f"device:{name}" for name in mark.kwargs.get("devices", ())))


@pytest.fixture(scope="session")
def _own_mounts() -> bool:
    """Whether all mounts that the tests see are their own; what they start has `MARK` in its environment."""
    from tests.support.session import MARK

    name, _, value = MARK.partition("=")
    os.environ[name] = value
    try:
        from tests.support.descriptors import leave_mount_namespace
    except ImportError:  # ctypes is blocked
        return False
    return os.geteuid() == 0 and leave_mount_namespace()


@pytest.fixture(autouse=True)
def _leaves_nothing_behind(_own_mounts: bool) -> Iterator[None]:
    """Every test closes what it opened, so a descriptor or mount that outlives it is a fault of the code it tests."""
    try:
        from tests.support.descriptors import leaked, mounts, open_descriptors
    except ImportError:  # ctypes is blocked: the run that proves the pure half needs none
        yield
        return
    before, mounted = open_descriptors(), mounts()
    yield
    left = [f"{number} -> {target}" for number, target in leaked(before, open_descriptors()).items()]
    if _own_mounts:  # else somebody else's are among them, and only root can mount anything
        left += mounts() - mounted
    if left:
        pytest.fail("left behind: " + ", ".join(left))


@pytest.fixture(scope="session")
def bpf_allowed() -> Iterator[None]:
    """Skip unless the kernel lets this process make a BPF map; in CI, see that all but others' are gone."""
    from tests.support.descriptors import loaded, of_others, why_bpf_is_refused
    from tests.support.session import MARK

    reason = why_bpf_is_refused()
    if reason is not None:
        pytest.skip(reason)
    alone = RELEASE_IN_MACHINE in os.environ or "CI" in os.environ
    before = loaded() if alone else set()
    yield
    deadline = time.monotonic() + 10  # the kernel frees programs and maps some time after their last user is gone
    while alone and (left := loaded() - before - of_others(MARK)):
        if time.monotonic() > deadline:
            pytest.fail(f"still in the kernel: {sorted(left)}")
        time.sleep(0.05)


@pytest.fixture(scope="session")
def machine_release() -> str | None:
    """The kernel release that tests/vm booted for this run; None on a real host."""
    return os.environ.get(RELEASE_IN_MACHINE)


@pytest.fixture
def make_loop_device(tmp_path: Path) -> Iterator[Callable[[], LoopDevice]]:
    """A function that makes loop devices over sparse files of 16 MiB; all are gone after the test."""
    from tests.support.loop import CONTROL, loop_device
    from tests.support.needs import needs

    needs(f"setting:{CONTROL}")
    with contextlib.ExitStack() as stack:
        numbers = iter(range(100))
        yield lambda: stack.enter_context(loop_device(tmp_path / f"disk{next(numbers)}"))


@pytest.fixture
def loop(make_loop_device: Callable[[], LoopDevice]) -> LoopDevice:
    """One loop device."""
    return make_loop_device()


@pytest.fixture
def make_namespace() -> Iterator[Callable[[], Namespace]]:
    """A function that makes network namespaces with loopback up; all are gone after the test."""
    from tests.support.namespaces import namespace

    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(namespace())
