"""An XDP program's time for a frame, beside clang's for the same C: `python -m benchmarks.xdp [rounds]`.

docs/examples/drop_udp.py and benchmarks/c/drop_udp.c run by turns on frames made by hand (PROG_TEST_RUN, a million
times each). Needs root and clang-19.
"""

from __future__ import annotations

import runpy
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from benchmarks.measure import table
from pyebpf.objects import Program, make_map
from pyebpf.objfile import read_object
from pyebpf.packet import UDP, Ethernet, IPv4

SOURCES = Path(__file__).parent / "c"
EXAMPLE = Path(__file__).parents[1] / "docs" / "examples" / "drop_udp.py"
PORT, FRAMES, ROUNDS = 7919, 1_000_000, 7


def frame(port: int) -> bytes:
    """A datagram of 64 bytes in all."""
    return Ethernet().to_bytes() + IPv4(length=50).to_bytes() + UDP(1024, port, 30).to_bytes() + bytes(22)


def clang(folder: Path, version: str, stack: ExitStack) -> Program:
    """The C program, compiled and loaded."""
    built = folder / f"drop_udp.{version}.o"
    options = ["-O2", "-g", "-target", "bpf", f"-mcpu={version}", "-c", "drop_udp.c", "-o", str(built)]
    subprocess.run(["clang-19", *options], cwd=SOURCES, check=True)  # noqa: S607 - as installed
    read = read_object(built.read_bytes())
    maps = {each.name: make_map(each) for each in read.map_specs()}
    for made in maps.values():
        stack.callback(made.close)
    return stack.enter_context(Program(read.program_spec("drop"), maps))


def main() -> None:
    """Measure and print the table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        example = runpy.run_path(str(EXAMPLE))["drop_udp"]("lo", PORT)
        example.load()
        stack.callback(example.close)
        (ours,) = example.programs.values()
        programs = {"pyebpf": ours}
        programs |= {f"clang-19 -O2 -mcpu={version}": clang(folder, version, stack) for version in ("v3", "v4")}
        frames = {"dropped and counted": frame(PORT), "passed, another port": frame(PORT + 1)}
        times: dict[tuple[str, str], list[int]] = {}
        for _ in range(rounds):
            for name, program in programs.items():
                for what, data in frames.items():
                    done = program.test_run(data=data, repeat=FRAMES)
                    times.setdefault((name, what), []).append(done.duration)
        rows = [
            [
                name,
                str(program.info().translated_size // 8),
                *(f"{statistics.median(times[name, what])} ({min(times[name, what])})" for what in frames),
            ]
            for name, program in programs.items()
        ]
    table(["drop_udp, ns a frame: median (best)", "slots in the kernel", *frames], rows)


if __name__ == "__main__":
    main()
