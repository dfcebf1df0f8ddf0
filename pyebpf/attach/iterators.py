"""Iterators: programs that the kernel runs for each element of a list of its own, and the records that they give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from pyebpf.attach.decorators import Decorators, attachments
from pyebpf.builder.context import KernelObject, LoadAttributes, ProgramContext
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.entity import describe
from pyebpf.builder.values.integers import read_int
from pyebpf.builder.values.kernel_objects import KernelReference, from_register, plain_name
from pyebpf.builder.values.kernel_references import NullableReference
from pyebpf.builder.values.lvalue import Lvalue, temporary
from pyebpf.builder.values.operations import rvalue
from pyebpf.builder.values.optional import OptionalInt
from pyebpf.builder.values.records import RecordLiteral
from pyebpf.builder.values.references import Reference
from pyebpf.compiler.ir import Condition as Relation, ValueType
from pyebpf.dataclass import dataclass, replace
from pyebpf.errors import InvalidValue, NotFound, closest
from pyebpf.module.probe import Candidate, Probe, Request
from pyebpf.specs.attach_point import AttachSpec
from pyebpf.types import U32, IntType, Struct, array_of
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import ProgramType
from pyebpf.uapi.helper_ids import SEQ_WRITE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Protocol

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.ssa.conditions import Test
    from pyebpf.compiler import ir
    from pyebpf.specs import MapSpec
    from pyebpf.target import KernelFunction, KernelParameter, KernelType, Target
    from pyebpf.types import StructType, Type

    class DeclaredMap(Protocol):
        """A map that a module declares."""

        @property
        def spec(self) -> MapSpec: ...
        def fileno(self) -> int: ...

    Q = ParamSpec("Q")
    U = TypeVar("U", bound=Struct)

    class IteratorDecorator(Protocol[U]):
        """Makes a function the program of an iterator."""

        def __call__(self, function: Callable[Q, None], /) -> IteratorProbe[Q, U]: ...


#: Iterators over what is in one map, which `read(map=…)` names: the kernel wants it in iter_info.
MAP_ITERATORS = ("bpf_map_elem", "bpf_sk_storage_map", "sockmap")
#: enum bpf_cgroup_iter_order, by the names that `read(order=…)` takes.
CGROUP_ORDERS = {"self": 1, "descendants_pre": 2, "descendants_post": 3, "ancestors": 4, "children": 5}


@dataclass(frozen=True, slots=True)
class KernelIterator(AttachSpec):
    """The kernel's list `name` ("task", "tcp"), each element of which becomes records of the type `record`.

    `map` is the shape of the map whose entries are walked, where the list is one's. Where a pass begins and what it is
    limited to is said when it is read: `map_fd` a map's descriptor, `cgroup` a control group's directory and `order`
    the way from there, `pid` or `tid` a process or thread; 0 and empty are no limit.
    """

    name: str
    record: StructType
    map: MapSpec | None = None
    map_fd: int = 0
    cgroup: str = ""
    order: str = "descendants_pre"
    pid: int = 0
    tid: int = 0

    program_type = ProgramType.TRACING
    attach_type = AttachType.TRACE_ITER

    def __str__(self) -> str:
        return f"iterator {self.name}"

    @property
    def target(self) -> str:
        return self.name

    @property
    def is_deferred(self) -> bool:
        return True

    def with_target(
        self,
        *place: Any,
        map: Any = None,  # noqa: A002 - the kernel's word
        cgroup: str = "",
        order: str = "",
        pid: int = 0,
        tid: int = 0,
    ) -> KernelIterator:
        """A pass over the list, limited. Raises InvalidValue for what this list is not limited by."""
        if place:
            raise InvalidValue(f"{self} is read by `probe.read()`; its limits have names: pid=, tid=, map=, cgroup=")
        task = self.name.startswith("task")
        for given, word, fits in (
            (map is not None, "map", self.name in MAP_ITERATORS),
            (bool(cgroup or order), "cgroup and order", self.name == "cgroup"),
            (bool(pid or tid), "pid and tid", task),
        ):
            if given and not fits:
                raise InvalidValue(f"{self} takes no {word}: it iterates over something else")
        if self.name in MAP_ITERATORS and map is None:
            raise InvalidValue(f"{self} iterates over a map: write @bpf.iter({self.name!r}, …, map=m), or read(map=m)")
        if order and order not in CGROUP_ORDERS:
            raise InvalidValue(
                f"order={order!r}{closest(order, CGROUP_ORDERS)}: give one of {', '.join(CGROUP_ORDERS)}"
            )
        if pid and tid:
            raise InvalidValue(f"{self}: give pid= for a whole process or tid= for one thread, not both")
        descriptor = 0 if map is None else int(map.fileno())
        return replace(self, map_fd=descriptor, cgroup=cgroup, order=order or self.order, pid=pid, tid=tid)

    def program_context(self) -> IteratorProgramContext:
        return IteratorProgramContext(self)


#: Helper number of enum bpf_func_id (since Linux 5.7).
#: In maps' iterators a value has this many bytes at least for each processor.
SLOT = 8


class IteratorProgramContext(ProgramContext[KernelIterator]):
    """Parameters are those of the kernel's function `bpf_iter_NAME`; the element is None at the end of the list."""

    def _function(self, target: Target) -> KernelFunction:
        name = self.attach.name
        try:
            # Other functions begin with bpf_iter_ as well; an iterator's context is a struct of its own.
            target.type_named(f"struct bpf_iter__{name}")
            return target.function(f"bpf_iter_{name}")
        except NotFound as error:
            _, _, meant = str(error).partition(" (did you mean ")
            # Other structs have names like it, too, and those of short iterators differ in little but the prefix.
            like = [each.removeprefix("bpf_iter__") for each in meant.removesuffix("?)").split(" or ") if "__" in each]
            those = "`pyebpf -l 'iter:*'` lists those there are, and BPF.iterators()"
            text = f"this kernel has no iterator {name!r}{closest(name, like)}: {those}"
            raise NotFound(text) from error

    def parameters(self, target: Target) -> Sequence[KernelParameter]:
        """The words of the context, each with its name and type. Raises NotFound."""
        return self._function(target).parameters

    def exists(self, target: Target) -> bool:
        try:
            self._function(target)
        except NotFound:
            return False
        return True

    def load_attributes(self, target: Target) -> LoadAttributes:
        function = self._function(target)
        return LoadAttributes(function.btf_id, function.module)

    def end(self, p: ProgramBuilder) -> Test:
        """Whether this is the call behind the last element: the kernel gives no element there."""
        always = ("meta", "map") if self.attach.name in MAP_ITERATORS else ("meta",)
        parameters = self.parameters(p.target)
        index = next(at for at, each in enumerate(parameters) if each.name not in always)
        element = p.b.load(p.context, 8 * index, 8, result=ValueType.POINTER)
        return Compare(Relation.EQ, element, p.b.const(0), null_check=True)

    def parameter(self, p: ProgramBuilder, name: str, annotation: object, position: int) -> object:
        found = self.field(p, plain_name(name))
        if annotation is None or not isinstance(found, OptionalInt):
            return super().parameter(p, name, annotation, position)
        held = found.loaded or found.type
        if annotation not in (int, KernelObject, held):
            shown = getattr(annotation, "name", annotation)
            p.fail(
                f"{name} is {held.name} in the map, and None after the last entry, not {shown}: leave it unannotated"
            )
        return found

    def field(self, p: ProgramBuilder, name: str) -> object:
        function = self._function(p.target)
        for index, parameter in enumerate(function.parameters):
            if parameter.name == name:
                return self._argument(p, index, name, parameter.type)
        names = [each.name for each in function.parameters]
        p.fail(f"{self.attach} has no {name}{closest(name, names)}: it has {', '.join(names)}")

    def _argument(self, p: ProgramBuilder, index: int, name: str, type_: KernelType) -> object:
        element = type_.element
        if element is None:
            return from_register(p, p.b.load(p.context, 8 * index, 8), type_, trusted=False)
        register = p.b.load(p.context, 8 * index, 8, result=ValueType.POINTER)
        if element.composite:
            always = name == "meta" or (name == "map" and self.attach.name in MAP_ITERATORS)
            made = KernelReference if always else NullableReference
            return made(register, element, trusted=True)
        return self._bytes(p, register, name)

    def _bytes(self, p: ProgramBuilder, register: ir.Value, name: str) -> object:
        """A key or a value of the map that is walked: as its declaration types it."""
        spec = self.attach.map
        if spec is None:
            p.fail(
                f"the type of {name} is the map's: name it in the decorator, @bpf.iter({self.attach.name!r}, …, map=m)"
            )
        type_: Type | None = (spec.key or U32) if name == "key" else spec.value
        assert type_ is not None
        if name == "value" and spec.traits.per_cpu:
            if type_.size % SLOT:
                p.fail(f"a value of {type_.name} for each processor: use a type of whole 8 bytes, such as u64")
            type_ = array_of(type_, p.target.possible_cpus)
        owner = f"the {name} of {spec.name}"
        if not isinstance(type_, IntType):
            return p.load_value(Lvalue(base=register, owner=owner, null_check=register, writable=False), type_)
        number = p.b.variable(hint=name)
        with p.b.if_(Compare(Relation.NE, register, p.b.const(0), null_check=True)):
            found = read_int(p, register, 0, type_)
            p.b.write(number, found.value)
        with p.b.else_():
            p.b.write(number, p.b.const(0))
        return OptionalInt(register, p.b.read_final(number), found.type, found.loaded, owner)

    def emit(self, p: ProgramBuilder, value: object) -> None:
        """Write a copy of a record to what is being read.

        Where it finds no room the kernel gives the reader what there is, and runs the program for this element again.
        """
        record = self.attach.record
        value = rvalue(p, value)
        given = value.type if isinstance(value, (RecordLiteral, Reference)) else None
        if isinstance(value, Struct):
            given = value.layout
        if given != record:
            p.fail(f"{self.attach} is read as {record.name} records: emit() takes one, not {describe(value)}")
        if isinstance(value, Reference):
            value.check(p)
        meta = p.b.load(p.context, 0, 8, result=ValueType.POINTER)
        place = p.target.struct_member("struct bpf_iter_meta", "seq").offset
        with temporary(p, record.size) as slot:
            address = p.b.slot_address(slot)
            p.store_value(address, 0, record, value)
            seq = p.b.load(meta, place, 8, result=ValueType.POINTER)
            p.b.call(SEQ_WRITE, seq, address, p.b.const(record.size))


