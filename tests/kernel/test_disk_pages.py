"""The library examples on the pages of tools for disks run as they are copied, and print what a workload gives them."""

from __future__ import annotations

import contextlib

import pytest

from tests.support.loop import loop_device, sealed_loop_device
from tests.support.needs import needs
from tests.support.page_examples import check_example

#: Each tool, and something of the workload that its example prints.
PRINTED = {
    "biocpu": r"\{\d+: \d+",
    "bioerr": "Write 0 EIO",
    "biolatency": r"loop\d+ \d+",
    "biopattern": r"loop\d+ \d+ \d+ \d+ \d+",
    "biosnoop": r"Read \d+ \d+",
    "biostacks": r"blk_.*\d+",
    "biotop": r" read loop\d+ \d+ \d+ [\d.]+",
    "bitesize": r"\S \d+",
    "iosched": r"mq-deadline \d+",
    "seeksize": r"loop\d+ \d+",
}


@pytest.mark.any_kernel
@pytest.mark.parametrize("tool", PRINTED)
def test_the_library_example(tool, tmp_path):
    """It prints the workload's requests: event tools as they happen, summaries after it."""
    needs("setting:/dev/loop-control")

    def work():
        with loop_device(tmp_path / "disk") as disk, sealed_loop_device() as sealed:
            with disk.scheduler("mq-deadline"):
                disk.read(17)
            with contextlib.suppress(OSError):
                sealed.write(1)

    check_example(tool, work, PRINTED[tool])
