"""Feature probes: three answers, remembered only when sure, and right about kernels that are known."""

from __future__ import annotations

import errno
import platform

import pytest

from pyebpf import features
from pyebpf.asm import build
from pyebpf.asm.build import R0, R1
from pyebpf.errors import KernelError, NotFound
from pyebpf.features import Features, Support, _remembered
from pyebpf.features.attachments import ATTACHMENTS
from pyebpf.features.instructions import INSTRUCTIONS, LEVELS
from pyebpf.kernel import bpf
from pyebpf.objects import Map, Program
from pyebpf.runtime.host import kernel_btf
from pyebpf.specs import Code, FunctionStart, MapSpec, ProgramSpec
from pyebpf.types import U32
from pyebpf.uapi.bpf import MapType, ProgramType
from tests.support.release import kernel_release
from tests.support.releases import RELEASES, brought_by
from tests.support.traffic import inside

#: The release since which Debian's kernels answer yes, of what no other test asks for; None: no kernel does.
MORE: dict[str, tuple[int, int] | None] = {
    "program:tracing": (5, 10),
    "program:lsm": (5, 10),
    "program:netfilter": (6, 12),
    "helper:get_func_ip@tracepoint": None,
    "helper:get_attach_cookie@raw_tracepoint": (6, 12),
    "helper:get_current_comm@xdp": (6, 18),
    "kfunc:vfs_read": None,
    # QEMU emulates arm64's counters.
    "attach:perf_hardware": (5, 10) if platform.machine() == "aarch64" else None,
    **{f"attach:{name}": (6, 12) if "unix" in name else (5, 10) for name in ATTACHMENTS if name.startswith("cgroup_")},
}
KNOWN = [
    *(name for name in RELEASES if not name.startswith(("iterator:", "member:"))),
    *(f"map:{kind.name.lower()}" for kind in MapType if kind),
    *(name for name in MORE if name not in RELEASES),
]

pytestmark = pytest.mark.every_kernel


@pytest.fixture
def host(monkeypatch):
    """Probes that remember nothing from before."""
    monkeypatch.setattr(features, "_remembered", {})
    return Features(kernel_btf)


@pytest.mark.parametrize("name", KNOWN)
def test_answers_about_kernels_that_are_known(host, machine_release, name):
    """In the virtual machines the answer is a fact; elsewhere it is at least an answer."""
    answer = host.ask(name)
    assert answer is not Support.UNKNOWN
    if machine_release is not None:
        since = brought_by(name) or MORE[name]
        assert answer is (Support.YES if since and kernel_release() >= since else Support.NO)


@pytest.mark.parametrize("name", [*INSTRUCTIONS, *LEVELS, "addr_space_cast"])
def test_every_instruction_feature_has_an_answer(host, name):
    """Root can always tell."""
    assert host.ask(f"isa:{name}") is not Support.UNKNOWN


@pytest.mark.parametrize("name", ATTACHMENTS)
def test_every_attachment_has_an_answer(host, name):
    """Asked by attaching to nothing."""
    assert host.ask(f"attach:{name}") is not Support.UNKNOWN


def test_nothing_is_inferred_from_anything_else(host, machine_release):
    """Where trampolines are refused tp_btf works, and a kind of program that loads may have nowhere to go."""
    assert host.ask("program:kprobe") is host.ask("attach:tp_btf") is Support.YES
    if machine_release is None and host.ask("attach:kprobe") is Support.NO:
        assert host.ask("attach:uprobe") is Support.YES


def test_asking_leaves_nothing_behind(host, make_namespace, monkeypatch):
    """Loopback, which XDP is asked with, stays as it was: that of a namespace where nobody else does anything."""
    place = make_namespace()

    def state():
        return place.run("ip", "-details", "link", "show", "dev", "lo"), place.run("tc", "qdisc", "show", "dev", "lo")

    before = state()
    with inside(place):
        for name in ATTACHMENTS:
            monkeypatch.delitem(_remembered, f"attach:{name}", raising=False)
            host.ask(f"attach:{name}")
    assert state() == before


def test_every_kind_of_map_and_program_has_an_answer(host):
    """Those of the newest kernel, asked of whichever runs."""
    kinds = [f"map:{name.lower()}" for name, kind in MapType.__members__.items() if kind]
    kinds += [f"program:{name.lower()}" for name, kind in ProgramType.__members__.items() if kind]
    assert [name for name in kinds if host.ask(name) is Support.UNKNOWN] == []


def test_a_yes_about_an_instruction_means_that_it_loads(host):
    """And a no that it is refused: signed division."""
    code = Code(
        (build.mov64(R0, -9), build.mov64(R1, 2), build.sdiv64(R0, R1), build.exit_()), (FunctionStart("f", 0),)
    )
    try:
        Program(ProgramSpec("f", ProgramType.SOCKET_FILTER, code), {}).close()
        loaded = True
    except KernelError:
        loaded = False
    assert host.has("isa:sdiv") is loaded


def test_a_yes_about_a_map_means_that_it_can_be_made(host):
    """The ring buffer."""
    assert host.has("map:ringbuf")
    Map(MapSpec("ring", MapType.RINGBUF, None, None, 4096)).close()
    assert U32.size == 4


def refuse(number: int, monkeypatch) -> None:
    def prog_load(*_: object, **__: object) -> bpf.LoadResult:
        return bpf.LoadResult(None, number, "", 0)

    monkeypatch.setattr(bpf, "prog_load", prog_load)


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOMEM, errno.EAGAIN])
def test_could_not_tell_is_not_remembered(host, monkeypatch, number):
    """Without the privilege the answer is open; later, with it, it is asked again."""
    with monkeypatch.context() as patched:
        refuse(number, patched)
        for name in ("isa:jmp32", "isa:v2", "attach:tp_btf", "attach:fentry", "helper:loop", "program:tracepoint"):
            assert host.ask(name) is Support.UNKNOWN
            assert not host.has(name)
    assert host.ask("isa:jmp32") is Support.YES
    assert host.ask("isa:v2") is Support.YES


def test_yes_and_no_are_remembered(host, monkeypatch):
    """The kernel is asked once."""
    first = host.ask("isa:sdiv"), host.ask("isa:jmp32")
    refuse(errno.EPERM, monkeypatch)
    assert (host.ask("isa:sdiv"), host.ask("isa:jmp32")) == first
    assert Features().ask("isa:jmp32") is Support.YES


def test_without_btf_what_needs_it_cannot_be_told(host):
    """tp_btf, kernel functions; the rest is not affected."""
    blind = Features()
    assert blind.ask("attach:tp_btf") is Support.UNKNOWN
    assert blind.ask("kfunc:bpf_iter_num_new") is Support.UNKNOWN
    assert blind.ask("isa:jmp32") is Support.YES


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("isa:sdif", "did you mean sdiv"),
        ("map:ringbuff", "did you mean ringbuf"),
        ("program:tracepont", "did you mean tracepoint"),
        ("helper:get_current_com", "did you mean get_current_comm"),
        ("helper:loop@xpd", "did you mean xdp"),
        ("attach:fentri", "did you mean fentry"),
        ("attatch:fentry", "did you mean attach"),
        ("", "no feature"),
    ],
)
def test_an_unknown_name_is_an_error_with_the_closest(host, name, hint):
    """Never a silent no."""
    with pytest.raises(NotFound, match=hint):
        host.ask(name)


def test_an_answer_has_no_truth():
    """`if ask(...)` would take could-not-tell for yes."""
    with pytest.raises(TypeError, match="compare it"):
        bool(Support.UNKNOWN)
