"""Random programs of bpftrace's language: what they declare, and the statements of their probes."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.peers.programs.types import (
    INT64,
    INTEGERS,
    UINT64,
    Array,
    Boolean,
    Enum,
    Integer,
    Map,
    Scope,
    String,
    Struct,
    Tuple,
)
from tests.peers.programs.values import COMPARED, Values

if TYPE_CHECKING:
    from collections.abc import Callable

AGGREGATIONS = ("count", "sum", "min", "max", "avg", "stats", "hist", "lhist")
#: What a probe reads of an aggregation as a number.
READABLE = ("count", "sum", "min", "max", "avg")
#: How often a statement may run, with the loops around it.
OFTEN = 60


class Scripts(Values):
    """Makes programs of one seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(random.Random(seed))
        self._number = 0
        self._macros: list[str] = []
        #: The statements, each with how often it is chosen.
        self._forms: list[tuple[int, Callable[[Scope], list[str]]]] = [
            (5, self._print),
            (5, self._printf),
            (6, self._variable),
            (5, self._change),
            (6, self._assign),
            (3, self._count),
            (6, self._aggregate),
            (4, self._show),
            (1, self._top),
            (2, self._remove),
            (4, self._if),
            (2, self._while),
            (4, self._range),
            (4, self._entries),
            (1, self._unroll),
            (3, self._memory),
            (2, self._array),
            (2, self._macro),
            (1, self._leave),
        ]

    def script(self, statements: int) -> str:
        """A program of about so many statements."""
        chance = self.chance
        self.enums = [self.enum(number) for number in range(chance.randint(1, 2))]
        for number in range(chance.randint(1, 3)):
            self.structs.append(self.struct(number, chance.choice((8, 8, 16, 32))))
        maps = [self._declared(number) for number in range(chance.randint(4, 8))]
        probes = [Scope() for _ in range(chance.randint(1, 3))]
        # Each map has its types from here on, whatever statement comes first.
        lines = [line for kept in maps for line in self._begun(kept, probes[0])]
        self.maps = maps
        bodies = []
        for scope in probes:
            body = [] if bodies else lines
            for _ in range(statements // len(probes)):
                body += self.statement(scope)
            bodies.append("\n".join(["BEGIN {", *body, "}"]))
        ending = [line for _ in range(2) for line in self.statement(Scope())]
        bodies.append("\n".join(["END {", *ending, "}"]))
        declared = [struct.text + ";" for struct in self.structs] + [enum.text + ";" for enum in self.enums]
        limits = [f"let {kept.name} = hash(50);" for kept in maps if isinstance(kept.value, Integer) and kept.keys]
        return "\n".join([*declared, *limits[:1], *self._macros, *bodies])

    def statement(self, scope: Scope) -> list[str]:
        """A statement's lines."""
        while True:
            self.once = self.once or not scope.depth
            forms = [form for _, form in self._forms]
            lines = self.chance.choices(forms, [often for often, _ in self._forms])[0](scope)
            if lines:
                return lines

    def _block(self, scope: Scope, statements: int) -> list[str]:
        return [f"  {line}" for _ in range(statements) for line in self.statement(scope)]

    def _new(self, letter: str = "v") -> str:
        self._number += 1
        return f"${letter}{self._number}"

    def _declared(self, number: int) -> Map:
        chance = self.chance
        keys = self.types(chance.choice((0, 1, 1, 1, 2, 3)), 1)
        if chance.random() < 0.5:
            return Map(f"@a{number}", keys, chance.choice(AGGREGATIONS), chance.choice((INT64, UINT64)))
        return Map(f"@m{number}", keys, self.type(2))

    def _begun(self, kept: Map, scope: Scope) -> list[str]:
        return [self._put(kept, self.key(kept, scope), scope)]

    def _put(self, kept: Map, key: str, scope: Scope) -> str:
        """The statement that gives a map's entry a value."""
        if not isinstance(kept.value, str):
            return f"{kept.name}{key} = {self.value(kept.value, scope)};"
        value = self.value(kept.counted, scope, 1) if self.chance.random() < 0.3 else None
        if value is None or kept.value == "lhist":
            value = f"({kept.counted.name}){self.chance.randint(0 if not kept.counted.signed else -9, 99)}"
        given = {"count": "", "lhist": f"{value}, 0, 100, 10"}.get(kept.value, value)
        return f"{kept.name}{key} = {kept.value}({given});"

    # Statements

    def _said(self, text: str, values: list[str], scope: Scope) -> list[str]:
        """A line by printf(), which comes at any place where order is open."""
        mark = "~" if scope.unordered else ""
        return [f'printf("{mark}{text}\\n"{"".join(f", {value}" for value in values)});']

    def _print(self, scope: Scope) -> list[str]:
        kind = self.type()
        value = self.value(kind, scope)
        if scope.unordered:
            return self._said("%s", [value], scope) if not isinstance(kind, Integer) else self._printf(scope)
        if self.structs and self.chance.random() < 0.1 and (found := self._structs(scope)):
            value = found
        return [f"print({value});"]

    def _structs(self, scope: Scope) -> str | None:
        found = [name for name, kind in scope.variables.items() if isinstance(kind, Struct)]
        return self.chance.choice(found) if found else None

    def _printf(self, scope: Scope) -> list[str]:
        chance = self.chance
        parts, values = [], []
        for _ in range(chance.randint(1, 6)):
            kind = self.type(1)
            if isinstance(kind, Integer):
                part = chance.choice(
                    ("%d", "%u", "%x", "%lld", "%llu", "%llx", "%5d", "%-6d", "%08x", "%ld", "%#x", "%c")
                )
                part += chance.choice(("", "|"))
                value = self.value(kind, scope, 1)
                values.append(f"((((uint64)({value})) & 63) + 33)" if "c" in part else value)
            elif isinstance(kind, String):
                part = chance.choice(("%s", "%10s|", "%-20s|", "%2s"))
                values.append(self.value(kind, scope, 1))
            elif chance.random() < 0.15:
                part, text = "%r", self.text()
                values.append(f"buf({text}, {chance.randint(1, max(len(text) - 2, 1))})")
            else:
                part = "%d" if isinstance(kind, (Enum, Boolean)) and chance.random() < 0.4 else "%s"
                values.append(self.value(kind, scope, 1))
            parts.append(part + chance.choice((" ", ",", "%% ", "\\t")))
        return self._said("".join(parts), values, scope)

    def _variable(self, scope: Scope) -> list[str]:
        kind, name = self.type(), self._new()
        value = self.value(kind, scope)
        scope.variables[name] = kind
        if isinstance(kind, Integer) and self.chance.random() < 0.4:
            return [f"let {name} : {kind.name} = {value};"]
        if isinstance(kind, String):
            return [f"let {name} : string[1024] = {value};"]
        return [f"{self.chance.choice(('let ', ''))}{name} = {value};"]

    def _change(self, scope: Scope) -> list[str]:
        chance = self.chance
        free = {name: kind for name, kind in scope.variables.items() if name not in scope.fixed and "." not in name}
        if not free or scope.unordered:
            return []
        name, kind = chance.choice(list(free.items()))
        if isinstance(kind, Struct):
            return []
        if not isinstance(kind, Integer) or chance.random() < 0.3:
            return [f"{name} = {self.value(kind, scope)};"]
        if chance.random() < 0.3:
            return [chance.choice((f"{name}++;", f"{name}--;", f"++{name};", f"print({name}--);"))]
        return [f"{name} {chance.choice(('+=', '-=', '*=', '|=', '&=', '^='))} {self.value(kind, scope, 1)};"]

    def _assign(self, scope: Scope) -> list[str]:
        chosen = [kept for kept in self.maps if not isinstance(kept.value, str)]
        if not chosen or scope.unordered:
            return []
        kept = self.chance.choice(chosen)
        return [self._put(kept, self.key(kept, scope), scope)]

    def _count(self, scope: Scope) -> list[str]:
        chosen = [kept for kept in self.maps if isinstance(kept.value, Integer)]
        if not chosen or scope.unordered:
            return []
        kept = self.chance.choice(chosen)
        assert isinstance(kept.value, Integer)
        entry = self.entry(kept, scope)
        if self.chance.random() < 0.5:
            return [f"{entry}{self.chance.choice(('++', '--'))};"]
        return [f"{entry} {self.chance.choice(('+=', '-=', '|='))} {self.value(kept.value, scope, 1)};"]

    def _aggregate(self, scope: Scope) -> list[str]:
        chosen = [kept for kept in self.maps if isinstance(kept.value, str)]
        if not chosen:
            return []
        kept = self.chance.choice(chosen)
        return [self._put(kept, self.key(kept, scope), scope)]

    def _show(self, scope: Scope) -> list[str]:
        kept = self.chance.choice(self.maps)
        if scope.unordered or scope.times > 5:
            return []
        if not kept.keys or self.chance.random() < 0.6:
            return [f"print({kept.name});"]
        entry = self.entry(kept, scope)
        if not isinstance(kept.value, str):
            return [f"print({entry});"]
        if kept.value not in READABLE:
            return []
        cast = kept.counted.name if kept.value != "count" else "uint64"
        return [f"print(({cast}){entry});", f"if ({entry} {self.chance.choice(COMPARED)} 3) {{ print(1); }}"]

    def _top(self, scope: Scope) -> list[str]:
        """A map of values that differ, so that their order is known, and the greatest of it."""
        chance = self.chance
        if scope.unordered or scope.times > 1 or scope.depth:
            return []
        name, index = f"@t{self._number}", self._new("i")
        form = chance.choice((*AGGREGATIONS[1:6], "count", ""))
        value = f"{index} * {chance.choice((3, 5, 10))} % 11 + {chance.choice((1, 100, 1000))}"
        lines = [f"{name}[{index}] = {f'{form}({value})' if form else value};"]
        if form == "count":
            lines = [f"for ({index}x : 0..({index} + 1)) {{ {name}[{index}] = count(); }}"]
        last = chance.randint(2, 9)
        top = chance.choice(
            ("", f", {chance.randint(1, 10)}", f", {chance.choice((0, 2, 5))}, {chance.choice((1, 3, 10))}")
        )
        return [f"for ({index} : 0..{last}) {{", *lines, "}", f"print({name}{top});", f"clear({name});"]

    def _remove(self, scope: Scope) -> list[str]:
        if scope.unordered:
            return []
        kept = self.chance.choice(self.maps)
        form = self.chance.random()
        if form < 0.3 and scope.depth < 1:
            return [f"print({kept.name});", f"{self.chance.choice(('clear', 'zero'))}({kept.name});"]
        if kept.value in ("hist", "lhist"):
            return []
        if not kept.keys:
            return [f"delete({kept.name});"] if form < 0.5 else []
        key = ", ".join(self.small(part, scope) for part in kept.keys)
        parts = key if len(kept.keys) == 1 else f"({key})"
        if form < 0.6:
            return [f"delete({kept.name}, {parts});"]
        if form < 0.8:
            return [f"print(len({kept.name}));"]
        return (
            [f"if (has_key({kept.name}, {parts})) {{ print({kept.name}[{key}]); }}"]
            if not isinstance(kept.value, str)
            else []
        )

    def _if(self, scope: Scope) -> list[str]:
        if scope.depth > 2:
            return []
        lines = [f"if ({self.condition(scope, 2)}) {{", *self._block(scope.inner(), 2)]
        if self.chance.random() < 0.4:
            lines += [f"}} else if ({self.condition(scope, 1)}) {{", *self._block(scope.inner(), 1)]
        if self.chance.random() < 0.6:
            lines += ["} else {", *self._block(scope.inner(), 1)]
        return [*lines, "}"]

    def _while(self, scope: Scope) -> list[str]:
        times = self.chance.randint(1, 5)
        if scope.depth > 1 or scope.unordered or scope.times * times > OFTEN:
            return []
        name = self._new("w")
        inner = scope.inner(times=times, loop=True)
        inner.variables[name] = INT64
        inner.fixed.add(name)
        body = self._block(inner, self.chance.randint(1, 3))
        return [f"let {name} : int64 = 0;", f"while ({name} < {times}) {{", f"  {name}++;", *body, "}"]

    def _range(self, scope: Scope) -> list[str]:
        start, times = self.chance.choice((0, 0, 1, 3)), self.chance.randint(1, 6)
        if scope.depth > 2 or scope.unrolled or scope.times * times > OFTEN:
            return []
        name = self._new("i")
        inner = scope.inner(times=times, loop=not scope.unordered)
        # Its type is the larger of both ends', which are written with one.
        inner.variables[name] = INT64
        inner.fixed.add(name)
        body = self._block(inner, self.chance.randint(1, 3))
        return [f"for ({name} : (int64){start}..(int64){start + times}) {{", *body, "}"]

    def _entries(self, scope: Scope) -> list[str]:
        chosen = [kept for kept in self.maps if kept.keys and kept.value not in ("hist", "lhist", "stats")]
        if not chosen or scope.unordered or scope.unrolled or scope.depth > 1 or scope.times > 5:
            return []
        kept, name = self.chance.choice(chosen), self._new("kv")
        inner = scope.inner(times=5, unordered=True, loop=False)
        key = kept.keys[0] if len(kept.keys) == 1 else Tuple(kept.keys)
        inner.variables[f"{name}.0"] = key
        if not isinstance(kept.value, str):
            inner.variables[f"{name}.1"] = kept.value
        changed, target = self.maps, f"@c{self._number}"
        self.maps = [other for other in changed if other is not kept]
        lines = self._block(inner, self.chance.randint(1, 3)) if self.maps else []
        self.maps = changed
        if self.chance.random() < 0.3 and kept.value in ("count", "sum", "min", "max", "avg"):
            lines.append(f'  printf("~%d\\n", (int64){name}.1);')
        if self.chance.random() < 0.5 and not isinstance(kept.value, str):
            lines.append(f"  {target}[{name}.0] = {name}.1;")
        elif self.chance.random() < 0.3:
            lines.append(f'  printf("~%s\\n", ({name}.0, 1));')
        return [f"for ({name} : {kept.name}) {{", *lines, "}"]

    def _unroll(self, scope: Scope) -> list[str]:
        times = self.chance.randint(1, 4)
        if scope.depth > 1 or scope.times * times > OFTEN:
            return []
        inner = scope.inner(times=times, loop=False)
        inner.unrolled = True
        return [f"unroll({times}) {{", *self._block(inner, 2), "}"]

    def _memory(self, scope: Scope) -> list[str]:
        """A struct read out of a variable's memory."""
        chance = self.chance
        struct = chance.choice(self.structs)
        if scope.unordered:
            return []
        memory, pointer = self._new("b"), self._new("p")
        if struct.size <= 8 and (struct.ends or chance.random() < 0.7):
            lines = [f"let {memory} : uint64 = {self.bytes_of(struct)};"]
            if chance.random() < 0.3:
                lines = [f"{memory} = (uint8[8])(uint64){self.bytes_of(struct)};"]
        else:
            text = "".join(chance.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(64))
            lines = [f'let {memory} : string[80] = "{text}";']
        lines.append(f"{pointer} = (struct {struct.name} *)(&{memory});")
        many = 8 // struct.size
        for suffix, kind in chance.sample(struct.readings, min(len(struct.readings), 3)):
            ways = [f"{pointer}->{suffix[1:]}", f"(*{pointer}){suffix}"]
            if many > 1:
                ways += [f"{pointer}[1]{suffix}", f"({pointer} + 1)->{suffix[1:]}"]
            way = chance.choice(ways)
            if isinstance(kind, Integer) and chance.random() < 0.6:
                name = self._new()
                lines.append(f"{name} = ({kind.name}){way};")
                scope.variables[name] = kind
            lines.append(f"print({way});")
        copied = self._new("s")
        lines += [f"{copied} = *{pointer};", f"print(*{pointer});"]
        scope.variables[copied] = struct
        if chance.random() < 0.4:
            kept = f"@s{self._number}"
            lines += [f"{kept}[{chance.randint(0, 3)}] = {copied};", f"print({kept});"]
        return lines

    def _array(self, scope: Scope) -> list[str]:
        found = [(name, kind) for name, kind in scope.variables.items() if isinstance(kind, Array)]
        if not found or scope.unrolled or scope.depth > 2 or scope.times * 4 > OFTEN:
            return []
        name, kind = self.chance.choice(found)
        index = self._new("i")
        body = self._said("%d", [f"{name}[{index}]"], scope)
        return [f"for ({index} : 0..{kind.count}) {{", *body, "}"]

    def _macro(self, scope: Scope) -> list[str]:
        """A macro, and a call of it."""
        chance = self.chance
        name = f"pm{self._number}"
        self._number += 1
        kind = chance.choice(INTEGERS)
        inner = Scope({"a": kind, "b": String(64)}, unordered=True)
        if chance.random() < 0.5:
            behind, first = Scope({"$x": kind, "a": kind}, unordered=True), self.value(kind, inner)
            body = f"let $x = {first}; {self.value(kind, behind)}"
            self._macros.append(f"macro {name}(a, b) {{ {body} }}")
            call = f"{name}({self.value(kind, scope)}, {self.text()})"
            other = f"{name}({self.value(kind, scope, 1)}, {self.text()})"
            return self._said("%lld", [f"(int64)({call}) + {other}"], scope)
        names = [name for name, held in scope.variables.items() if held == kind and name not in scope.fixed]
        names = [name for name in names if "." not in name]
        if not names or scope.unordered:
            return []
        self._macros.append(f"macro {name}($v, @m, a) {{ $v += a; @m[a] = $v; }}")
        kept = f"@n{self._number}"
        return [f"{name}({chance.choice(names)}, {kept}, ({kind.name}){chance.randint(0, 9)});", f"print({kept});"]

    def _leave(self, scope: Scope) -> list[str]:
        if not scope.loop or scope.unordered:
            return []
        return [f"if ({self.condition(scope, 2)}) {{ {self.chance.choice(('break', 'continue'))}; }}"]
