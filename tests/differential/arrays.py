"""What numbers with bounds index: arrays, fields that are arrays, the context of a syscall program."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.differential.bounds import Bounds
from tests.differential.core import Generator

if TYPE_CHECKING:
    from tests.differential.program import Scope

__all__ = ["ARRAYS", "CONTEXT", "WIDE", "WIDE_ENTRIES", "Arrays"]

#: Array maps: the type of an element and their number.
ARRAYS = {"three": ("u64", 3), "five": ("s64", 5), "seven": ("u32", 7), "sixteen": ("s32", 16), "hundred": ("u64", 100)}

#: Fields of the record with arrays, and how many of it a map holds.
WIDE = {"fa": ("u32", 5), "fb": ("u64", 3), "fc": ("s16", 7), "fd": ("u8", 6), "fe": ("s64", 4), "ff": ("s8", 16)}
WIDE_ENTRIES = 3

#: Fields of a syscall program's record: `a` is a u64, `b` an s64, `name` a text; these are arrays.
CONTEXT = {"words": ("u32", 8), "octets": ("u8", 5), "shorts": ("s16", 7), "longs": ("s64", 4), "wides": ("u64", 3)}


class Container(NamedTuple):
    """An array: how it is written, its elements' type and their number; whether another processor may write it."""

    text: str
    type: str
    length: int
    shared: bool

    @property
    def kind(self) -> str:
        return "u" if self.type == "u64" else "s"


