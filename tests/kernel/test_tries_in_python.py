"""Tries of networks as Python mappings: a network is found as itself, an address by its longest prefix."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest

from pyebpf import BPF, u32
from pyebpf.types.prefix import ipv4_prefix, ipv6_prefix


@pytest.mark.parametrize(
    ("key", "wide", "narrow", "beside", "address"),
    [
        (ipv4_prefix, "10.0.0.0/8", "10.2.0.0/15", "10.4.0.0/15", "10.2.3.4"),
        (ipv6_prefix, "2001:db8::/32", "2001:db8:8000::/33", "2001:db8::/33", "2001:db8:8000::1"),
    ],
)
def test_networks_are_keys(key, wide, narrow, beside, address):
    """What contains a network is not the network: not for `in`, get(), `[]` and setdefault(), as not for pop()."""
    bpf = BPF()
    routes = bpf.lpm_trie(key=key, value=u32)
    with bpf:
        routes[wide] = 1
        assert wide in routes
        assert routes[wide] == routes[address] == 1
        assert ip_address(address) in routes
        assert narrow not in routes
        assert routes.get(narrow) is None
        assert routes.get(ip_network(narrow), 7) == 7
        with pytest.raises(KeyError):
            routes[narrow]
        with pytest.raises(KeyError):
            routes.pop(narrow)
        assert routes.setdefault(narrow, 55) == 55
        assert routes.setdefault(narrow, 66) == 55
        assert beside not in routes
        assert len(routes) == 2
        assert routes[address] == 55
        assert routes.get(f"{address}/{ip_address(address).max_prefixlen}") == 55
