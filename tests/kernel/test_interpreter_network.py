"""The interpreter against the kernel: checksums in packets, tunnels' keys, SYN cookies, sockets."""

from __future__ import annotations

import itertools
import platform
import random
import socket
from contextlib import closing
from typing import Any

import pytest

from pyebpf.asm import encode, link, parse, resolve
from pyebpf.errors import VmError
from pyebpf.kernel import bpf
from pyebpf.uapi.bpf import ProgramType
from pyebpf.vm import Machine
from pyebpf.vm.helpers.tunnels import TunnelKey
from pyebpf.vm.sockets import Socket
from tests.support.needs import needs, unless

#: What a packet that has tunnels' metadata needs: an Ethernet header of an IPv4 packet, and room.
ETHERNET = bytes(12) + b"\x08\x00"
SIGNED = 1 << 64


def both(text: str, packet: bytes, **surroundings: Any) -> tuple[tuple[int, bytes], tuple[int, bytes]]:
    """R0, of which the kernel tells 32 bits, and the packet: from the kernel and from the interpreter."""
    program = link(parse(text))
    result = bpf.prog_load(ProgramType.SCHED_CLS, encode(resolve(program)), log_level=1, log_size=1 << 16)
    assert result.descriptor is not None, result.log
    with result.descriptor as descriptor:
        ran = bpf.prog_test_run(descriptor.fileno(), data=packet, data_out=1 << 15)
    machine = Machine(strict=False)
    for name, value in surroundings.items():
        setattr(machine, name, value)
    seen = machine.run(program, packet=packet, program_type=ProgramType.SCHED_CLS)
    return (ran.retval, ran.data), (seen.value & 0xFFFF_FFFF, seen.packet)


def replace(helper: str, offset: int, old: int, new: int, flags: int) -> str:
    return f"r2 = {offset}\nr3 = {old} ll\nr4 = {new} ll\nr5 = {flags}\ncall bpf_{helper}\nexit"


def test_checksums_are_mended_as_the_kernel_does():
    """Every size, 0 and 0xffff among the numbers, unfit flags and offsets; 211 of each helper."""
    chance = random.Random(11)
    for number in range(422):
        helper = ("l3_csum_replace", "l4_csum_replace")[number % 2]
        # A UDP checksum of 0 means that there is none.
        checksum = chance.choice([b"\0\0", b"\xff\xff", chance.randbytes(2)])
        packet = ETHERNET + chance.randbytes(26) + checksum + chance.randbytes(22)
        offset = chance.choice([40, 40, 40, 40, 41, 62, 64, 70000])
        size = chance.choice([0, 2, 4, 2, 4, 1, 8])
        numbers = [
            chance.choice([0, 0xFFFF, 0xFFFF_FFFF, chance.getrandbits(16), chance.getrandbits(32)]) for _ in "ab"
        ]
        flags = size | (chance.choice([0, 0x10, 0x20, 0x60, 0x30, 0x200]) if helper == "l4_csum_replace" else 0)
        old = 0 if size == 0 and chance.random() < 0.8 else numbers[0]
        text = replace(helper, offset, old, numbers[1], flags)
        kernel, vm = both(text, packet)
        assert vm == kernel, text


def difference(old: bytes, new: bytes, seed: int) -> str:
    """bpf_csum_diff of bytes of the stack, at most 48 of each; the result's lower 32 bits."""
    lines = []
    for end, data in ((48, old), (96, new)):
        for at in range(0, 48, 8):
            word = int.from_bytes(data[at : at + 8], "little")
            lines += [f"r1 = {word} ll", f"*(u64 *)(r10 - {end - at}) = r1"]
    lines += ["r1 = r10", "r1 += -48", f"r2 = {len(old)}", "r3 = r10", "r3 += -96", f"r4 = {len(new)}"]
    return "\n".join([*lines, f"r5 = {seed} ll", "call bpf_csum_diff", "exit"])


