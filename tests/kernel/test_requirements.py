"""Places that younger kernels have: on one without, a line that names the Linux that it takes and what else may do."""

from __future__ import annotations

import os
import re

import pytest

from pyebpf import BPF, NotSupported
from pyebpf.attach.cgroups import HOOKS
from tests.support.needs import lacks

#: Decorator, its arguments, the feature, and the line less what is done and this kernel's release.
UNIX = "needs Linux 6.7 or later with CONFIG_CGROUP_BPF): @bpf.lsm_cgroup takes security hooks of sockets"
PLACES = [
    (
        "netfilter",
        ("ipv4", "local_out"),
        {},
        "attach:netfilter",
        "no netfilter programs (needs Linux 6.4 or later with CONFIG_NETFILTER_BPF_LINK): @bpf.tc and ",
    ),
    (
        "netkit",
        ("lo", "primary"),
        {},
        "attach:netkit",
        "no netkit links (needs Linux 6.7 or later with CONFIG_NETKIT): @bpf.tc at both ends of a veth",
    ),
    (
        "tc",
        ("lo", "ingress"),
        {"by": "tcx"},
        "attach:tcx",
        'no tcx links (needs Linux 6.6 or later with CONFIG_NET_XGRESS): @bpf.tc(…, by="clsact")',
    ),
    *(
        (f"cgroup_{name}", (), {}, f"attach:{row.attach_type.name.lower()}", f"no hook {name} ({UNIX}")
        for name, row in HOOKS.items()
        if row.release
    ),
]


@pytest.mark.parametrize(("decorator", "where", "options", "feature", "line"), PLACES, ids=[each[0] for each in PLACES])
def test_a_kernel_without(decorator, where, options, feature, line):
    """One line, NotSupported: whether the kernel refuses the program's type or the link, nothing is left."""
    lacks(feature)
    bpf = BPF()

    @getattr(bpf, decorator)(*where, **options)
    def probe() -> int:
        return 1

    release = re.escape(os.uname().release)
    with (
        pytest.raises(
            NotSupported, match=rf"probe.*: this kernel \({release}\) has {re.escape(line)}.*\(EINVAL\)(?m:$)"
        ),
        bpf,
    ):
        pass
