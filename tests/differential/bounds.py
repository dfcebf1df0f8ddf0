"""Numbers that are known to lie in 0 to some bound, in every form, and constant tables, which such numbers index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.differential.core import S64_MAX, Generator

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.differential.program import Scope

__all__ = ["Bounds"]

_BITS = {"u8": 8, "u16": 16, "u32": 32}
_U64 = (1 << 64) - 1


class Bounds(Generator):
    """Expressions whose bounds the compiler has to prove, and the verifier to believe."""

    def bounded(self, scope: Scope, top: int, depth: int = 2) -> str:
        """An expression that lies in 0 to `top`."""
        names = [name for name, its in scope.bounded.items() if its <= top]
        if names and self.chance(0.3):
            name = self.random.choice(names)
            return f"({scope.bounded[name]} - {name})" if self.chance(0.2) else name
        if depth <= 0 or self.chance(0.6 if self.small else 0.35):
            return self.random.choice(self._LEAVES)(self, scope, top)
        return self.random.choice(self._COMPOSED)(self, scope, top, depth - 1)

    def number(self, scope: Scope, kind: str = "") -> str:
        """A small expression of either type, or of one."""
        return self.expression(scope, kind or self.pick("u", "s"), 1)

    # -- from any number -----------------------------------------------------------------------------------------------

    def _remainder(self, scope: Scope, top: int) -> str:
        return f"({self.number(scope)} % {self.random.randint(1, top + 1)})"

    def _mask(self, scope: Scope, top: int) -> str:
        return f"({self.pick('', '~')}{self.number(scope)} & {self.random.randint(0, top)})"

    def _narrow_or_wide(self) -> tuple[str, int]:
        return self.random.choice([("", 64), *_BITS.items()])

    def _shifted(self, scope: Scope, top: int) -> str:
        fits = (top + 1).bit_length() - 1
        narrow, bits = self._narrow_or_wide()
        if fits == 0:
            return self._mask(scope, top)
        count = max(bits - self.random.randint(1, fits), 0)
        inner = f"{narrow}({self.number(scope)})" if narrow else self.number(scope, "u")
        return f"({inner} >> {count})"

    def _quotient(self, scope: Scope, top: int) -> str:
        narrow, bits = self._narrow_or_wide()
        divisor = ((1 << bits) - 1) // (top + 1) + self.random.choice((1, 1, 2, 17))
        if divisor > _U64:
            return self._remainder(scope, top)
        inner = f"{narrow}({self.number(scope)})" if narrow else self.number(scope, "u")
        return f"({inner} // {divisor})"

    def _tested(self, scope: Scope, top: int) -> str:
        if top == 0:
            return f"({self.number(scope)} & 0)"
        if top >= 2 and self.chance(0.4):
            return f"({self._tested(scope, 1)} + {self._tested(scope, top - 1)})"
        kind = self.pick("u", "s")
        plain = f"({self.number(scope, kind)} {self.pick('<', '<=', '>', '>=', '==', '!=')} {self.number(scope, kind)})"
        return self.pick(plain, plain, f"s64(not ({self.condition(scope, 1)}))", f"bool({self.number(scope)})")

    def _least(self, scope: Scope, top: int) -> str:
        end = self.random.randint(0, top)
        forms = [f"min({self.number(scope, 'u')}, {end})", f"max(min({self.number(scope, 's')}, {end}), 0)"]
        forms += [f"min(u16({self.number(scope)}), {end})", f"min(max({self.number(scope, 's')}, 0), {end})"]
        return self.random.choice(forms)

    def _absolute(self, scope: Scope, top: int) -> str:
        number = self.number(scope, "s")
        return self.pick(
            f"abs({number} % {top + 1})", f"abs(({number} & {top}) - {top})", f"abs(s8({number}) % {top + 1})"
        )

    def _chosen(self, scope: Scope, top: int) -> str:
        """A name tested before it is used, in one expression."""
        kind = self.pick("u", "s")
        names = scope.of(kind)
        if not names:
            return self._remainder(scope, top)
        name, other = self.random.choice(names), f"({self.number(scope, kind)} % {top + 1})"
        # A signed name may hold what has been narrower, of which some comparisons are decided, and so refused.
        wide = name if kind == "u" else f"s64({name})"
        test = f"{name} < {top + 1}" if kind == "u" else self.pick(f"0 <= {wide} <= {top}", f"0 <= {wide} < {top + 1}")
        if self.chance(0.3):
            inverse = f"{name} > {top}" if kind == "u" else f"{wide} < 0 or {wide} > {top}"
            return f"({other} if {inverse} else {name})"
        return f"({name} if {test} else {other})"

    def _bits(self, scope: Scope, top: int) -> str:
        width = min(top, 62)
        method = self.pick("bit_length", "bit_count")
        if top >= 64 and self.chance(0.5):
            return f"{self.number(scope, 'u')}.{method}()"
        if width == 0:
            return self._remainder(scope, top)
        forms = f"({self.number(scope)} & {(1 << width) - 1}).{method}()"
        return self.pick(forms, f"({self.number(scope)}.{method}() % {top + 1})")

    def _divmod(self, scope: Scope, top: int) -> str:
        return f"divmod({self.number(scope)}, {top + 1})[1]"

    def _called(self, scope: Scope, top: int) -> str:
        """What a function returns, one that is inlined or one of the kernel's own."""
        name = self.name("g")
        if self.chance(0.5):
            body = [f"    if x < 0 or x > {top}:", f"        return {self.random.randint(0, top)}", "    return x"]
            self.outside += [f"def {name}(x: s64):", *body, ""]
            return f"{name}({self.number(scope, 's')})"
        self.outside += ["@subprogram", f"def {name}(x: s64) -> u8:", "    return u8(x * 3 >> 2)", ""]
        return f"({name}({self.number(scope, 's')}) {self.pick(f'% {top + 1}', f'& {self.random.randint(0, top)}')})"

    def _of_table(self, scope: Scope, top: int) -> str:
        values = [self.random.randint(0, top) for _ in range(self.random.randint(2, 9))]
        return f"{self.table(values)}[{self.random.choice(self._LEAVES[:4])(self, scope, len(values) - 1)}]"

    # -- from such numbers ---------------------------------------------------------------------------------------------

    def _sum(self, scope: Scope, top: int, depth: int) -> str:
        part = self.random.randint(0, top)
        operator = "+"
        if top & (top + 1) == 0 and self.chance(0.5):  # all bits of it
            return f"({self.bounded(scope, top, depth)} {self.pick('|', '^')} {self.bounded(scope, top, depth)})"
        return f"({self.bounded(scope, part, depth)} {operator} {self.bounded(scope, top - part, depth)})"

    def _product(self, scope: Scope, top: int, depth: int) -> str:
        factor = self.random.randint(1, max(top, 1))
        if self.chance(0.3):
            shift = self.random.randint(0, factor.bit_length() - 1)
            return f"({self.bounded(scope, top >> shift, depth)} << {shift})"
        inner = self.bounded(scope, top // factor, depth)
        return self.pick(f"({inner} * {factor})", f"({factor} * {inner})")

    def _power(self, scope: Scope, top: int, depth: int) -> str:
        if top >= 1 and self.chance(0.5):
            return f"(2 ** {self.bounded(scope, top.bit_length() - 1, depth)})"
        root = next(n for n in range(top, -1, -1) if n * n <= top)
        return f"({self.bounded(scope, root, depth)} ** 2)"

    def _divided(self, scope: Scope, top: int, depth: int) -> str:
        if self.chance(0.5):
            divisor = self.random.choice((2, 3, 7, 8, 32, 100, 1000))
            return f"({self.bounded(scope, (top + 1) * divisor - 1, depth)} // {divisor})"
        return f"({self.bounded(scope, top, depth)} // ({self._positive(scope)} | {self.random.choice((1, 4, 5))}))"

    def _positive(self, scope: Scope) -> str:
        return self.pick(self.number(scope, "u"), f"{self.pick(*_BITS)}({self.number(scope)})")

    def _moved(self, scope: Scope, top: int, depth: int) -> str:
        if self.chance(0.5):
            count = self.random.randint(1, 7)
            return f"({self.bounded(scope, (top + 1 << count) - 1, depth)} >> {count})"
        return f"(s64({self.bounded(scope, top, depth)}) >> {self.number(scope)})"

    def _remainders(self, scope: Scope, top: int, depth: int) -> str:
        match self.random.randrange(4):
            case 0:
                return f"(s64({self.bounded(scope, top, depth)}) % {self._positive(scope)})"
            case 1:
                return f"({self._positive(scope)} % (1 + {self.bounded(scope, top, depth)}))"
            case 2:
                return f"({self.bounded(scope, top, depth)} % ({self._positive(scope)} | 1))"
            case _:
                wide = self.random.choice((100, 1000, 1_000_003))
                return f"({self.bounded(scope, wide, depth)} % {top + 1})"

    def _mirrored(self, scope: Scope, top: int, depth: int) -> str:
        return f"({top} - {self.bounded(scope, top, depth)})"

    def _masked(self, scope: Scope, top: int, depth: int) -> str:
        one, other = self.bounded(scope, top, depth), self.number(scope)
        return self.pick(f"({one} & {other})", f"({other} & {one})")

    def _extreme(self, scope: Scope, top: int, depth: int) -> str:
        if self.chance(0.5):
            wide = self.bounded(scope, top * 5 + 3, depth)
            return f"min({wide}, {self.bounded(scope, top, depth)})"
        return f"max({self.bounded(scope, top, depth)}, {self.bounded(scope, top, depth)})"

    def _either(self, scope: Scope, top: int, depth: int) -> str:
        type_ = self.pick("s64", "u64")
        one, other = (f"{type_}({self.bounded(scope, top, depth)})" for _ in range(2))
        return self.pick(
            f"({one} if {self.condition(scope, 1)} else {other})", f"({one} {self.pick('and', 'or')} {other})"
        )

    def _converted(self, scope: Scope, top: int, depth: int) -> str:
        types = ["s64", "u64", "s32", "u32", "u16", *(["u8"] if top < 256 else []), *(["s8"] if top < 128 else [])]
        return f"{self.random.choice(types if top < 1 << 15 else types[:2])}({self.bounded(scope, top, depth)})"

    def _negated(self, scope: Scope, top: int, depth: int) -> str:
        return f"(-(-s64({self.bounded(scope, top, depth)})))"

    def _indexed(self, scope: Scope, top: int, depth: int) -> str:
        values = [self.random.randint(0, top) for _ in range(self.random.randint(2, 9))]
        return f"{self.table(values)}[{self.bounded(scope, len(values) - 1, depth)}]"

    _LEAVES: Sequence[Callable[[Bounds, Scope, int], str]] = (
        *(_remainder, _mask, _shifted, _quotient, _remainder, _mask),
        *(_tested, _least, _absolute, _chosen, _bits, _divmod, _called, _of_table),
    )
    _COMPOSED: Sequence[Callable[[Bounds, Scope, int, int], str]] = (
        *(_sum, _product, _power, _divided, _moved, _remainders, _mirrored, _masked),
        *(_extreme, _either, _converted, _negated, _indexed, _divided, _moved),
    )

    # -- constant tables -----------------------------------------------------------------------------------------------

    def table(self, values: object) -> str:
        """The name of a constant that holds them."""
        name = self.name("K")
        self.outside += [f"{name} = {values!r}"]
        return name

    def numbers(self, count: int, *, signed: bool = False) -> list[int]:
        """Numbers that fit one type together."""
        low, high = self.random.choice([(0, 9), (0, 255), (-9, 9), (-(1 << 31), 1 << 31), (-(1 << 63), (1 << 63) - 1)])
        if self.chance(0.15) and not signed:
            low, high = 0, _U64
        return [self.random.choice((low, high, self.random.randint(low, high))) for _ in range(count)]

    def table_expression(self, scope: Scope, kind: str) -> str:
        """A number that a table gives."""
        convert = "u64" if kind == "u" else "s64"
        count = self.random.choice((1, 2, 3, 4, 7, 8, 16, 60))
        way = self.random.randrange(7)
        # A default is an s64.
        values = self.numbers(count, signed=way >= 4)
        index = self.bounded(scope, count - 1)
        match way:
            case 0:
                return f"{convert}({self.table(tuple(values))}[{index}])"
            case 1:
                return f"{convert}({self.table(values)}[{index}])"
            case 2:
                return f"{convert}({self.table(bytes(value & 255 for value in values))}[{index}])"
            case 3:
                pairs = self.table(tuple(zip(values, self.numbers(count), strict=True)))
                return f"{convert}({pairs}[{index}][{self.random.randrange(2)}])"
            case 4:
                start = self.random.choice((0, 0, 1, -3, 100))
                entries = self.table(
                    {start + at: value for at, value in enumerate(values) if at == 0 or self.chance(0.8)}
                )
                return f"{convert}({entries}.get(s64({self.number(scope)}) % {count + 2} + {start}, {values[0]}))"
            case 5:
                entries = self.table({value: at for at, value in enumerate(values)})
                # A u64 is never a key below zero, which is an error.
                type_ = "s64" if min(values) < 0 else self.pick("s64", "u64")
                return f"{convert}({entries}.get({type_}({self.number(scope)}) ^ 1, {count}))"
            case _:
                entries = self.table({(at, at * 3 & 3): value for at, value in enumerate(values[:5])})
                return f"{convert}({entries}.get((s64({index}), s64({self.number(scope)}) & 3), 7))"

    def tables(self, scope: Scope, indent: int) -> None:
        """A table in a loop, one that gives nothing for some keys, or a search of one."""
        count = self.random.randint(2, 6)
        # Comparisons with the ends of the type would be errors.
        end = S64_MAX - 1
        name, values = self.number_name("s"), [max(-end, min(each, end)) for each in self.numbers(count, signed=True)]
        table = self.table(tuple(values))
        match self.random.randrange(6 if not scope.depth and not scope.loops else 5):
            case 0:
                found, entries = self.name("v"), self.table({at * 2: value for at, value in enumerate(values)})
                self.emit(indent, f"{name} = s64({self.number(scope)})")
                self.emit(indent, f"{found} = {entries}.get({name} & 15)")
                self.emit(indent, f"if {found} is {self.pick('not ', '')}None:")
                self.emit(indent + 1, f"{name} = s64(5)" if "not" not in self.lines[-1] else f"{name} = s64({found})")
            case 1:
                word = self.pick("any", "all", "sum", "max", "min")
                if word in ("any", "all"):
                    text = f"s64({word}(s64({self.number(scope)}) {self.pick('<', '>')} s64(each) for each in {table}))"
                else:
                    text = f"s64({word}(s64({self.number(scope)}) ^ s64(each) for each in {table}))"
                self.emit(indent, f"{name} = {text}")
            case 2:
                self.emit(indent, f"{name} = s64({self.number(scope)})")
                one, other = self.name("e"), self.name("e")
                over = self.pick(f"enumerate({table})", f"zip({table}, {self.table(values[::-1])})")
                self.emit(indent, f"for {one}, {other} in {over}:")
                self.emit(indent + 1, f"{name} = {name} * 3 + ({other} ^ {one})")
            case 3:
                self.emit(indent, f"{name} = s64(s64({self.number(scope)}) {self.pick('in', 'not in')} {table})")
            case 4:
                first, second = self.name("e"), self.name("e")
                rows = self.table(tuple((at, value) for at, value in enumerate(values)))
                self.emit(indent, f"{first}, {second} = {rows}[{self.bounded(scope, count - 1)}]")
                self.emit(indent, f"{name} = s64({first}) - s64({second})")
            case _:
                index = self.name("i")
                self.emit(indent, f"{name} = s64({self.number(scope)})")
                self.emit(indent, f"for {index} in range({count}):")
                self.emit(indent + 1, f"{name} = {name} * 5 ^ s64({table}[{index}])")
        scope.names[name] = "s"
