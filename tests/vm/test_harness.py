"""The parts of the virtual-machine harness that need no machine."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import stat
import struct
import subprocess
import sys
import time
from pathlib import Path
from threading import Event, Timer

import pytest

from tests.support.needs import needs
from tests.vm import __main__ as command, devices, kernels, machine, plan, report, root, shards, table
from tests.vm.initramfs import Archive, Share, Task, build
from tests.vm.kernels import Kernel, KernelUnavailable
from tests.vm.plan import Wishes
from tests.vm.platforms import PLATFORMS

CHECKOUT = Path(__file__).resolve().parents[2]


def offer(monkeypatch, names):
    """Let the suite's apt list these packages."""
    monkeypatch.setattr(kernels._Suite, "_update", lambda _: None)
    listing = "".join(f"{name} - Linux\n" for name in names)
    monkeypatch.setattr(kernels._Suite, "_apt", lambda *_, **__: listing)


def test_the_newest_kernel_is_newest_by_number(monkeypatch, tmp_path):
    """117 comes after 99, and packages of symbols, unsigned kernels and other flavours are not kernels."""
    offer(
        monkeypatch,
        [
            "linux-image-6.12.99+deb12-amd64",
            "linux-image-6.12.117+deb12-amd64",
            "linux-image-6.12.118+deb12-amd64-dbg",
            "linux-image-6.12.119+deb12-amd64-unsigned",
            "linux-image-6.12.120+deb12-cloud-amd64",
            "linux-image-6.12.121+deb12-arm64",
            "linux-image-6.12.122+deb12-arm64-16k",
        ],
    )
    wanted = {
        ("", "amd64"): "6.12.117+deb12-amd64",
        ("cloud", "amd64"): "6.12.120+deb12-cloud-amd64",
        ("", "arm64"): "6.12.121+deb12-arm64",
        ("16k", "arm64"): "6.12.122+deb12-arm64-16k",
    }
    for release in wanted.values():
        (tmp_path / release).mkdir()
    for (flavour, architecture), release in wanted.items():
        assert kernels.obtain("6.12", tmp_path, flavour=flavour, architecture=architecture).release == release


def test_without_an_offer_the_cache_is_used(monkeypatch, tmp_path):
    """A kernel unpacked before serves when apt lists none, or cannot; with neither, the error says what to do."""
    offer(monkeypatch, [])
    with pytest.raises(KernelUnavailable, match=r"no kernel 6\.1 for amd64 in Debian's bookworm; an unpacked package"):
        kernels.obtain("6.1", tmp_path)

    def fail(*_, **__):
        raise KernelUnavailable("`apt-get update` failed: no network")

    monkeypatch.setattr(kernels._Suite, "_update", fail)
    with pytest.raises(KernelUnavailable, match=r"bookworm: `apt-get update` failed: no network; an"):
        kernels.obtain("6.1", tmp_path)
    (tmp_path / "6.1.0-7-amd64").mkdir()
    (tmp_path / "6.12.3+deb12-amd64").mkdir()
    assert kernels.obtain("6.1", tmp_path).release == "6.1.0-7-amd64"


def test_a_kernel_in_three_packages_is_unpacked_as_one(monkeypatch, tmp_path):
    """Since 7.x image and modules lie in /usr/lib: boot/vmlinuz and lib/modules are there all the same."""
    release = "7.3.4+deb13-amd64"
    offer(monkeypatch, [f"linux-{part}-{release}" for part in ("base", "binary", "modules")])
    unpack = kernels._output

    def run(program, *arguments, cwd=None):
        if program == "dpkg":
            modules = Path(arguments[-1], "usr/lib/modules", release)
            modules.mkdir(parents=True)
            (modules / "vmlinuz").write_text("image")
            return ""
        return unpack(program, *arguments, cwd=cwd)

    def apt(_, *arguments, cwd=None):
        if cwd is not None:
            Path(cwd, "linux.deb").touch()
        return f"linux-image-{release} - Linux\n"

    monkeypatch.setattr(kernels, "_output", run)
    monkeypatch.setattr(kernels._Suite, "_apt", apt)
    kernel = kernels.obtain("7.3", tmp_path)
    assert kernel.image.read_text() == "image"
    assert (kernel.folder / "lib/modules" / release / "modules.dep").exists()


