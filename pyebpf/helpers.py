"""Every kernel helper under its name less `bpf_`, to be called inside probes.

    from pyebpf import helpers

    @bpf.tracepoint("syscalls:sys_enter_openat")
    def on_open() -> None:
        groups[helpers.get_current_cgroup_id()] += 1

Arguments and results are those of the C prototype, which `help(helpers.NAME)` shows. A helper that the kernel compiled
for does not have is a CompileError; called by Python itself it raises OnlyInProbe. The friendly words of `pyebpf`
(`pid()`, `comm()`, `now()`) are easier where there is one.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """Return the helper `name`, made when first asked for."""
    from pyebpf.uapi.helpers import HELPER_IDS

    if name not in HELPER_IDS:
        from pyebpf.errors import closest

        message = f"the kernel has no helper bpf_{name}{closest(name, HELPER_IDS)}"
        raise AttributeError(message)
    from pyebpf.builder.intrinsics.helpers import HelperFunction

    word = HelperFunction(name)
    globals()[name] = word
    return word


def __dir__() -> list[str]:
    from pyebpf.uapi.helpers import HELPER_IDS

    return sorted(HELPER_IDS)
