"""Random programs of numbers, maps, functions and loops, as source text that CPython runs as well.

A program reads its input from the maps `unsigned` and `signed`, computes with locals, records, maps, functions and
loops, and leaves everything it has in `results` and the maps. `tests.differential.generator` adds all other forms.

What is written is what both sides understand alike: literals never stand where their type would decide (both sides
know `s64(x)`), a comparison with a literal converts the other side first (where a type cannot hold the literal the
language refuses), and every local has one type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.differential.program import Program, Scope

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    Statement = Callable[[Scope, int], None]

__all__ = ["FIELDS", "INPUTS", "RESULTS", "S64_MAX", "Generator"]

INPUTS = 6
RESULTS = 24

#: The record that programs use.
FIELDS = {"wide": "u64", "long": "s64", "half": "u32", "mid": "s32", "short": "u16", "small": "s8", "byte": "u8"}
UNSIGNED_FIELDS = ("wide",)

INTERESTING = [0, 1, 2, 3, 5, 7, 8, 31, 32, 63, 64, 100, 255, 256, 65535, 65536]
INTERESTING += [(1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 62) + 12345, (1 << 63) - 1]
S64_MAX = (1 << 63) - 1
NARROW = ("u8", "u16", "u32", "s8", "s16", "s32")


class Generator:
    """Writes one program. `small` is one of a few statements."""

    def __init__(self, source: random.Random, seed: int, *, small: bool = False) -> None:
        self.seed = seed
        self.small = small
        self.random = source
        self.count = 0
        self.functions: list[tuple[str, list[str], str]] = []
        self.lines: list[str] = []
        self.inlined = False
        self.result = "s"
        self.loops = 2
        #: Lines before the probe; whether it is a syscall program; how it is left.
        self.outside: list[str] = []
        self.called = False
        self.leave = "return"

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def number_name(self, kind: str) -> str:
        """A new name whose first letter tells its type; never one of the types' own names."""
        return self.name("x" if kind == "u" else "y")

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    # -- programs ------------------------------------------------------------------------------------------------------

    def program(self) -> Program:
        """All of it."""
        for _ in range(0 if self.small else self.random.randint(0, 2)):
            self.outside += self.function(subprogram=self.chance(0.4))
        scope = self.outermost()
        self.lines = []
        for _ in range(self.random.randint(1, 2) if self.small else self.random.randint(3, INPUTS)):
            kind = self.pick("u", "s")
            name = self.number_name(kind)
            source = "unsigned" if kind == "u" else "signed"
            self.emit(0, f"{name} = {source}[{self.random.randrange(INPUTS)}]")
            scope.names[name] = kind
        self.block(scope, 0, self.random.randint(1, 2) if self.small else self.random.randint(5, 12))
        results = list(scope.names)[-RESULTS:]
        for number, name in enumerate(results):
            self.emit(0, f"results[{number}] = {name}")
        if self.called:
            self.emit(0, self.leave)
        body = "\n".join(f"    {line}" for line in self.lines)
        head = "def probe(ctx: Question) -> int:" if self.called else "def probe():"
        return Program(self.seed, "\n".join(self.outside), f"{head}\n{body}\n", called=self.called)

    def outermost(self) -> Scope:
        """The scope of the probe, before it has done anything."""
        return Scope({}, [])

    def further_statements(self, scope: Scope) -> list[Statement]:  # noqa: ARG002 - for those that add some
        """Statements of other files."""
        return []

    def further_expression(self, scope: Scope, kind: str, depth: int) -> str:  # noqa: ARG002 - as above
        """An expression of other files, or nothing."""
        return ""

    def further_condition(self, scope: Scope, depth: int) -> str:  # noqa: ARG002 - as above
        """A condition of other files, or nothing."""
        return ""

    def function(self, *, subprogram: bool) -> list[str]:
        """A function to be inlined, or to be called in the kernel."""
        name = self.name("f")
        kinds = [self.pick("u", "s") for _ in range(self.random.randint(1, 3))]
        result = self.result = self.pick("u", "s")
        parameters = [self.number_name(kind) for kind in kinds]
        scope = Scope(dict(zip(parameters, kinds, strict=True)), [], depth=1)
        outer, self.lines = self.lines, []
        self.inlined, functions, self.functions = True, self.functions, []
        self.block(scope, 0, self.random.randint(1, 4))
        self.emit(0, f"return {self.expression(scope, result, 2)}")
        self.inlined, self.functions = False, functions
        body, self.lines = self.lines, outer
        self.functions.append((name, kinds, result))
        types = {"u": "u64", "s": "s64"}
        annotated = ", ".join(f"{p}: {types[k]}" for p, k in zip(parameters, kinds, strict=True))
        head = ["@subprogram"] if subprogram else []
        return [*head, f"def {name}({annotated}) -> {types[result]}:", *[f"    {line}" for line in body], ""]

    def emit(self, indent: int, line: str) -> None:
        self.lines.append("    " * indent + line)

    # -- statements ----------------------------------------------------------------------------------------------------

    def block(self, scope: Scope, indent: int, count: int) -> None:
        before = len(self.lines)
        for _ in range(count):
            self.statement(scope, indent)
        if len(self.lines) == before:
            self.emit(indent, "pass")

    def statement(self, scope: Scope, indent: int) -> None:
        choices = [self.new_local] * 4 + [self.assign] * 3 + [self.augment] * 3 + [self.swap, self.tuple_]
        # The verifier walks every round on every path: few loops, small ones inside others, and little choice in them.
        if scope.depth < 3 and not scope.loops:
            choices += [self.if_] * 3 + [self.match]
        elif scope.loops and scope.level < 1:
            choices += [self.if_]
        if scope.depth < 3 and self.loops and scope.rounds <= 3 and not self.inlined:
            choices += [self.for_] * 2 + [self.while_]
        if not self.inlined:
            choices += [self.map_statement] * 3 + [self.record] * 2
            if scope.depth and scope.loops:
                choices += [self.leave_loop]
        else:
            choices += [self.early_return]
        if self.chance(0.4) and (further := self.further_statements(scope)):
            choices = further
        self.random.choice(choices)(scope, indent)

    def new_local(self, scope: Scope, indent: int) -> None:
        kind = self.pick("u", "s")
        name = self.number_name(kind)
        self.emit(indent, f"{name} = {self.expression(scope, kind, 3)}")
        scope.names[name] = kind

    def assignable(self, scope: Scope) -> list[str]:
        return [name for name in scope.names if name not in scope.frozen]

    def assign(self, scope: Scope, indent: int) -> None:
        names = self.assignable(scope)
        if names:
            name = self.random.choice(names)
            self.emit(indent, f"{name} = {self.expression(scope, scope.names[name], 3)}")

    def augment(self, scope: Scope, indent: int) -> None:
        names = self.assignable(scope)
        if not names:
            return
        name = self.random.choice(names)
        kind = scope.names[name]
        operator = self.pick("+", "-", "*", "&", "|", "^", "<<", ">>", "//", "%")
        if operator in ("<<", ">>"):
            operand = str(self.random.randrange(64))
        elif operator in ("//", "%"):
            operand = self.divisor(scope, kind)
        else:
            operand = self.expression(scope, kind, 2)
        self.emit(indent, f"{name} {operator}= {operand}")

    def swap(self, scope: Scope, indent: int) -> None:
        kind = self.pick("u", "s")
        names = [name for name in scope.of(kind) if name not in scope.frozen]
        if len(names) >= 2:
            one, other = self.random.sample(names, 2)
            self.emit(indent, f"{one}, {other} = {other}, {self.expression(scope, kind, 1)}")

    def tuple_(self, scope: Scope, indent: int) -> None:
        """A tuple in a name, a new one or in place of one whose elements have the same types; or one taken apart."""
        kinds = "".join(self.pick("u", "s") for _ in range(self.random.randint(1, 3)))
        name = self.name("t")
        if scope.tuples and self.chance(0.6):
            name, kinds = self.random.choice(list(scope.tuples.items()))
            if self.chance(0.4):
                parts = [self.number_name(kind) for kind in kinds]
                self.emit(indent, f"{''.join(f'{part}, ' for part in parts)}= {name}")
                scope.names.update(zip(parts, kinds, strict=True))
                return
        self.emit(indent, f"{name} = {self.tuple_of(scope, kinds, 2)}")
        scope.tuples[name] = kinds

    def tuple_of(self, scope: Scope, kinds: str, depth: int) -> str:
        """A display, or a name of such a tuple."""
        names = [name for name, its in scope.tuples.items() if its == kinds]
        if names and self.chance(0.4):
            return self.random.choice(names)
        return f"({''.join(f'{self.expression(scope, kind, depth - 1)}, ' for kind in kinds)})"

    def constant_tuple(self, kinds: str) -> str:
        """Literals that elements of these types can be."""
        literals = (self.literal(positive=True) if kind == "u" else self.literal(below=S64_MAX) for kind in kinds)
        return f"({''.join(f'{literal}, ' for literal in literals)})"

    def tuples_compared(self, scope: Scope, depth: int) -> str:
        """Tuples with each other and with constant ones, flat and nested; an element never tells by its type alone."""
        kinds = "".join(self.pick("u", "s") for _ in range(self.random.randint(1, 3)))
        one, relation = self.tuple_of(scope, kinds, depth), self.pick("==", "!=", "<", "<=", ">", ">=")
        others = [self.tuple_of(scope, kinds, depth) for _ in range(2)]
        wide = "".join(f"{'u64' if kind == 'u' else 's64'}({self.atom(scope, kind)}), " for kind in kinds)
        constants = ", ".join(self.constant_tuple(kinds) for _ in range(self.random.randint(1, 4)))
        word = self.pick("in", "not in")
        match self.random.randrange(6):
            case 0 | 1:
                return f"{one} {relation} {others[0]}"
            case 2:
                return f"({one}, {others[0]}) {relation} ({others[1]}, {one})"
            case 3:
                return f"({wide}) {word} {self.pick('({},)', '{{{}}}', '[{}]').format(constants)}"
            case 4:
                return f"{one} {word} ({others[0]}, {others[1]})"
            case _:
                kind = self.pick("u", "s")
                numbers = ", ".join(self.expression(scope, kind, 1) for _ in range(2))
                return f"{self.expression(scope, kind, depth - 1)} {word} ({numbers})"

    def if_(self, scope: Scope, indent: int) -> None:
        self.emit(indent, f"if {self.condition(scope, 2)}:")
        self.block(scope.inside(), indent + 1, self.random.randint(1, 3))
        if self.chance(0.3):
            self.emit(indent, f"elif {self.condition(scope, 1)}:")
            self.block(scope.inside(), indent + 1, self.random.randint(1, 2))
        if self.chance(0.5):
            self.emit(indent, "else:")
            self.block(scope.inside(), indent + 1, self.random.randint(1, 2))

    def match(self, scope: Scope, indent: int) -> None:
        self.emit(indent, f"match s64({self.expression(scope, 's', 1)} & 7):")
        values = self.random.sample(range(8), 4)
        for pattern in (f"{values[0]}", f"{values[1]} | {values[2]}", "_" if self.chance(0.5) else f"{values[3]}"):
            self.emit(indent + 1, f"case {pattern}:")
            self.block(scope.inside(depth=scope.depth + 2), indent + 2, 1)

    def for_(self, scope: Scope, indent: int) -> None:
        self.loops -= 1
        index, rounds = self.name("i"), self.random.randint(1, 5)
        start, step = self.random.randint(-3, 3), self.pick("1", "1", "2", "-1", "-3")
        distance = rounds * int(step)
        if self.chance(0.3) and step == "1" and start >= 0:
            bound = f"s64({self.expression(scope, 's', 1)} & 3)"
            self.emit(indent, f"for {index} in range({bound}):")
        else:
            self.emit(indent, f"for {index} in range({start}, {start + distance}, {step}):")
        self.loop_body(scope, indent, index, rounds)

    def loop_body(self, scope: Scope, indent: int, index: str, rounds: int) -> None:
        inside = scope.inside(loops=scope.loops + 1, rounds=scope.rounds * rounds, level=0)
        wide = self.number_name("s")
        self.emit(indent + 1, f"{wide} = s64({index})")
        inside.names[wide] = "s"
        self.block(inside, indent + 1, self.random.randint(1, 3))

    def while_(self, scope: Scope, indent: int) -> None:
        self.loops -= 1
        counter = self.name("n")
        self.emit(indent, f"{counter} = s64({self.expression(scope, 's', 1)}) & 3")
        extra = f" and {self.condition(scope, 1)}" if self.chance(0.3) else ""
        self.emit(indent, f"while {counter} > 0{extra}:")
        self.emit(indent + 1, f"{counter} -= {self.pick('1', '2')}")
        self.loop_body(scope, indent, counter, 3)

    def leave_loop(self, scope: Scope, indent: int) -> None:
        self.emit(indent, f"if {self.condition(scope, 1)}:")
        self.emit(indent + 1, self.pick("break", "continue", "continue", self.leave))

    def early_return(self, scope: Scope, indent: int) -> None:
        self.emit(indent, f"if {self.condition(scope, 1)}:")
        self.emit(indent + 1, f"return {self.expression(scope, self.result, 2)}")

    def map_statement(self, scope: Scope, indent: int) -> None:
        key = self.key(scope)
        match self.random.randrange(8):
            case 0 | 1 | 2:
                operator = self.pick("+", "-", "&", "|", "^")
                self.emit(indent, f"counts[{key}] {operator}= {self.expression(scope, 'u', 2)}")
            case 3:
                self.emit(indent, f"sums[{key}] += {self.expression(scope, 's', 2)}")
            case 4:
                self.emit(indent, f"sums[{key}] = {self.expression(scope, self.pick('u', 's'), 2)}")
            case 5:
                self.emit(indent, f"small[{key}] += {self.expression(scope, 's', 2)}")
            case 6:
                self.emit(indent, f"del {self.pick('counts', 'sums')}[{key}]")
            case _:
                self.emit(indent, f"results[{self.random.randrange(RESULTS)}] = {self.expression(scope, 's', 2)}")

    def record(self, scope: Scope, indent: int) -> None:
        if not scope.records or (scope.depth == 0 and self.chance(0.3)):
            if scope.depth:
                return
            name = self.name("r")
            values = ", ".join(f"{f}={self.expression(scope, self.pick('u', 's'), 1)}" for f in FIELDS)
            self.emit(indent, f"{name} = Record({values})")
            scope.records.append(name)
            return
        name, target = self.random.choice(scope.records), self.random.choice(list(FIELDS))
        kind = "u" if target in UNSIGNED_FIELDS else "s"
        if self.chance(0.5):
            operator = self.pick("+", "-", "*", "^", "|", "&")
            self.emit(indent, f"{name}.{target} {operator}= {self.expression(scope, kind, 2)}")
        elif self.chance(0.8):
            self.emit(indent, f"{name}.{target} = {self.expression(scope, self.pick('u', 's'), 2)}")
        else:
            alias = self.name("r")
            self.emit(indent, f"{alias} = {name}")
            if scope.depth == 0:
                scope.records.append(alias)

    def key(self, scope: Scope) -> str:
        return f"{self.expression(scope, self.pick('u', 's'), 1)} & 3"

    # -- expressions ---------------------------------------------------------------------------------------------------

    def literal(self, *, positive: bool = False, below: int = 1 << 64) -> str:
        if self.chance(0.4):
            value = self.random.choice(INTERESTING)
        else:
            value = self.random.getrandbits(self.random.choice((3, 8, 16, 31, 40, 62)))
        value = min(value, below - 1)
        if positive:
            return str(max(value, 1))
        return str(-value if self.chance(0.3) else value)

    def divisor(self, scope: Scope, kind: str) -> str:
        if self.chance(0.5):
            number = self.literal(positive=True)
            return number if kind == "u" or self.chance(0.6) else f"-{number}"
        return self.expression(scope, kind, 1)

    def atom(self, scope: Scope, kind: str) -> str:
        names = scope.of(kind)
        if scope.tuples and self.chance(0.1):
            name, kinds = self.random.choice(list(scope.tuples.items()))
            if kind in kinds:
                return f"{name}[{kinds.index(kind)}]"
        if scope.records and self.chance(0.15):
            wanted = UNSIGNED_FIELDS if kind == "u" else tuple(f for f in FIELDS if f not in UNSIGNED_FIELDS)
            return f"{self.random.choice(scope.records)}.{self.pick(*wanted)}"
        if names:
            return self.random.choice(names)
        others = list(scope.names)
        return f"{'u64' if kind == 'u' else 's64'}({self.random.choice(others)})"

    def expression(self, scope: Scope, kind: str, depth: int) -> str:
        """An expression of the type that only each run knows."""
        if self.small:
            depth = min(depth, 2 if self.chance(0.3) else 1)
        if depth <= 0 or self.chance(0.12):
            return self.atom(scope, kind)

        def go(its: str = kind) -> str:
            return self.expression(scope, its, depth - 1)

        other = "s" if kind == "u" else "u"
        if self.chance(0.15) and (further := self.further_expression(scope, kind, depth)):
            return further
        match self.random.randrange(20):
            case 0 | 1 | 2 | 3 | 4:
                return f"({go()} {self.pick('+', '-', '*', '&', '|', '^')} {go()})"
            case 5 | 6:
                operator = self.pick("+", "-", "*", "&", "|", "^")
                if self.chance(0.7):
                    return f"({go()} {operator} {self.literal()})"
                return f"({self.literal()} {operator} {go()})"
            case 7:
                # A u64 makes the other one a u64.
                if kind == "u":
                    return f"({go('s')} {self.pick('+', '-', '*', '&', '|', '^')} {go('u')})"
                return f"s64({go('u')})"
            case 8:
                return f"({go()} {self.pick('<<', '>>')} {self.random.randrange(64)})"
            case 9:
                return f"({go()} {self.pick('<<', '>>')} {go(kind if kind == 's' else self.pick('u', 's'))})"
            case 10 | 11:
                return f"({go()} {self.pick('//', '%')} {self.divisor(scope, kind)})"
            case 12:
                if kind == "u":
                    return f"(~{go()})"
                return self.pick(f"(-{go()})", f"(~{go()})", f"abs({go()})")
            case 13:
                return f"{'u64' if kind == 'u' else 's64'}({go(other)})"
            case 14:
                return f"{self.pick(*NARROW)}({go(self.pick('u', 's'))})" if kind == "s" else f"u64({go('s')})"
            case 15:
                return f"{self.pick('min', 'max')}({go()}, {go()})"
            case 16:
                return f"({go()} if {self.condition(scope, depth - 1)} else {go()})"
            case 17:
                return f"({go()} {self.pick('and', 'or')} {go()})"
            case 18:
                if kind == "s":
                    return f"s64(not ({self.condition(scope, depth - 1)}))"
                return self.call(scope, kind, depth) or go()
            case _:
                if not self.inlined and self.chance(0.4):
                    name = "counts" if kind == "u" else self.pick("sums", "small")
                    return f"{name}.get({self.key(scope)}, {self.random.randrange(9)})"
                return self.call(scope, kind, depth) or go()

    def call(self, scope: Scope, kind: str, depth: int) -> str:
        candidates = [function for function in self.functions if function[2] == kind]
        if not candidates:
            return ""
        name, kinds, _ = self.random.choice(candidates)
        return f"{name}({', '.join(self.expression(scope, k, depth - 1) for k in kinds)})"

    def condition(self, scope: Scope, depth: int) -> str:
        def go(kind: str) -> str:
            return self.expression(scope, kind, depth - 1)

        relation = self.pick("<", "<=", ">", ">=", "==", "!=")
        if self.chance(0.2) and (further := self.further_condition(scope, depth)):
            return further
        match self.random.randrange(10):
            case 9:
                return self.tuples_compared(scope, depth)
            case 0 | 1:
                kind = self.pick("u", "s")
                return f"{go(kind)} {relation} {go(kind)}"
            case 2:
                return f"{go('u')} {relation} {go('s')}"
            case 3:
                return f"s64({go(self.pick('u', 's'))}) {relation} {self.literal(below=S64_MAX)}"
            case 4:
                return f"u64({go(self.pick('u', 's'))}) {relation} {self.literal(positive=True)}"
            case 5:
                return f"{go('s')} < {go('s')} <= {go('s')}"
            case 6 if depth > 0:
                word = self.pick("and", "or")
                return f"({self.condition(scope, depth - 1)} {word} {self.condition(scope, depth - 1)})"
            case 7:
                return f"not ({self.condition(scope, depth - 1) if depth > 0 else go('s')})"
            case _:
                values = ", ".join(self.literal(positive=True) for _ in range(3))
                word = self.pick("in", "not in")
                return self.pick(f"s64({go('s')}) {word} ({values})", f"{go('s')}", f"{go('u')}")
