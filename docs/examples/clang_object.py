"""Load what clang made (`clang -O2 -g -target bpf -c FILE.c`), attach it for some seconds, and print its maps."""

import sys
import time
from contextlib import ExitStack
from pathlib import Path

from pyebpf.link import attach
from pyebpf.objects import Map, Program, make_map
from pyebpf.objfile import read_object
from pyebpf.runtime.host import kernel_btf

module = read_object(Path(sys.argv[1]).read_bytes()).module_spec(kernel_btf())

with ExitStack() as held:
    maps = {spec.name: held.enter_context(make_map(spec)) for spec in module.maps}
    programs = [held.enter_context(Program(spec, maps)) for spec in module.programs]
    for program in programs:
        place = program.spec.attach  # of tracepoints, what the section's name says; else None
        if place is not None:
            held.enter_context(attach(program, place))
            print(f"{program.name} is attached: {place}", flush=True)
    time.sleep(float(sys.argv[2]))
    for name, each in maps.items():
        if isinstance(each, Map):
            print(name, dict(each.items()))
