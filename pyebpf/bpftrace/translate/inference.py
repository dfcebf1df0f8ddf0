"""Types of a script's maps and variables, found by building it: each assignment notes a type, until none is new.

There is one description of every operation, the one that builds its code; while types are still being found, what is
built is thrown away, and so are errors about it. Maps belong to the whole script, variables to one program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.bpftrace.described import described
from pyebpf.bpftrace.series import SeriesTable
from pyebpf.bpftrace.single import gathered
from pyebpf.bpftrace.tables import MAX_KEYS, Gathered, Table
from pyebpf.bpftrace.translate.values import joined
from pyebpf.bpftrace.value_types import Aggregate, Number, Record, String, Tuple, ValueType
from pyebpf.dataclass import dataclass, replace
from pyebpf.errors import closest
from pyebpf.uapi.bpf import MapType

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from pyebpf.bpftrace.ast import Map, MapDeclaration, Node
    from pyebpf.bpftrace.source import Source

    AnyTable: TypeAlias = Table | Gathered | SeriesTable

#: Kinds of maps that a script may declare, by bpftrace's names.
KINDS = {
    "hash": MapType.HASH,
    "lruhash": MapType.LRU_HASH,
    "percpuhash": MapType.PERCPU_HASH,
    "percpulruhash": MapType.LRU_PERCPU_HASH,
}
#: Those for values that are assigned, and those for what functions gather.
_ASSIGNED_KINDS = (MapType.HASH, MapType.LRU_HASH)
_GATHERED_KINDS = (MapType.HASH, MapType.PERCPU_HASH, MapType.LRU_PERCPU_HASH)
#: Bytes of an entry beside key and value: the kernel's head of it, and its bucket.
_ENTRY = 64
#: MiB of a map from which on a script's user is told, and the least number of keys that may come to so much.
_MUCH, _MANY_KEYS = 256, 10_000


#: Builds in which a type may grow; then it is taken for the widest.
_MAX_GROWTHS = 3


class _Growths:
    """The builds in which types grew: one that grows in many, `$s = str_concat($s, "x")`, is made the widest."""

    def __init__(self) -> None:
        self.builds = 0
        #: Bytes of a string at most, which the kernel is asked for where it matters.
        self._longest: Callable[[], int] = int
        self._grown: dict[object, set[int]] = {}

    def begin(self, longest: Callable[[], int]) -> None:
        """Count a build."""
        self.builds += 1
        self._longest = longest

    def bounded(self, key: object, type_: ValueType) -> ValueType:
        """A type that has grown, or the widest that it may become."""
        grown = self._grown.setdefault(key, set())
        grown.add(self.builds)
        return _widest(type_, self._longest()) if len(grown) >= _MAX_GROWTHS else type_


def _widest(type_: ValueType, longest: int) -> ValueType:
    """A type with strings of as many bytes as any has."""
    if isinstance(type_, String):
        return String(max(type_.size, longest), type_.cut)
    if isinstance(type_, Tuple | Record):
        return replace(type_, parts=tuple([_widest(each, longest) for each in type_.parts]))
    return type_


@dataclass()
class MapFacts:
    """The facts of a map: the types of keys (None: it has none) and of values; None for those not yet known."""

    node: Node
    keyed: bool | None = None
    key: ValueType | None = None
    value: ValueType | None = None
    size: int = MAX_KEYS
    kind: MapType = MapType.HASH
    #: Whether a program removes entries.
    loses: bool = False


class Variables:
    """Types of a program's scratch variables, an analysis of the program: it is built until they are known."""

    def __init__(self) -> None:
        self.changed = False
        self.types: dict[str, ValueType] = {}
        self.growths = _Growths()
        #: Those whose address is taken.
        self.addressed: set[str] = set()
        #: Those that each loop over a map uses, by the node's identity.
        self.in_loops: dict[int, set[str]] = {}

    def note_loop(self, node: Node, names: set[str]) -> None:
        """Note which variables the body of a loop over a map uses: they are handed to it, and no others."""
        known = self.in_loops.get(id(node))
        if known is None or not names <= known:
            self.in_loops[id(node)] = names | (known or set())
            self.changed = True

    def note_address(self, name: str) -> None:
        """Note that a variable's address is taken."""
        if name not in self.addressed:
            self.addressed.add(name)
            self.changed = True

    def note(self, name: str, type_: ValueType) -> bool:
        """Note that a variable holds a value of a type; False if it cannot, with the others that it holds."""
        known = self.types.get(name)
        together = type_ if known is None else joined(known, type_)
        if together is None:
            return False
        if together != known:
            self.types[name] = together if known is None else self.growths.bounded(name, together)
            self.changed = True
        return True