def test_differences_of_checksums_have_the_kernels_zero():
    """Zeros and ones added and removed, with seeds that fold to zero; odd sizes where the kernel takes them."""
    chance = random.Random(5)
    einval = -22 % (1 << 32)
    # Linux 6.13 and later fold the sum, and take any size.
    folds = both(difference(b"\1\2\3", b"", 0), ETHERNET + bytes(50))[0][0] != einval
    sizes = [(8, 0), (0, 8), (8, 8), (48, 48), (4, 0), (0, 4), (0, 0), *([(3, 0), (0, 7), (6, 5)] if folds else [])]
    contents = (bytes(48), b"\xff" * 48, b"\xff\xff\0\0" * 12, chance.randbytes(48))
    for (old, new), seed in itertools.product(sizes, (0, 0xFFFF, 0xFFFF_FFFF, 0xFFFF_0000, 0x1234)):
        for before, after in (
            itertools.product(contents, contents) if old and new else zip(contents, contents, strict=True)
        ):
            text = difference(before[:old], after[:new], seed)
            (kernel, _), (vm, _) = both(text, ETHERNET + bytes(50))
            if folds and platform.machine() == "x86_64":
                assert vm == kernel, text
            else:
                assert vm % 0xFFFF == kernel % 0xFFFF, text


SET = """
r6 = r1
r2 = 0
*(u64 *)(r10 - 8) = r2
*(u64 *)(r10 - 16) = r2
*(u64 *)(r10 - 24) = r2
*(u64 *)(r10 - 32) = r2
*(u64 *)(r10 - 40) = r2
*(u64 *)(r10 - 48) = r2
r2 = {label}
*(u32 *)(r10 - 24) = r2
r2 = r10
r2 += -48
r3 = {size}
r4 = {flags}
call bpf_skb_set_tunnel_key
exit
"""


@pytest.mark.parametrize("size", [44, 28, 24, 22, 8, 43, 4, 32])
@pytest.mark.parametrize("flags", [0, 1, 4, 32])
@pytest.mark.parametrize("label", [0, 5])
def test_keys_of_tunnels_are_checked_as_the_kernel_does(size, flags, label):
    """By size, flags, and a flow label that only IPv6 has."""
    if size == 44:
        needs("member:bpf_tunnel_key.local_ipv4")
    kernel, vm = both(SET.format(size=size, flags=flags, label=label), ETHERNET + bytes(50))
    assert vm[0] == kernel[0], (size, flags, label, kernel[0] - (1 << 32), vm[0] - (1 << 32))


def test_a_packet_without_a_key_says_so():
    """-EINVAL; with one, its numbers are read in the interpreter."""
    text = "r2 = r10\nr2 += -48\nr3 = 44\nr4 = 0\ncall bpf_skb_get_tunnel_key\nif r0 != 0 goto end\n"
    text += "r1 = *(u32 *)(r10 - 48)\nr0 = *(u32 *)(r10 - 44)\nr0 += r1\nr1 = *(u8 *)(r10 - 27)\nr0 += r1\nend: exit"
    kernel, vm = both(text, ETHERNET + bytes(50))
    assert vm[0] == kernel[0] == -22 % (1 << 32)
    machine = Machine(strict=False)
    machine.tunnel = TunnelKey(id=7, remote=0x0A000001, ttl=64)
    result = machine.run(link(parse(text)), packet=ETHERNET + bytes(50), program_type=ProgramType.SCHED_CLS)
    assert result.value == 7 + 0x0A000001 + 64


