"""Files of the kernel: tracefs without a mount, BTF, processors, privileges; and the cache."""

from __future__ import annotations

import mmap
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from pyebpf.errors import MalformedData, NotFound, NotSupported
from pyebpf.kernel import btf_files, cpus, privileges
from pyebpf.kernel.tracefs import Tracefs
from tests.support.release import kernel_release


@pytest.fixture
def tracefs():
    with Tracefs() as opened:
        yield opened


def test_tracefs_leaves_no_mount_behind():
    """Reached by a mount of its own where nobody mounted it, which goes away with its descriptor."""
    before = Path("/proc/self/mounts").read_text()
    with Tracefs() as opened:
        assert "sched" in opened.categories()
        assert Path("/proc/self/mounts").read_text() == before
    assert Path("/proc/self/mounts").read_text() == before


def test_a_tracepoint_has_an_id_and_a_format(tracefs):
    """The format names the tracepoint and carries the same id."""
    number = tracefs.event_id("sched", "sched_switch")
    text = tracefs.event_format("sched", "sched_switch")
    assert text.startswith("name: sched_switch\n")
    assert f"ID: {number}\n" in text
    assert "sched_switch" in tracefs.events("sched")


@pytest.mark.parametrize(
    ("category", "name", "hint"),
    [
        ("sched", "sched_swich", "did you mean sched_switch"),
        ("shed", "sched_switch", "did you mean sched"),
        ("block", "sched_switch", "did you mean sched:sched_switch"),
        ("..", "sched_switch", "no tracepoint"),
        ("sched", "../sched", "no tracepoint"),
        ("", "", "no tracepoint"),
    ],
)
def test_an_unknown_tracepoint_names_the_closest(tracefs, category, name, hint):
    """A slip in the name, in the category, or the right name elsewhere; and never a path."""
    with pytest.raises(NotFound, match=hint):
        tracefs.event_id(category, name)


def test_an_unknown_category_is_not_found(tracefs):
    """With the closest one."""
    with pytest.raises(NotFound, match="did you mean sched"):
        tracefs.events("schedd")


def test_vmlinux_btf_is_read_whole():
    """Mapped, from Linux 6.16 on, or read."""
    content = Path("/sys/kernel/btf/vmlinux").read_bytes()
    assert content[:2] == b"\x9f\xeb"
    assert btf_files.read_btf()[:] == content
    if kernel_release() >= (6, 16):
        assert isinstance(btf_files.read_btf(), mmap.mmap)
        assert btf_files.read_btf() is btf_files.read_btf()


def test_a_file_that_cannot_be_mapped_is_read(monkeypatch, tmp_path):
    """As on older kernels, and where it is empty."""
    monkeypatch.setattr(btf_files, "_DIRECTORY", str(tmp_path))
    (tmp_path / "vmlinux").write_bytes(b"")
    assert btf_files.read_btf() == b""
    (tmp_path / "vmlinux").unlink()
    with pytest.raises(NotSupported, match="CONFIG_DEBUG_INFO_BTF"):
        btf_files.read_btf()


def test_btf_of_an_unknown_module_is_not_found():
    """It may only not be loaded."""
    with pytest.raises(NotFound, match="is it loaded"):
        btf_files.read_btf("no_such_module")


def test_processors_agree_with_what_python_knows():
    """Online ones are among the possible ones."""
    online = cpus.online_cpus()
    assert len(online) == os.sysconf("SC_NPROCESSORS_ONLN")
    assert max(online) < cpus.possible_cpus()


@given(st.sets(st.integers(0, 300), min_size=1, max_size=40))
def test_processor_lists_are_read_as_the_kernel_prints_them(numbers):
    """Ranges and single ones, in order."""
    ordered, parts = sorted(numbers), []
    while ordered:
        last = 0
        while last + 1 < len(ordered) and ordered[last + 1] == ordered[0] + last + 1:
            last += 1
        parts.append(f"{ordered[0]}-{ordered[last]}" if last else f"{ordered[0]}")
        ordered = ordered[last + 1 :]
    assert cpus.parse_cpu_list(",".join(parts) + "\n") == tuple(sorted(numbers))


@pytest.mark.parametrize("text", ["", "a", "3-1", "1-", "-1", "0-99999999999"])
def test_what_is_no_processor_list_is_refused(text):
    """In bounded time and memory."""
    with pytest.raises(MalformedData):
        cpus.parse_cpu_list(text)


def test_root_has_the_capabilities_for_tracing():
    """Tests here run as root; CAP_SYS_ADMIN stands in for both."""
    assert privileges.has_capability("CAP_BPF")
    assert privileges.has_capability("CAP_PERFMON")


def test_lockdown_is_a_level_or_unknown():
    """Securityfs need not be mounted."""
    assert privileges.lockdown() in {None, "none", "integrity", "confidentiality"}


def test_the_pid_namespace_is_the_one_of_this_process():
    """The inode is in the name of the link."""
    namespace = privileges.pid_namespace()
    assert str(Path("/proc/self/ns/pid").readlink()) == f"pid:[{namespace.ino}]"
    assert namespace.initial == (namespace.ino == 0xEFFFFFFC)


def test_the_build_id_is_the_running_kernels(tmp_path, monkeypatch):
    """The note of type 3 that GNU owns, wherever it stands; none gives no id."""
    found = btf_files.kernel_build_id()
    assert len(found) >= 8
    assert b"GNU\0" + found in Path("/sys/kernel/notes").read_bytes()

    def note(owner, kind, text):
        padded = owner + bytes(-len(owner) % 4) + text + bytes(-len(text) % 4)
        return b"".join(number.to_bytes(4, sys.byteorder) for number in (len(owner), len(text), kind)) + padded

    file = tmp_path / "notes"
    monkeypatch.setattr(btf_files, "_NOTES", str(file))
    file.write_bytes(note(b"Linux\0", 3, b"x") + note(b"GNU\0", 1, b"abcde") + note(b"GNU\0", 3, b"an id"))
    assert btf_files.kernel_build_id() == b"an id"
    file.write_bytes(note(b"Linux\0", 3, b"x"))
    assert btf_files.kernel_build_id() == b""
    file.unlink()
    assert btf_files.kernel_build_id() == b""
