"""`DeclaredMap`: what a module asks of the maps that are declared in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyebpf.specs import MapSpec
    from pyebpf.types import Struct


class DeclaredMap(Protocol):
    """A map of a module: a name, its own or to be given, and the specs of what is to be made."""

    name: str

    @property
    def record_class(self) -> type[Struct] | None:
        """The class of a buffer's records; None for what is no buffer of records."""

    @property
    def reader_options(self) -> Mapping[str, Any]:
        """Further arguments of the buffer's reader."""

    @property
    def spec(self) -> MapSpec:
        """The map itself."""

    def specs(self) -> Sequence[MapSpec]:
        """Every map that is to be made for it, hidden ones included."""

    def bind(self, store: object, /) -> None:
        """Read and write a loaded map's store from now on; None: none."""


D = TypeVar("D", bound=DeclaredMap)
