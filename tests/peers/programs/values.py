"""Expressions of each type, out of what a scope has.

bpftrace 0.27 is known to do these in another way than C, or not at all, so they are left out:

- Signed numbers are divided, shifted right and negated; a signed bit-field loses its sign.
- A `char[]` is read with one byte of what stands behind it: it needs a NUL, and is not the last member.
- strstr() that finds nothing gives -2.
- A second strlen() in a statement, a loop inside `unroll`, an index of an array in a map without keys: refused.
- Keys lose their spaces in JSON. Where a tuple has strings of several lengths, its enums lose their names.
- An entry of a histogram is not deleted, and has_key() and len() of one tell of something else.
- `%rx` makes all numbers behind it hexadecimal in JSON; an empty avg() or stats() is printed there.
- A tuple's width in printf() is that of its first number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.peers.programs.types import (
    C_NAMES,
    INTEGERS,
    Array,
    Boolean,
    Enum,
    Integer,
    Map,
    Scope,
    String,
    Struct,
    Tuple,
    Type,
)

if TYPE_CHECKING:
    import random

NUMBERS = (0, 1, 2, 3, 5, 8, 31, 100, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1)
LETTERS = "abcdefghijklmnopqrstuvwxyzABCXYZ0123456789 _-.,/"
LENGTHS = (0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100)
BINARY = ("+", "-", "*", "&", "|", "^", "+", "-")
COMPARED = ("<", ">", "<=", ">=", "==", "!=")


class Values:
    """Makes types and expressions by chance."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.enums: list[Enum] = []
        self.structs: list[Struct] = []
        self.maps: list[Map] = []
        #: Whether a statement has no strlen() yet.
        self.once = True

    # Types

    def enum(self, number: int) -> Enum:
        """An enum whose constants are unlike others'."""
        values = self.chance.sample((0, 1, 2, 3, 7, 10, 100, 255, 256, 70000), self.chance.randint(2, 5))
        return Enum(f"pe{number}", tuple((f"PE{number}_{place}", value) for place, value in enumerate(sorted(values))))

    def struct(self, number: int, room: int) -> Struct:
        """A struct of at most so many bytes."""
        declarations: list[str] = []
        readings: list[tuple[str, Integer | String]] = []
        ends: list[int] = []
        size, alignment, texts = 0, 1, room <= 8 and self.chance.random() < 0.5
        room -= texts
        for place in range(self.chance.randint(1, 5)):
            name, form = f"m{place}", self.chance.random()
            integer = self.chance.choice(INTEGERS)
            wide, count = integer.bits // 8, self.chance.randint(2, 4)
            inner = [struct for struct in self.structs if struct.size * 2 <= room and (texts or not struct.ends)]
            ending: list[int] = []
            if form < 0.2 and not texts:
                names = [f"{name}{letter}" for letter in "ab"]
                unsigned = Integer(integer.bits, False)
                bits = [self.chance.randint(1, integer.bits // 2) for _ in names]
                fields = ", ".join(f"{a} : {b}" for a, b in zip(names, bits, strict=True))
                text = f"{C_NAMES[integer.bits, False]} {fields};"
                # They may share a unit with what stands before: then the struct is smaller than this.
                found, length, aligned = [(f".{a}", unsigned) for a in names], wide, wide
            elif form < 0.35 and texts:
                text, length, aligned, ending = f"char {name}[{count}];", count, 1, [count - 1]
                found = [(f".{name}", String(count))]
            elif form < 0.5:
                text, length, aligned = f"{C_NAMES[integer.bits, integer.signed]} {name}[{count}];", wide * count, wide
                found = [(f".{name}[{index}]", integer) for index in range(count)]
            elif form < 0.6 and inner:
                chosen = self.chance.choice(inner)
                text, length, aligned = f"struct {chosen.name} {name}[2];", chosen.size * 2, chosen.alignment
                found = [(f".{name}[{index}]{way}", kind) for index in range(2) for way, kind in chosen.readings]
                ending = [end + chosen.size * index for index in range(2) for end in chosen.ends]
            elif form < 0.75 and inner:
                chosen = self.chance.choice(inner)
                text, length, aligned = f"struct {chosen.name} {name};", chosen.size, chosen.alignment
                found = [(f".{name}{way}", kind) for way, kind in chosen.readings]
                ending = list(chosen.ends)
            else:
                text, length, aligned = f"{C_NAMES[integer.bits, integer.signed]} {name};", wide, wide
                found = [(f".{name}", integer)]
            start = -(-size // aligned) * aligned
            widest = max(alignment, aligned)
            if -(-(start + length) // widest) * widest > room:
                continue
            declarations.append(text)
            readings += found
            ends += [start + end for end in ending]
            size, alignment = start + length, widest
        if not readings:
            return Struct(f"ps{number}", ("unsigned char m0;",), ((".m0", Integer(8, False)),), 1, 1)
        if size in (end + 1 for end in ends):
            declarations.append("unsigned char last;")
            readings.append((".last", Integer(8, False)))
            size += 1
        size = -(-size // alignment) * alignment
        return Struct(f"ps{number}", tuple(declarations), tuple(readings), size, alignment, tuple(ends))

    def type(self, depth: int = 2) -> Type:
        """A type that a value may have."""
        form = self.chance.random()
        if form < 0.4 or not depth:
            return self.chance.choice(INTEGERS)
        if form < 0.6:
            return String(64)
        if form < 0.7:
            return Boolean()
        if form < 0.78 and self.enums:
            return self.chance.choice(self.enums)
        if form < 0.84:
            element = self.chance.choice([integer for integer in INTEGERS if integer.bits < 64])
            return Array(element, self.chance.choice([8, 4, 2, 1][element.bits.bit_length() - 4 :][:1]))
        parts = self.types(self.chance.randint(2, 4), depth - 1)
        if form < 0.94:
            return Tuple(parts)
        return Tuple(parts, tuple(f"f{number}" for number in range(len(parts))))

    def types(self, count: int, depth: int) -> tuple[Type, ...]:
        """Types of a tuple's parts, without enums beside strings."""
        while True:
            kinds = tuple(self.type(depth) for _ in range(count))
            found = {type(kind) for whole in kinds for _, kind in self.parts("", whole)}
            if not found >= {Enum, String}:
                return kinds

    # Values

    def text(self) -> str:
        """A text in quotes."""
        length = self.chance.choice(LENGTHS[:10] if self.chance.random() < 0.8 else LENGTHS)
        return '"' + "".join(self.chance.choice(LETTERS) for _ in range(length)) + '"'

    def value(self, wanted: Type, scope: Scope, depth: int = 2) -> str:
        """An expression of exactly this type."""
        if self.chance.random() < 0.35 and (found := self.read(wanted, scope)):
            return found
        if isinstance(wanted, Integer):
            return f"({wanted.name})({self.number(scope, depth)})"
        if isinstance(wanted, Boolean):
            return self.condition(scope, depth)
        if isinstance(wanted, String):
            return self.string(scope, depth)
        if isinstance(wanted, Enum):
            name, value = self.chance.choice(wanted.constants)
            return self.chance.choice((name, f"(enum {wanted.name}){value}"))
        if isinstance(wanted, Array):
            return f"({wanted.element.name}[{wanted.count}])((uint64)({self.number(scope, depth)}))"
        if isinstance(wanted, Tuple):
            parts = [self.value(part, scope, depth - 1) for part in wanted.parts]
            if wanted.names:
                parts = [f"{name} = {part}" for name, part in zip(wanted.names, parts, strict=True)]
            return f"({', '.join(parts)})"
        raise AssertionError(wanted)

    def read(self, wanted: Type, scope: Scope) -> str | None:
        """A variable of this type, a part of one, or a map's value."""
        found: list[str] = []
        for name, kind in scope.variables.items():
            found += [way for way, part in self.parts(name, kind) if part == wanted]
        for kept in self.maps if not scope.unordered else ():
            if isinstance(kept.value, str):
                continue
            ways = [way for way, part in self.parts(kept.name, kept.value) if part == wanted]
            if not kept.keys:
                ways = [way for way in ways if "[" not in way]
            if ways and (not kept.keys or self.chance.random() < 0.3):
                way = self.chance.choice(ways)
                found.append(f"{self.entry(kept, scope)}{way.removeprefix(kept.name)}")
        return self.chance.choice(found) if found else None

    def parts(self, way: str, kind: Type) -> list[tuple[str, Type]]:
        """A value, and all that can be read from it."""
        found: list[tuple[str, Type]] = [(way, kind)]
        if isinstance(kind, Tuple):
            for number, part in enumerate(kind.parts):
                found += self.parts(f"{way}{kind.member(number)}", part)
        elif isinstance(kind, Array):
            found += [(f"{way}[{index}]", kind.element) for index in range(kind.count)]
        elif isinstance(kind, Struct):
            found += [(f"{way}{suffix}", part) for suffix, part in kind.readings]
        return found

    def key(self, kept: Map, scope: Scope) -> str:
        """A key in its brackets, or nothing."""
        if not kept.keys:
            return ""
        return "[" + ", ".join(self.small(part, scope) for part in kept.keys) + "]"

    def small(self, wanted: Type, scope: Scope) -> str:
        """A value of few, so that keys meet."""
        if isinstance(wanted, Integer):
            if self.chance.random() < 0.3:
                return f"({wanted.name})(((uint64)({self.number(scope, 1)})) % 4)"
            return f"({wanted.name}){self.chance.randint(0, 3)}"
        if isinstance(wanted, String):
            return self.chance.choice(('"a"', '"bc"', '"key_of_more"', '""'))
        if isinstance(wanted, Tuple):
            parts = [self.small(part, scope) for part in wanted.parts]
            if wanted.names:
                parts = [f"{name} = {part}" for name, part in zip(wanted.names, parts, strict=True)]
            return f"({', '.join(parts)})"
        if isinstance(wanted, Array):
            return f"({wanted.element.name}[{wanted.count}])((uint64){self.chance.randint(0, 2)})"
        return self.value(wanted, scope, 0)

    def entry(self, kept: Map, scope: Scope) -> str:
        """An entry of a map."""
        return f"{kept.name}{self.key(kept, scope)}"

    def number(self, scope: Scope, depth: int) -> str:
        """An integer of some type."""
        chance = self.chance
        form = chance.random()
        if depth <= 0 or form < 0.2:
            found = self.read(chance.choice(INTEGERS), scope) if chance.random() < 0.7 else None
            return found or str(chance.choice(NUMBERS))
        if form < 0.5:
            return f"({self.number(scope, depth - 1)} {chance.choice(BINARY)} {self.number(scope, depth - 1)})"
        if form < 0.58:
            sign = chance.choice(("/", "%", ">>"))
            return f"((uint64)({self.number(scope, depth - 1)}) {sign} {chance.choice((1, 3, 7, 60))})"
        if form < 0.63:
            return f"({self.number(scope, depth - 1)} << {chance.choice((1, 3, 8))})"
        if form < 0.71:
            first, second = self.number(scope, depth - 1), self.number(scope, depth - 1)
            return f"({self.condition(scope, depth - 1)} ? {first} : {second})"
        if form < 0.81:
            return f"({chance.choice(INTEGERS).name})({self.number(scope, depth - 1)})"
        if form < 0.87:
            return self.measured(scope)
        if form < 0.9:
            text = f"{self.text()[:-1]}{chance.choice(LETTERS[:30])}"
            return f'strstr({text}", "{text[-1]}")'
        if form < 0.92:
            return f"bswap(({chance.choice(('uint16', 'uint32', 'uint64'))}){self.number(scope, depth - 1)})"
        if form < 0.95:
            return f"sizeof({self.value(self.chance.choice(INTEGERS), scope, 0)})"
        if form < 0.97 and not scope.unordered and (kept := self.kept()):
            return f"len({chance.choice(kept).name})"
        return f"(uint64)(~(uint64){self.number(scope, depth - 1)})"

    def measured(self, scope: Scope) -> str:
        """The length of a string, once in a statement."""
        if self.once:
            self.once = False
            return f"strlen({self.string(scope, 0)})"
        return str(self.chance.choice(NUMBERS))

    def kept(self) -> list[Map]:
        """Maps whose entries are counted and sought."""
        return [kept for kept in self.maps if kept.keys and kept.value not in ("hist", "lhist")]

    def condition(self, scope: Scope, depth: int) -> str:
        """A boolean."""
        chance = self.chance
        form = chance.random()
        if depth <= 0 or form < 0.1:
            return self.read(Boolean(), scope) or chance.choice(("true", "false"))
        if form < 0.4:
            return f"({self.number(scope, depth - 1)} {chance.choice(COMPARED)} {self.number(scope, depth - 1)})"
        if form < 0.55:
            texts = [self.string(scope, depth - 1), chance.choice(('"abc"', '"key"', self.string(scope, 0)))]
            chance.shuffle(texts)
            return f"({texts[0]} {chance.choice(('==', '!='))} {texts[1]})"
        if form < 0.65:
            return f'strcontains({self.string(scope, 0)}, "{chance.choice(LETTERS[:8])}")'
        if form < 0.72:
            length = chance.choice((1, 2, 3, 4, 8))
            return f"(strncmp({self.string(scope, 0)}, {self.string(scope, 0)}, {length}) == 0)"
        if form < 0.78:
            return f"(!{self.condition(scope, depth - 1)})"
        if form < 0.9:
            sign = chance.choice(("&&", "||"))
            return f"({self.condition(scope, depth - 1)} {sign} {self.condition(scope, depth - 1)})"
        if scope.unordered or not (kept := self.kept()):
            return f"(bool)({self.number(scope, depth - 1)})"
        asked = chance.choice(kept)
        key = ", ".join(self.small(part, scope) for part in asked.keys)
        return f"has_key({asked.name}, {key if len(asked.keys) == 1 else f'({key})'})"

    def string(self, scope: Scope, depth: int) -> str:
        """A string."""
        chance = self.chance
        form = chance.random()
        if depth > 0 and form < 0.15:
            return f"str({self.text()}, {chance.choice((1, 2, 3, 5, 8, 64))})"
        if depth > 0 and form < 0.3:
            return f"({self.condition(scope, depth - 1)} ? {self.text()} : {self.text()})"
        if depth > 0 and form < 0.36:
            return f"str_concat({self.string(scope, 0)}, {self.text()})"
        if form < 0.6 and (found := self.read(String(64), scope)):
            return found
        return self.text()

    def bytes_of(self, struct: Struct) -> str:
        """A number whose bytes differ, with structs in it."""
        held = bytearray(self.chance.randrange(1, 127) for _ in range(8))
        for start in range(0, 9 - struct.size, struct.size):
            for end in struct.ends:
                held[start + end] = 0
        return hex(int.from_bytes(held, "little"))
