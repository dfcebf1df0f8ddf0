"""The parts of the virtual-machine harness that need no machine."""

from __future__ import annotations

import shutil
import stat
import subprocess
import sys

import pytest

from tests.vm import kernels, report
from tests.vm.initramfs import Archive
from tests.vm.kernels import KernelUnavailable


def test_the_newest_kernel_is_newest_by_number(monkeypatch, tmp_path):
    """117 comes after 99, and packages of symbols, unsigned kernels and other flavours are not kernels."""
    offered = (
        "linux-image-6.12.99+deb12-amd64 - Linux\n"
        "linux-image-6.12.117+deb12-amd64 - Linux\n"
        "linux-image-6.12.118+deb12-amd64-dbg - symbols\n"
        "linux-image-6.12.119+deb12-amd64-unsigned - unsigned\n"
        "linux-image-6.12.120+deb12-cloud-amd64 - cloud\n"
    )
    monkeypatch.setattr(kernels, "_output", lambda *_, **__: offered)
    for release in ("6.12.117+deb12-amd64", "6.12.120+deb12-cloud-amd64"):
        (tmp_path / release).mkdir()
    assert kernels.obtain("6.12", tmp_path).release == "6.12.117+deb12-amd64"
    assert kernels.obtain("6.12", tmp_path, flavour="cloud").release == "6.12.120+deb12-cloud-amd64"


def test_without_an_offer_the_cache_is_used(monkeypatch, tmp_path):
    """A kernel unpacked before serves when apt lists none; with neither, the error says what to do."""
    monkeypatch.setattr(kernels, "_output", lambda *_, **__: "")
    with pytest.raises(KernelUnavailable, match="apt-get update"):
        kernels.obtain("6.1", tmp_path)
    (tmp_path / "6.1.0-7-amd64").mkdir()
    (tmp_path / "6.12.3+deb12-amd64").mkdir()
    assert kernels.obtain("6.1", tmp_path).release == "6.1.0-7-amd64"


def test_another_program_reads_the_archive(tmp_path):
    """The program cpio unpacks directory, file and contents, of lengths that need padding and that need none."""
    program = [found for name in ("cpio", "busybox") if (found := shutil.which(name))]
    if not program:
        pytest.skip("neither cpio nor busybox is installed")
    command = [program[0], "cpio"] if program[0].endswith("busybox") else [program[0]]
    contents = {f"folder/file{size}": bytes(range(size)) for size in range(9)}
    archive = Archive()
    archive.directory("folder")
    for name, content in contents.items():
        archive.file(name, content)
    subprocess.run([*command, "-i", "--quiet"], cwd=tmp_path, input=archive.finish(), check=True)
    assert {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("f*/f*")} == contents
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o755


def test_the_report_counts_what_pytest_counted(tmp_path):
    """Passes, failures, errors of fixtures and skips come back with names and reasons."""
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.fixture\n"
        "def broken(): raise ValueError('no such device')\n"
        "@pytest.mark.parametrize('n', range(5))\n"
        "def test_good(n): pass\n"
        "def test_bad(): raise KeyError('what')\n"
        "def test_error(broken): pass\n"
        "def test_skip(): pytest.skip('the probe said no')\n"
    )
    junit = tmp_path / "junit.xml"
    options = ["-q", "-p", "no:cacheprovider", f"--junitxml={junit}", "--rootdir", str(tmp_path)]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "test_it.py"], cwd=tmp_path, capture_output=True, check=False
    )
    assert run.returncode == 1
    read = report.read(junit)
    assert str(read) == "5 passed, 2 failed, 1 skipped"
    assert [name.rpartition(":")[2] for name, _ in read.failures] == ["test_bad", "test_error"]
    assert "what" in read.failures[0][1]
    assert read.skips[0][1] == "the probe said no"
    assert str(read + read) == "10 passed, 4 failed, 2 skipped"
