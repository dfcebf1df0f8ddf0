"""Instructions of programs beside clang's for the same job: `python -m benchmarks.generated_code`.

The C of each job is in benchmarks/c. Both count in slots of eight bytes, as they are loaded. Needs root (tracepoint
formats), BTF and clang-19 with llvm-objdump-19.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measure import table
from pyebpf import BPF, char, comm, u64
from pyebpf.asm import encode, resolve
from pyebpf.programs import biolatency, tcplife
from pyebpf.runtime.loaded import Loaded

if TYPE_CHECKING:
    from collections.abc import Callable

SOURCES = Path(__file__).parent / "c"


def opens() -> BPF:
    """Opens by process name."""
    bpf = BPF()
    opens = bpf.hash(key=char[16], value=u64)

    @bpf.tracepoint("syscalls:sys_enter_openat")
    def on_open() -> None:
        opens[comm()] += 1

    return bpf


#: C file: what the probe does, its name, and the same in Python.
JOBS: dict[str, tuple[str, str, Callable[[], BPF]]] = {
    "opens": ("opens[comm()] += 1", "on_open", opens),
    "biolatency": ("biolatency, block_rq_complete", "on_complete", lambda: biolatency.build(biolatency.Options())),
    "tcplife": ("tcplife, inet_sock_set_state", "on_state", lambda: tcplife.build(tcplife.Options())),
}


def pyebpf_slots(probe: str, made: BPF) -> int:
    """Slots of a probe, compiled for this machine."""
    with Loaded() as loaded:
        spec = made.compile(loaded.target())
    program = next(program for program in spec.programs if program.name == probe)
    references = {each.name: number for number, each in enumerate(spec.maps)}
    return len(encode(resolve(program.code.instructions, references, {}))) // 8


def clang_slots(name: str, folder: Path, version: str) -> int:
    """Slots of the program of one C file."""
    built = folder / f"{name}.o"
    options = ["-O2", "-g", "-target", "bpf", f"-mcpu={version}", "-c", f"{name}.c", "-o", str(built)]
    subprocess.run(["clang-19", *options], cwd=SOURCES, check=True)  # noqa: S607 - as installed
    command = ["llvm-objdump-19", "-h", str(built)]
    headers = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    sizes = [int(line.split()[2], 16) for line in headers.splitlines() if line.endswith("TEXT")]
    return sum(sizes) // 8


def main() -> None:
    """Print a row for each job."""
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, (job, probe, build) in JOBS.items():
            ours = pyebpf_slots(probe, build())
            clang = [clang_slots(name, Path(scratch), version) for version in ("v3", "v4")]
            rows.append((job, str(ours), *map(str, clang)))
    table(("probe, slots of 8 bytes", "pyebpf", "clang-19 -O2 -mcpu=v3", "-mcpu=v4"), rows)


if __name__ == "__main__":
    main()
