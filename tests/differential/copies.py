"""Records that are copied, swapped, given to functions and kept in maps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.differential.core import FIELDS, UNSIGNED_FIELDS, Generator

if TYPE_CHECKING:
    from tests.differential.program import Scope

__all__ = ["Copies"]


class Copies(Generator):
    """Two names of one record, two records in one, entries of maps."""

    def copies(self, scope: Scope, indent: int) -> None:
        """One of them; those that make records at the outermost level only."""
        ways = [self._entry, self._entry, self._stored, self._removed]
        if not scope.depth:
            ways += [self._pair, self._made, self._swapped, self._swapped]
        if scope.records:
            ways += [self._changed, self._fields_swapped]
        if scope.pairs:
            ways += [self._of_pair] * 4
        self.random.choice(ways)(scope, indent)

    def literal_record(self, scope: Scope) -> str:
        """A record of numbers."""
        values = ", ".join(f"{field}={self.atom(scope, self.pick('u', 's'))}" for field in FIELDS)
        return f"Record({values})"

    def any_record(self, scope: Scope) -> str:
        """A name of one, or a new one."""
        if scope.records and self.chance(0.7):
            return self.random.choice(scope.records)
        return self.literal_record(scope)

    def field(self) -> tuple[str, str]:
        """A field and the type that it is read as."""
        name = self.pick(*FIELDS)
        return name, "u" if name in UNSIGNED_FIELDS else "s"

    def _made(self, scope: Scope, indent: int) -> None:
        name = self.name("r")
        self.emit(indent, f"{name} = {self.literal_record(scope)}")
        scope.records.append(name)

    def _pair(self, scope: Scope, indent: int) -> None:
        name = self.name("p")
        first, second = self.any_record(scope), self.any_record(scope)
        number = self.expression(scope, "s", 1)
        self.emit(indent, f"{name} = Two(first={first}, number={number}, second={second})")
        scope.pairs.append(name)
        self._of_pair(scope, indent)

    def _of_pair(self, scope: Scope, indent: int) -> None:
        name, (field, kind) = self.random.choice(scope.pairs), self.field()
        part = self.pick("first", "second")
        match self.random.randrange(5):
            case 0:
                self.emit(indent, f"{name}.first, {name}.second = {name}.second, {name}.first")
            case 1:
                self.emit(indent, f"{name}.{part} = {self.any_record(scope)}")
            case 2:
                self.emit(indent, f"{name}.{part}.{field} = {self.expression(scope, kind, 2)}")
            case 3:
                made = self.number_name(kind)
                self.emit(indent, f"{made} = {name}.{part}.{field}")
                scope.names[made] = kind
            case _:
                self.emit(indent, f"twos[{self.expression(scope, 's', 1)} & 3] = {name}")

    def _swapped(self, scope: Scope, indent: int) -> None:
        while len(scope.records) < 2:
            self._made(scope, indent)
        one, other = self.random.sample(scope.records, 2)
        self.emit(indent, f"{one}, {other} = {other}, {one}")

    def _fields_swapped(self, scope: Scope, indent: int) -> None:
        record, other = self.random.choice(scope.records), self.random.choice(scope.records)
        one, two = f"{record}.{self.field()[0]}", f"{other}.{self.field()[0]}"
        self.emit(indent, f"{one}, {two} = {two}, {one}")

    def _changed(self, scope: Scope, indent: int) -> None:
        """By a function that is given the record itself."""
        name, (field, _), (other, _) = self.name("c"), self.field(), self.field()
        body = [f"    r.{field} {self.pick('+', '^', '-')}= x", f"    r.{other} = r.{field} {self.pick('+', '&')} 77"]
        self.outside += [f"def {name}(r, x):", *body, f"    return r.{other}", ""]
        made = self.number_name("s")
        self.emit(
            indent, f"{made} = s64({name}({self.random.choice(scope.records)}, {self.expression(scope, 's', 1)}))"
        )
        scope.names[made] = "s"

    def _stored(self, scope: Scope, indent: int) -> None:
        key = f"{self.expression(scope, self.pick('u', 's'), 1)} & 3"
        match self.random.randrange(4):
            case 0 | 1:
                self.emit(indent, f"kept[{key}] = {self.any_record(scope)}")
            case 2:
                made = self.number_name("s")
                self.emit(indent, f"{made} = s64(kept.add({key}, {self.any_record(scope)}))")
                scope.names[made] = "s"
            case _:
                made = self.number_name("s")
                self.emit(indent, f"{made} = s64({key} {self.pick('in', 'not in')} kept)")
                scope.names[made] = "s"

    def _removed(self, scope: Scope, indent: int) -> None:
        key = f"{self.expression(scope, self.pick('u', 's'), 1)} & 3"
        if self.chance(0.5):
            self.emit(indent, f"del kept[{key}]")
            return
        name, made, (field, _) = self.name("v"), self.number_name("s"), self.field()
        self.emit(indent, f"{made} = s64({self.random.randrange(9)})")
        self.emit(indent, f"{name} = kept.pop({key})")
        self.emit(indent, f"if {name} is not None:")
        self.emit(indent + 1, f"{made} = s64({name}.{field})")
        scope.names[made] = "s"

    def _entry(self, scope: Scope, indent: int) -> None:
        """An entry of a map, changed in place."""
        name, made, (field, kind) = self.name("v"), self.number_name("s"), self.field()
        self.emit(indent, f"{made} = s64({self.random.randrange(9)})")
        self.emit(indent, f"{name} = kept.get({self.expression(scope, 's', 1)} & 3)")
        self.emit(indent, f"if {name} is not None:")
        self.emit(indent + 1, f"{name}.{field} = {self.expression(scope, kind, 2)}")
        other = self.pick("wide", "long", "half", "mid")
        its = "u" if other == "wide" else "s"
        self.emit(indent + 1, f"{name}.{other} {self.pick('+', '-', '^', '|', '&')}= {self.expression(scope, its, 1)}")
        self.emit(indent + 1, f"{made} = s64({name}.{self.field()[0]})")
        scope.names[made] = "s"