class Arrays(Bounds, Generator):
    """Elements read and written at every index that is known to lie inside."""

    def container(self, scope: Scope) -> Container:
        """An array that can be used here."""
        ways = ["map", "map", "entry"] + ["record"] * 2 * bool(scope.wide) + ["context"] * 4 * self.called
        match self.pick(*ways):
            case "map":
                name = self.pick(*ARRAYS)
                return Container(name, *ARRAYS[name], shared=True)
            case "entry":
                name = self.pick(*WIDE)
                return Container(f"held[{self.bounded(scope, WIDE_ENTRIES - 1, 1)}].{name}", *WIDE[name], shared=True)
            case "record":
                name = self.pick(*WIDE)
                return Container(f"{self.random.choice(scope.wide)}.{name}", *WIDE[name], shared=False)
            case _:
                name = self.pick(*CONTEXT)
                return Container(f"ctx.{name}", *CONTEXT[name], shared=False)

    def element(self, scope: Scope, kind: str) -> str:
        """An element as a number of a type."""
        array = self.container(scope)
        index = "-1" if "." in array.text and self.chance(0.05) else self.bounded(scope, array.length - 1)
        text = f"{array.text}[{index}]"
        return text if array.kind == kind else f"{'u64' if kind == 'u' else 's64'}({text})"

    def indexed(self, scope: Scope, indent: int) -> None:
        """A store, an operation, a swap; a loop over an array; a test before an index."""
        array = self.container(scope)
        value = self.expression(scope, array.kind, 2)
        top = array.length - 1
        match self.random.randrange(9):
            case 0 | 1:
                self.emit(indent, f"{array.text}[{self.bounded(scope, top)}] = {value}")
            case 2:
                # What others may write at the same time is changed by atomic instructions, of 4 and 8 bytes.
                operators = (
                    ("+", "-", "&", "|", "^") if array.shared else ("+", "-", "*", "&", "|", "^", "//", "%", ">>")
                )
                operator = self.pick(*operators)
                if array.shared and array.type not in ("u64", "s64", "u32", "s32"):
                    return self.indexed(scope, indent)
                if operator in ("//", "%", ">>"):
                    value = str(self.random.randint(1, 63))
                self.emit(indent, f"{array.text}[{self.bounded(scope, top)}] {operator}= {value}")
            case 3:
                one, other = (f"{array.text}[{self.bounded(scope, top, 1)}]" for _ in range(2))
                self.emit(indent, f"{one}, {other} = {other}, {one}")
            case 4:
                name = self.name("j")
                self.emit(indent, f"{name} = {self.bounded(scope, top)}")
                scope.bounded[name] = top
                self.emit(indent, f"{array.text}[{name}] = {value}")
            case 5:
                self.after_a_test(scope, indent, array)
            case 6:
                self.of_two_ways(scope, indent, array)
            case 7 | 8 if not self.inlined and self.loops and scope.rounds <= 3:
                self.over(scope, indent, array)
            case _:
                name = self.number_name(array.kind)
                self.emit(indent, f"{name} = {array.text}[{self.bounded(scope, top)}]")
                scope.names[name] = array.kind
        return None

    def after_a_test(self, scope: Scope, indent: int, array: Container) -> None:
        """A name with other values elsewhere, tested before it is an index."""
        kind = self.pick("u", "s")
        name, top = self.name("j"), array.length - 1
        self.emit(indent, f"{name} = {'u64' if kind == 'u' else 's64'}({self.expression(scope, kind, 1)})")
        if kind == "s":
            test = self.pick(f"0 <= {name} < {top + 1}", f"0 <= {name} <= {top}", f"{name} >= 0 and {name} < {top + 1}")
        else:
            test = self.pick(f"{name} < {top + 1}", f"{name} <= {top}", f"{top + 1} > {name}")
        if self.chance(0.3):
            self.emit(indent, f"if not ({test}):")
            self.emit(indent + 1, f"{name} = {self.random.randint(0, top)}")
            self.emit(indent, f"{array.text}[{name}] = {self.expression(scope, array.kind, 1)}")
            scope.bounded[name] = top
            return
        self.emit(indent, f"if {test}:")
        inside = scope.inside()
        inside.bounded[name] = top
        self.emit(indent + 1, f"{array.text}[{name}] = {self.expression(inside, array.kind, 1)}")
        self.block(inside, indent + 1, self.random.randint(0, 1))

    def of_two_ways(self, scope: Scope, indent: int, array: Container) -> None:
        """An index that is given another value under a condition."""
        name, top = self.name("j"), array.length - 1
        self.emit(indent, f"{name} = s64({self.bounded(scope, top)})")
        self.emit(indent, f"if {self.condition(scope, 1)}:")
        self.emit(indent + 1, f"{name} = s64({self.bounded(scope, top, 1)})")
        self.emit(indent, f"{array.text}[{name}] = {self.expression(scope, array.kind, 1)}")
        scope.bounded[name] = top

    def over(self, scope: Scope, indent: int, array: Container) -> None:
        """A loop whose numbers are indices, or one over the elements."""
        self.loops -= 1
        index, top, length = self.name("i"), array.length - 1, min(array.length, 8)
        total = self.number_name("s")
        self.emit(indent, f"{total} = s64({self.number(scope)})")
        inside = scope.inside(loops=scope.loops + 1, rounds=scope.rounds * length, level=0)
        inside.frozen.add(total)
        match self.random.randrange(6 if "." in array.text else 4):
            case 0:
                self.emit(indent, f"for {index} in range({length}):")
            case 1:
                self.emit(indent, f"for {index} in range({self.bounded(scope, length, 1)}):")
            case 2:
                self.emit(indent, f"for {index} in range({top}, {max(top - 5, -1)}, {self.pick('-1', '-2')}):")
            case 3:
                self.emit(indent, f"{index} = s64({self.bounded(scope, min(top, 5), 1)})")
                self.emit(indent, f"while {index} > 0:")
                self.emit(indent + 1, f"{index} -= 1")
                # Nothing but its end is known of the number that a `while` counts by.
                index, counter = self.name("j"), index
                self.emit(indent + 1, f"{index} = {counter} % {array.length}")
            case 4:
                self.emit(indent, f"for {index}, {index}v in enumerate({array.text}):")
                self.emit(indent + 1, f"{total} = {total} * 3 + s64({index}v)")
            case _:
                self.emit(indent, f"for {index}v in {array.text}:")
                self.emit(indent + 1, f"{total} = {total} * 3 + s64({index}v)")
                scope.names[total] = "s"
                return
        self.emit(indent + 1, f"{total} += s64({array.text}[{index}])")
        inside.bounded[index] = top
        if self.chance(0.4):
            self.emit(indent + 1, f"{array.text}[{index}] = {self.expression(inside, array.kind, 1)}")
        if self.chance(0.4):
            self.block(inside, indent + 1, 1)
        scope.names[total] = "s"

    def summed(self, scope: Scope) -> str:
        """A number made of a whole array's elements."""
        array = self.container(scope)
        if array.length > 16:
            return ""
        word = self.pick("sum", "max", "min", "any", "all")
        each = f"s64({array.text}[i]) {self.pick('^ i', '+ i', '>> 1')}"
        return f"s64({word}({each} for i in range({self.random.randint(2, array.length)})))"

    def wide_record(self, scope: Scope, indent: int) -> None:
        """A record with arrays in the program's own memory; at the outermost level only."""
        name = self.name("w")
        fields = []
        for field, (type_, length) in WIDE.items():
            kind = "u" if type_ == "u64" else "s"
            # A literal has to fit; each of the others is cut.
            values = [str(self.random.randrange(100)), str(self.random.randrange(100)), self.atom(scope, kind)]
            fields.append(f"{field}=({', '.join(self.pick(*values) for _ in range(length))})")
        self.emit(indent, f"{name} = Wide({', '.join(fields)})")
        scope.wide.append(name)

    def wide_copied(self, scope: Scope, indent: int) -> None:
        """One stored whole, or two that change their names."""
        if len(scope.wide) < 2 and not scope.depth and self.chance(0.5):
            self.wide_record(scope, indent)
        if len(scope.wide) > 1 and not scope.depth and self.chance(0.7):
            one, other = self.random.sample(scope.wide, 2)
            self.emit(indent, f"{one}, {other} = {other}, {one}")
        elif scope.wide and self.chance(0.7):
            self.emit(indent, f"held[{self.bounded(scope, WIDE_ENTRIES - 1)}] = {self.random.choice(scope.wide)}")
        else:
            one, other = (self.bounded(scope, WIDE_ENTRIES - 1, 1) for _ in range(2))
            self.emit(indent, f"held[{one}] = held[{other}]")

    def context(self, scope: Scope, indent: int) -> None:
        """A syscall program's own record, where it has one."""
        if not self.called:
            self.indexed(scope, indent)
        elif self.chance(0.5):
            field, kind = self.random.choice((("a", "u"), ("b", "s")))
            operator = self.pick("", "", "+", "-", "*", "&", "|", "^")
            self.emit(indent, f"ctx.{field} {operator}= {self.expression(scope, kind, 2)}")
        else:
            field = self.pick(*CONTEXT)
            kind = "u" if CONTEXT[field][0] == "u64" else "s"
            self.emit(
                indent, f"ctx.{field}[{self.bounded(scope, CONTEXT[field][1] - 1)}] = {self.expression(scope, kind, 2)}"
            )