def syn(options: bytes, length: int) -> str:
    """Sign a SYN from constants, check the ACK to it and one that is not; the segment size and both answers."""
    header = b"\x12\x34\x00\x50" + bytes(4) + bytes(4) + bytes([(20 + len(options)) << 2, 2]) + bytes(6) + options
    words = [bytes([0x45]) + bytes(11) + bytes([127, 0, 0, 1, 127, 0, 0, 1]), header.ljust(40, b"\0")]
    raw = words[0].ljust(24, b"\0") + words[1]
    lines = []
    for at in range(0, len(raw), 8):
        lines += [f"r1 = {int.from_bytes(raw[at : at + 8], 'little'):#x} ll", f"*(u64 *)(r10 - {64 - at}) = r1"]
    lines += [
        "r1 = r10", "r1 += -64", "r2 = r10", "r2 += -40", f"r3 = {length}", "call bpf_tcp_raw_gen_syncookie_ipv4",
        "if r0 s< 0 goto end", "r6 = r0", "r6 >>= 32", "w7 = w0", "r7 += 1", "r7 = be32 r7",
        "*(u32 *)(r10 - 32) = r7",  # acknowledged: the cookie and 1
        "r7 = 1", "r7 = be32 r7", "*(u32 *)(r10 - 36) = r7",  # the sequence number and 1
        "r1 = r10", "r1 += -64", "r2 = r10", "r2 += -40", "call bpf_tcp_raw_check_syncookie_ipv4", "r8 = r0",
        "r7 = 12345", "*(u32 *)(r10 - 32) = r7",
        "r1 = r10", "r1 += -64", "r2 = r10", "r2 += -40", "call bpf_tcp_raw_check_syncookie_ipv4",
        "r0 -= r8", "r0 &= 255", "r8 &= 255", "r6 <<= 16", "r0 <<= 8", "r0 |= r6", "r0 |= r8", "end: exit",
    ]  # fmt: skip
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("options", "length"),
    [
        (b"", 20),
        (b"", 24),
        (b"", 19),
        (b"\x02\x04\x05\xb4", 24),  # 1460
        (b"\x02\x04\x05\x15", 24),  # 1301
        (b"\x01\x02\x04\x05\xa0\x00\x00\x00", 28),  # 1440
        (b"\x02\x04\x00\x64", 24),  # 100
        (b"\x00\x02\x04\x05\xb4\x00\x00\x00", 28),
    ],
)
def test_cookies_are_signed_and_known_again(options, length):
    """The segment size that a cookie stands for, and which ACKs are taken; not its bits, which are secret."""
    needs("helper:tcp_raw_gen_syncookie_ipv4@sched_cls")
    kernel, vm = both(syn(options, length), ETHERNET + bytes(50))
    assert vm[0] == kernel[0], (hex(vm[0]), hex(kernel[0]))


def lookup(protocol: str, address: int, port: int) -> str:
    """Find the socket of a packet to 127.0.0.`address`; 1000 times its state, its port, family and protocol."""
    there = int.from_bytes(bytes([127, 0, 0, address]), "little")
    return f"""
    r2 = {int.from_bytes(bytes([127, 0, 0, 1]), "little")}
    *(u32 *)(r10 - 16) = r2
    r2 = {there}
    *(u32 *)(r10 - 12) = r2
    r2 = {socket.htons(9)}
    *(u16 *)(r10 - 8) = r2
    r2 = {socket.htons(port)}
    *(u16 *)(r10 - 6) = r2
    r2 = r10
    r2 += -16
    r3 = 12
    r4 = -1
    r5 = 0
    call bpf_sk_lookup_{protocol}
    if r0 == 0 goto none
    r6 = *(u32 *)(r0 + 72)
    r6 *= 1000000
    r1 = *(u32 *)(r0 + 44)
    r6 += r1
    r1 = *(u32 *)(r0 + 4)
    r6 += r1
    r1 = *(u32 *)(r0 + 12)
    r6 += r1
    r1 = r0
    call bpf_sk_release
    r0 += r6
    exit
    none: r0 = 77
    exit
    """


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_sockets_are_found_by_the_packets_tuple(protocol):
    """One that listens; none at another port, nor in the interpreter at another address."""
    kind = socket.SOCK_STREAM if protocol == "tcp" else socket.SOCK_DGRAM
    with closing(socket.socket(socket.AF_INET, kind)) as server:
        server.bind(("127.0.0.1", 0))
        if protocol == "tcp":
            server.listen(1)
        port = server.getsockname()[1]
        machine = Machine()
        machine.sockets.add(Socket(protocol, ("127.0.0.1", port)))
        for address, number in ((1, port), (1, 1), (2, port)):
            kernel, vm = both(lookup(protocol, address, number), ETHERNET + bytes(50), sockets=machine.sockets)
            assert vm[0] == kernel[0], (address, number)
            assert (kernel[0] != 77) == (address == 1 and number == port)


