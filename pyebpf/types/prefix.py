"""Keys of LPM tries: a prefix length in bits and an address, most significant byte first."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyebpf.errors import InvalidValue
from pyebpf.types.base import Type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from construct import Construct

    from pyebpf.btf import BtfBuilder

_LENGTH = 4
_IPV4, _IPV6 = 4, 16
_MAX_ADDRESS_SIZE = 256


class PrefixType(Type):
    """`struct bpf_lpm_trie_key { __u32 prefixlen; __u8 data[bytes]; }`.

    In Python an `ipaddress` network where `address_size` is 4 or 16 (text, an address or (bits, bytes) may be given),
    else a tuple (bits, bytes). Bits beyond the prefix are zeros.
    """

    align = 4
    count = 2

    def __init__(self, name: str, address_size: int) -> None:
        if not 0 < address_size <= _MAX_ADDRESS_SIZE:
            raise InvalidValue(f"prefix({address_size}): give the size of an address, 1 to {_MAX_ADDRESS_SIZE} bytes")
        self.name = name
        self.c_name = f"struct {name}"
        self.address_size = address_size
        self.size = _LENGTH + address_size
        self.format = f"I{address_size}s"

    def assemble(self, plain: Iterator[object]) -> object:
        length, address = next(plain), next(plain)
        if self.address_size not in {_IPV4, _IPV6}:
            return length, address
        import ipaddress

        # strict: the kernel keeps the bits beyond the prefix as they were given.
        kind = ipaddress.IPv4Network if self.address_size == _IPV4 else ipaddress.IPv6Network
        return kind((address, length), strict=False)

    def scatter(self, value: object) -> list[object]:
        length, address = self._parts(value)
        bits = 8 * self.address_size
        if not isinstance(length, int) or not 0 <= length <= bits or len(address) != self.address_size:
            raise InvalidValue(
                f"{value!r} does not fit {self.name}: give 0 to {bits} bits of {self.address_size} bytes"
            )
        mask = (1 << bits) - (1 << bits - length)
        return [length, (int.from_bytes(address, "big") & mask).to_bytes(self.address_size, "big")]

    def _parts(self, value: object) -> tuple[object, bytes]:
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], bytes):
            return value[0], value[1]
        if self.address_size in {_IPV4, _IPV6}:
            import ipaddress

            kind = ipaddress.IPv4Network if self.address_size == _IPV4 else ipaddress.IPv6Network
            try:
                network = kind(getattr(value, "network", value), strict=False)
            except (ValueError, TypeError) as error:
                raise InvalidValue(f"{value!r} does not fit {self.name}: give a network or an address") from error
            return network.prefixlen, network.network_address.packed
        raise InvalidValue(f"{value!r} does not fit {self.name}: give (bits, {self.address_size} bytes)")

    def describe_btf(self, builder: BtfBuilder) -> int:
        length, byte = builder.add_int("__u32", 4), builder.add_int("__u8", 1)
        data = builder.add_array(byte, length, self.address_size)
        return builder.add_struct(self.name, self.size, [("prefixlen", length, 0, 0), ("data", data, 32, 0)])

    @cached_property
    def construct(self) -> Construct:
        import construct

        return construct.Struct("prefixlen" / construct.Int32ul, "data" / construct.Bytes(self.address_size))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PrefixType) and self.address_size == other.address_size

    def __hash__(self) -> int:
        return hash((PrefixType, self.address_size))


def prefix(address_size: int) -> Any:
    """Key of a trie over addresses of `address_size` bytes."""
    return PrefixType(f"prefix({address_size})", address_size)


ipv4_prefix: Any = PrefixType("ipv4_prefix", _IPV4)
"""IPv4 networks."""
ipv6_prefix: Any = PrefixType("ipv6_prefix", _IPV6)
"""IPv6 networks."""
