"""Helpers on a packet's frame: VLAN tags, room at both ends, its flow's hash, the device's MTU. net/core/filter.c."""

from __future__ import annotations

from hashlib import blake2b
from struct import pack_into, unpack_from
from typing import TYPE_CHECKING

from pyebpf.errors import VmError
from pyebpf.uapi.errno_table import EINVAL, ENODEV, ENOENT
from pyebpf.uapi.flags import BPF_MTU_CHK_RET_FRAG_NEEDED, BPF_MTU_CHK_SEGS
from pyebpf.vm.contexts import SKB, XDP
from pyebpf.vm.helpers.registry import emulates
from pyebpf.vm.maps.redirect import RedirectMap

if TYPE_CHECKING:
    from pyebpf.vm.contexts import Packet
    from pyebpf.vm.machine import Machine

_LOW = 0xFFFF_FFFF
_ETHERNET, _TYPE = 14, 12
_VLAN, _VLAN_OUTER, _IPV4, _IPV6 = b"\x81\x00", b"\x88\xa8", b"\x08\x00", b"\x86\xdd"
_TAG = 4
#: BPF_SKB_MAX_LEN: 16 KiB less struct skb_shared_info, 320 bytes.
_MAX_ELEMENTS = 16384 - 320
#: A device's MTU where `machine.mtus` has none.
_MTU = 1500
#: Protocols whose headers begin with the two ports: TCP, UDP, DCCP, SCTP, UDP-Lite.
_PORTS = (6, 17, 33, 132, 136)


def _packet(vm: Machine) -> Packet:
    if vm.packet is None:
        raise VmError("this run has no packet: give run(packet=…)")
    return vm.packet


def _get(vm: Machine, name: str) -> int:
    packet = _packet(vm)
    found: int = unpack_from("<I", packet.context.data, (XDP if packet.xdp else SKB)[name])[0]
    return found


def _set(vm: Machine, **members: int) -> None:
    for name, value in members.items():
        pack_into("<I", _packet(vm).context.data, SKB[name], value)


def _reshape(vm: Machine, data: bytes) -> None:
    """Another packet in place of this one; pointers to it end."""
    packet = vm.packet_data()
    vm.move_packet(0, len(data) - len(packet))
    vm.packet_data()[:] = data


def _protocol(vm: Machine) -> bytes:
    """`skb->protocol`: the context's member, else what the frame says."""
    return _get(vm, "protocol").to_bytes(4, "little")[:2] if _get(vm, "protocol") else bytes(vm.packet_data()[12:14])


@emulates("skb_vlan_push")
def skb_vlan_push(vm: Machine, _skb: int, protocol: int, tci: int) -> int:
    """Give the packet a tag, beside its bytes as hardware does; a tag that it has already goes into the frame."""
    kind = (protocol & 0xFFFF).to_bytes(2, "little")
    if kind not in (_VLAN, _VLAN_OUTER):
        kind = _VLAN
    data = bytes(vm.packet_data())
    if _get(vm, "vlan_present"):
        old = _get(vm, "vlan_proto")
        tag = old.to_bytes(2, "little") + _get(vm, "vlan_tci").to_bytes(2, "big")
        data = data[:_TYPE] + tag + data[_TYPE:]
        _set(vm, protocol=old)
    _reshape(vm, data)
    _set(vm, vlan_present=1, vlan_tci=tci & 0xFFFF, vlan_proto=int.from_bytes(kind, "little"))
    return 0


@emulates("skb_vlan_pop")
def skb_vlan_pop(vm: Machine, _skb: int) -> int:
    """Remove the outermost tag; the next one in the frame, if there is one, goes beside it."""
    protocol, data = _protocol(vm), bytes(vm.packet_data())
    if _get(vm, "vlan_present"):
        _set(vm, vlan_present=0, vlan_tci=0, vlan_proto=0)
    elif protocol in (_VLAN, _VLAN_OUTER):
        protocol, _, data = _untagged(data)
    if protocol in (_VLAN, _VLAN_OUTER):
        outer = int.from_bytes(protocol, "little")
        protocol, tci, data = _untagged(data)
        _set(vm, vlan_present=1, vlan_tci=tci, vlan_proto=outer)
    _reshape(vm, data)
    _set(vm, protocol=int.from_bytes(protocol, "little"))
    return 0


def _untagged(data: bytes) -> tuple[bytes, int, bytes]:
    """The protocol inside, the tag's number, and the frame without it."""
    inner = data[_TYPE + _TAG : _TYPE + _TAG + 2]
    return inner, int.from_bytes(data[_TYPE + 2 : _TYPE + _TAG], "big"), data[:_TYPE] + data[_TYPE + _TAG :]


