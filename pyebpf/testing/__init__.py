"""Programs tested without root: compiled for recorded facts, run by the interpreter, read through their own maps.

    from pyebpf.programs import opensnoop
    from pyebpf.testing import Simulation, recorded

    bpf = opensnoop.build(opensnoop.Options())
    with Simulation(bpf, recorded("facts.json")) as kernel:
        kernel.process(pid=42, comm="cat")
        kernel.tracepoint("syscalls:sys_enter_openat", filename="/etc/motd", flags=0)
        kernel.tracepoint("syscalls:sys_exit_openat", ret=3)
        assert [call.path for call in bpf["opens"].poll()] == ["/etc/motd"]

`record(bpf, ...)` writes such facts down, once, on a machine that has what the programs ask for.
"""

from pyebpf.testing.facts import record, recorded
from pyebpf.testing.simulation import Simulation

__all__ = ["Simulation", "record", "recorded"]
