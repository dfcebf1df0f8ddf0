"""Functions of modules that programs may call: connection tracking's in XDP and tc, DCTCP's in a table of Python's."""

from __future__ import annotations

import pytest

from pyebpf import (
    BPF,
    TCX_NEXT,
    XDP_PASS,
    CompileError,
    SkBuff,
    Struct,
    VerifierError,
    XdpContext,
    be16,
    be32,
    kfunc,
    s32,
    u8,
    u32,
    u64,
)
from pyebpf.btf import Btf, Kind
from pyebpf.builder.intrinsics.kfuncs import MODULES
from pyebpf.features import Features, Support
from pyebpf.kernel.btf_files import read_btf
from pyebpf.kernel.tracefs import Tracefs
from pyebpf.packet import IPPROTO_UDP, UDP, IPv4
from pyebpf.runtime.host import host_target, kernel_btf
from tests.kernel.test_struct_ops import transfer
from tests.support.namespaces import namespace
from tests.support.needs import needs
from tests.support.traffic import inside, udp_frame
from tests.support.waiting import wait_until

KNOWN, UNKNOWN = 7919, 7920  # ports
FOUND, MISSED = 17, 13
CONFIRMED = 1 << 3  # IPS_CONFIRMED of enum ip_conntrack_status
NO_ENTRY = 2  # ENOENT


class Endpoints(Struct):
    """`ipv4` of struct bpf_sock_tuple."""

    source: be32
    destination: be32
    source_port: be16
    destination_port: be16


class Asked(Struct):
    """struct bpf_ct_opts of 12 bytes: the namespace (-1: the packet's own), what went wrong, protocol, direction."""

    netns_id: s32 = -1
    error: s32 = 0
    protocol: u8 = IPPROTO_UDP
    direction: u8 = 0
    reserved: u8 = 0
    reserved_: u8 = 0


class Seen(Struct):
    """Of a connection: its state and how many hold it. Of none: the error."""

    status: u32
    holders: u32
    error: s32


def looking(kind):
    """A module whose program looks up each packet's connection, and what it saw, counted."""
    bpf = BPF()
    seen = bpf.hash(key=Seen, value=u64)

    if kind == "xdp":

        @bpf.xdp
        def look(ctx: XdpContext) -> int:
            ip = ctx.packet.header(IPv4, at=14)
            udp = ctx.packet.header(UDP, at=34)
            if ip is None or udp is None:
                return XDP_PASS
            ends = Endpoints(ip.source, ip.destination, udp.source, udp.destination)
            asked = Asked()
            with kfunc("bpf_xdp_ct_lookup")(ctx, ends, 12, asked, 12) as connection:
                if connection is None:
                    seen[Seen(0, 0, asked.error)] += 1
                else:
                    seen[Seen(connection.status, connection.ct_general.use.refs.counter, 0)] += 1
            return XDP_PASS

    else:

        @bpf.tc("ingress")
        def look(ctx: SkBuff) -> int:
            ip = ctx.packet.header(IPv4, at=14)
            udp = ctx.packet.header(UDP, at=34)
            if ip is None or udp is None:
                return TCX_NEXT
            ends = Endpoints(ip.source, ip.destination, udp.source, udp.destination)
            asked = Asked()
            with kfunc("bpf_skb_ct_lookup")(ctx, ends, 12, asked, 12) as connection:
                if connection is None:
                    seen[Seen(0, 0, asked.error)] += 1
                else:
                    seen[Seen(connection.status, connection.ct_general.use.refs.counter, 0)] += 1
            return TCX_NEXT

    return bpf, seen


def track(port):
    """Have the network namespace know a connection of UDP, as from a packet of `udp_frame`."""
    from pyroute2.netlink.nfnetlink.nfctsocket import NFCTAttrTuple, NFCTSocket

    ends = NFCTAttrTuple(saddr="10.251.0.1", daddr="10.251.0.2", proto=IPPROTO_UDP, sport=1024, dport=port)
    with NFCTSocket() as tracking:
        tracking.entry("add", timeout=600, tuple_orig=ends, tuple_reply=ends.reverse())


