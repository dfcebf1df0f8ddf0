"""`@bpf.iter`: a program run for each element of a kernel's list, read from Python as records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from pyebpf.attach.decorators import Decorators, attachments
from pyebpf.errors import InvalidValue
from pyebpf.module.probe import Candidate, Probe, Request
from pyebpf.types import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Protocol

    from pyebpf.specs import MapSpec

    class DeclaredMap(Protocol):
        """A map that a module declares."""

        @property
        def spec(self) -> MapSpec: ...
        def fileno(self) -> int: ...


__all__ = ["IteratorDecorators", "IteratorProbe"]

P = ParamSpec("P")
T = TypeVar("T", bound=Struct)


class IteratorProbe(Probe[P, None], Generic[P, T]):
    """The result of `@bpf.iter`: `read()` is one pass over the list."""

    _walked: DeclaredMap | None = None

    def read(
        self,
        *,
        map: Any = None,  # noqa: A002 - the kernel's word
        pid: int = 0,
        tid: int = 0,
        cgroup: str = "",
        order: str = "",
    ) -> Iterator[T]:
        """Walk the list once: every record that the program emits, in order.

        The kernel goes on as records are taken; leaving early ends the pass. A list of tasks is limited to one process
        by `pid`, to one thread by `tid`. `map` is the map to walk: any with a `fileno()`, of the shape of the
        decorator's, which is walked without it. `cgroup` is a directory of the cgroup2 file system and `order` "self",
        "descendants_pre" (by itself), "descendants_post", "ancestors" or "children".

        Raises NotLoaded outside `with bpf:`, InvalidValue for a limit that this list has not, NotFound for a process
        or control group that there is none of.
        """
        walked = map if map is not None else self._walked
        limits = {"map": walked, "cgroup": cgroup, "order": order, "pid": pid, "tid": tid}
        link: Any = self.attach(**{word: limit for word, limit in limits.items() if limit})
        return self._records(link)

    @staticmethod
    def _records(link: Any) -> Iterator[T]:
        with link:
            yield from link.read()


if TYPE_CHECKING:
    Q = ParamSpec("Q")
    U = TypeVar("U", bound=Struct)

    class IteratorDecorator(Protocol[U]):
        """Makes a function the program of an iterator."""

        def __call__(self, function: Callable[Q, None], /) -> IteratorProbe[Q, U]: ...


class IteratorDecorators(Decorators):
    """Programs over the kernel's lists."""

    def iter(
        self,
        name: str,
        record: type[T],
        *,
        map: DeclaredMap | None = None,  # noqa: A002 - the kernel's word
    ) -> IteratorDecorator[T]:
        """Run for each element of the kernel's list `name`, whenever `probe.read()` walks it.

        "task", "task_file", "task_vma", "tcp", "udp", "unix", "bpf_map", "bpf_prog", "bpf_map_elem" (with `map`) and
        what else `bpf.iterators()` lists. Parameters are those of the kernel's function bpf_iter_NAME. The program
        gives records to the reader by `emit(record)`; it also runs once after the last element, with None.
        """
        layout = getattr(record, "layout", None)
        if layout is None:
            raise InvalidValue(f"@bpf.iter({name!r}, {record!r}): give the Struct class that emit() makes records of")

        def decorate(function: Any) -> IteratorProbe[Any, T]:
            from pyebpf.specs.attach.iterators import KernelIterator

            place = KernelIterator(name, layout, None if map is None else map.spec)
            request = Request("iter", (name,), (Candidate("iter", attachments((place,))),))
            probe: IteratorProbe[Any, T] = IteratorProbe(self._module.body_of(function, "iter"), (request,))
            probe._walked = map
            self._module.probes.append(probe)
            return probe

        return decorate
