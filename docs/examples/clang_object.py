"""Load what clang made (`clang -O2 -g -target bpf -c FILE.c`), attach it for some seconds, and print its maps."""

import sys
import time
from contextlib import ExitStack
from pathlib import Path

from pyebpf.kernel.config import read_config
from pyebpf.link import attach
from pyebpf.objects import Map, Program, make_map
from pyebpf.objfile import KernelConfig, read_object
from pyebpf.runtime.host import kernel_btf
from pyebpf.specs.map_traits import MapOperation

READ_WHOLE = MapOperation.LOOKUP | MapOperation.ITERATE
if len(sys.argv) < 3:
    sys.exit("usage: clang_object.py FILE.o SECONDS [VARIABLE=NUMBER ...]")
values = {name: int(number) for name, _, number in (each.partition("=") for each in sys.argv[3:])}
object_file = read_object(Path(sys.argv[1]).read_bytes()).with_variables(values)
module = object_file.module_spec(kernel_btf(), KernelConfig(*read_config()))

with ExitStack() as held:
    maps = {spec.name: held.enter_context(make_map(spec)) for spec in module.maps}
    programs = {spec.name: held.enter_context(Program(spec, maps)) for spec in module.programs}
    for name, entries in object_file.contents.items():  # maps of maps and of programs
        for index, entry in entries.items():
            maps[name][index] = maps[entry] if entry in maps else programs[entry]
    for program in programs.values():
        place = program.spec.attach  # of tracepoints, what the section's name says; else None
        if place is not None:
            held.enter_context(attach(program, place))
            print(f"{program.name} is attached: {place}", flush=True)
    time.sleep(float(sys.argv[2]))
    for name, each in maps.items():
        if isinstance(each, Map) and READ_WHOLE in each.spec.traits.operations:  # a ring buffer is read as events
            print(name, dict(each.items()))
