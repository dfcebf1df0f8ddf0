"""Random scripts about numbers: variables of all types, maps, casts, operators, and what prints them.

What bpftrace 0.27 and pyebpf have otherwise, as docs/bpftrace.md says, is not in them: signed numbers are divided,
shifted right and negated.
"""

from __future__ import annotations

import random

TYPES = [f"{sign}int{bits}" for bits in (8, 16, 32, 64) for sign in ("u", "")]
#: Borders of the types, and numbers between.
LITERALS = (0, 1, 2, 3, 5, 8, 31, 100, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1)
#: Numbers that a signed number of 64 bits has not, and the greatest that it has.
LARGE = (2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1)
BINARY = ("+", "-", "*", "&", "|", "^", "+", "-")
COMPARED = ("<", ">", "<=", ">=", "==", "!=")


class Scripts:
    """Makes scripts of one seed."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def script(self, statements: int) -> str:
        """A script of BEGIN alone, a statement a line."""
        declared = [f"let $v{n} : {type_} = ({type_}){self._literal()};" for n, type_ in enumerate(TYPES)]
        lines = [self._statement(number) for number in range(statements)]
        return "\n".join(["BEGIN {", *declared, *lines, "exit(); }"])

    def _literal(self) -> int:
        return self._chance.choice(LITERALS)

    def _variable(self) -> str:
        return f"$v{self._chance.randrange(len(TYPES))}"

    def expression(self, depth: int) -> str:
        """A number."""
        chance = self._chance
        form = chance.random()
        if not depth or form < 0.2:
            choices = (str(self._literal()), self._variable(), f"({chance.choice(TYPES)}){self._literal()}")
            return chance.choice(choices)
        inner = [self.expression(depth - 1) for _ in range(4)]
        if form < 0.7:
            return f"({inner[0]} {chance.choice(BINARY)} {inner[1]})"
        if form < 0.75:
            return f"((uint64)({inner[0]}) {chance.choice(('/', '%', '>>'))} {chance.choice((1, 3, 7, 60))})"
        if form < 0.83:
            return f"({inner[0]} << {chance.choice((1, 3, 8))})"
        if form < 0.92:
            return f"({inner[0]} {chance.choice(COMPARED)} {inner[1]} ? {inner[2]} : {inner[3]})"
        if form < 0.97:
            return f"({chance.choice(TYPES)})({inner[0]})"
        return f"({inner[0]} {chance.choice(('&&', '||'))} {inner[1]} ? 1 : 0)"

    def _statement(self, number: int) -> str:
        value = self.expression(self._chance.randint(1, 3))
        gathered = self._chance.choice(("sum", "max", "min", "avg"))
        large = f"(uint64){self._chance.choice(LARGE)}"
        other = self.expression(1)
        typed = f"({self._chance.choice(TYPES)})({value})"
        changed, operator = self._variable(), self._chance.choice(("+=", "-=", "*=", "|=", "&=", "^="))
        return self._chance.choice(
            (
                f"print({value});",
                f"$n{number} = {value}; print($n{number});",
                f"{changed} {operator} {value}; print({changed});",
                f"@m{number} = {value}; print(@m{number}); clear(@m{number});",
                f"@m{number} = {value}; @m{number}++; @m{number} += 3; print(@m{number}); clear(@m{number});",
                f"@g{number} = {gathered}({value}); print(@g{number}); clear(@g{number});",
                f"print(({value}, {self.expression(1)}));",
                f"$i{number} = {value}; $i{number}++; print($i{number}); print(--$i{number});",
                f'printf("%d %u %x %c\\n", {value}, {value}, {value}, ({value} & 63) + 33);',
                f"$t{number} = {typed}; $t{number} {operator} {other}; print($t{number}); print($t{number}++);",
                f"$d{number} = {typed}; $d{number}--; print($d{number}); print($d{number} < 0);",
                f"@t{number} = {typed}; @t{number} {operator} {other}; print(@t{number}); clear(@t{number});",
                f"@d{number}[1] = {typed}; @d{number}[1]++; print(@d{number}[1]); clear(@d{number});",
                f"$l{number} = {large}; print($l{number}); print($l{number} - {value}); print({value} < $l{number});",
                f"@l{number} = {gathered}({large}); print(@l{number}); clear(@l{number});",
                f"@k{number}[{value}] = 1; print(@k{number}); clear(@k{number});",
                f"if ({value} > {self.expression(1)}) {{ print(1); }} else {{ print(0); }}",
            )
        )
