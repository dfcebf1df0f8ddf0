"""Maps that XDP programs redirect frames through: to interfaces, processors, AF_XDP sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.methods import method_of
from pyebpf.builder.values.operations import rvalue, to_int
from pyebpf.compiler.ir import Op
from pyebpf.maps.declared import LoadedMap
from pyebpf.maps.mapping import StoredObjectArray
from pyebpf.specs import MapSpec
from pyebpf.specs.maps import map_size
from pyebpf.types import S64, U32
from pyebpf.uapi.bpf import MapType, ProgramType
from pyebpf.uapi.helpers import HELPER_IDS

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder


class RedirectMap(LoadedMap, StoredObjectArray[int]):
    """`bpf.devmap(size=N)`, `bpf.cpumap(size=N)`, `bpf.xskmap(size=N)`.

    In user space `ports[0] = "eth1"` (or an interface's index), `queues[3] = 192` (frames that may wait for processor
    3), `sockets[0] = socket`; `del` takes it out again.
    """

    def __init__(self, name: str, map_type: MapType, size: int) -> None:
        self.name = name
        self.map_type = map_type
        self.max_entries = map_size(size)

    if TYPE_CHECKING:

        def redirect(self, key: int, flags: int = 0) -> int:
            """In XDP programs: send the frame to what stands under the key. Return what this returns.

            XDP_REDIRECT, or the two low bits of `flags` where nothing does: XDP_ABORTED, or XDP_PASS if given. In a
            devmap, BPF_F_BROADCAST (8) sends it to every interface there, with BPF_F_EXCLUDE_INGRESS (16) but its own.
            """

    # -- in probes -----------------------------------------------------------------------------------------------------

    @property
    def spec(self) -> MapSpec:
        """The spec of the map that the loader makes."""
        return MapSpec(self.map_name, self.map_type, U32, U32, self.max_entries)

    def describe(self) -> str:
        return f"the {self.map_type.name.lower()} {self.map_name}"

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        return method_of(p, self, name, {"redirect": self._redirect})

    def _redirect(self, p: ProgramBuilder, key: object, flags: object = 0) -> Int:
        """`redirect(k, flags)`: XDP_REDIRECT, or the two low bits of `flags` where there is no such key."""
        if p.program_type is not ProgramType.XDP:
            p.fail(f"redirect() of {self.describe()} is for XDP programs: in tc, write helpers.redirect(ifindex, 0)")
        key = rvalue(p, key)
        if isinstance(key, int) and not 0 <= key <= U32.maximum:
            p.fail(f"{int(key)} is not a key of {self.describe()}: keys are u32")
        handle = self.handle(p)
        number = to_int(p, key).value
        if p.b.bounds(number)[0] < 0 or p.b.bounds(number)[1] > U32.maximum:
            number = p.b.emit(Op.ZEXT, number, size=4)
        result = p.b.call(
            HELPER_IDS["redirect_map"], handle, number, to_int(p, flags).value, comment="bpf_redirect_map"
        )
        p.b.assume_bounds(result, 0, U32.maximum)
        return Int(result, S64)