P = ParamSpec("P")
T = TypeVar("T", bound=Struct)


class IteratorProbe(Probe[P, None], Generic[P, T]):
    """The result of `@bpf.iter`: `read()` is one pass over the list."""

    _walked: DeclaredMap | None = None

    def read(
        self,
        *,
        map: object = None,  # noqa: A002 - the kernel's word
        pid: int = 0,
        tid: int = 0,
        cgroup: str = "",
        order: str = "",
    ) -> Iterator[T]:
        """Read the list once: every record that the program emits, in order.

        The kernel goes on as records are taken; leaving early ends the pass. A list of tasks is limited to one process
        by `pid`, to one thread by `tid`. `map` is the map to read: any with a `fileno()`, of the shape of the
        decorator's, which is read without it. `cgroup` is a directory of the cgroup2 file system and `order` "self",
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


class IteratorDecorators(Decorators):
    """Programs over the kernel's lists."""

    def iter(
        self,
        name: str,
        record: type[T],
        *,
        map: DeclaredMap | None = None,  # noqa: A002 - the kernel's word
    ) -> IteratorDecorator[T]:
        """Run for each element of the kernel's list `name`, whenever `probe.read()` reads it.

        "task", "task_file", "task_vma", "tcp", "udp", "unix", "bpf_map", "bpf_prog", "bpf_map_elem" (with `map`) and
        what else `bpf.iterators()` lists. Parameters are those of the kernel's function bpf_iter_NAME. The program
        gives records to the reader by `emit(record)`; it also runs once after the last element, with None.
        """
        layout = getattr(record, "layout", None)
        if layout is None:
            raise InvalidValue(f"@bpf.iter({name!r}, {record!r}): give the Struct class that emit() makes records of")

        def decorate(function: object) -> IteratorProbe[Any, T]:
            place = KernelIterator(name, layout, None if map is None else map.spec)
            request = Request("iter", (name,), (Candidate("iter", attachments((place,))),))
            probe: IteratorProbe[Any, T] = IteratorProbe(self._module.body_of(function, "iter"), (request,))
            probe._walked = map
            self._module.probes.append(probe)
            return probe

        return decorate
