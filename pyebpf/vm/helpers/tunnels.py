"""Helpers on tunnels' metadata: the key that a packet came with (`machine.tunnel`), and the one that it leaves with."""

from __future__ import annotations

from struct import pack
from typing import TYPE_CHECKING

from pyebpf.dataclass import dataclass
from pyebpf.uapi.errno_table import EINVAL, ENOENT, ENOMEM, EPROTO
from pyebpf.uapi.flags import (
    BPF_F_DONT_FRAGMENT,
    BPF_F_NO_TUNNEL_KEY,
    BPF_F_SEQ_NUMBER,
    BPF_F_TUNINFO_FLAGS,
    BPF_F_TUNINFO_IPV6,
    BPF_F_ZERO_CSUM_TX,
)
from pyebpf.vm.helpers.registry import emulates

if TYPE_CHECKING:
    from pyebpf.vm.machine import Machine

_LOW = 0xFFFF_FFFF
_SET_FLAGS = BPF_F_TUNINFO_IPV6 | BPF_F_ZERO_CSUM_TX | BPF_F_DONT_FRAGMENT | BPF_F_SEQ_NUMBER | BPF_F_NO_TUNNEL_KEY
#: sizeof(struct bpf_tunnel_key), and what earlier kernels took it for: up to `tunnel_ext`, `tunnel_label`, or only the
#: first words of the addresses.
_SIZE = 44
_COMPATIBLE = (8, 22, 24, 28)
_MAX_OPTIONS = 255


@dataclass(frozen=True, slots=True)
class TunnelKey:
    """`struct bpf_tunnel_key` of IPv4: what a packet was wrapped in. Addresses are numbers of this machine."""

    id: int
    remote: int = 0
    local: int = 0
    tos: int = 0
    ttl: int = 0
    options: bytes = b""

    def to_bytes(self) -> bytes:
        """As programs read it."""
        return pack("<II12xBBHII12x", self.id, self.remote, self.tos, self.ttl, 0, 0, self.local)


@emulates("skb_get_tunnel_key")
def skb_get_tunnel_key(vm: Machine, _skb: int, to: int, size: int, flags: int) -> int:
    """Copy the key that the packet came with; without one, or with unfit flags or size, -EINVAL and zeros."""
    size &= _LOW
    key = vm.tunnel
    unknown = flags & ~(BPF_F_TUNINFO_IPV6 | BPF_F_TUNINFO_FLAGS)
    error = -EINVAL if key is None or unknown or size not in (_SIZE, *_COMPATIBLE) else 0
    if not error and flags & BPF_F_TUNINFO_IPV6:
        error = -EPROTO  # the key is of IPv4
    vm.memory.write(to, bytes(size) if error or key is None else key.to_bytes()[:size])
    return error


@emulates("skb_set_tunnel_key")
def skb_set_tunnel_key(vm: Machine, _skb: int, source: int, size: int, flags: int) -> int:
    """Let the packet leave with a key: its bytes are `machine.tunnel_set`."""
    size &= _LOW
    raw = vm.memory.read(source, size)
    if flags & ~_SET_FLAGS or size not in (_SIZE, *_COMPATIBLE):
        return -EINVAL
    raw = raw.ljust(_SIZE, b"\0")
    label, ext = int.from_bytes(raw[24:28], "little"), raw[22:24]
    # Without BPF_F_TUNINFO_IPV6 a flow label means nothing, and the padding is zero.
    if (not flags & BPF_F_TUNINFO_IPV6 and label) or label & ~0xFFFFF or any(ext):
        return -EINVAL
    vm.tunnel_set = raw
    return 0


@emulates("skb_get_tunnel_opt")
def skb_get_tunnel_opt(vm: Machine, _skb: int, to: int, size: int) -> int:
    """Copy the options that came with the key; their length."""
    size &= _LOW
    options = vm.tunnel.options if vm.tunnel is not None else b""
    error = -ENOENT if not options else -ENOMEM if size < len(options) else 0
    vm.memory.write(to, bytes(size) if error else options.ljust(size, b"\0"))
    return error or len(options)


@emulates("skb_set_tunnel_opt")
def skb_set_tunnel_opt(vm: Machine, _skb: int, source: int, size: int) -> int:
    """Give options to the key that skb_set_tunnel_key gave: `machine.tunnel_options`."""
    size &= _LOW
    raw = vm.memory.read(source, size)
    if vm.tunnel_set is None or size & 3:
        return -EINVAL
    if size > _MAX_OPTIONS:
        return -ENOMEM
    vm.tunnel_options = raw
    return 0