def test_a_socket_that_is_not_given_back_is_refused():
    """In the verifier's word."""
    text = lookup("tcp", 1, 80).replace("r1 = r0\n    call bpf_sk_release\n    r0 += r6\n", "r0 = r6\n")
    program = link(parse(text))
    result = bpf.prog_load(ProgramType.SCHED_CLS, encode(resolve(program)), log_level=1, log_size=1 << 16)
    assert "Unreleased reference" in result.log
    machine = Machine(strict=False)
    machine.sockets.add(Socket("tcp", ("0.0.0.0", 80)))
    with pytest.raises(VmError, match="Unreleased reference"):
        machine.run(program, packet=ETHERNET + bytes(50), program_type=ProgramType.SCHED_CLS)


META = """
r6 = r1
r2 = {first}
call bpf_xdp_adjust_meta
r7 = r0
r7 <<= 16
r1 = r6
r2 = {second}
call bpf_xdp_adjust_meta
r7 += r0
r2 = *(u32 *)(r6 + 8)
r3 = *(u32 *)(r6 + 0)
r4 = r2
r4 += 4
if r4 > r3 goto done
r5 = 1145258561
*(u32 *)(r2 + 0) = r5
done:
r1 = r6
r2 = {head}
call bpf_xdp_adjust_head
r7 += r0
r0 = r7
exit
"""


def returns_metadata():
    """Whether PROG_TEST_RUN gives back a frame's metadata as well, as since Linux 5.14."""
    program = link(parse(META.format(first=-4, second=0, head=0)))
    result = bpf.prog_load(ProgramType.XDP, encode(resolve(program)), log_level=1, log_size=1 << 16)
    assert result.descriptor is not None, result.log
    with result.descriptor as descriptor:
        return len(bpf.prog_test_run(descriptor.fileno(), data=ETHERNET + bytes(50), data_out=2048).data) == 68


def test_metadata_is_made_and_kept_as_the_kernel_does():
    """Room for what Linux 6.1 gives, too, more and less of it, and frames that grow and shrink behind it."""
    unless(returns_metadata(), "program:xdp@metadata")
    chance = random.Random(13)
    frame = ETHERNET + chance.randbytes(50)
    for first, second, head in itertools.product((0, -4, -6, -8, -28, -1000), (0, 4, -4, 6, 1000), (0, -4, 12)):
        program = link(parse(META.format(first=first, second=second, head=head)))
        result = bpf.prog_load(ProgramType.XDP, encode(resolve(program)), log_level=1, log_size=1 << 16)
        assert result.descriptor is not None, result.log
        with result.descriptor as descriptor:
            ran = bpf.prog_test_run(descriptor.fileno(), data=frame, data_out=2048)
        seen = Machine(strict=False).run(program, packet=frame, program_type=ProgramType.XDP)
        written = (len(seen.packet), seen.packet[:4], seen.packet[-40:])
        assert (ran.retval, len(ran.data), ran.data[:4], ran.data[-40:]) == (seen.value & 0xFFFF_FFFF, *written)


IP = bytes.fromhex("450000280000400040060000" + "0a000001" + "0a000002" + "00500051") + bytes(40)
VLAN_STEPS = {
    "push": "r1 = r6\nr2 = {protocol}\nr3 = {tci}\ncall bpf_skb_vlan_push\nr7 <<= 1\nr7 += r0",
    "pop": "r1 = r6\ncall bpf_skb_vlan_pop\nr7 <<= 1\nr7 += r0",
}
#: The tag beside the packet, if it has one, and its length, as one number. What a removed tag was stays readable
#: before Linux 6.2.
VLAN_END = (
    "r0 = *(u32 *)(r6 + 20)\nif r0 == 0 goto untagged\nr0 <<= 16\nr1 = *(u32 *)(r6 + 24)\nr0 += r1\nr0 <<= 2\n"
    "r1 = *(u32 *)(r6 + 28)\nr0 += r1\nuntagged: r0 += r7\nr1 = *(u32 *)(r6 + 0)\nr1 <<= 20\nr0 += r1\nexit"
)