class Maps:
    """The maps of a script. `changed` says that something new was learnt of one."""

    def __init__(self, source: Source, declarations: tuple[MapDeclaration, ...], size: int) -> None:
        self.changed = False
        self.growths = _Growths()
        self._source, self._declarations = source, declarations
        self._size = size
        self._facts: dict[str, MapFacts] = {}
        self._tables: dict[str, tuple[object, AnyTable]] = {}
        #: The first place where a map is read of which no assignment tells the type.
        self.unknown: tuple[str, Node] | None = None
        #: Where maps are read as values, by name, and those of them that nothing is assigned to.
        self._reads: dict[str, Map] = {}
        self.assumed: dict[str, Map] = {}
        for each in declarations:
            kind = KINDS.get(each.kind)
            if kind is None:
                like = closest(each.kind, KINDS) or f": it is one of {', '.join(KINDS)}"
                raise source.error(f"{each.kind} is no kind of map{like}", each)
            self._facts[each.map.name] = MapFacts(each, size=each.size, kind=kind)

    def _of(self, node: Map, *, keyed: bool) -> MapFacts:
        facts = self._facts.setdefault(node.name, MapFacts(node, size=self._size))
        if facts.keyed is None:
            facts.keyed = keyed
        if facts.keyed is not keyed:
            has = "has a key elsewhere: give it one here" if facts.keyed else "has no key elsewhere: leave it out here"
            raise self._source.error(f"@{node.name} {has}", node)
        return facts

    def note_key(self, node: Map, key: ValueType | None) -> None:
        """Note the type of a key; None where the map has none."""
        facts = self._of(node, keyed=key is not None)
        if key is None:
            return
        together = key if facts.key is None else joined(facts.key, key)
        if together is None:
            assert facts.key is not None
            raise self._source.error(
                f"the keys of @{node.name} are {described(facts.key)} elsewhere, and {described(key)} here", node
            )
        if together != facts.key:
            grown = together if facts.key is None else self.growths.bounded((node.name, "key"), together)
            facts.key, self.changed = grown, True

    def note_value(self, node: Map, value: ValueType) -> None:
        """Note the type of a value that is assigned, behind the key's."""
        facts = self._facts.setdefault(node.name, MapFacts(node, size=self._size))
        known = facts.value
        together = value if known is None else _together(known, value)
        if together is None:
            assert known is not None
            raise self._source.error(
                f"@{node.name} holds {_described(known)} elsewhere, and {_described(value)} here", node
            )
        kinds = _GATHERED_KINDS if isinstance(together, Aggregate) else _ASSIGNED_KINDS
        if facts.kind not in kinds:
            names = " or ".join([name for name, kind in KINDS.items() if kind in kinds])
            raise self._source.error(f"@{node.name} holds {_described(together)}: declare it as {names}", facts.node)
        if together != known:
            grown = together if known is None else self.growths.bounded((node.name, "value"), together)
            facts.value, self.changed = grown, True

    def note_removal(self, node: Map) -> None:
        """Note that a program removes entries."""
        facts = self._facts.setdefault(node.name, MapFacts(node, size=self._size))
        if not facts.loses:
            facts.loses = self.changed = True

    def note_read(self, node: Map) -> None:
        """Note that a map is read as a value."""
        self._reads.setdefault(node.name, node)

    def assume_number(self) -> bool:
        """Take the first map that is read and never assigned for one of numbers, all 0; whether there is such a map.

        Others may have their type of it.
        """
        for name, node in self._reads.items():
            facts = self._facts.get(name)
            if facts is not None and facts.value is None and (facts.key is not None or not facts.keyed):
                self.note_value(node, Number())
                self.assumed[name] = node
                return True
        return False

    def value_type(self, node: Map) -> ValueType | None:
        """The type of a map's values; None if nothing tells it yet."""
        facts = self._facts.get(node.name)
        return None if facts is None else facts.value

    def is_keyed(self, node: Map) -> bool:
        """Whether a map has keys, as far as is known."""
        facts = self._facts.get(node.name)
        return facts is not None and bool(facts.keyed)

    def table(self, node: Map) -> AnyTable | None:
        """The map as its types are known now; None if they are not, which is noted."""
        facts = self._facts.get(node.name)
        if facts is None or facts.value is None or facts.keyed is None or (facts.keyed and facts.key is None):
            self.unknown = self.unknown or (f"@{node.name} is never assigned: nothing tells what it holds", node)
            return None
        known = (facts.keyed, facts.key, facts.value, facts.loses)
        found = self._tables.get(node.name)
        if found is not None and found[0] == known:
            return found[1]
        name, key = f"@{node.name}", facts.key if facts.keyed else None
        made: AnyTable
        if isinstance(facts.value, Aggregate) and facts.value.kind == "tseries":
            made = SeriesTable(name, key, facts.value, facts.size)
        elif isinstance(facts.value, Aggregate):
            made = gathered(name, key, facts.value, facts.size, facts.kind, loses=facts.loses)
        else:
            made = Table(name, key, facts.value, facts.size, facts.kind)
        self._tables[node.name] = known, made
        return made

    def unused(self) -> list[MapDeclaration]:
        """The declarations of maps that nothing uses."""
        facts = [self._facts[each.map.name] for each in self._declarations]
        return [
            declared
            for declared, each in zip(self._declarations, facts, strict=True)
            if each.keyed is None and each.value is None
        ]

    def large(self, cpus: Callable[[], int]) -> list[tuple[Node, str, int]]:
        """Maps whose entries take much memory as soon as they are made: where they are, their names, MiB."""
        found = []
        for name in sorted(self._tables):
            table, facts = self._tables[name][1], self._facts[name]
            if not facts.keyed or facts.size < _MANY_KEYS:
                continue
            spec = table.spec
            assert spec.key is not None
            assert spec.value is not None
            parts = cpus() if spec.type in (MapType.PERCPU_HASH, MapType.LRU_PERCPU_HASH) else 1
            mebibytes = facts.size * (_ENTRY + spec.key.size + parts * spec.value.size) >> 20
            if mebibytes >= _MUCH:
                found.append((facts.node, table.name, mebibytes))
        return found

    def tables(self) -> list[AnyTable]:
        """All maps of known types, in the order of their names."""
        return [self._tables[name][1] for name in sorted(self._tables)]


def _together(one: ValueType, other: ValueType) -> ValueType | None:
    if isinstance(one, Aggregate) and isinstance(other, Aggregate):
        if (one.kind, one.arguments) != (other.kind, other.arguments):
            return None
        return Aggregate(one.kind, one.signed or other.signed, one.arguments)
    return joined(one, other)


def _described(type_: ValueType) -> str:
    if isinstance(type_, Aggregate):
        return f"{type_.kind}({', '.join(['…', *map(str, type_.arguments)]) if any(type_.arguments) else ''})"
    return described(type_)