@pytest.mark.machine(modules=("nf_conntrack_netlink",))
@pytest.mark.parametrize("kind", ["xdp", "tc"])
def test_connections_are_looked_up_and_given_back(kind):
    """17 packets of a tracked connection are found and 13 of none are not; no look-up keeps a hold on what it found."""
    needs("kernel:5.18")
    bpf, seen = looking(kind)
    with namespace() as space, inside(space), bpf:
        track(KNOWN)
        (program,) = bpf.programs.values()
        for _ in range(FOUND):
            program.test_run(data=udp_frame(KNOWN))
        for _ in range(MISSED):
            program.test_run(data=udp_frame(UNKNOWN))
        found = {(each.status & CONFIRMED, each.holders, each.error): count for each, count in seen.items()}
    # One hold is the table's, one the program's own.
    assert found == {(CONFIRMED, 2, 0): FOUND, (0, 0, -NO_ENTRY): MISSED}


@pytest.mark.machine(modules=("nf_conntrack_netlink",))
def test_it_is_a_feature_like_any_other():
    """Asked of the verifier, with the types of the module that has the function."""
    needs("kernel:5.18")  # when nf_conntrack got it
    assert Features(kernel_btf).ask("kfunc:bpf_xdp_ct_lookup") is Support.YES
    assert Features(kernel_btf).ask("kfunc:nf_conntrack_in") is Support.NO
    assert Features(kernel_btf).ask("kfunc:bpf_xdp_ct_lokup") is Support.NO


def has_own_struct(module, name):
    """Whether the types of a module have a struct that should be the kernel's."""
    base = kernel_btf()
    return any(each >= base.stop for each in Btf(read_btf(module), base).find(name, {Kind.STRUCT}))


@pytest.mark.machine(modules=("tcp_dctcp",))
def test_in_a_congestion_control():
    """DCTCP's rule in a table of Python's: with no marked packets the window stays as it is."""
    needs("attach:struct_ops", "kernel:5.16")
    bpf = BPF()
    counts = bpf.array(value=u64, size=2)
    table = bpf.struct_ops("tcp_congestion_ops", name="py_module")

    @table.member
    def ssthresh(sk):
        return kfunc("dctcp_ssthresh")(sk)

    @table.member
    def cong_avoid(sk, ack, acked):
        kfunc("tcp_reno_cong_avoid")(sk, ack, acked)

    @table.member
    def undo_cwnd(sk):
        return sk.snd_cwnd

    @table.member
    def release(sk):
        counts[0] += 1 if kfunc("dctcp_ssthresh")(sk) == max(sk.snd_cwnd, 2) else 0
        counts[1] += 1

    if has_own_struct("tcp_dctcp", "sock"):
        # As in Debian's build of Linux 6.18: its function takes a pointer to another type than the kernel's.
        with pytest.raises(VerifierError, match="dctcp_ssthresh args#0 expected pointer to STRUCT sock"):
            bpf.__enter__()
        return
    with bpf:
        sent, received = transfer("py_module")
        assert sent == received
        wait_until(lambda: counts[1] == 1)
        assert counts[0] == 1


def refusal(name):
    """The line about a call of a function without arguments."""
    bpf = BPF()

    @bpf.xdp
    def look(ctx: XdpContext) -> int:
        kfunc(name)()
        return XDP_PASS

    with pytest.raises(CompileError) as caught:
        bpf.load()
    return caught.value.message


def test_a_module_that_is_not_loaded_is_named_with_its_command():
    """Its functions are no misspelt ones; the kernel may have the module built in, so one that is missing here."""
    with Tracefs() as tracefs:
        target = host_target(lambda: tracefs)
        name = next(name for name in MODULES if not target.has_function(name))
    module = MODULES[name]
    assert refusal(name) == (
        f"this kernel has no function {name} for programs: it is one of the module {module}, as some kernels have it: "
        f"load that (modprobe {module})"
    )


def test_a_function_of_no_module_gets_the_closest_names():
    """Of vmlinux's and of those that modules are known to have, loaded or not."""
    message = refusal("bpf_xdp_ct_lokup")
    assert message.startswith("this kernel has no function bpf_xdp_ct_lokup for programs: ")
    assert "(did you mean bpf_xdp_ct_lookup" in message