def test_another_program_reads_the_archive(tmp_path):
    """The program cpio unpacks directory, file and contents, of lengths that need padding and that need none."""
    program = [found for name in ("cpio", "busybox") if (found := shutil.which(name))]
    if not program:
        needs("command:busybox")
    command = [program[0], "cpio"] if program[0].endswith("busybox") else [program[0]]
    contents = {f"folder/file{size}": bytes(range(size)) for size in range(9)}
    archive = Archive()
    archive.directory("folder")
    for name, content in contents.items():
        archive.file(name, content)
    subprocess.run([*command, "-i", "--quiet"], cwd=tmp_path, input=archive.finish(), check=True)
    assert {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("f*/f*")} == contents
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o755


TESTS = (
    "import pytest, time\n"
    "@pytest.fixture\n"
    "def broken(): raise ValueError('no such device')\n"
    "@pytest.mark.parametrize('n', range(5))\n"
    "def test_good(n): pass\n"
    "@pytest.mark.xfail(strict=True)\n"
    "def test_expected(): raise KeyError\n"
    "def test_bad(): raise KeyError('what')\n"
    "def test_error(broken): pass\n"
    "def test_skip(): pytest.skip('probe isa:sdiv: no')\n"
    "def test_excuse(): pytest.skip('not today')\n"
    "@pytest.mark.any_kernel\n"
    "@pytest.mark.machine(modules=('sch_fq', 'veth'), devices=('nvme',))\n"
    "def test_slow(): time.sleep(60)\n"
)


def run_pytest(tmp_path, *options):
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  any_kernel\n  machine\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.vm.record", *options]
    return subprocess.run(
        [*command, f"--rootdir={tmp_path}", tmp_path / "test_it.py"], cwd=CHECKOUT, capture_output=True, check=False
    )


def test_the_report_counts_what_pytest_counted(tmp_path):
    """Passes, failures, errors of fixtures, tests that took too long, and skips come back with names and reasons."""
    record = tmp_path / "record"
    assert run_pytest(tmp_path, "--record", str(record), "--test-limit=1").returncode == 1
    read = report.read(record)
    assert read.kernel == os.uname().release
    assert str(read) == "6 passed, 4 failed, 1 skipped"
    told = {test.id.partition("::")[2]: test.reason for test in read.failures}
    assert list(told) == ["test_bad", "test_error", "test_excuse", "test_slow"]
    assert told["test_bad"] == "KeyError: 'what'"
    assert told["test_error"] == "ValueError: no such device"
    assert told["test_slow"].startswith("Failed: not finished after 1 s, in ")
    assert [test.reason for test in read.skips] == ["probe isa:sdiv: no"]
    assert str(read + read) == "12 passed, 8 failed, 2 skipped"
    assert any(line.startswith("skipped without a probe's no: ") and "not today" in line for line in read.lines())


def test_results_cut_short_are_trouble(tmp_path):
    """As a machine that was killed leaves them: what ended counts, the test that ran is named."""
    record = tmp_path / "record"
    run_pytest(tmp_path, "--record", str(record), "--test-limit=1")
    lines = record.read_text().splitlines()
    begin = next(number for number, line in enumerate(lines) if "test_bad" in line)
    record.write_text("\n".join([*lines[: begin + 1], lines[begin + 1][:9]]))
    read = report.read(record)
    assert (read.passed, read.failed) == (6, 1)
    assert read.trouble[0].endswith(f": cut short after 6 of 11 tests, in {lines[begin].split(chr(34))[3]}")
    assert report.read(tmp_path / "none").failed == 1


