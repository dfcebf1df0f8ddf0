"""Source lines of addresses by DWARF: `python -m benchmarks.source_lines [FILE]`.

FILE, by default this machine's C library, has debugging information, or a debug file that has it. So many addresses all
over its code are asked for, the first by itself, beside addr2line and, where it is installed, llvm-addr2line, which are
compiled programs. No root.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import time
from pathlib import Path

from benchmarks.measure import table
from pyebpf.symbols.debug import debug_info_of
from pyebpf.symbols.files import ElfFile
from pyebpf.symbols.libraries import find_binary

ADDRESSES = 2000


def peak() -> int:
    """Peak memory of this process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def read(elf: ElfFile, addresses: list[int]) -> tuple[list[str], str]:
    """Row of what pyebpf takes, and the file that has the lines."""
    before, start = peak(), time.process_time()
    info = debug_info_of(elf)
    if info is None:
        raise SystemExit(f"{elf.path} has no debugging information, and no debug file: install it, or name another")
    info.lines(addresses[len(addresses) // 2])
    first = time.process_time() - start
    lines = [info.lines(address) for address in addresses]
    total = time.process_time() - start
    inlined = sum(len(each) > 1 for each in lines)
    row = ["pyebpf", f"{1000 * first:.0f}", f"{1000 * total / len(addresses):.2f}", f"{peak() - before}", f"{inlined}"]
    return row, info.elf.path


def told_by(command: str, path: str, addresses: list[int]) -> list[str]:
    """Row of what another program takes, as a process of its own."""
    times = []
    for asked in (addresses[:1], addresses):
        text = "".join(f"{address:#x}\n" for address in asked)
        with subprocess.Popen(
            [command, "-i", "-f", "-e", path], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        ) as run:
            assert run.stdin is not None
            run.stdin.write(text)
            run.stdin.close()
            _, _, usage = os.wait4(run.pid, 0)
            run.returncode = 0
        times.append((usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1024))
    (first, _), (total, memory) = times
    return [command, f"{1000 * first:.0f}", f"{1000 * total / len(addresses):.2f}", f"{memory}", "-"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", default="libc.so.6")
    elf = ElfFile(find_binary(parser.parse_args().file))
    text = elf.section(".text")
    assert text is not None
    addresses = [text.address + text.size * number // ADDRESSES for number in range(ADDRESSES)]
    row, path = read(elf, addresses)
    others = [told_by(each, path, addresses) for each in ("addr2line", "llvm-addr2line-19") if shutil.which(each)]
    heading = [
        f"{ADDRESSES:,} addresses of {Path(elf.path).name}",
        "first ms",
        "ms an address",
        "MiB",
        "inlined",
    ]
    table(heading, [row, *others])


if __name__ == "__main__":
    main()
