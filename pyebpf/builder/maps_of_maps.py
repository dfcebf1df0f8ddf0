"""Maps of maps in a probe: a look-up finds a map, whose operations then are those of its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from pyebpf.builder.maps import MapEntity
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.map_pointers import InnerMap, MapPointer
from pyebpf.builder.values.methods import method_of
from pyebpf.compiler.ir import Condition
from pyebpf.dataclass import replace
from pyebpf.types import U32
from pyebpf.uapi.bpf import MapType

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.ssa.conditions import Test
    from pyebpf.specs import MapSpec
    from pyebpf.types import Type

__all__ = ["MapOfMapsEntity"]


class MapOfMapsEntity(MapEntity):
    """An array or hash of maps, all of the shape of `template`. Only user space puts maps in and takes them out."""

    def __init__(
        self,
        name_source: str | Callable[[], str],
        kind: MapType,
        key: Type,
        template: MapPointer,
        max_entries: int,
        flags: int = 0,
    ) -> None:
        super().__init__(name_source, kind, key, U32, max_entries, flags)
        self.template = template

    @property
    def spec(self) -> MapSpec:
        inner = replace(self.template.spec, initial=(), frozen=False)
        return replace(super().spec, key=self.key, value=None, inner=inner)

    def attribute(self, p: ProgramBuilder, name: str) -> Any:
        return method_of(p, self, name, {"get": self._get_map})

    def _get_map(self, p: ProgramBuilder, key: Any) -> InnerMap:
        if self.kind is MapType.ARRAY_OF_MAPS and isinstance(key, int) and not 0 <= key < self.max_entries:
            p.fail(f"index {int(key)} is outside {self.describe()}, which has {self.max_entries} entries")
        return InnerMap(self._find(p, key), self.template, self.map_name)

    def item(self, p: ProgramBuilder, index: Any) -> NoReturn:
        name = self.map_name
        p.fail(f"{name}[k] may be missing: write {name}.get(k) and test it with `is None`")

    def set_item(self, p: ProgramBuilder, index: Any, value: Any) -> NoReturn:
        self._user_side(p)

    def augment_item(self, p: ProgramBuilder, index: Any, operator: str, value: Any) -> NoReturn:
        self.item(p, index)

    def delete_item(self, p: ProgramBuilder, index: Any) -> NoReturn:
        self._user_side(p)

    def _user_side(self, p: ProgramBuilder) -> NoReturn:
        p.fail(f"{self.describe()} holds maps: user space puts them in and takes them out, probes look them up")

    def contains(self, p: ProgramBuilder, item: Any) -> Test:
        return Compare(Condition.NE, self._find(p, item), p.b.const(0), null_check=True)