def test_a_run_that_is_resumed_gives_the_results_of_a_whole_one(tmp_path):
    """The test that the machine was lost in runs again, those before it do not."""
    record = tmp_path / "record"
    run_pytest(tmp_path, "--record", str(record), "--test-limit=1")
    whole, lines = report.read(record), record.read_text().splitlines()
    begin = next(number for number, line in enumerate(lines) if "test_bad" in line)
    record.write_text("\n".join([*lines[: begin + 1], lines[begin + 1][:9]]))
    resumed = run_pytest(tmp_path, "--record", str(record), "--test-limit=1", "--resume")
    assert b"6 deselected" in resumed.stdout
    read = report.read(record)
    assert [(test.id, test.outcome) for test in read.tests] == [(test.id, test.outcome) for test in whole.tests]
    assert (read.kernel, read.trouble) == (whole.kernel, ())


@pytest.mark.parametrize(
    ("reason", "accepted"),
    [
        ("probe attach:kprobe: no", True),
        ("probe helper:get_current_comm@xdp: no", True),
        ("probe tracepoint:tcp:tcp_probe: no", True),
        ("probe command:bpftool: no", False),
        ("probe attach:kprobe: could not tell", False),
        ("needs root", False),
    ],
)
def test_only_a_probes_no_excuses_a_skip(reason, accepted):
    """A program that is not installed is the test bed's fault, not the kernel's."""
    assert report.Test("a.py::b", "skipped", reason).accepted is accepted


def test_what_tests_ask_of_a_machine_is_known_before_it_boots(tmp_path):
    """A flavour takes what is marked so, a plain kernel all but what no kernel can change; wishes are united."""
    run_pytest(tmp_path, "--plan", str(tmp_path / "plan"), "--collect-only")
    items = json.loads((tmp_path / "plan").read_text())
    assert len(items) == 11
    assert items[-1] == {
        "test": "test_it.py::test_slow",
        "marks": ["any_kernel", "machine"],
        "modules": ["sch_fq", "veth"],
        "devices": ["nvme"],
    }
    plain, flavour = plan.RUNS["6.12"], plan.RUNS["6.12-rt"]
    wishes = [
        Wishes("a.py", frozenset({"machine"}), ("veth",), ("nic",)),
        Wishes("b.py", frozenset({"machine", "every_kernel"}), ("sch_fq", "veth"), ("nvme",)),
        Wishes("c.py", frozenset({"any_kernel", "machine"}), ("null_blk",), ()),
    ]
    assert plan.union(plain, wishes) == (["nic", "nvme"], ["loop", "veth", "sch_fq"])
    assert plan.union(flavour, wishes) == (["nvme"], ["loop", "sch_fq", "veth"])
    assert plan.files(plain, wishes) == ["a.py", "b.py"]
    assert plan.files(flavour, wishes) == ["b.py"]
    assert plan.drivers(["nvme", "scsi", "wifi"]) == ["nvme", "virtio_scsi", "sd_mod", "mac80211_hwsim"]


