"""Maps that XDP programs redirect frames through: to interfaces, processors, AF_XDP sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.values.entity import Entity
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.methods import method_of
from pyebpf.builder.values.operations import rvalue, to_int
from pyebpf.compiler.ir import Op
from pyebpf.specs import MapSpec
from pyebpf.types import S64, U32
from pyebpf.uapi.bpf import MapType, ProgramType
from pyebpf.uapi.helpers import HELPER_IDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.builder.program import ProgramBuilder

__all__ = ["RedirectMapEntity"]


class RedirectMapEntity(Entity):
    """A devmap, cpumap or xskmap."""

    def __init__(self, name_source: Callable[[], str], kind: MapType, max_entries: int) -> None:
        self._name_source = name_source
        self.kind = kind
        self.max_entries = max_entries

    @property
    def spec(self) -> MapSpec:
        """The spec of the map that the loader makes."""
        return MapSpec(self._name_source(), self.kind, U32, U32, self.max_entries)

    def describe(self) -> str:
        return f"the {self.kind.name.lower()} {self._name_source()}"

    def attribute(self, p: ProgramBuilder, name: str) -> Any:
        return method_of(p, self, name, {"redirect": self._redirect})

    def _redirect(self, p: ProgramBuilder, key: Any, flags: Any = 0) -> Int:
        """`redirect(k, flags)`: XDP_REDIRECT, or the two low bits of `flags` where there is no such key."""
        if p.kind is not ProgramType.XDP:
            p.fail(f"redirect() of {self.describe()} is for XDP programs: in tc, write helpers.redirect(ifindex, 0)")
        key = rvalue(p, key)
        if isinstance(key, int) and not 0 <= key <= U32.maximum:
            p.fail(f"{int(key)} is no key of {self.describe()}: keys are u32")
        handle = p.b.emit(Op.MAP, symbol=p.use_map(self.spec))
        number = to_int(p, key).value
        if p.b.bounds(number)[0] < 0 or p.b.bounds(number)[1] > U32.maximum:
            number = p.b.emit(Op.ZEXT, number, size=4)
        result = p.b.call(
            HELPER_IDS["redirect_map"], handle, number, to_int(p, flags).value, comment="bpf_redirect_map"
        )
        p.b.assume_bounds(result, 0, U32.maximum)
        return Int(result, S64)