@pytest.mark.parametrize(
    "frame", [b"\x08\x00" + IP, b"\x81\x00\x01\x23\x08\x00" + IP, b"\x88\xa8\x00\x07\x81\x00\x01\x23\x08\x00" + IP]
)
def test_vlan_tags_go_on_and_come_off(frame):
    """Every order of four; protocols that are none; frames that come with none, one and two tags in them."""
    for number, steps in enumerate(itertools.product(VLAN_STEPS, repeat=4)):
        protocols = (socket.htons(0x8100), socket.htons(0x88A8), 0, socket.htons(0x0800))
        lines = [
            VLAN_STEPS[step].format(protocol=protocols[(number + at) % 4], tci=(0, 5, 0xFFFF, 0x1064)[at])
            for at, step in enumerate(steps)
        ]
        kernel, vm = both("\n".join(["r6 = r1\nr7 = 0", *lines, VLAN_END]), bytes(range(12)) + frame)
        assert vm == kernel, (steps, number)


@pytest.mark.parametrize("helper", ["skb_change_head", "skb_change_tail"])
def test_packets_grow_and_shrink(helper):
    """Zeros come; less than an Ethernet header, more than the kernel allocates and flags do not."""
    for size, flags in [*((n, 0) for n in (0, 1, 4, 14, 13, 15, 34, 40, 64, 80, -1, 1 << 31, 17000)), (20, 1)]:
        text = f"r2 = {size} ll\nr3 = {flags}\ncall bpf_{helper}\nexit"
        kernel, vm = both(text, bytes(range(12)) + b"\x08\x00" + IP)
        assert vm == kernel, (size, flags)


MTU = "r2 = {size}\n*(u32 *)(r10 - 4) = r2\nr2 = {device}\nr3 = r10\nr3 += -4\nr4 = {difference}\nr5 = {flags}\n"
MTU += "call bpf_check_mtu\nr0 <<= 20\nr1 = *(u32 *)(r10 - 4)\nr0 += r1\nexit"


@pytest.fixture(scope="module")
def zeroes_on_errors():
    """Whether the kernel gives 0 for a device that is not there, as Linux 6.1 does; in newer ones the number stays."""
    needs("helper:check_mtu@sched_cls")
    kernel, _ = both(MTU.format(size=77, device=999999, difference=0, flags=0), ETHERNET + bytes(50))
    return kernel[0] & 0xFFFFF == 0


@pytest.mark.parametrize("size", [0, 100, 65536, 65537])
@pytest.mark.parametrize("difference", [0, 5, -5, 70000])
@pytest.mark.parametrize(("device", "flags"), [(0, 0), (1, 0), (999999, 0), (0, 1), (0, 2)])
def test_the_mtu_of_loopback(size, difference, device, flags, zeroes_on_errors):
    """The packet's own size or one that is asked for; a device that is not there."""
    text = MTU.format(size=size, device=device, difference=difference, flags=flags)
    kernel, vm = both(text, ETHERNET + bytes(50))
    is_error = bool(vm[0] >> 31)
    assert kernel == ((vm[0] - size, vm[1]) if is_error and zeroes_on_errors else vm)


def test_a_flow_has_one_hash_in_both_directions():
    """Which hash it is differs; the class of the process that runs the test is that of no class."""
    hashes = "r6 = r1\ncall bpf_get_hash_recalc\nr1 = *(u32 *)(r6 + 68)\nif r0 == r1 goto end\nr0 = 0\nend: exit"
    back = IP[:12] + IP[16:20] + IP[12:16] + IP[22:24] + IP[20:22] + IP[24:]
    other = IP[:20] + b"\1\2" + IP[22:]
    (one, vm1), (two, vm2), (three, vm3) = (both(hashes, bytes(12) + b"\x08\x00" + each) for each in (IP, back, other))
    assert one[0] == two[0] != three[0] != 0
    assert vm1[0] == vm2[0] != vm3[0] != 0