def test_disks_of_devices_live_as_long_as_the_machine(tmp_path):
    """Sparse files, named in QEMU's arguments, removed afterwards."""
    arguments = devices.arguments(["nvme", "nic"], tmp_path)
    disk = tmp_path / "disk-nvme"
    assert f"if=none,id=nvme,format=raw,file={disk}" in arguments
    assert (disk.stat().st_size, disk.stat().st_blocks) == (64 << 20, 0)
    devices.remove_disks(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_signal_ends_the_machines(tmp_path, monkeypatch):
    """Those that run are given up at once, and none starts any more."""
    stop = Event()
    monkeypatch.setattr(machine, "STOP", stop)
    logs = {name: tmp_path / name for name in ("console", "output")}
    for log in logs.values():
        log.touch()
    with subprocess.Popen(["sleep", "60"]) as sleeping:
        Timer(0.3, stop.set).start()
        assert machine._follow(sleeping, logs, time.monotonic() + 50, bytes) is False
        sleeping.kill()
    with pytest.raises(machine.MachineUnusable, match="stopped by a signal"):
        machine.Machine(None).run(None, tmp_path, limit=1, output=bytes)


@pytest.mark.parametrize("what", ["--core", "--shard"])
def test_a_kernel_that_apt_does_not_reach_is_left_out_where_it_may_be(tmp_path, monkeypatch, capsys, what):
    """It is said, and no results of it are waited for; another one that is missing is a failure."""

    def obtain(*_, **__):
        raise KernelUnavailable("no such suite")

    monkeypatch.setattr(kernels, "obtain", obtain)
    monkeypatch.setattr(plan, "collect", lambda _: [])
    monkeypatch.setattr(shards, "turn", lambda _: "6.1-rt")
    monkeypatch.setattr(sys, "argv", ["tests.vm", what, "--results", str(tmp_path)])
    assert command.main() == command.LOST
    assert (tmp_path / "machines").read_text().split() == ["6.1", "6.12", "6.1-rt"]
    lines = capsys.readouterr().out.splitlines()
    assert {f"Linux {name}: not run: no such suite" for name in plan.OFFERED} <= set(lines)
    assert "Linux 6.12: machine unusable: no such suite" in lines


def test_the_table_says_what_ran_where(tmp_path):
    """A row a file, a column a kernel, plain ones first; skips by reason. The page around it and other columns stay."""
    page = tmp_path / "kernels.md"
    page.write_text(f"Before.\n\n{table.BEGIN}\n{table.END}\nAfter.\n")
    rows = {
        "6.1.0-56-rt-amd64": [("a", "passed", ""), ("a", "skipped", "probe isa:v4: no")],
        "6.12.117+deb12-amd64": [("a", "passed", ""), ("b", "failed", "AssertionError")],
    }
    for kernel, tests in rows.items():
        lines = [{"kernel": kernel, "tests": 2}]
        lines += [
            {"test": f"tests/kernel/test_{n}.py::t", "outcome": o, "reason": r, "seconds": 1} for n, o, r in tests
        ]
        (tmp_path / kernel).write_text("\n".join(map(json.dumps, [*lines, {"end": 0}])))
    command = [sys.executable, "-m", "tests.vm.table", "--page", page, "--commit"]
    subprocess.run([*command, "1a2b3c4", *(tmp_path / kernel for kernel in rows)], cwd=CHECKOUT, check=True)
    assert page.read_text() == (
        f"Before.\n\n{table.BEGIN}\n"
        "| tests/kernel/ | 6.12.117 | 6.1.0-56-rt |\n|---|---:|---:|\n| commit | 1a2b3c4 | 1a2b3c4 |\n"
        "| test_a | 1 | 1, 1 s |\n| test_b | 0, 1 f | - |\n| all | 1, 1 f | 1, 1 s |\n\n"
        "| probe that said no | tests skipped by kernel |\n|---|---|\n| `isa:v4` | 6.1.0-56-rt: 1 |\n"
        f"{table.END}\nAfter.\n"
    )
    newer = tmp_path / "newer"
    newer.write_text((tmp_path / "6.12.117+deb12-amd64").read_text().replace("6.12.117", "6.12.118"))
    subprocess.run([*command, "5d6e7f8", newer], cwd=CHECKOUT, check=True)
    assert (
        "| tests/kernel/ | 6.12.118 | 6.1.0-56-rt |\n|---|---:|---:|\n| commit | 5d6e7f8 | 1a2b3c4 |\n"
        in page.read_text()
    )
    assert "| `isa:v4` | 6.1.0-56-rt: 1 |\n" in page.read_text()


def test_an_image_that_unpacks_itself_is_unpacked(tmp_path):
    """What boots stands in its place; a kernel that boots as it is stays."""
    image = tmp_path / "vmlinuz"
    for plain in (b"MZ\0\0ARM64 as it is" + bytes(64), b"\x7fELF" + bytes(64)):
        image.write_bytes(plain)
        kernels.unpack_image(image)
        assert image.read_bytes() == plain
    packed = gzip.compress(b"what boots" * 99)
    header = struct.pack("<4s4sII8s32s", b"MZ", b"zimg", 256, len(packed) + 4, b"", b"gzip")
    image.write_bytes(header.ljust(256, b"\0") + packed + struct.pack("<I", 990))
    kernels.unpack_image(image)
    assert image.read_bytes() == b"what boots" * 99


def test_machines_on_request_run_when_they_are_named():
    """arm64 kernels are no part of what runs by itself; one flavour, pages of 16 KiB, has a flavour's tests."""
    assert {name for name in plan.RUNS if "arm64" in name}.isdisjoint(plan.DEALT)
    assert plan.RUNS["6.12-arm64-16k"].select == plan.RUNS["6.12-rt"].select
    assert plan.RUNS["6.12-arm64"].architecture in PLATFORMS


def test_a_guest_with_a_root_of_its_own_has_the_checkout_at_its_path(tmp_path):
    """Under an overlay; modules and the rest of this machine are below another folder, the serial ports behind PCI."""
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "busybox").write_bytes(b"arm64's own")
    kernel = Kernel("6.12.3-arm64", tmp_path / "kernel")
    task = Task(["true"], CHECKOUT)
    archive = build(kernel, task, Share((), "-t 9p", "-t 9p"), PLATFORMS["arm64"], root)
    assert b"arm64's own" in archive
    start = archive.decode(errors="replace")
    assert f"-o lowerdir=/host{CHECKOUT},$over none {CHECKOUT}" in start
    assert f"mount -o bind /host{tmp_path}/kernel/lib/modules /lib/modules" in start
    assert "$bb mount -t 9p host /newroot/host" in start
    assert 'echo "status $?" >/dev/ttyS1' in start
    assert PLATFORMS["arm64"].port("status", "file:/s") == [
        *("-chardev", "file,path=/s,id=status"),
        *("-device", "pci-serial,chardev=status"),
    ]