@emulates("skb_change_head")
def skb_change_head(vm: Machine, _skb: int, room: int, flags: int) -> int:
    """Add zeros in front of the frame."""
    room &= _LOW
    if flags or room >> 31 or len(vm.packet_data()) + room > _MAX_ELEMENTS:
        return -EINVAL
    vm.move_packet(-room, 0)
    return 0


@emulates("skb_change_tail")
def skb_change_tail(vm: Machine, _skb: int, size: int, flags: int) -> int:
    """Cut the packet to `size` bytes, or add zeros; the Ethernet header stays."""
    size &= _LOW
    if flags or not _ETHERNET <= size <= _MAX_ELEMENTS:
        return -EINVAL
    vm.move_packet(0, size - len(vm.packet_data()))
    return 0


def device_mtu(vm: Machine, index: int) -> int | None:
    """A device's MTU; None if there is no such device."""
    return vm.mtus.get(index, _MTU if index in vm.routes.devices else None)


def is_segmented(vm: Machine) -> bool:
    """Whether the packet is one of many segments, which are cut to size when they leave."""
    return not vm.xdp and _get(vm, "gso_size") != 0


@emulates("check_mtu")
def check_mtu(vm: Machine, _context: int, ifindex: int, at: int, difference: int, flags: int) -> int:
    """Whether the packet, or the size in `*at`, fits a device of `machine.mtus`; its MTU is left there."""
    size = int.from_bytes(vm.memory.read(at, 4), "little")
    difference = ((difference & _LOW) ^ 0x8000_0000) - 0x8000_0000
    segments = not vm.xdp and flags == BPF_MTU_CHK_SEGS
    if (flags and not segments) or (segments and (difference or size)):
        return -EINVAL
    # 0 is the device that the packet is on.
    own = _get(vm, "ingress_ifindex" if vm.xdp else "ifindex") or 1
    mtu = device_mtu(vm, ifindex & _LOW or own)
    if mtu is None:
        return -ENODEV
    length = (size + _ETHERNET if size else len(vm.packet_data())) + difference
    segmented = is_segmented(vm)
    if segments and segmented and length > mtu + _ETHERNET:
        raise VmError(
            "bpf_check_mtu with BPF_MTU_CHK_SEGS of a segmented packet has no emulation: helpers={'check_mtu': …}"
        )
    vm.memory.write(at, mtu.to_bytes(4, "little"))
    return 0 if length <= mtu + _ETHERNET or segmented else BPF_MTU_CHK_RET_FRAG_NEEDED


@emulates("get_cgroup_classid", "skb_cgroup_classid")
def get_cgroup_classid(vm: Machine, _skb: int) -> int:
    """The class of net_cls that the control group has: `machine.cgroup_classid`."""
    return vm.cgroup_classid


@emulates("get_hash_recalc")
def get_hash_recalc(vm: Machine, _skb: int) -> int:
    """The packet's hash: the context's, else one of its addresses, ports and protocol, alike in both directions."""
    if not _get(vm, "hash"):
        digest = blake2b(_flow(bytes(vm.packet_data())), digest_size=4, key=vm.secret).digest()
        _set(vm, hash=int.from_bytes(digest, "little") or 1)
    return _get(vm, "hash")


def _flow(data: bytes) -> bytes:
    kind, rest = data[_TYPE:_ETHERNET], data[_ETHERNET:]
    if kind == _IPV4 and len(rest) >= 20:
        ends, protocol, header = (rest[12:16], rest[16:20]), rest[9], 4 * (rest[0] & 15)
    elif kind == _IPV6 and len(rest) >= 40:
        ends, protocol, header = (rest[8:24], rest[24:40]), rest[6], 40
    else:
        return kind
    ports = rest[header : header + 4] if protocol in _PORTS else b""
    return kind + bytes([protocol]) + b"".join(sorted((ends[0] + ports[:2], ends[1] + ports[2:])))


@emulates("sk_select_reuseport")
def sk_select_reuseport(vm: Machine, _context: int, at: int, key: int, _flags: int) -> int:
    """Let the socket under a key have the packet: what the map holds for it is then `machine.selected`."""
    found = vm.map_at(at)
    if not isinstance(found, RedirectMap):
        raise VmError(f"cannot pass map_type {found.spec.type} into func bpf_sk_select_reuseport ({found.name})")
    value = found.lookup_elem(vm.memory.read(key, found.key_size))
    if value is None:
        return -ENOENT
    vm.selected = value
    return 0


@emulates("xdp_get_buff_len")
def xdp_get_buff_len(vm: Machine, _xdp: int) -> int:
    """The frame's size."""
    return len(vm.packet_data())
