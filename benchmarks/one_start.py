"""One start of biolatency, phase by phase, in a process of its own: what `phases` measures.

    python -m benchmarks.one_start BEGAN [MODULE ...]

BEGAN is time.monotonic() when the process was asked for. Prints a dictionary of seconds a phase and a list of the
modules that were imported. Imports nothing itself that the start would need.
"""

from __future__ import annotations

import time

STARTED = time.monotonic()

import sys  # noqa: E402 - the interpreter's start ends above


def main() -> None:
    """Go through a start; nothing is left attached."""
    before = set(sys.modules)
    marks = [float(sys.argv[1]), STARTED]
    phases = {"interpreter": STARTED - marks[0]}

    def mark(phase: str) -> None:
        marks.append(time.monotonic())
        phases[phase] = marks[-1] - marks[-2]

    from importlib import import_module

    for module in sys.argv[2:]:
        import_module(module)
    mark("imports")
    import gc

    gc.disable()  # as the command does
    from pyebpf.cli.catalogue import find
    from pyebpf.cli.parser import parse

    tool = find("biolatency")
    options, _ = parse(tool, [])
    bpf = tool.build(options)
    mark("command line, declarations")
    from pyebpf.runtime.host import kernel_btf
    from pyebpf.runtime.loaded import Loaded

    target = Loaded().target()
    kernel_btf()
    mark("BTF and its index")
    spec = bpf.compile(target)
    mark("compile")
    bpf.compile = lambda *_, **__: spec
    bpf.load()
    mark("load")
    bpf.attach()
    mark("attach")
    bpf.close()
    mark("detach and close")
    needed = [name for name in sys.modules if name not in before]
    import resource

    phases["peak MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(f"{phases, needed}\n")


if __name__ == "__main__":
    main()