def test_a_root_is_what_packages_have(monkeypatch, tmp_path):
    """Their files, below links as Debian has them, with what installation scripts would write; it is made once."""
    fetched = []

    def fetch(*arguments):
        fetched.append(arguments[2])
        tree = tmp_path / "tree"
        (tree / "DEBIAN").mkdir(parents=True, exist_ok=True)
        fields = {"Package": "a", "Version": "1", "Architecture": "all", "Maintainer": "m", "Description": "d"}
        control = "".join(f"{name}: {value}\n" for name, value in fields.items())
        (tree / "DEBIAN" / "control").write_text(control)
        (tree / "bin").mkdir(exist_ok=True)
        (tree / "bin" / "dash").write_text("a shell")
        (tree / "etc").mkdir(exist_ok=True)
        (tree / "etc" / "a.conf").touch()
        subprocess.run(["dpkg-deb", "--build", tree, arguments[-1] / "a.deb"], check=True, stdout=subprocess.DEVNULL)
        return [arguments[-1] / "a.deb"]

    needs("command:dpkg-deb")
    monkeypatch.setattr(root, "fetch_packages", fetch)
    monkeypatch.setattr(root, "_add_wheels", lambda *_: None)
    for _ in range(2):
        made = root.obtain(PLATFORMS["arm64"], tmp_path)
        assert (made / "usr" / "bin" / "dash").read_text() == "a shell"
        assert (made / "bin" / "sh").read_text() == "a shell"
        assert "root:x:0:0" in (made / "etc" / "passwd").read_text()
    assert fetched == [root.PACKAGES]
